"""Tables as CSV and Excel: what another program reads back."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from derender.assemble.files import write_outputs
from derender.assemble.sheets import write_xlsx
from derender.document import Cell, Document, Page, Region, RegionType
from derender.errors import MissingExtraError

CELLS = [
    Cell(row=0, col=0, text="Item", header=True),
    Cell(row=0, col=1, colspan=2, text="Price, net", header=True),
    Cell(row=1, col=0, text='"quoted"\nsecond line'),
    Cell(row=1, col=1, text="12.50"),
    Cell(row=1, col=2, text="=1+1"),
    Cell(row=2, col=0, text="007"),
    Cell(row=2, col=1, text="-3"),
    Cell(row=2, col=2, text=""),
]


def document(*cells: list[Cell]) -> Document:
    box = (0.0, 0.0, 10.0, 10.0)
    regions = [Region(id=f"t{i}", type=RegionType.TABLE, order=i, box=box, cells=c) for i, c in enumerate(cells)]
    return Document(name="d", pages=[Page(number=3, width=100, height=100, dpi=150, regions=regions)])


def test_csv_reads_back_with_spans_left_empty(tmp_path: Path) -> None:
    files = write_outputs(document(CELLS, CELLS[:2]), tmp_path, ["csv"])
    assert [f.name for f in files] == ["page-003-table-1.csv", "page-003-table-2.csv"]
    with open(files[0], newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [["Item", "Price, net", ""], ['"quoted"\nsecond line', "12.50", "=1+1"], ["007", "-3", ""]]


def test_excel_has_numbers_merged_spans_and_no_formulas(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    (path,) = write_outputs(document(CELLS), tmp_path, ["xlsx"])
    assert path.name == "d_tables.xlsx"
    sheet = openpyxl.load_workbook(path)["page 3 table 1"]
    assert [str(r) for r in sheet.merged_cells.ranges] == ["B1:C1"]
    assert sheet["B2"].value == 12.5 and sheet["B3"].value == -3 and sheet["A3"].value == "007"
    assert sheet["C2"].value == "=1+1" and sheet["C2"].data_type == "s"
    assert sheet["A1"].font.bold and not sheet["A2"].font.bold


def test_a_document_without_tables_gives_no_csv_and_an_empty_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    files = write_outputs(document(), tmp_path, ["csv", "xlsx"])
    assert [f.name for f in files] == ["d_tables.xlsx"] and not (tmp_path / "d" / "tables").exists()
    assert openpyxl.load_workbook(files[0]).sheetnames == ["no tables"]


def test_excel_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"derender\[xlsx\]"):
        write_xlsx(document(CELLS), tmp_path / "x.xlsx")
    assert not list(tmp_path.iterdir())

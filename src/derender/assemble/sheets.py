"""Tables as CSV files and as one Excel workbook (extra `xlsx`), from the document's cells.

A spanning cell's text stands in its top-left place; CSV leaves the other places empty, Excel merges them. Plain numbers
become numbers in Excel, everything else stays text, also what looks like a formula. Does not find or mend tables.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from derender.assemble.blocks import blocks
from derender.document import Cell, Document, Page
from derender.errors import MissingExtraError

_NUMBER = re.compile(r"[-−]?(0|[1-9]\d{0,14})(\.\d{1,12})?")
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # what XML, and so Excel, cannot hold


def document_tables(doc: Document) -> Iterator[tuple[Page, int, list[Cell]]]:
    """(page, number on that page from 1, cells) of every table, in reading order; joined tables stand where they
    begin."""
    numbers: Counter[int] = Counter()
    for block in blocks(doc):
        if cells := block.cells:
            numbers[block.page.number] += 1
            yield block.page, numbers[block.page.number], cells


def grid(cells: Sequence[Cell]) -> list[list[str]]:
    """A table's rows of cell texts, all of one length; places covered by a span are empty."""
    rows = max((c.row + c.rowspan for c in cells), default=0)
    cols = max((c.col + c.colspan for c in cells), default=0)
    out = [[""] * cols for _ in range(rows)]
    for cell in cells:
        out[cell.row][cell.col] = cell.text
    return out


def write_csv(doc: Document, folder: Path) -> list[Path]:
    """Writes folder/page-003-table-1.csv and so on (UTF-8, RFC 4180); returns the files. No table, no folder."""
    files = []
    for page, number, cells in document_tables(doc):
        folder.mkdir(exist_ok=True)
        path = folder / f"page-{page.number:03d}-table-{number}.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(grid(cells))
        files.append(path)
    return files


def require_xlsx() -> Any:
    """The openpyxl package. Raises MissingExtraError when it is not installed."""
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("The format xlsx needs the package openpyxl: pip install derender[xlsx].") from error
    return openpyxl


def write_xlsx(doc: Document, path: Path) -> None:
    """One sheet a table, named after its page; a document without tables gives a workbook with one empty sheet."""
    openpyxl = require_xlsx()
    book = openpyxl.Workbook()
    book.remove(book.active)
    for page, number, cells in document_tables(doc):
        sheet = book.create_sheet(f"page {page.number} table {number}")
        for cell in cells:
            place = sheet.cell(cell.row + 1, cell.col + 1)
            _fill(place, _ILLEGAL.sub("", cell.text), openpyxl)
            if cell.header:
                place.font = openpyxl.styles.Font(bold=True)
            if cell.rowspan > 1 or cell.colspan > 1:
                sheet.merge_cells(None, cell.row + 1, cell.col + 1, cell.row + cell.rowspan, cell.col + cell.colspan)
    if not book.sheetnames:
        book.create_sheet("no tables")
    book.save(path)


def _fill(place: Any, text: str, openpyxl: Any) -> None:
    if _NUMBER.fullmatch(text):
        plain = text.replace("−", "-")
        place.value = float(plain) if "." in plain else int(plain)
    else:
        place.value = text[:32767]  # Excel's longest text
        place.data_type = "s"  # "=1+1" on paper is text
    if "\n" in text:
        place.alignment = openpyxl.styles.Alignment(wrap_text=True, vertical="top")

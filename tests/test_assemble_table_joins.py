"""Tables over a page break: what is joined, what is not, and that every writer shows the same whole."""

from __future__ import annotations

import pytest

from derender.assemble.blocks import blocks
from derender.assemble.content_list import to_content_list
from derender.assemble.sheets import document_tables, grid
from derender.assemble.structure import structure
from derender.assemble.table_joins import joined_cells
from derender.document import Box, Cell, Document, Page, Region, RegionType


def cells(*rows: str, header: int = 1) -> list[Cell]:
    """Rows as "a|b|"; empty places are cells too."""
    return [
        Cell(row=r, col=c, text=text, header=r < header)
        for r, row in enumerate(rows)
        for c, text in enumerate(row.split("|"))
    ]


def region(kind: RegionType, order: int, box: Box, text: str = "", table: list[Cell] | None = None) -> Region:
    return Region(id=f"r{order}", type=kind, order=order, box=box, text=text, cells=table or [])


TOP: Box = (50.0, 60.0, 550.0, 300.0)
LOW: Box = (50.0, 500.0, 550.0, 780.0)
FIRST = cells("Name|Value|Note", "a|1|", "b|2|")
SECOND = cells("Name|Value|Note", "c|3|", "d|4|")


def document(second: list[Cell], box: Box = TOP, before: str = "", number: int = 2) -> Document:
    one = [
        region(RegionType.TEXT, 0, TOP, "Some words."),
        region(RegionType.TABLE, 1, LOW, table=FIRST),
        region(RegionType.FOOTNOTE, 2, (50, 790, 550, 800), "1 A note."),
    ]
    two = [region(RegionType.TABLE, 1, box, table=second), region(RegionType.TEXT, 2, LOW, "More words follow here.")]
    if before:
        two.insert(0, region(RegionType.CAPTION, 0, (50, 40, 550, 55), before))
    pages = [Page(number=n, width=600, height=840, dpi=150, regions=r) for n, r in ((1, one), (number, two))]
    return Document(name="d", pages=pages)


def tables(doc: Document) -> list[list[list[str]]]:
    return [grid(c) for _, _, c in document_tables(doc)]


def test_a_table_that_goes_on_is_one_with_its_header_once_and_empty_columns_kept() -> None:
    doc = structure(document(SECOND))
    assert tables(doc) == [[["Name", "Value", "Note"], ["a", "1", ""], ["b", "2", ""], ["c", "3", ""], ["d", "4", ""]]]
    head = next(b for b in blocks(doc) if b.cells)
    assert [(page.number, r.box) for page, r in head.parts] == [(1, LOW), (2, TOP)]
    assert doc.pages[1].regions[0].cells == SECOND  # the JSON keeps each part as it is


def test_markdown_html_and_content_list_show_the_same_whole() -> None:
    doc = structure(document(SECOND))
    markdown, html = doc.to_markdown(), doc.to_html()
    (entry,) = [e for e in to_content_list(doc) if e["type"] == "table"]
    assert markdown.count("| Name |") == 1 and markdown.count("| --- |") + markdown.count("|---|") >= 1
    for text in (html, entry["table_body"]):
        assert text.count("<table") == 1 and text.count(">Name<") == 1 and text.count(">4<") == 1


def test_a_first_row_that_is_no_repeated_header_stays_a_row() -> None:
    (whole,) = tables(structure(document(cells("c|3|", "d|4|"))))
    assert [row[0] for row in whole] == ["Name", "a", "b", "c", "d"]
    joined = joined_cells([FIRST, cells("c|3|", "d|4|")])
    assert [c.header for c in joined if c.text == "c"] == [False]


@pytest.mark.parametrize(
    "other",
    [
        document(cells("Name|Value", "c|3")),
        document(SECOND, box=(200.0, 60.0, 550.0, 300.0)),
        document(SECOND, before="Table 2: quite another one"),
        document(SECOND, number=3),
    ],
    ids=["columns", "edges", "caption", "missing page"],
)
def test_tables_that_do_not_fit_stay_two(other: Document) -> None:
    assert len(tables(structure(other))) == 2


def test_a_caption_that_says_continued_does_not_part_a_table() -> None:
    assert len(tables(structure(document(SECOND, before="Table 1 (continued)")))) == 1


def test_joining_can_be_switched_off() -> None:
    assert len(tables(structure(document(SECOND), join_tables=False))) == 2


def test_a_repeated_header_with_a_span_over_the_body_is_kept() -> None:
    def cell(row: int, col: int, text: str, rowspan: int = 1) -> Cell:
        return Cell(row=row, col=col, rowspan=rowspan, text=text)

    spanning = [cell(0, 0, "Name", 2), cell(0, 1, "Value"), cell(1, 1, "3")]
    first = [cell(0, 0, "Name"), cell(0, 1, "Value"), cell(1, 0, "a"), cell(1, 1, "1")]
    whole = joined_cells([first, spanning])
    assert sorted((c.row, c.col) for c in whole) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 1)]

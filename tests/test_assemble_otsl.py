"""otsl.py and tables.py: repair to a valid grid, and round trips OTSL <-> cells <-> HTML."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.assemble.otsl import TAGS, cells_to_otsl, occupancy, otsl_to_cells, repair_otsl, tokenise
from derender.assemble.tables import cells_to_html, cells_to_markdown, html_to_cells
from derender.document import Cell

tokens = st.lists(st.one_of(st.sampled_from(sorted(TAGS)), st.sampled_from(["a", "b c"])), max_size=30)


@st.composite
def grids(draw: st.DrawFn) -> list[Cell]:
    """A rectangle filled by cells with spans: each free place in reading order gets a cell that fits."""
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    header_rows = draw(st.integers(0, rows))
    taken: set[tuple[int, int]] = set()
    cells = []
    for r in range(rows):
        for c in range(cols):
            if (r, c) in taken:
                continue
            width = draw(st.integers(1, cols - c))
            while any((r, c + k) in taken for k in range(width)):
                width -= 1
            height = draw(st.integers(1, (header_rows if r < header_rows else rows) - r))
            taken.update((r + i, c + k) for i in range(height) for k in range(width))
            text = draw(st.text("ab<&|\n1 ", max_size=6))
            text = "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()
            cells.append(Cell(row=r, col=c, rowspan=height, colspan=width, header=r < header_rows, text=text))
    return cells


def _headers(cells: list[Cell]) -> int:
    return max((cell.row + cell.rowspan for cell in cells if cell.header), default=0)


@settings(deadline=None)
@given(tokens)
def test_repair_gives_a_rectangle_that_cells_cover_exactly(sequence: list[str]) -> None:
    repaired, _ = repair_otsl(sequence)
    rows = [[t for t in row.split("\t") if t in TAGS] for row in "\t".join(repaired).split("<nl>")][:-1]
    assert len({len(row) for row in rows}) <= 1
    covered = occupancy(otsl_to_cells(repaired))
    assert set(covered) == {(r, c) for r, row in enumerate(rows) for c in range(len(row))}


@settings(deadline=None)
@given(tokens)
def test_repair_is_final(sequence: list[str]) -> None:
    repaired, _ = repair_otsl(sequence)
    assert repair_otsl(repaired) == (repaired, [])


@settings(deadline=None)
@given(tokens)
def test_repair_loses_no_text(sequence: list[str]) -> None:
    words = sorted(" ".join(t for t in sequence if t not in TAGS).split())
    assert sorted(" ".join(cell.text for cell in otsl_to_cells(sequence)).split()) == words


@settings(deadline=None)
@given(tokens)
def test_a_changed_sequence_is_reported(sequence: list[str]) -> None:
    repaired, repairs = repair_otsl(sequence)
    changed = [t for t in repaired if t in TAGS] != [t for t in sequence if t in TAGS]
    assert not changed or repairs


def test_repairs_by_hand() -> None:
    assert repair_otsl(tokenise("<fcel>a<fcel>b<nl><fcel>c<nl>"))[0] == tokenise("<fcel>a<fcel>b<nl><fcel>c<ecel><nl>")
    assert repair_otsl(["<lcel>", "<fcel>", "x", "<nl>"])[0] == ["<ecel>", "<fcel>", "x", "<nl>"]
    assert repair_otsl(["<fcel>", "x", "<lcel>", "<nl>", "<ucel>", "<lcel>", "<nl>"])[0][-2:] == ["<xcel>", "<nl>"]


@settings(deadline=None)
@given(grids())
def test_cells_to_otsl_and_back(cells: list[Cell]) -> None:
    sequence = cells_to_otsl(cells)
    assert repair_otsl(sequence) == (sequence, [])
    assert otsl_to_cells(sequence, header_rows=_headers(cells)) == cells


@settings(deadline=None)
@given(grids(), st.booleans())
def test_cells_to_html_and_back(cells: list[Cell], pretty: bool) -> None:
    assert html_to_cells(cells_to_html(cells, pretty)) == cells


def test_overlapping_cells_are_an_error() -> None:
    with pytest.raises(ValueError, match="row 0, column 1"):
        cells_to_otsl([Cell(row=0, col=0, colspan=2), Cell(row=0, col=1)])


def test_header_rows_and_row_headers() -> None:
    cells = [
        Cell(row=0, col=0, header=True, text="h"),
        Cell(row=0, col=1, header=True, text="k"),
        Cell(row=1, col=0, header=True, text="r"),
        Cell(row=1, col=1, text="1<2"),
    ]
    assert cells_to_html(cells) == (
        "<table><thead><tr><th>h</th><th>k</th></tr></thead>"
        '<tbody><tr><th scope="row">r</th><td>1&lt;2</td></tr></tbody></table>'
    )


def test_html_of_other_makers() -> None:
    html = (
        "<html><body><table><tr><td rowspan=2>Site<td colspan='2'> Per<b>cent</b>\n ile&amp;<tr><td>10<td>20"
        "</table><table><tr><td>other</table>"
    )
    assert [(c.row, c.col, c.rowspan, c.colspan, c.text) for c in html_to_cells(html)] == [
        (0, 0, 2, 1, "Site"),
        (0, 1, 1, 2, "Percent ile&"),
        (1, 1, 1, 1, "10"),
        (1, 2, 1, 1, "20"),
    ]
    assert html_to_cells("no table") == []
    assert html_to_cells('<table><tr><td colspan="99999999999">x</table>')[0].colspan == 1


def test_pipe_table_only_without_spans() -> None:
    cells = [Cell(row=r, col=c, text=f"{r}{c}") for r in range(2) for c in range(2)]
    assert cells_to_markdown(cells, str) == "| 00 | 01 |\n| --- | --- |\n| 10 | 11 |"
    assert cells_to_markdown([Cell(row=0, col=0, colspan=2)], str) is None
    assert cells_to_markdown([], str) is None

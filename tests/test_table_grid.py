"""Grid from boxes: rows, columns, spans, header, nothing lost. Boxes are made by hand; no pictures."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from derender.document import Box
from derender.table.grid import grid_from_lines
from derender.table.quads import cell_quads
from derender.table.types import Rule, TableGrid, TableLine

H = 10.0


def at(x: float, y: float, width: float) -> Box:
    return (x, y, x + width, y + H)


def words(*boxes: Box) -> TableLine:
    """One detected line over several words."""
    return TableLine((boxes[0][0], boxes[0][1], boxes[-1][2], boxes[0][3]), words=boxes)


def level(x0: float, x1: float, y: float) -> Rule:
    return Rule(x0, y, x1, y, True, 1.0)


def upright(x: float, y0: float, y1: float) -> Rule:
    return Rule(x, y0, x, y1, False, 1.0)


def places(grid: TableGrid) -> dict[int, tuple[int, int, int, int]]:
    """Line number -> (row, col, rowspan, colspan) of the cell that holds its first piece."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for cell in grid.cells:
        for p in cell.pieces:
            found.setdefault(grid.pieces[p].line, (cell.row, cell.col, cell.rowspan, cell.colspan))
    return found


def plain(rows: int, cols: int) -> list[Box]:
    return [at(80 * c, 20 * r, 40) for r in range(rows) for c in range(cols)]


def test_an_unruled_table_gets_its_rows_and_columns() -> None:
    grid = grid_from_lines(plain(4, 3))
    assert (grid.rows, grid.cols) == (4, 3)
    assert places(grid) == {3 * r + c: (r, c, 1, 1) for r in range(4) for c in range(3)}


def test_right_aligned_numbers_under_a_wide_heading_are_one_column() -> None:
    lines = [at(0, 0, 40), at(80, 0, 60)] + [b for r in (1, 2, 3) for b in (at(0, 20 * r, 30), at(125, 20 * r, 15))]
    assert grid_from_lines(lines).cols == 2


def test_an_empty_place_becomes_an_empty_cell() -> None:
    lines = plain(4, 3)
    del lines[4]
    grid = grid_from_lines(lines)
    assert [(c.row, c.col) for c in grid.cells if not c.pieces] == [(1, 1)]


def test_a_heading_over_the_rule_of_two_columns_spans_them_and_the_first_column_spans_both_rows() -> None:
    group = [at(100, 0, 20)]  # over columns 1 and 2, but narrower than either
    head = [at(0, 20, 40), at(80, 20, 40), at(160, 20, 40)]
    body = [at(80 * c, 20 * r + 10, 40) for r in (2, 3, 4, 5) for c in range(3)]
    rules = [level(80, 200, 15), level(0, 200, 40)]
    found = places(grid_from_lines(group + head + body, rules, (210, 140)))
    assert found[0] == (0, 1, 1, 2)
    assert found[1] == (0, 0, 2, 1)
    assert found[2] == (1, 1, 1, 1)


def test_headings_over_one_long_rule_share_its_columns() -> None:
    groups = [at(185, 0, 30), at(425, 0, 30)]  # each in the middle of three columns
    head = [at(80 * c, 20, 40) for c in range(7)]
    body = [at(80 * c, 20 * r + 10, 40) for r in (2, 3, 4, 5) for c in range(7)]
    rules = [level(78, 525, 15), level(0, 525, 40)]
    found = places(grid_from_lines(groups + head + body, rules, (530, 140)))
    assert [found[0], found[1]] == [(0, 1, 1, 3), (0, 4, 1, 3)]


def test_a_heading_between_rows_is_a_row_of_its_own() -> None:
    lines = [b for r in (0, 1, 3, 4) for b in (at(0, 20 * r, 40), at(80, 20 * r, 40), at(160, 20 * r, 40))]
    lines.append(at(0, 40, 60))
    grid = grid_from_lines(lines)
    assert grid.rows == 5
    assert places(grid)[12] == (2, 0, 1, 1)


def test_a_word_gap_near_a_separator_does_not_cut_a_heading() -> None:
    lines: list[TableLine | Box] = list(plain(4, 3))
    lines.append(words(at(80, -20, 37), at(122, -20, 50), at(177, -20, 20)))
    grid = grid_from_lines(lines)
    assert len([p for p in grid.pieces if p.line == 12]) == 1


def test_rows_above_the_first_full_rule_are_headers() -> None:
    grid = grid_from_lines(plain(5, 3), [level(0, 200, 15)], (200, 100))
    assert {c.row for c in grid.cells if c.header} == {0}


def test_a_row_left_out_by_a_rule_in_a_ruled_table_is_a_row_span() -> None:
    lines = [at(0, 10, 40), at(80, 0, 40), at(80, 20, 40), at(0, 50, 40), at(80, 40, 40), at(80, 60, 40)]
    rules = [level(60, 140, 15), level(-5, 140, 35), level(60, 140, 55), upright(60, -5, 75)]
    found = places(grid_from_lines(lines, rules, (140, 80)))
    assert found[0] == (0, 0, 2, 1)
    assert found[3] == (2, 0, 2, 1)
    assert found[2] == (1, 1, 1, 1)


def test_a_row_that_no_column_rule_crosses_is_one_cell_however_short_its_text() -> None:
    lines = [at(50 * c + 10, 20 * r + 5, 25) for r in range(2) for c in range(4)] + [at(110, 45, 30)]
    rules = [level(0, 200, 20 * r) for r in range(4)] + [upright(50 * c, 0, 40) for c in range(1, 4)]
    rules += [upright(0, 0, 60), upright(200, 0, 60)]
    assert places(grid_from_lines(lines, rules, (200, 60)))[8] == (2, 0, 1, 4)


def test_lines_between_two_rules_of_a_ruled_table_are_one_cell() -> None:
    lines = []
    for r in range(3):
        lines += [at(0, 60 * r, 40), at(80, 60 * r, 60), at(80, 60 * r + 15, 60), at(80, 60 * r + 30, 30)]
    rules = [level(-5, 145, 60 * r - 5) for r in range(4)] + [upright(60, -5, 175)]
    grid = grid_from_lines(lines, rules, (150, 180))
    assert (grid.rows, grid.cols) == (3, 2)
    assert [len(c.pieces) for c in grid.cells] == [1, 3] * 3


def test_a_wrapped_label_in_an_unruled_table_is_one_cell() -> None:
    lines = []
    for r in range(4):
        y = 40 * r
        lines += [at(0, y, 100), at(140, y, 30), at(220, y, 30)]
    lines.append(words(at(0, 52, 45), at(48, 52, 20)))  # would not have fitted after the line above
    grid = grid_from_lines(lines)
    assert (grid.rows, grid.cols) == (4, 3)
    assert places(grid)[12] == (1, 0, 1, 1)


def test_a_cell_of_three_lines_in_an_unruled_table_is_one_cell() -> None:
    lines = []
    for r in range(4):
        lines += [at(0, 60 * r, 40), at(80, 60 * r, 100)]
    lines += [at(80, 12, 90), at(80, 24, 30)]
    grid = grid_from_lines(lines)
    assert (grid.rows, grid.cols) == (4, 2)
    assert places(grid)[9] == (0, 1, 1, 1)


def test_a_line_over_two_columns_is_cut_at_the_gap() -> None:
    lines: list[TableLine | Box] = list(plain(4, 2))
    lines.append(words(at(0, 80, 40), at(80, 80, 40)))
    grid = grid_from_lines(lines)
    assert [p.box for p in grid.pieces if p.line == 8] == [at(0, 80, 40), at(80, 80, 40)]
    quads = [((b[0], b[1]), (b[2], b[1]), (b[2], b[3]), (b[0], b[3])) for b in [*plain(4, 2), at(0, 80, 120)]]
    cut = [q.quad for q in cell_quads(grid, quads) if q.line == 8]
    assert len(cut) == 2
    assert cut[0][1][0] <= cut[1][0][0]
    assert cut[0][1][0] >= 40 and cut[1][0][0] <= 80


def test_what_is_read_ends_before_a_vertical_rule() -> None:
    lines = plain(3, 2)
    quads = [((b[0] - 6, b[1]), (b[2] + 6, b[1]), (b[2] + 6, b[3]), (b[0] - 6, b[3])) for b in lines]
    rules = [upright(-3, -10, 60), upright(60, -10, 60)]
    read = {q.line: q.quad for q in cell_quads(grid_from_lines(lines, rules), quads, rules)}
    assert -3 < read[0][0][0] <= 0
    assert read[1] == quads[1]


def test_a_bullet_is_no_column() -> None:
    lines = []
    for r in range(5):
        lines += [at(0, 20 * r, 40), (80.0, 20 * r + 3, 84.0, 20 * r + 7), at(100, 20 * r, 80)]
    assert grid_from_lines(lines).cols == 2


def test_no_lines_give_no_cells() -> None:
    assert grid_from_lines([]).cells == ()


boxes = st.tuples(st.floats(0, 300), st.floats(0, 300), st.floats(1, 120), st.floats(2, 40)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
rules = st.tuples(st.floats(0, 300), st.floats(0, 300), st.floats(5, 300), st.booleans()).map(
    lambda r: level(r[0], r[0] + r[2], r[1]) if r[3] else upright(r[0], r[1], r[1] + r[2])
)


@settings(max_examples=300, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=25), st.lists(rules, max_size=8))
def test_every_line_is_in_a_cell_and_cells_tile_the_grid(lines: list[Box], drawn: list[Rule]) -> None:
    grid = grid_from_lines(lines, drawn, (420, 340))
    covered = [
        (r, c) for x in grid.cells for r in range(x.row, x.row + x.rowspan) for c in range(x.col, x.col + x.colspan)
    ]
    assert sorted(covered) == [(r, c) for r in range(grid.rows) for c in range(grid.cols)]
    used = [p for x in grid.cells for p in x.pieces]
    assert sorted(used) == list(range(len(grid.pieces)))
    assert {p.line for p in grid.pieces} == set(range(len(lines)))
    assert list(grid.row_edges) == sorted(grid.row_edges)
    assert list(grid.col_edges) == sorted(grid.col_edges)

"""Invariants of generated tables: rectangular, pointers valid, tokens and cells the same table, deterministic."""

from __future__ import annotations

from itertools import islice

import pytest

from derender.assemble.otsl import FCEL, NL, TAGS, cells_to_otsl, occupancy, otsl_to_cells, repair_otsl
from derender.table.grid import grid_from_lines
from derender.train.table_data import CLEAN, TableSample, make_table, pointers, tables
from derender.train.table_noise import DetectorNoise

MANY = 250


@pytest.fixture(scope="module")
def samples() -> list[TableSample]:
    return list(islice(tables(7), MANY))


def test_every_sample_is_a_valid_rectangular_table(samples: list[TableSample]) -> None:
    for s in samples:
        assert repair_otsl(s.tokens)[1] == []
        assert s.tokens.count(NL) == s.rows
        cells = otsl_to_cells(s.tokens, s.header_rows)
        assert set(occupancy(cells)) == {(r, c) for r in range(s.rows) for c in range(s.cols)}
        assert 1 <= s.rows <= 40 and 1 <= s.cols <= 15 and 0 <= s.header_rows < max(2, s.rows)


def test_tokens_and_cells_are_the_same_table(samples: list[TableSample]) -> None:
    for s in samples:
        joined = " ".join(s.tokens)
        assert " ".join(cells_to_otsl(otsl_to_cells(s.tokens))) == joined


def test_every_box_is_pointed_to_or_stray_and_pointers_point_to_boxes(samples: list[TableSample]) -> None:
    for s in samples:
        seen = [n for cell in otsl_to_cells(s.tokens) for n in pointers(cell.text)]
        assert set(seen) | set(s.stray) == set(range(len(s.boxes)))
        assert not set(seen) & set(s.stray)
        after = [a for a, b in zip(s.tokens, s.tokens[1:], strict=False) if b not in TAGS]
        assert all(a == FCEL or a not in TAGS for a in after)


def test_boxes_and_rules_lie_in_the_crop(samples: list[TableSample]) -> None:
    for s in samples:
        for x0, y0, x1, y1 in s.boxes:
            assert 0 <= x0 < x1 <= s.size[0] and 0 <= y0 < y1 <= s.size[1]
        for r in s.rules:
            assert 0 <= min(r.x0, r.x1) and max(r.x0, r.x1) <= s.size[0]
            assert 0 <= min(r.y0, r.y1) and max(r.y0, r.y1) <= s.size[1]


def test_the_same_seed_gives_the_same_table_and_another_one_does_not() -> None:
    assert make_table(3, 5) == make_table(3, 5)
    assert make_table(3, 5) != make_table(3, 6)
    assert make_table(3, 5) != make_table(4, 5)


def test_the_kinds_asked_for_all_occur(samples: list[TableSample]) -> None:
    cells = [otsl_to_cells(s.tokens, s.header_rows) for s in samples]
    assert {s.style for s in samples} == {"ruled", "rows", "half", "unruled", "zebra"}
    assert any(c.rowspan > 1 and not c.header for table in cells for c in table)
    assert any(c.colspan > 1 and c.header for table in cells for c in table)
    assert any(s.header_rows >= 2 for s in samples)
    assert any(len(pointers(c.text)) > 1 for table in cells for c in table)
    assert any(not c.text for table in cells for c in table)
    assert any(s.stray for s in samples)
    assert max(s.rows for s in samples) > 25 and max(s.cols for s in samples) > 8
    assert any(len(ns) > len(set(ns)) for ns in ([n for c in t for n in pointers(c.text)] for t in cells))


def test_without_noise_each_box_belongs_to_one_cell() -> None:
    for s in islice(tables(7, noise=CLEAN), 60):
        seen = [n for cell in otsl_to_cells(s.tokens) for n in pointers(cell.text)]
        assert sorted(seen) == list(range(len(s.boxes)))
        assert s.stray == ()


def test_lines_of_one_cell_are_pointed_to_from_top_to_bottom() -> None:
    for s in islice(tables(9, noise=CLEAN), 60):
        for cell in otsl_to_cells(s.tokens):
            numbers = pointers(cell.text)
            assert numbers == sorted(numbers)


def test_ruled_tables_without_noise_have_the_columns_that_rules_show() -> None:
    """The rule-based grid, which knows nothing of the generator, finds the column count where all is drawn."""
    plain = [s for s in islice(tables(11, noise=CLEAN), 150) if s.style == "ruled" and s.cols > 1 and s.rows > 3]
    right = sum(grid_from_lines(s.boxes, s.rules, s.size).cols == s.cols for s in plain)
    assert len(plain) >= 15
    assert right >= 0.9 * len(plain)


def test_missing_boxes_leave_empty_cells() -> None:
    all_missing = DetectorNoise(merged=0, split=0, missing=1e9, extra=0, shake=0, rules=0, lean=0)
    sample = make_table(1, 2, all_missing)
    assert sample.boxes == ()
    assert FCEL not in sample.tokens

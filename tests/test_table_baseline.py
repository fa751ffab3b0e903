"""The rule-based grid on generated tables: what the scores count."""

from __future__ import annotations

from itertools import islice

import pytest

from derender.train.table_baseline import baseline, grid_cells, truth_cells
from derender.train.table_data import CLEAN, make_table, tables


def test_the_truth_scores_one_against_itself_and_the_grid_does_not_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("apted")
    samples = list(islice(tables(5), 4))
    assert baseline(samples)[-1].teds < 1
    monkeypatch.setattr("derender.train.table_baseline.grid_cells", truth_cells)
    assert [(s.teds_s, s.teds) for s in baseline(samples)] == [(1.0, 1.0)] * len(baseline(samples))


def test_the_grid_loses_no_line() -> None:
    for sample in islice(tables(6), 25):
        found = {int(n) for cell in grid_cells(sample) for n in cell.text.split()}
        assert found == set(range(len(sample.boxes)))


def test_styles_add_up_to_all() -> None:
    pytest.importorskip("apted")
    scores = baseline(make_table(8, i, CLEAN) for i in range(6))
    assert scores[-1].style == "all" and scores[-1].count == 6 == sum(s.count for s in scores[:-1])

"""`derender bench overlap`: counts what it says it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("transformers")

from derender.mineru.bench import MIDDLING, OverlapOptions, OverlapRow, measure_overlap, table
from derender.mineru.config import TextShape

SMALL = replace(
    MIDDLING, text=TextShape(vocabulary=200, width=32, hidden=48, layers=2, heads=4, kv_heads=2, head_dim=8)
)


def test_forwards_are_those_of_the_steps_and_one_a_block_is_saved() -> None:
    options = OverlapOptions(batches=(1, 2), steps=(2, 4), tokens=96, picture=4, repeat=1, device="cpu")
    rows = measure_overlap(options, SMALL)
    assert [(r.batch, r.steps) for r in rows] == [(1, 2), (1, 4), (2, 2), (2, 4)]
    for row in rows:
        assert row.forwards_with == 3 * row.steps
        assert row.forwards_without == 3 * row.steps + 2, "the last block's tokens are never cached"
        assert row.seconds_with > 0 and row.seconds_without > 0


def test_the_table_has_a_row_for_each_configuration() -> None:
    lines = table([OverlapRow(4, 8, 32, 35, 0.9, 1.2)]).splitlines()
    assert lines[2] == "| 4 | 8 | 32 | 35 | 0.90 | 1.20 | 25% |"

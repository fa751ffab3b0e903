"""The shipped reader of table structure on the engine: one test per claim, on generated tables with detector noise."""

from __future__ import annotations

import threading
from itertools import islice

import numpy as np
import pytest

from derender.decode.config import DecodeConfig
from derender.recognise import structure
from derender.recognise.structure import SharedStructure, StructureRead, StructureReader
from derender.table.grid import grid_from_lines
from derender.table.tokens import MAX_TOKENS
from derender.table.types import TableGrid
from derender.train.table_data import TableSample
from derender.train.table_encoder import sample_grid
from derender.train.table_eval import held_out_tables

COUNT = 24


@pytest.fixture(scope="module")
def samples() -> list[tuple[TableSample, TableGrid]]:
    found = (s for s in held_out_tables(9002) if s.boxes)
    return [(s, sample_grid(s)) for s in islice(found, COUNT)]


@pytest.fixture(scope="module")
def reads(samples: list[tuple[TableSample, TableGrid]]) -> dict[str, list[StructureRead]]:
    out = {}
    for mode in ("ar", "exact", "sliding"):
        reader = StructureReader(DecodeConfig(mode=mode), threads=1)  # type: ignore[arg-type]
        out[mode] = [reader.read(grid, s.rules, s.size) for s, grid in samples]
    return out


def test_exact_writes_what_ar_writes_in_a_third_of_the_forwards(reads: dict[str, list[StructureRead]]) -> None:
    assert [r.tags for r in reads["exact"]] == [r.tags for r in reads["ar"]]
    steps = {mode: sum(r.stats.forwards for r in found) for mode, found in reads.items()}
    assert 3 * steps["exact"] < steps["ar"]


def test_every_line_is_in_exactly_one_cell(
    samples: list[tuple[TableSample, TableGrid]], reads: dict[str, list[StructureRead]]
) -> None:
    for (_, grid), read in zip(samples, reads["exact"], strict=True):
        held = sorted(n for cell in read.grid.cells for n in cell.pieces)
        assert held == list(range(len(grid.pieces)))


def test_cells_tile_the_table_and_what_was_repaired_is_said(reads: dict[str, list[StructureRead]]) -> None:
    for read in reads["sliding"]:
        seen = np.zeros((read.grid.rows, read.grid.cols), int)
        for c in read.grid.cells:
            seen[c.row : c.row + c.rowspan, c.col : c.col + c.colspan] += 1
        assert (seen == 1).all()
        assert (read.status == "partial") == bool(read.errors)


def test_a_table_too_large_for_the_network_keeps_its_rule_based_grid_and_says_so() -> None:
    rows = MAX_TOKENS // 2 + 1
    boxes = [(x, 20.0 * r, x + 30, 20.0 * r + 10) for r in range(rows) for x in (0.0, 100.0)]
    grid = grid_from_lines(boxes, [], (200.0, 20.0 * rows))
    read = StructureReader(DecodeConfig(), threads=1).read(grid, [], (200.0, 20.0 * rows))
    assert read.grid is grid
    assert read.status == "partial"
    assert f"more than {MAX_TOKENS} pieces" in read.errors[0]


def test_several_threads_share_one_reader_that_is_loaded_once(
    samples: list[tuple[TableSample, TableGrid]],
    reads: dict[str, list[StructureRead]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = []

    class Counted(StructureReader):
        def __init__(self, decode: DecodeConfig, threads: int = 2) -> None:
            loaded.append(threads)
            super().__init__(decode, threads)

    monkeypatch.setattr(structure, "StructureReader", Counted)
    shared = SharedStructure(DecodeConfig(mode="ar"), threads=1)
    found: dict[int, list[str]] = {}

    def read(k: int) -> None:
        sample, grid = samples[k]
        found[k] = shared.read(grid, sample.rules, sample.size, DecodeConfig(mode="exact")).tags

    assert loaded == []
    threads = [threading.Thread(target=read, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert loaded == [1]
    assert [found[k] for k in range(8)] == [r.tags for r in reads["exact"][:8]]


def test_decoded_rows_or_columns_that_the_draft_has_not_are_refused(
    samples: list[tuple[TableSample, TableGrid]], reads: dict[str, list[StructureRead]]
) -> None:
    for mode in ("exact", "sliding"):
        for read in reads[mode]:
            assert read.draft is not None
            assert (read.grid.rows, read.grid.cols) == (read.draft.rows, read.draft.cols)

"""The learned table reader: tokens, relations to cells, draft, decoded tags to a grid; one test per claim."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.assemble.otsl import TAGS, cells_to_otsl, otsl_to_cells, repair_otsl
from derender.document import Cell
from derender.table.draft import TableDraft, make_draft, table_prefix, tag_names
from derender.table.grid import grid_from_lines
from derender.table.intervals import Span, cells_of, line_rects
from derender.table.learned import decoded_grid
from derender.table.tokens import PAIR, PLACE, table_tokens
from derender.table.types import Rule
from derender.table.vocabulary import encode_tags
from derender.train.table_data import CLEAN, TableSample, pointers, tables
from derender.train.table_encoder import LabelledTable, grid_is_right, label, sample_grid


def true_relations(t: LabelledTable, sure: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """The logits of an encoder that is never wrong."""
    first, last = t.rect_L4[:, 0::2], t.rect_L4[:, 1::2]
    out = np.zeros((len(first), len(first), 8), np.float32)
    for axis in range(2):
        f, n = first[:, axis], last[:, axis]
        truths = (f[:, None] < f[None], f[:, None] == f[None], n[:, None] < f[None])
        together = ~truths[2] & ~truths[2].T
        for k, truth in enumerate((*truths, together)):
            out[..., 4 * axis + k] = np.where(truth, sure, -sure)
    flags = np.stack([t.several_L, t.rect_L4[:, 0] < 0, t.header_L], 1).astype(np.float32)
    return out, (2 * flags - 1) * sure


def filled(cells: list[Cell]) -> set[tuple[int, int, int, int]]:
    return {(c.row, c.col, c.rowspan, c.colspan) for c in cells if c.text}


def drafted_cells(draft: TableDraft) -> list[Cell]:
    return [
        Cell(
            row=s.top, col=s.left, rowspan=s.bottom - s.top + 1, colspan=s.right - s.left + 1,
            text=" ".join(map(str, s.lines)),
        )
        for s in draft.cells
    ]  # fmt: skip


def whole_tables(count: int) -> list[tuple[TableSample, LabelledTable, TableDraft]]:
    """Tables without noise in which some text begins in every row and column: what has none cannot be told from lines.
    With the draft of true relations."""
    out = []
    for sample in islice(tables(4, 0, CLEAN), count):
        t = label(sample)
        if t is not None and len(set(t.rect_L4[:, 0])) == sample.rows and len(set(t.rect_L4[:, 2])) == sample.cols:
            out.append((sample, t, make_draft(t.tokens, *true_relations(t))))
    assert len(out) > count // 3
    return out


def test_true_relations_give_the_true_cells() -> None:
    for sample, _, draft in whole_tables(60):
        assert (draft.rows, draft.cols) == (sample.rows, sample.cols)
        assert filled(drafted_cells(draft)) == filled(otsl_to_cells(sample.tokens))


def test_the_draft_is_valid_otsl_of_its_own_cells() -> None:
    for _, _, draft in whole_tables(30):
        tags = tag_names(draft.ids_K.tolist())
        assert repair_otsl(tags) == (tags, [])
        assert [t for t in cells_to_otsl(drafted_cells(draft)) if t in TAGS] == tags


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 14), st.randoms(use_true_random=False))
def test_any_relations_give_cells_that_tile_a_table_and_hold_every_line(lines: int, random: random.Random) -> None:
    rng = np.random.default_rng(random.randrange(2**31))
    box = np.sort(rng.uniform(0, 30, (lines, 2, 2)), 1).reshape(lines, 4)
    real, several = rng.random(lines) < 0.8, rng.random(lines) < 0.2
    relation = rng.normal(0, 3, (lines, lines, 8)).astype(np.float32)
    rects = line_rects(relation, real, box)
    cells = cells_of(rects, several, real, box)
    covered = [(r, c) for s in cells for r in range(s.top, s.bottom + 1) for c in range(s.left, s.right + 1)]
    assert sorted(covered) == [(r, c) for r in range(rects.rows) for c in range(rects.cols)]
    assert {n for s in cells for n in s.lines} == set(range(lines))


def test_the_drafted_tags_give_the_drafted_cells_on_the_grids_pieces() -> None:
    for sample, t, draft in whole_tables(30):
        grid, repairs = decoded_grid(sample_grid(sample), draft, tag_names(draft.ids_K.tolist()), t.tokens.box_N4)
        assert repairs == []
        assert [(c.row, c.col, c.rowspan, c.colspan, set(c.pieces)) for c in grid.cells] == [
            (s.top, s.left, s.bottom - s.top + 1, s.right - s.left + 1, set(s.lines)) for s in draft.cells
        ]
        assert list(grid.row_edges) == sorted(grid.row_edges) and len(grid.row_edges) == grid.rows + 1
        assert list(grid.col_edges) == sorted(grid.col_edges) and len(grid.col_edges) == grid.cols + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(TAGS)), max_size=60))
def test_whatever_is_decoded_no_piece_is_lost_or_doubled(tags: list[str]) -> None:
    sample, t, draft = whole_tables(6)[0]
    grid, _ = decoded_grid(sample_grid(sample), draft, tags, t.tokens.box_N4)
    assert sorted(n for c in grid.cells for n in c.pieces) == list(range(len(grid.pieces)))
    assert len(grid.row_edges) == grid.rows + 1 and len(grid.col_edges) == grid.cols + 1


def test_a_row_that_the_decoder_adds_moves_the_rows_below() -> None:
    grid = grid_from_lines([(0, 0, 30, 10), (100, 0, 130, 10), (0, 30, 30, 40), (100, 30, 130, 40)])
    spans = (Span(0, 0, 0, 0, (0,)), Span(0, 0, 1, 1, (1,)), Span(1, 1, 0, 0, (2,)), Span(1, 1, 1, 1, (3,)))
    tags = ["<fcel>", "<fcel>", "<nl>", "<fcel>", "<fcel>", "<nl>"]
    draft = TableDraft(spans, 2, 2, np.asarray(encode_tags(tags)), np.ones(6, np.float32), 1.0, 1)
    box = np.asarray([p.box for p in grid.pieces], np.float32) / 10
    decoded = [*tags[:3], "<ecel>", "<ecel>", "<nl>", *tags[3:]]
    found, _ = decoded_grid(grid, draft, decoded, box)
    assert {(c.row, c.col): c.pieces for c in found.cells if c.pieces} == {
        (0, 0): (0,), (0, 1): (1,), (2, 0): (2,), (2, 1): (3,),
    }  # fmt: skip
    assert found.rows == 3 and [c.header for c in found.cells][:2] == [True, True]


def test_tokens_do_not_depend_on_place_and_resolution() -> None:
    sample = next(islice(tables(4, 3, CLEAN), 1))
    one = table_tokens(sample_grid(sample), sample.rules, sample.size)
    boxes = [tuple(3 * v + 7 for v in box) for box in sample.boxes]
    rules = [Rule(*(3 * v + 7 for v in (r.x0, r.y0, r.x1, r.y1)), r.horizontal, r.thickness) for r in sample.rules]
    size = (3 * sample.size[0], 3 * sample.size[1])
    other = table_tokens(grid_from_lines(boxes, rules, size), rules, size)
    assert one.place_NF.shape == (len(sample.boxes) + len(rules), PLACE) and one.pair_NNP.shape[2] == PAIR
    # lines at one height to the last digit may change their order with rounding: a few counts then differ
    assert float(np.mean(np.abs(one.pair_NNP - other.pair_NNP) > 2e-3)) < 2e-3
    assert float(np.mean(np.abs(one.place_NF - other.place_NF) > 2e-3)) < 2e-3


def test_pairs_say_what_the_grid_says() -> None:
    """Two rows of two columns: sign of row and column order, whether the same, whether one cell."""
    grid = grid_from_lines([(0, 0, 30, 10), (100, 0, 130, 10), (0, 30, 30, 40), (100, 30, 130, 40)])
    at = {(c.row, c.col): c.pieces[0] for c in grid.cells}
    pair = table_tokens(grid, (), (140, 50)).pair_NNP[..., -7:]
    assert pair[at[0, 0], at[1, 0]].tolist() == [1, 0, 1, 0, 0, 1, 0]
    assert pair[at[0, 0], at[0, 1]].tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert pair[at[1, 1], at[0, 0]].tolist() == [-1, -1, -1, -1, 0, 0, 0]
    assert pair[at[0, 0], at[0, 0]].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_the_grid_is_right_where_it_gives_each_line_its_cell() -> None:
    seen = set()
    for sample, t, _ in whole_tables(60):
        grid = sample_grid(sample)
        found = {
            (c.row, c.rowspan, c.col, c.colspan, frozenset(grid.pieces[n].line for n in c.pieces)) for c in grid.cells
        }
        truth = {
            (c.row, c.rowspan, c.col, c.colspan, frozenset(pointers(c.text))) for c in otsl_to_cells(sample.tokens)
        }
        found, truth = ({cell for cell in cells if cell[-1]} for cells in (found, truth))
        assert grid_is_right(t) == (found == truth)
        seen.add(grid_is_right(t))
    assert seen == {True, False}


def test_the_prefix_has_an_entry_for_each_token_and_each_place_in_the_drafts_order() -> None:
    sample, t, draft = whole_tables(6)[0]
    feature = np.ones((len(t.tokens.place_NF), 8), np.float32)
    prefix = table_prefix(t.tokens, feature, draft)
    assert len(prefix.position_P) == len(feature) + draft.rows * draft.cols
    assert (np.diff(prefix.position_P) >= 0).all() and int(prefix.line_P.sum()) == draft.rows * draft.cols
    assert prefix.draft_D.tolist() == draft.ids_K.tolist()


def test_the_exported_encoder_gives_what_the_trained_one_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from derender.model.table_encoder import TableEncoder, TableEncoderConfig
    from derender.model.table_export import export_table_encoder
    from derender.table.tower import TableTower

    torch.manual_seed(1)
    model = TableEncoder(TableEncoderConfig(width=32, layers=2, hidden=64)).eval()
    export_table_encoder(model, tmp_path)
    sample = next(islice(tables(4, 3, CLEAN), 1))
    tokens, feature, draft = TableTower(tmp_path, 1).read(sample_grid(sample), sample.rules, sample.size)
    with torch.inference_mode():
        pair = torch.from_numpy(tokens.pair_NNP)[None]
        real = torch.ones(1, len(tokens.place_NF), dtype=torch.bool)
        wanted = model(torch.from_numpy(tokens.place_NF)[None], pair, real)[0].numpy()
    np.testing.assert_allclose(feature, wanted, atol=2e-2)  # weights are stored as float16
    assert sorted({n for s in draft.cells for n in s.lines}) == list(range(tokens.lines))

"""The decoder's prefix and draft from what the encoder says of a table's lines.

The draft is the OTSL of the cells that the lines' relations give (intervals.py), with the place in it of every line
and rule: what CTC is for text and the path for formulas. Every place of the drafted grid has an entry of its own,
too, which says what is drawn around it, so that empty cells, which no line stands in, can be told from spans. Runs no
network.

Legend: N tokens (lines, then rules), L lines, D features, P prefix entries, G place values, K drafted tags.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.assemble.otsl import ECEL, FCEL, LCEL, NL, UCEL, XCEL
from derender.model.prefix import RegionPrefix
from derender.table.intervals import LineRects, Span, cells_of, line_rects
from derender.table.tokens import GRID_SIGNS, TableTokens
from derender.table.vocabulary import TABLE_TOKENS, encode_tags

PLACE_VALUES = 16
TRUST = 1.0  # nats that every relation of the rule-based grid is given; 0 trusts the network alone
REAL, SEVERAL = 0.0, 0.0  # logits above which a line is of no cell, of several
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TableDraft:
    """cells tile the table; ids_K: their OTSL; prob_K: how sure each tag is; rows, cols: of the table; sure: of the
    table, 0-1; heading: how many of its rows are heading."""

    cells: tuple[Span, ...]
    rows: int
    cols: int
    ids_K: npt.NDArray[np.int64]
    prob_K: F32
    sure: float
    heading: int

    def index(self, row: int, col: int) -> int:
        """Where the tag of a place stands in the draft."""
        return row * (self.cols + 1) + col


def make_draft(tokens: TableTokens, relation_LL8: F32, flag_L3: F32) -> TableDraft:
    """relation_LL8, flag_L3: the encoder's logits for the lines."""
    box = tokens.box_N4[: tokens.lines].astype(np.float64)
    real, several = flag_L3[:, 1] <= REAL, flag_L3[:, 0] > SEVERAL
    if not real.any():
        real = np.ones_like(real)
    rects = line_rects(relation_LL8 + TRUST * _grid_says(tokens), real, box)
    cells = cells_of(rects, several, real, box)
    owner = np.zeros((rects.rows, rects.cols), np.int64)
    for k, s in enumerate(cells):
        owner[s.top : s.bottom + 1, s.left : s.right + 1] = k
    sure_C = [float(np.mean(rects.sure_L[list(s.lines)])) if s.lines else 0.5 for s in cells]
    tags: list[str] = []
    prob: list[float] = []
    for r in range(rects.rows):
        for c in range(rects.cols):
            s = cells[owner[r, c]]
            own = FCEL if s.lines else ECEL
            tags.append(own if (r, c) == (s.top, s.left) else LCEL if r == s.top else UCEL if c == s.left else XCEL)
            prob.append(sure_C[owner[r, c]])
        tags.append(NL)
        prob.append(0.9)
    ids = np.asarray(encode_tags(tags), np.int64)
    sure = float(np.exp(np.mean(np.log(np.maximum(rects.sure_L[real], 1e-3)))))
    return TableDraft(
        tuple(cells), rects.rows, rects.cols, ids, np.asarray(prob, np.float32), sure, _heading(rects, flag_L3, real)
    )


def _grid_says(tokens: TableTokens) -> F32:
    """(L, L, 8) 1 where the rule-based grid has the relation (RELATIONS of model/table_encoder.py), else 0."""
    sign = tokens.pair_NNP[: tokens.lines, : tokens.lines, GRID_SIGNS]
    order, strict = sign[..., :2], sign[..., 2:]
    said = [order > 0.5, abs(order) < 0.5, strict > 0.5, abs(strict) < 0.5]  # each for rows and columns
    return np.stack([part[..., axis] for axis in range(2) for part in said], -1).astype(np.float32)


def _heading(rects: LineRects, flag_L3: F32, real_L: npt.NDArray[np.bool_]) -> int:
    """Rows from the top most of whose lines are of the heading, at least one row less than there are."""
    for row in range(rects.rows):
        mine = (rects.first_L2[:, 0] == row) & real_L
        if mine.any() and float(flag_L3[mine, 2].mean()) <= 0:
            return row
    return max(0, rects.rows - 1)


def table_prefix(tokens: TableTokens, feature_ND: F32, draft: TableDraft) -> RegionPrefix:
    """Line and rule entries (features), and an entry for each place (values), in the order of the draft."""
    at_L = np.zeros(len(feature_ND), np.float32)
    for s in draft.cells:
        for n in s.lines:
            at_L[n] = draft.index(s.top, s.left)
    row_y, col_x = _middles(tokens, draft, 1), _middles(tokens, draft, 0)
    box = tokens.box_N4
    for n in range(tokens.lines, len(feature_ND)):
        row = int(np.searchsorted(row_y, (box[n, 1] + box[n, 3]) / 2).clip(0, draft.rows - 1))
        col = int(np.searchsorted(col_x, (box[n, 0] + box[n, 2]) / 2).clip(0, draft.cols - 1))
        at_L[n] = draft.index(row, col) - 0.5
    value_G = _place_values(tokens, draft, row_y, col_x)
    places = len(value_G)
    index = np.asarray([draft.index(r, c) for r in range(draft.rows) for c in range(draft.cols)], np.float32)
    position = np.concatenate([at_L, index])
    order = np.argsort(position, kind="stable")
    feature = np.concatenate([feature_ND, np.zeros((places, feature_ND.shape[1]), np.float32)])
    geometry = np.concatenate([np.zeros((len(feature_ND), PLACE_VALUES), np.float32), value_G])
    is_place = np.repeat([False, True], [len(feature_ND), places])
    return RegionPrefix(
        feature_PF=feature[order].astype(np.float32),
        geometry_PG=geometry[order].astype(np.float32),
        line_P=is_place[order],
        position_P=position[order].astype(np.float32),
        draft_D=draft.ids_K,
        prob_D=draft.prob_K,
        alternatives=np.zeros(0, np.int64),
    )


def _middles(tokens: TableTokens, draft: TableDraft, axis: int) -> F32:
    """Middle of each row (axis 1) or column (axis 0), of the lines that stand in it alone; between its neighbours where
    there are none. Never falling."""
    count = draft.rows if axis else draft.cols
    found: list[list[float]] = [[] for _ in range(count)]
    for s in draft.cells:
        first, last = (s.top, s.bottom) if axis else (s.left, s.right)
        if first == last:
            found[first] += [float(tokens.box_N4[n, axis] + tokens.box_N4[n, axis + 2]) / 2 for n in s.lines]
    known = [k for k in range(count) if found[k]]
    if not known:
        low, high = tokens.box_N4[:, axis].min(), tokens.box_N4[:, axis + 2].max()
        return np.asarray(low + (high - low) * (np.arange(count) + 0.5) / count, np.float32)
    middle = np.interp(np.arange(count), known, [float(np.median(found[k])) for k in known])
    return np.asarray(np.maximum.accumulate(middle), np.float32)


def _place_values(tokens: TableTokens, draft: TableDraft, row_y: F32, col_x: F32) -> F32:
    """(places, G) what is drawn around each place and what the draft has there."""
    box = tokens.box_N4[tokens.lines :]
    level = (box[:, 2] - box[:, 0]) >= (box[:, 3] - box[:, 1])
    across = _drawn(row_y, col_x, box[level][:, [1, 3]].mean(1), box[level][:, 0], box[level][:, 2])
    along = _drawn(col_x, row_y, box[~level][:, [0, 2]].mean(1), box[~level][:, 1], box[~level][:, 3])
    out = np.zeros((draft.rows, draft.cols, PLACE_VALUES), np.float32)
    out[..., 0], out[..., 1] = across[:-1], across[1:]
    out[..., 2], out[..., 3] = along[:-1].T, along[1:].T
    for s in draft.cells:
        here = out[s.top : s.bottom + 1, s.left : s.right + 1]
        here[..., 4], here[..., 5] = min(len(s.lines), 3) / 3, not s.lines
        here[..., 6], here[..., 7] = s.bottom - s.top, s.right - s.left
    r, c = np.arange(draft.rows)[:, None], np.arange(draft.cols)[None]
    out[..., 8], out[..., 9] = np.minimum(r, 4) / 2, np.minimum(c, 4) / 2
    out[..., 10], out[..., 11] = r < draft.heading, r == draft.heading
    out[..., 12], out[..., 13] = np.minimum(draft.rows - 1 - r, 4) / 2, np.minimum(draft.cols - 1 - c, 4) / 2
    out[..., 14], out[..., 15] = len(level) > 0, (~level).any()
    return out.reshape(-1, PLACE_VALUES)


def _drawn(middle_K: F32, other_M: F32, at_R: F32, low_R: F32, high_R: F32) -> npt.NDArray[np.float32]:
    """(K + 1, M) whether a rule runs over each of the other axis' middles, between the neighbours of each border."""
    edges = np.concatenate([[-np.inf], middle_K, [np.inf]])
    out = np.zeros((len(middle_K) + 1, len(other_M)), np.float32)
    for at, low, high in zip(at_R, low_R, high_R, strict=True):
        k = int(np.searchsorted(edges, at)) - 1
        out[min(max(k, 0), len(middle_K))] = np.maximum(
            out[min(max(k, 0), len(middle_K))], (low - 0.3 <= other_M) & (other_M <= high + 0.3)
        )
    return out


def tag_names(ids: list[int]) -> list[str]:
    return [TABLE_TOKENS[i] for i in ids]

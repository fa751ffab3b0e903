"""A table as the table reader's network sees it: one token for each piece of a text line and each ruling line.

Lengths are in heights of a text line; a lean that the rules or the rows of text show is taken out first. Says of each
token where it stands, and of each pair how one stands to the other: distances, overlaps, rules, white space and lines
between them, and which rows and columns the rule-based grid puts them in: the network corrects the grid and need not
find again what the gaps and rules plainly say. No letters and no picture.

Legend: N tokens, the text lines' pieces first, then the rules; L of them lines; F place values, P pair values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.table.segments import text_height
from derender.table.types import Rule, TableGrid, TableLine

PLACE = 44
PAIR = 31
GRID_SIGNS = slice(24, 28)  # of the pair values: order and strict order that the rule-based grid gives rows and columns
MAX_TOKENS = 500  # more than that is left to the rules: pairs grow with the square
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableTokens:
    """lines: how many of the tokens are text lines. box_N4: x0, y0, x1, y1 in text heights, level; place_NF, pair_NNP:
    what the network is given; pair[i, j] says where j stands to i."""

    lines: int
    box_N4: F32
    place_NF: F32
    pair_NNP: F32


def table_tokens(grid: TableGrid, rules: Sequence[Rule], size: tuple[float, float]) -> TableTokens:
    """grid: of grid_from_lines, with at least one piece; size: width and height of the crop, pixels. Line n of
    the tokens is piece n of the grid."""
    boxes = [piece.box for piece in grid.pieces]
    unit = text_height([TableLine(b) for b in boxes])
    line = np.asarray(boxes, np.float64).reshape(-1, 4) / unit
    ends = np.asarray([(r.x0, r.y0, r.x1, r.y1) for r in rules], np.float64).reshape(-1, 4) / unit
    level_R = np.asarray([r.horizontal for r in rules], bool)
    lean = _lean(line, ends, level_R)
    box = np.concatenate([_turned(line, lean), _turned(ends, lean)])
    kind_N = np.concatenate([np.zeros(len(line), np.int64), np.where(level_R, 1, 2)])
    rank_N = _text_rows(box, len(line))
    place = _place(box, kind_N, rank_N, (size[0] / unit, size[1] / unit))
    pair = _pair(box, kind_N, rank_N)
    own_NF, own_NNP = _gridded(grid, len(box))
    return TableTokens(
        len(line), box.astype(np.float32), np.concatenate([place, own_NF], 1), np.concatenate([pair, own_NNP], 2)
    )


def pair_signs(rect_N4: npt.NDArray[Any]) -> tuple[F32, F32]:
    """(..., N, N, 2) twice, for rows and columns: whether the rectangle of i begins before (1), with (0) or after (-1)
    that of j, and whether it ends before j begins (1), overlaps it (0) or begins after its end (-1). rect_N4
    (..., N, 4): first and last row, first and last column."""
    first, last = rect_N4[..., 0::2], rect_N4[..., 1::2]
    first_i, first_j = first[..., :, None, :], first[..., None, :, :]
    last_i, last_j = last[..., :, None, :], last[..., None, :, :]
    order = np.sign(first_j - first_i).astype(np.float32)
    return order, (last_i < first_j).astype(np.float32) - (first_i > last_j)


def _gridded(grid: TableGrid, tokens: int) -> tuple[F32, F32]:
    """(N, F), (N, N, P): the place that the rule-based grid gives to each line, and to each pair; rules have none."""
    lines = len(grid.pieces)
    rect_L4 = np.zeros((lines, 4))  # first and last row, first and last column
    cell_L = np.zeros(lines, np.int64)
    value_NF = np.zeros((tokens, 8), np.float32)
    for k, cell in enumerate(grid.cells):
        for n in cell.pieces:
            rect_L4[n] = (cell.row, cell.row + cell.rowspan - 1, cell.col, cell.col + cell.colspan - 1)
            cell_L[n] = k
            value_NF[n] = (
                cell.header, min(cell.rowspan - 1, 4) / 2, min(cell.colspan - 1, 6) / 2,
                min(len(cell.pieces) - 1, 4) / 2, (cell.row + 0.5) / grid.rows, (cell.col + 0.5) / grid.cols,
                np.log(grid.rows) / 2, np.log(grid.cols) / 2,
            )  # fmt: skip
    order, strict = pair_signs(rect_L4)
    same_cell = (cell_L[:, None] == cell_L[None])[..., None]
    pair_NNP = np.zeros((tokens, tokens, 7), np.float32)
    pair_NNP[:lines, :lines] = np.concatenate([order, strict, order == 0, same_cell], -1)
    return value_NF, pair_NNP


def _lean(line_L4: F64, ends_R4: F64, level_R: npt.NDArray[np.bool_]) -> float:
    """Tangent of the table's lean: of its longest rule, else the one that brings most lines into rows."""
    dx, dy = ends_R4[:, 2] - ends_R4[:, 0], ends_R4[:, 3] - ends_R4[:, 1]
    long = np.where(level_R, np.abs(dx), np.abs(dy))
    if len(long) and long.max() > 6:
        k = int(long.argmax())
        return float(dy[k] / dx[k]) if level_R[k] else float(-dx[k] / dy[k])
    cx, cy = (line_L4[:, 0] + line_L4[:, 2]) / 2, (line_L4[:, 1] + line_L4[:, 3]) / 2
    if len(cx) < 6:
        return 0.0
    some = np.linspace(0, len(cx) - 1, min(len(cx), 90)).astype(int)
    cx, cy = cx[some], cy[some]
    angles = np.tan(np.radians(np.linspace(-1.5, 1.5, 31)))
    far = (cy[None] - angles[:, None] * cx[None])[:, :, None]
    near_A = np.exp(-(((far - far.transpose(0, 2, 1)) / 0.15) ** 2)).sum((1, 2))
    best = int(near_A.argmax())
    return float(angles[best]) if near_A[best] > 1.05 * near_A[15] else 0.0


def _turned(box_N4: F64, tangent: float) -> F64:
    """Middles turned back by a small lean; hulls grew with it by a share of the width, which is taken off."""
    if not tangent:
        return box_N4
    x0, y0, x1, y1 = box_N4.T
    cx, cy, w, h = (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
    cx, cy = cx + tangent * cy, cy - tangent * cx
    h = np.maximum(h - abs(tangent) * w, np.minimum(h, 0.5))
    return np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)


def _text_rows(box_N4: F64, lines: int) -> F64:
    """The text row of each line, from the top; rules count half a row after the lines above them."""
    middle = (box_N4[:, 1] + box_N4[:, 3]) / 2
    rank = np.zeros(len(box_N4))
    row, top = -1, -np.inf
    for k in np.argsort(middle[:lines], kind="stable").tolist():
        if middle[k] - top > 0.5:
            row, top = row + 1, middle[k]
        rank[k] = row
    for k in range(lines, len(box_N4)):
        above = middle[:lines] < middle[k]
        rank[k] = rank[:lines][above].max() + 0.5 if above.any() else -0.5
    return rank


def _place(box_N4: F64, kind_N: npt.NDArray[np.int64], rank_N: F64, size: tuple[float, float]) -> F32:
    x0, y0, x1, y1 = box_N4.T
    w, h = np.maximum(x1 - x0, 0.05), np.maximum(y1 - y0, 0.05)
    rows = max(1.0, float(rank_N.max()) + 1)
    line = kind_N == 0
    left, right = x0[line].min(), max(x1[line].max(), x0[line].min() + 0.1)
    fx, fy = ((x0 + x1) / 2 - left) / (right - left), (rank_N + 0.5) / rows
    waves = np.stack([fx, fy], 1)[:, :, None] * (np.pi * 2.0 ** np.arange(4))
    one = np.ones(len(w))
    parts = [
        np.log(w), np.log(h), (x0 - left) / (right - left), (x1 - left) / (right - left), fy,
        line, kind_N == 1, kind_N == 2,
        np.tanh((x0 - left) / 3), np.tanh((right - x1) / 3), np.tanh(rank_N / 2), np.tanh((rows - 1 - rank_N) / 2),
        np.log(rows) / 2 * one, np.log(line.sum()) / 3 * one, np.log(max(size[0], 1.0)) / 4 * one,
        np.log(max(size[1], 1.0)) / 4 * one, (kind_N == 1).sum() / 10 * one, (kind_N == 2).sum() / 10 * one,
        line.sum() / rows / 5 * one, np.minimum(rank_N, 10) / 10,
    ]  # fmt: skip
    out = np.concatenate([np.stack(parts, 1), np.sin(waves).reshape(len(w), -1), np.cos(waves).reshape(len(w), -1)], 1)
    return np.clip(out, -6, 6).astype(np.float32)


def _pair(box_N4: F64, kind_N: npt.NDArray[np.int64], rank_N: F64) -> F32:
    x0, y0, x1, y1 = box_N4.T
    w, h = np.maximum(x1 - x0, 0.1), np.maximum(y1 - y0, 0.1)
    cx, cy = (x0 + x1) / 2, (y0 + y1) / 2

    def minus(a: F64, b: F64) -> F64:
        return np.asarray(a[None, :] - b[:, None])

    over_x = np.minimum(x1[None], x1[:, None]) - np.maximum(x0[None], x0[:, None])
    over_y = np.minimum(y1[None], y1[:, None]) - np.maximum(y0[None], y0[:, None])
    dx, dy, gap = minus(cx, cx), minus(cy, cy), minus(x0, x1)
    share_x = np.clip(over_x / np.minimum(w[None], w[:, None]), -1, 1)
    share_y = np.clip(over_y / np.minimum(h[None], h[:, None]), -1, 1)
    line = kind_N == 0
    level, upright = box_N4[kind_N == 1], box_N4[kind_N == 2]
    across = _between(cy, (level[:, 1] + level[:, 3]) / 2, cx, level[:, 0], level[:, 2])
    along = _between(cx, (upright[:, 0] + upright[:, 2]) / 2, cy, upright[:, 1], upright[:, 3])
    clear_x = _least_cover(x0, x1, line, np.ones(len(w)))
    clear_y = _least_cover(y0, y1, line, w)
    step = minus(rank_N, rank_N)
    values = [
        np.tanh(2 * minus(x0, x0)), np.tanh(2 * minus(x1, x1)), np.tanh(2 * dx), np.tanh(dx / 6),
        np.tanh(gap), np.tanh(gap.T), share_x,
        np.tanh(2 * dy), np.tanh(dy / 4), np.tanh(2 * minus(y0, y0)), np.tanh(2 * minus(y1, y1)), share_y,
        np.tanh(np.log(h[None] / h[:, None])), np.tanh(np.log(w[None] / w[:, None])),
        across, across.T, along, along.T, clear_x, clear_y,
        step == 0, np.tanh(step / 2),
        np.tanh(_lines_between(cy, share_x > 0.1, line) / 2), np.tanh(_lines_between(cx, share_y > 0.4, line) / 2),
    ]  # fmt: skip
    return np.stack(values, -1).astype(np.float32)


def _between(at_N: F64, rule_R: F64, other_N: F64, low_R: F64, high_R: F64) -> F64:
    """(N, N) how many rules lie between i and j and reach over i, at most two, halved. at: along the axis that the
    rules part; other: along the rules."""
    if not len(rule_R):
        return np.zeros((len(at_N), len(at_N)))
    order = np.argsort(rule_R)
    over = ((low_R - 0.3 <= other_N[:, None]) & (other_N[:, None] <= high_R + 0.3))[:, order]
    count = np.concatenate([np.zeros((len(at_N), 1)), np.cumsum(over, 1)], 1)
    place_N = np.searchsorted(rule_R[order], at_N)
    here = count[np.arange(len(at_N)), place_N][:, None]
    return np.minimum(np.abs(count[:, place_N] - here), 2) / 2


def _least_cover(low_N: F64, high_N: F64, line_N: npt.NDArray[np.bool_], weight_N: F64) -> F64:
    """(N, N) the least share of the lines' weight that lies over any place between i and j; 1 where they overlap."""
    start = low_N.min()
    bins = 192
    scale = bins / max(high_N.max() - start, 1e-3)
    a = np.clip(((low_N - start) * scale).astype(np.int64), 0, bins - 1)
    b = np.clip(np.ceil((high_N - start) * scale).astype(np.int64), 1, bins)
    cover = np.zeros(bins + 1)
    np.add.at(cover, a[line_N], weight_N[line_N])
    np.add.at(cover, b[line_N], -weight_N[line_N])
    cover_W = np.cumsum(cover)[:bins]
    cover_W = cover_W / max(cover_W.max(), 1e-6)
    least = np.full((bins + 1, bins + 1), 1.0)  # [from, to): running minimum
    for i in range(bins):
        least[i, i + 1 :] = np.minimum.accumulate(cover_W[i:])
    first, second = b[:, None], a[None, :]
    right = np.where(second > first, least[np.minimum(first, bins), second], 1.0)
    return np.minimum(right, right.T)


def _lines_between(at_N: F64, near_NN: npt.NDArray[np.bool_], line_N: npt.NDArray[np.bool_]) -> F64:
    """(N, N) how many lines that are `near` i lie between i and j."""
    order = np.argsort(at_N, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    count = np.cumsum((near_NN & line_N[None])[:, order], 1)
    at_i = count[np.arange(len(order)), rank][:, None]
    at_j = count[:, rank]
    return np.maximum(np.abs(at_j - at_i) - 0.5 * (near_NN & line_N[None]), 0.0)

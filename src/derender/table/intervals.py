"""From how lines stand to one another to rows, columns and cells: the reading of the table encoder.

Lines whose cells begin together are gathered into rows (and columns), rows are put in order, and each line then gets
the first and last row that agree best with all its relations. Lines whose rectangles overlap share a cell; a line
that holds several cells is given to each of them. Places that nothing covers are empty cells. Every line ends up in a
cell. Knows no network and no letters.

Legend: L lines; K rows or columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
SURE = 5.0  # one relation counts for no more than this, in nats, so that one mistake does not outweigh all others
ROUNDS = 4


@dataclass(frozen=True)
class Span:
    """One cell: first and last row and column, and its lines."""

    top: int
    bottom: int
    left: int
    right: int
    lines: tuple[int, ...] = ()

    def overlaps(self, o: Span) -> bool:
        rows = self.top <= o.bottom and o.top <= self.bottom
        return rows and self.left <= o.right and o.left <= self.right

    def joined(self, o: Span) -> Span:
        return Span(
            min(self.top, o.top),
            max(self.bottom, o.bottom),
            min(self.left, o.left),
            max(self.right, o.right),
            (*self.lines, *o.lines),
        )


@dataclass(frozen=True)
class LineRects:
    """first_L2, last_L2: rows and columns of each line's cell; sure_L: how sure, 0-1; rows, cols: of the table."""

    first_L2: I64
    last_L2: I64
    sure_L: F64
    rows: int
    cols: int


def line_rects(relation_LL8: npt.NDArray[np.float32], real_L: npt.NDArray[np.bool_], box_L4: F64) -> LineRects:
    """relation_LL8: the encoder's logits; real_L: lines that are of some cell, which alone make rows and columns; box:
    for ties."""
    n = len(real_L)
    real_L = real_L if real_L.any() else np.ones(n, bool)
    firsts, lasts, sures, counts = [], [], [], []
    for axis in range(2):
        order = _three_way(relation_LL8[..., 4 * axis : 4 * axis + 2])
        strict = _three_way(relation_LL8[..., 4 * axis + 2 : 4 * axis + 4])
        first, last, sure, count = _intervals(order, strict, real_L, box_L4[:, 1 - axis])
        firsts.append(first)
        lasts.append(last)
        sures.append(sure)
        counts.append(count)
    return LineRects(np.stack(firsts, 1), np.stack(lasts, 1), sures[0] * sures[1], counts[0], counts[1])


def _three_way(relation_LL2: npt.NDArray[np.float32]) -> F64:
    """(L, L, 3) log probabilities: i first, together, j first; never below -SURE."""
    one, both = relation_LL2[..., 0].astype(np.float64), relation_LL2[..., 1].astype(np.float64)
    x = np.stack([one, both, one.T], -1)
    x = x - x.max(-1, keepdims=True)
    return np.asarray(np.maximum(x - np.log(np.exp(x).sum(-1, keepdims=True)), -SURE))


def _intervals(order_LL3: F64, strict_LL3: F64, real_L: npt.NDArray[np.bool_], at_L: F64) -> tuple[I64, I64, F64, int]:
    """First and last row of each line, how sure (0-1) each is, and how many rows."""
    real = np.flatnonzero(real_L)
    names = _gathered(order_LL3[np.ix_(real, real)])
    count = int(names.max()) + 1
    member_KL = np.zeros((count, len(real_L)))
    member_KL[names, real] = 1
    member_KL /= member_KL.sum(1, keepdims=True)
    # how often a row is put before another, on average over their lines
    before_KK = member_KL @ (np.exp(order_LL3[..., 0]) - np.exp(order_LL3[..., 2])) @ member_KL.T
    wins = before_KK.sum(1) - 1e-6 * (member_KL @ at_L)
    place = np.empty(count, np.int64)
    place[np.argsort(-wins, kind="stable")] = np.arange(count)
    first = np.zeros(len(real_L), np.int64)
    first[real] = place[names]
    last = first.copy()
    weight_L = real_L.astype(np.float64)
    for round_ in range(ROUNDS):
        start_LK, end_LK = _scores(order_LL3, strict_LL3, first, last, weight_L, count)
        best = start_LK[:, :, None] + end_LK[:, None, :]
        best = np.where(np.tri(count, dtype=bool).T[None], best, -np.inf).reshape(len(first), -1)
        choice = best.argmax(1)
        new_first, new_last = choice // count, choice % count
        if round_ and (new_first == first).all() and (new_last == last).all():
            break
        first, last = new_first, new_last
    top = best.max(1, keepdims=True)
    sure = 1 / np.exp(np.maximum(best - top, -60)).sum(1)
    kept = np.unique(first[real])
    squeezed = np.searchsorted(kept, np.arange(count + 1), side="right") - 1
    return np.maximum(squeezed[first], 0), np.maximum(squeezed[last], 0), sure, len(kept)


def _gathered(order_KK3: F64) -> I64:
    """Number of the row that each line begins in: pairs of groups are joined, best first, while their lines' log odds
    of beginning together are positive on average."""
    odds = order_KK3[..., 1] - np.maximum(order_KK3[..., 0], order_KK3[..., 2])
    n = len(odds)
    total = (odds + odds.T) / 2
    size = np.ones(n)
    names = np.arange(n)
    mean = total.copy()
    np.fill_diagonal(mean, -np.inf)
    while n > 1:
        i, j = divmod(int(mean.argmax()), n)
        if mean[i, j] <= 0:
            break
        total[i] += total[j]
        total[:, i] += total[:, j]
        size[i] += size[j]
        size[j] = 0
        names[names == j] = i
        alive = size > 0
        mean[i, alive] = mean[alive, i] = total[i, alive] / (size[i] * size[alive])
        mean[j] = mean[:, j] = -np.inf
        mean[i, i] = -np.inf
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _scores(order_LL3: F64, strict_LL3: F64, first_L: I64, last_L: I64, weight_L: F64, count: int) -> tuple[F64, F64]:
    """(L, K) log likelihood of each line's relations if it began, and if it ended, in each row, the others as they are.
    They add up: whether a line lies above the others is up to its end, whether below them to its beginning."""
    begin_LK = np.zeros((len(first_L), count))
    begin_LK[np.arange(len(first_L)), first_L] = weight_L
    end_LK = np.zeros_like(begin_LK)
    end_LK[np.arange(len(last_L)), last_L] = weight_L
    before, same, after = (order_LL3[..., k] @ begin_LK for k in range(3))
    up, down = np.cumsum(after, 1) - after, before.sum(1, keepdims=True) - np.cumsum(before, 1)
    above = (strict_LL3[..., 0] - strict_LL3[..., 1]) @ begin_LK
    below = (strict_LL3[..., 2] - strict_LL3[..., 1]) @ end_LK
    start = up + same + down + np.cumsum(below, 1) - below
    end = above.sum(1, keepdims=True) - np.cumsum(above, 1)
    return start, end


def cells_of(
    rects: LineRects, several_L: npt.NDArray[np.bool_], real_L: npt.NDArray[np.bool_], box_L4: F64
) -> list[Span]:
    """The cells that tile the table, row by row. several_L: lines that hold more than one cell; a line that is not real
    goes to the nearest filled cell."""
    cells: list[Span] = []
    spare = ~real_L if real_L.any() else np.zeros(len(real_L), bool)
    for n in np.flatnonzero(~several_L & ~spare).tolist():
        (top, left), (bottom, right) = rects.first_L2[n].tolist(), rects.last_L2[n].tolist()
        cells = _with(cells, Span(top, bottom, left, right, (n,)))
    owner = _owners(cells, rects.rows, rects.cols)
    more: dict[int, list[int]] = {}
    for n in np.flatnonzero(several_L & ~spare).tolist():
        (top, left), (bottom, right) = rects.first_L2[n].tolist(), rects.last_L2[n].tolist()
        found = set()
        for r in range(top, bottom + 1):
            for c in range(left, right + 1):
                if owner[r, c] < 0:
                    owner[r, c] = len(cells)
                    cells.append(Span(r, r, c, c))
                found.add(int(owner[r, c]))
        for k in found:
            more.setdefault(k, []).append(n)
    for k, lines in more.items():
        cells[k] = Span(cells[k].top, cells[k].bottom, cells[k].left, cells[k].right, (*cells[k].lines, *lines))
    for n in np.flatnonzero(spare).tolist():
        k = nearest_cell(n, cells, box_L4)
        cells[k] = Span(cells[k].top, cells[k].bottom, cells[k].left, cells[k].right, (*cells[k].lines, n))
    cells += [Span(r, r, c, c) for r in range(rects.rows) for c in range(rects.cols) if owner[r, c] < 0]
    return sorted(
        (Span(s.top, s.bottom, s.left, s.right, reading_order(s.lines, box_L4)) for s in cells),
        key=lambda s: (s.top, s.left),
    )


def _with(cells: list[Span], cell: Span) -> list[Span]:
    """The cells and one more; what it overlaps is joined with it."""
    while True:
        hit = [c for c in cells if c.overlaps(cell)]
        if not hit:
            return [*cells, cell]
        for c in hit:
            cell = c.joined(cell)
        cells = [c for c in cells if c not in hit]


def _owners(cells: list[Span], rows: int, cols: int) -> I64:
    owner = np.full((rows, cols), -1, np.int64)
    for k, s in enumerate(cells):
        owner[s.top : s.bottom + 1, s.left : s.right + 1] = k
    return owner


def nearest_cell(line: int, cells: list[Span], box_L4: F64) -> int:
    """The filled cell whose text is nearest to a line."""
    best, least = 0, np.inf
    x0, y0, x1, y1 = box_L4[line]
    for k, cell in enumerate(cells):
        for other in cell.lines:
            a0, b0, a1, b1 = box_L4[other]
            far = max(a0 - x1, x0 - a1, 0.0) + 2 * max(b0 - y1, y0 - b1, 0.0)
            if far < least:
                best, least = k, far
    return best


def reading_order(lines: tuple[int, ...], box_L4: F64) -> tuple[int, ...]:
    """A cell's lines, row by row, left to right."""
    rows: list[list[int]] = []
    middle = (box_L4[:, 1] + box_L4[:, 3]) / 2
    for n in sorted(set(lines), key=lambda n: float(middle[n])):
        if rows and middle[n] - middle[rows[-1][0]] < 0.5:
            rows[-1].append(n)
        else:
            rows.append([n])
    return tuple(n for row in rows for n in sorted(row, key=lambda n: float(box_L4[n, 0])))

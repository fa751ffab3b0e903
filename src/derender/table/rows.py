"""Rows of a table: which rows of text are lines of the same cells, and where the heading ends.

Rules part rows; without them, a row of text continues the one above when it fills only columns that the other fills
too and either its first column is empty or its words would not have fitted above. Does not find rules or columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derender.document import Box
from derender.layout.types import overlap
from derender.table.segments import Segment
from derender.table.types import Rule

Placed = tuple[Segment, int, int]
"""A segment and the first and last column that it covers."""


@dataclass(frozen=True)
class RowPlan:
    """groups: rows of text (by number) of each table row. ruled: for each border between table rows the columns that a
    rule crosses there. header: how many table rows are heading.
    """

    groups: tuple[tuple[int, ...], ...]
    ruled: tuple[frozenset[int], ...]
    header: int


def plan_rows(
    rows: Sequence[Sequence[Placed]], rules: Sequence[Rule], columns: Sequence[tuple[float, float]], height: float
) -> RowPlan:
    """Groups rows of text into table rows. columns: where each column's text lies (x from, to)."""
    ys = [_place(row, rules, columns) for row in rows]
    ruled = [_crossed(a, b, rules, columns) for a, b in zip(ys, ys[1:], strict=False)]
    n = len(columns)
    full = [i for i, cols in enumerate(ruled) if 0 in cols and len(cols) >= 0.8 * n]
    head = full[0] if full and full[0] + 1 <= max(1, 0.6 * len(rows)) else -1
    upright = any(not r.horizontal for r in rules)
    lattice = len(full) >= 2 and upright
    filled = [frozenset(c for _, a, b in row for c in range(a, b + 1)) for row in rows]
    lattice = lattice or _one_row_a_band(filled, full, n)
    pitch = _pitch(rows, filled, n)
    joins: list[bool] = []
    for i in range(len(rows) - 1):
        if i <= head:
            span = _is_span_above(rows[i], rows[i + 1])
            span = span or (not upright and _stands_over(rows[i], rows[i + 1], filled, i, columns, height))
            joins.append(i < head and not ruled[i] and not span)
        elif ruled[i]:
            joins.append(False)
        elif ys[i + 1] < _middle(rows[i + 1]) and not filled[i] & filled[i + 1]:
            joins.append(True)  # a row heading beside the rule below this row
        else:
            band = _band(i, ruled) if lattice else None
            first = i
            while first > 0 and joins[first - 1]:
                first -= 1
            above = frozenset().union(*filled[first : i + 1])
            joins.append(_continues(i, rows, above, filled, columns, height, pitch, band))
    groups: list[list[int]] = [[0]] if rows else []
    borders: list[frozenset[int]] = []
    for i, join in enumerate(joins):
        if join:
            groups[-1].append(i + 1)
        else:
            groups.append([i + 1])
            borders.append(ruled[i])
    header = sum(group[-1] <= head for group in groups) if head >= 0 else 0
    return RowPlan(tuple(tuple(g) for g in groups), tuple(borders), header)


def _one_row_a_band(filled: Sequence[frozenset[int]], full: Sequence[int], n: int) -> bool:
    """Whether rules over the full width part nearly all rows from each other: at least four bands, few of which hold
    more than one row of text that fills most columns.
    """
    edges = [-1, *full, len(filled) - 1]
    bands = [filled[a + 1 : b + 1] for a, b in zip(edges, edges[1:], strict=False) if b > a]
    single = sum(sum(len(f) > 0.6 * n for f in band) <= 1 for band in bands)
    return len(bands) >= 4 and single >= 0.8 * len(bands)


def _place(row: Sequence[Placed], rules: Sequence[Rule], columns: Sequence[tuple[float, float]]) -> float:
    """Height at which a row of text stands. One that a rule of other columns runs beside (a row heading in the middle
    of the rows that it spans) counts as above that rule.
    """
    middle = _middle(row)
    top, bottom = min(p[0].box[1] for p in row), max(p[0].box[3] for p in row)
    own = {c for _, a, b in row for c in range(a, b + 1)}
    rim = 0.2 * (bottom - top)
    for rule in rules:
        if rule.horizontal and top + rim < rule.at < bottom - rim and not own & _columns_of(rule, columns):
            return min(middle, rule.at - 1e-3)
    return middle


def _columns_of(rule: Rule, columns: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Columns that a horizontal rule runs across."""
    return frozenset(c for c, (x0, x1) in enumerate(columns) if overlap(x0, x1, *rule.span) > 0.6 * (x1 - x0))


def _crossed(
    top: float, bottom: float, rules: Sequence[Rule], columns: Sequence[tuple[float, float]]
) -> frozenset[int]:
    """Columns that horizontal rules between two heights run across."""
    found: set[int] = set()
    for rule in rules:
        if rule.horizontal and top < rule.at < bottom:
            found |= _columns_of(rule, columns)
    return frozenset(found)


def _is_span_above(upper: Sequence[Placed], lower: Sequence[Placed]) -> bool:
    """Whether a segment of the upper row covers several columns that have text of their own below it."""
    return any(b > a and sum(a <= c and d <= b for _, c, d in lower) >= 2 for _, a, b in upper)


def _stands_over(
    upper: Sequence[Placed],
    lower: Sequence[Placed],
    filled: Sequence[frozenset[int]],
    i: int,
    columns: Sequence[tuple[float, float]],
    height: float,
) -> bool:
    """Whether a heading of the upper row is centred on its column and an empty neighbour, both filled below, clearly
    better than on its column alone.
    """
    for segment, a, b in upper:
        centre = segment.centre[0]
        below = [s.centre[0] for s, c, d in lower if (c, d) == (a, b)]
        if a != b or not below or a == 0:
            continue
        alone = abs(below[0] - centre)
        for first, last in ((a - 1, a), (a, a + 1)):
            other = first if first != a else last
            if first < 1 or last >= len(columns) or other in filled[i] or other not in filled[i + 1]:
                continue
            pair = abs((columns[first][0] + columns[last][1]) / 2 - centre)
            if alone > 0.8 * height and pair < 0.6 * alone:
                return True
    return False


def _pitch(rows: Sequence[Sequence[Placed]], filled: Sequence[frozenset[int]], n: int) -> float:
    """Typical distance between rows of text that both fill most columns; 0 when there are none such."""
    steps = [
        _middle(rows[i + 1]) - _middle(rows[i])
        for i in range(len(rows) - 1)
        if min(len(filled[i]), len(filled[i + 1])) > 0.6 * n
    ]
    return float(np.median(steps)) if steps else 0.0


def _middle(row: Sequence[Placed]) -> float:
    return float(np.median([p[0].centre[1] for p in row]))


def _band(i: int, ruled: Sequence[frozenset[int]]) -> tuple[int, int]:
    """First and last row of text between the rules around border i."""
    first = i
    while first > 0 and not ruled[first - 1]:
        first -= 1
    last = i + 1
    while last < len(ruled) and not ruled[last]:
        last += 1
    return first, last


def _continues(
    i: int,
    rows: Sequence[Sequence[Placed]],
    upper: frozenset[int],
    filled: Sequence[frozenset[int]],
    columns: Sequence[tuple[float, float]],
    height: float,
    pitch: float,
    band: tuple[int, int] | None,
) -> bool:
    """Whether row of text i + 1 belongs to the same table row as row i. upper: columns that this table row
    fills so far; band: rows of text between two rules of a ruled table, which are one table row unless several of them
    are filled throughout.
    """
    lower = filled[i + 1]
    n = len(columns)
    step = _middle(rows[i + 1]) - _middle(rows[i])
    if step < 0.6 * height and not upper & lower:
        return True
    if band is not None:
        whole = sum(len(f) == n for f in filled[band[0] : band[1] + 1])
        if whole <= 1:
            return True
    if n < 2:
        return False
    close = step < 2.3 * height and (pitch == 0 or step <= 1.15 * pitch)
    if not close:
        return False
    if lower < upper and 0 not in lower and 0 in upper:
        return True
    tight = pitch > 0 and step < 0.8 * pitch
    subset = lower <= upper and len(lower) < n
    if subset and 0 in lower:
        return (
            _full(rows[i], rows[i + 1], columns, height)
            and (len(lower) <= max(1, n // 2))
            or (tight and len(lower) < n)
        )
    if upper == {0} and 0 in lower:
        label = [p[0] for p in rows[i] if p[1] == 0]
        if sum(len(s.words) for s in label) < 2 or label[-1].box[2] - label[0].box[0] < 6 * height:
            return False  # a heading between rows
        if pitch > 0 and step > 0.9 * pitch:
            return False
        return _full(rows[i], rows[i + 1], columns, height)
    return False


def _full(
    upper: Sequence[Placed], lower: Sequence[Placed], columns: Sequence[tuple[float, float]], height: float
) -> bool:
    """Whether, in the first column, the lower row's first word would not have fitted after the upper row's text."""
    above = [p[0].box for p in upper if p[1] == 0]
    below = [p[0] for p in lower if p[1] == 0]
    if not above or not below:
        return False
    if below[0].box[0] < min(b[0] for b in above) - 0.3 * height:
        return False
    # A line that wraps is one of the long ones of its column, and what follows it is hardly longer.
    width, left = max(b[2] for b in above) - min(b[0] for b in above), columns[0][0]
    if max(b[2] for b in above) - left < 0.75 * (columns[0][1] - left):
        return False
    if max(s.box[2] for s in below) - below[0].box[0] > 1.25 * width:
        return False
    word: Box = below[0].words[0]
    end = max(b[2] for b in above)
    return end + 0.3 * height + (word[2] - word[0]) > columns[0][1] + 0.2 * height

"""Places segments in columns: cuts those that bridge two columns, and says which columns each of the rest covers.

Does not make rows or cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derender.layout.types import overlap
from derender.table.columns import Separator
from derender.table.rows import Placed
from derender.table.segments import Segment
from derender.table.types import Rule


def place(
    rows: Sequence[Sequence[Segment]], separators: Sequence[Separator], rules: Sequence[Rule], height: float
) -> list[list[Placed]]:
    """Rows of text with every segment's first and last column."""
    verticals = [r for r in rules if not r.horizontal]
    placed = []
    for row in rows:
        pieces = [p for s in row for p in _cut(s, separators, verticals, height)]
        placed.append([(p, *_columns(p, separators, height)) for p in pieces])
    return placed


def _cut(segment: Segment, separators: Sequence[Separator], verticals: Sequence[Rule], height: float) -> list[Segment]:
    """The segment cut where a rule runs through it, or at word gaps that fall on the separators it crosses."""
    if len(segment.words) < 2:
        return [segment]
    x0, y0, x1, y1 = segment.box
    crossed = [s for s in separators if x0 + 0.2 * height < s.x < x1 - 0.2 * height]
    gaps = [(a[2], b[0]) for a, b in zip(segment.words, segment.words[1:], strict=False)]
    widths = [b - a for a, b in gaps]
    cuts: set[int] = set()
    at_gap = []
    for s in crossed:
        i = int(np.argmin([max(a - s.x, s.x - b, 0.0) for a, b in gaps]))
        off = max(gaps[i][0] - max(s.high, s.x), min(s.low, s.x) - gaps[i][1], 0.0)
        drawn = any(abs(r.at - s.x) < 0.5 * height and overlap(*r.span, y0, y1) > 0.5 * (y1 - y0) for r in verticals)
        if drawn and max(gaps[i][0] - s.x, s.x - gaps[i][1], 0.0) < 0.6 * height:
            cuts.add(i)
        elif not s.ruled and off < 0.1 * height and widths[i] > 0.2 * height:
            at_gap.append(i)
    plain = [s for s in crossed if not s.ruled]
    if at_gap and len(at_gap) == len(plain):
        others = [w for i, w in enumerate(widths) if i not in at_gap]
        usual = float(np.median(others)) if others else 0.0
        wide = len(at_gap) >= 2 or widths[at_gap[0]] >= max(0.6 * height, 1.3 * usual)
        if wide:
            cuts.update(at_gap)
    pieces = []
    start = 0
    for i in sorted(cuts):
        left, segment = segment.cut(i - start)
        pieces.append(left)
        start = i + 1
    return [*pieces, segment]


def _columns(segment: Segment, separators: Sequence[Separator], height: float) -> tuple[int, int]:
    """First and last column of a segment: those that it reaches into by more than a trifle."""
    x0, _, x1, _ = segment.box
    slack = min(0.6 * height, 0.3 * (x1 - x0))
    first = sum(_right_of(s, x0 + slack) for s in separators)
    last = sum(_right_of(s, x1 - slack) for s in separators)
    return first, max(first, last)


def _right_of(s: Separator, x: float) -> bool:
    return x > s.x

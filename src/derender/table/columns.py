"""Columns of a table: where rows of text agree on a gap, and where vertical rules stand.

A separator is a place that few rows' text crosses and that has text of its own columns on both sides in the same rows.
Headings over several columns cross separators; that is allowed as long as more rows keep clear. Does not place text in
columns (grid.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from derender.layout.types import overlap
from derender.table.segments import Segment
from derender.table.types import Rule

LEAST_GAP = 1.0  # of the text height: what lies between the texts of two columns in most rows
MERGE_DISTANCE = 0.6  # of the text height: vertical rules closer than this are one line


@dataclass(frozen=True)
class Separator:
    """Between two columns: x in pixels, the empty stretch (low, high) around it, and whether a rule stands there."""

    x: float
    low: float
    high: float
    ruled: bool = False


def find_separators(rows: Sequence[Sequence[Segment]], rules: Sequence[Rule], height: float) -> list[Separator]:
    """Separators between columns, left to right. rows: segments by row of text; height: typical text height."""
    boxes = [s.box for row in rows for s in row]
    if not boxes:
        return []
    left, right = min(b[0] for b in boxes), max(b[2] for b in boxes)
    found = _ruled(rows, rules, height, left, right)
    lattice = len(found) >= 2
    cover_RW = _cover(rows, left, right)
    against_W = cover_RW.sum(axis=0)
    for low, high, value in _valleys(against_W):
        a, b = left + low, left + high
        if b - a < max(1.0, 0.08 * height):
            continue
        bounds = [left - height, *(s.x for s in found), right + height]
        lower = max(x for x in bounds if x < (a + b) / 2)
        upper = min(x for x in bounds if x > (a + b) / 2)
        if any(s.ruled and a - 0.3 * height <= s.x <= b + 0.3 * height for s in found):
            continue
        support = _support(rows, lower, a, b, upper, height)
        enough = max(3.0, 0.4 * len(rows)) if lattice else 1.0
        if support >= enough and support > 0.8 * value and _gap(rows, a, b) >= LEAST_GAP * height:
            found.append(Separator((a + b) / 2, a, b))
            found.sort(key=lambda s: s.x)
    return _drop_unsupported(found, rows, left, right, height)


def _cover(rows: Sequence[Sequence[Segment]], left: float, right: float) -> Any:
    """(rows, pixels) how strongly each row's text covers each column of pixels: 1 by a word, less by a word gap."""
    cover_RW = np.zeros((len(rows), int(np.ceil(right - left)) + 1), np.float32)
    for r, row in enumerate(rows):
        for segment in row:
            x0, _, x1, _ = segment.box
            cover_RW[r, int(x0 - left) : int(np.ceil(x1 - left))] = 0.7
            for word in segment.words:
                cover_RW[r, int(word[0] - left) : int(np.ceil(word[2] - left))] = 1.0
    return cover_RW


def _valleys(against_W: Any) -> list[tuple[int, int, float]]:
    """Stretches (low, high, value) that are lower than what is on either side; the emptiest and widest first."""
    values = np.round(against_W, 2)
    edges = np.flatnonzero(np.diff(values)) + 1
    starts = np.concatenate([[0], edges])
    ends = np.concatenate([edges, [len(values)]])
    found = []
    for i in range(1, len(starts) - 1):
        here = values[starts[i]]
        if values[starts[i] - 1] > here and values[ends[i]] > here:
            found.append((int(starts[i]), int(ends[i]), float(here)))
    return sorted(found, key=lambda v: (v[2], v[0] - v[1]))


def _support(rows: Sequence[Sequence[Segment]], lower: float, a: float, b: float, upper: float, height: float) -> int:
    """Rows with text that lies wholly between lower and a, and text wholly between b and upper."""
    slack = 0.25 * height
    count = 0
    for row in rows:
        on_left = any(s.box[0] >= lower - slack and s.box[2] <= a + slack for s in row)
        on_right = any(s.box[0] >= b - slack and s.box[2] <= upper + slack for s in row)
        count += on_left and on_right
    return count


def _gap(rows: Sequence[Sequence[Segment]], a: float, b: float) -> float:
    """Median width, over the rows of text that keep clear of it, of the gap that a-b lies in."""
    middle, gaps = (a + b) / 2, []
    for row in rows:
        before = [s.box[2] for s in row if s.box[2] <= middle + 1]
        after = [s.box[0] for s in row if s.box[0] >= middle - 1]
        if before and after and not any(s.box[0] < middle - 1 and s.box[2] > middle + 1 for s in row):
            gaps.append(min(after) - max(before))
    return float(np.median(gaps)) if gaps else 0.0


def _own(rows: Sequence[Sequence[Segment]], lower: float, upper: float, height: float) -> int:
    """Rows with text that lies wholly between two separators."""
    slack = 0.25 * height
    return sum(any(s.box[0] >= lower - slack and s.box[2] <= upper + slack for s in row) for row in rows)


def _drop_unsupported(
    found: list[Separator], rows: Sequence[Sequence[Segment]], left: float, right: float, height: float
) -> list[Separator]:
    """Takes out gaps whose two columns never have text in the same row: a heading that stands beside its numbers, or
    bullets and the text that they belong to.
    """
    while True:
        bounds = [left - height, *(s.x for s in found), right + height]
        weak: list[tuple[float, int]] = []
        for i, s in enumerate(found):
            if s.ruled:
                continue
            support = _support(rows, bounds[i], s.low, s.high, bounds[i + 2], height)
            before, after = _own(rows, bounds[i], s.x, height), _own(rows, s.x, bounds[i + 2], height)
            if support == 0 or (min(before, after) < 2 and len(rows) >= 5) or _bullets(rows, bounds[i], s, height):
                weak.append((s.high - s.low, i))
        if not weak:
            return found
        del found[min(weak)[1]]


def _bullets(rows: Sequence[Sequence[Segment]], lower: float, s: Separator, height: float) -> bool:
    """Whether the column left of a separator holds nothing but small marks of one size, close to the text they
    begin.
    """
    own = [x.box for row in rows for x in row if x.box[0] >= lower and x.box[2] <= s.low + 1]
    if not own or s.high - s.low > 2.5 * height:
        return False
    wide, high = max(b[2] - b[0] for b in own), max(b[3] - b[1] for b in own)
    same = wide - min(b[2] - b[0] for b in own) < 0.2 * height
    return wide < 0.75 * height and high < 0.75 * height and same


def _ruled(
    rows: Sequence[Sequence[Segment]], rules: Sequence[Rule], height: float, left: float, right: float
) -> list[Separator]:
    """Vertical rules as separators: those beside at least two rows of text, or one of few, with text on both sides."""
    spans = [(min(s.box[1] for s in row), max(s.box[3] for s in row)) for row in rows]
    groups: list[list[Rule]] = []
    for rule in sorted((r for r in rules if not r.horizontal), key=lambda r: r.at):
        if groups and rule.at - groups[-1][-1].at < MERGE_DISTANCE * height:
            groups[-1].append(rule)
        else:
            groups.append([rule])
    found = []
    for group in groups:
        x = float(np.average([r.at for r in group], weights=[r.length for r in group]))
        beside = sum(any(overlap(*span, *r.span) > 0.6 * (span[1] - span[0]) for r in group) for span in spans)
        inside = left + 0.3 * height < x < right - 0.3 * height
        if inside and beside >= min(2, len(rows)):
            found.append(Separator(x, x, x, ruled=True))
    return found

"""Finds tables that the region detector missed or took for pictures: rows of pieces in columns between level rules.

A rule may be broken up over the columns and need not reach over the labels at the left. Prose between rules is no
table, nor is a drawing, nor anything that overlaps a detected picture. Tables without rules are not looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from derender.document import Box, RegionType
from derender.layout.assign import inside, prose
from derender.layout.detect_regions import PICTURES
from derender.layout.drafts import PageText, rows_of
from derender.layout.ink import Ink, ink_mask, without_lines
from derender.layout.types import DetectedRegion, TextLineBox, area, hull, intersection, overlap, quad_of

_SCORE = 0.5
_LEAST_ROWS = 3
_DRAWN = 0.01  # share of a table that is ink of neither text nor rules
_MOST_LEVELS = 60  # more rules than that are ruled paper or a drawing


def settle_tables(
    lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion], text: PageText, ink: Ink
) -> list[DetectedRegion]:
    """The regions, in which figures and formulas that are nothing but a table between rules have become tables, and
    after them the tables between rules that overlap no figure, table or formula. All in pixels of `ink`."""
    if text.height <= 0:
        return list(regions)
    levels = rule_levels(ink, text.height)
    settled = [_table_of(region, levels, lines, text, ink) or region for region in regions]
    return [*settled, *_missed(levels, lines, settled, text, ink)]


def _missed(
    levels: Sequence[Box], lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion], text: PageText, ink: Ink
) -> list[DetectedRegion]:
    taken = [r.box for r in regions if r.type in PICTURES]
    levels = [r for r in levels if not any(intersection(_thick(r), b) > 0 for b in taken)]
    found: list[DetectedRegion] = []
    if len(levels) > _MOST_LEVELS:
        return found
    start = 0
    while start < len(levels):
        for end in range(len(levels) - 1, start, -1):
            box = _table_between(levels[start : end + 1], lines, text, ink)
            if box is not None and not any(intersection(box, b) > 0 for b in taken):
                found.append(DetectedRegion(RegionType.TABLE, box, _SCORE))
                start = end
                break
        start += 1
    return found


def _table_of(
    region: DetectedRegion, levels: Sequence[Box], lines: Sequence[TextLineBox], text: PageText, ink: Ink
) -> DetectedRegion | None:
    """The table that a figure or formula is nothing but; captions and notes above and below it are left out."""
    if region.type not in (RegionType.FIGURE, RegionType.FORMULA):
        return None
    x0, y0, x1, y1 = region.box
    own = [r for r in levels if y0 - 3 < r[1] and r[3] < y1 + 3 and overlap(r[0], r[2], x0, x1) > 0.6 * (r[2] - r[0])]
    box = _table_between(own, lines, text, ink) if 2 <= len(own) <= _MOST_LEVELS else None
    if box is None or intersection(box, region.box) <= max(0.8 * area(box), 0.4 * area(region.box)):
        return None
    beside = any(
        inside(line, region.box) and not inside(line, box) and box[1] < line.centre[1] < box[3] for line in lines
    )
    if beside or _drawn(hull([box, region.box]), lines, text, ink) >= _DRAWN:
        return None
    return DetectedRegion(RegionType.TABLE, box, region.score)


def _drawn(box: Box, lines: Sequence[TextLineBox], text: PageText, ink: Ink) -> float:
    """Share of a box that is ink of neither lines nor rules."""
    import cv2

    mask = ink_mask(ink.crop(box)).astype(np.uint8)
    least, thick = max(3, round(2 * text.height)), max(5, round(0.4 * text.height))
    for kernel in ((1, least), (least, 1)):
        if mask.shape[0] >= kernel[0] and mask.shape[1] >= kernel[1]:
            rules = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones(kernel, np.uint8))
            filled = cv2.morphologyEx(rules, cv2.MORPH_OPEN, np.ones((thick, thick), np.uint8))
            mask &= 1 - cv2.dilate(rules - filled, np.ones((3, 3), np.uint8))
    left = without_lines(mask.astype(bool), box, lines)
    return float(left.mean()) if left.size else 0.0


def rule_levels(ink: Ink, height: float) -> list[Box]:
    """Horizontal rules from the top; those on one level are one box. height: of a text line, in pixels."""
    import cv2

    least = max(12, round(2 * height))
    if least > ink.grey.shape[1]:  # a file may give its words any size; the mask's kernel is as wide as `least`
        return []
    dark = np.abs(ink.grey.astype(np.int16) - int(np.median(ink.grey))) > 50
    mask = cv2.morphologyEx(dark.astype(np.uint8), cv2.MORPH_OPEN, np.ones((1, least), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    thin = [
        (float(x), float(y), float(x + w), float(y + h)) for x, y, w, h, _ in stats[1:] if h <= max(4, 0.3 * height)
    ]
    levels: list[Box] = []
    for rule in sorted(thin, key=lambda r: r[1]):
        for i, level in enumerate(levels):
            if abs(level[1] - rule[1]) < 0.35 * height:
                levels[i] = hull([level, rule])
                break
        else:
            levels.append(rule)
    return [level for level in levels if level[2] - level[0] > 6 * height]


@dataclass(frozen=True)
class _Row:
    pieces: list[TextLineBox]

    @property
    def middle(self) -> float:
        return median(piece.centre[1] for piece in self.pieces)


def _table_between(levels: Sequence[Box], lines: Sequence[TextLineBox], text: PageText, ink: Ink) -> Box | None:
    """The box of the table whose rules `levels` are, or None when there is none: its rules share width, and most rows
    between them have pieces in columns."""
    left, right = min(r[0] for r in levels), max(r[2] for r in levels)
    if any(overlap(r[0], r[2], left, right) < 0.6 * (right - left) for r in levels):
        return None
    top, bottom = levels[0][1], levels[-1][3]
    level = [line for line in lines if top < line.centre[1] < bottom]
    inside = [line for line in level if left - text.height < line.centre[0] < right + text.height]
    if any(line.vertical for line in inside):
        return None
    rows = _rows(inside, text, ink)
    labels = [line for line in level if line not in inside and _is_label(line, rows, left, lines)]
    if len(labels) >= 0.5 * len(rows):
        inside = inside + labels
        rows = _rows(inside, text, ink)
    if not _are_a_table(rows, text):
        return None
    inside += _heading(levels[0], lines)
    box = hull([line.box for line in inside] + list(levels))
    if any(intersection(box, line.box) > 0.3 * line.width * line.height for line in lines if line not in inside):
        return None
    return box


def _rows(lines: Sequence[TextLineBox], text: PageText, ink: Ink) -> list[_Row]:
    """Rows of pieces from left to right. Cut at wide gaps: a line of native words may run over several columns."""
    pieces = []
    for line in lines:
        x0, y0, x1, y1 = line.box
        start = x0
        for a, b in [*ink.blank_columns(line.box, 0.8 * text.height), (x1, x1)]:
            if a - start > 2:
                box = (start, y0, a, y1)
                pieces.append(line if a >= x1 and start <= x0 else TextLineBox(quad_of(box), box))
            start = b
    return [_Row(sorted(row, key=lambda piece: piece.box[0])) for row in rows_of(pieces)]


def _are_a_table(rows: Sequence[_Row], text: PageText) -> bool:
    """Whether most rows have pieces in columns, or go on below a piece of such a row, and few are but prose."""
    several = [row for row in rows if _in_columns(row.pieces, text.height)]
    if len(several) < max(_LEAST_ROWS, 0.3 * len(rows)) or not _recur(several, text.height):
        return False
    first = min(row.pieces[0].box[0] for row in several) + text.height
    pieces = [piece for row in rows for piece in row.pieces]
    is_prose = {id(piece): prose(piece, pieces) for piece in pieces}
    follow = prosy = 0
    above: _Row | None = None
    for row in rows:
        if row in several:
            above = row
        elif above and all(
            p.box[0] > first and any(abs(p.box[0] - q.box[0]) < 0.5 * text.height for q in above.pieces)
            for p in row.pieces
        ):
            follow += 1
            continue
        prosy += all(is_prose[id(piece)] for piece in row.pieces)
    if sum(is_prose.values()) > 0.4 * len(pieces):
        return False
    return len(several) + follow >= 0.6 * len(rows) and prosy <= 0.2 * len(rows)


def _is_label(line: TextLineBox, rows: Sequence[_Row], left: float, others: Sequence[TextLineBox]) -> bool:
    """Whether a line left of the rules stands level with a row and is not of a column of prose."""
    if line.box[2] > left + line.height or line.vertical or prose(line, others):
        return False
    return any(abs(row.middle - line.centre[1]) < 0.35 * line.height for row in rows)


def _in_columns(pieces: Sequence[TextLineBox], height: float) -> bool:
    return len(pieces) >= 2 and any(
        b.box[0] - a.box[2] > 0.8 * height for a, b in zip(pieces, pieces[1:], strict=False)
    )


def _recur(rows: Sequence[_Row], height: float) -> bool:
    """Whether most pieces' left edge, right edge or middle is that of a piece in another row, in at least two places
    of a row."""
    kept = []
    for row in rows:
        others = [piece for other in rows if other is not row for piece in other.pieces]
        kept.append(sum(any(_aligned(piece, other, height) for other in others) for piece in row.pieces))
    return sum(kept) > 0.7 * sum(len(row.pieces) for row in rows) and sum(k >= 2 for k in kept) >= 0.7 * len(rows)


def _aligned(a: TextLineBox, b: TextLineBox, height: float) -> bool:
    return any(
        abs(p - q) < 0.5 * height for p, q in ((a.box[0], b.box[0]), (a.box[2], b.box[2]), (a.centre[0], b.centre[0]))
    )


def _heading(rule: Box, lines: Sequence[TextLineBox]) -> list[TextLineBox]:
    """Lines that stand on the topmost rule and are much shorter: a heading over several columns."""
    return [
        line
        for line in lines
        if abs(rule[1] - line.box[3]) < 0.35 * line.height
        and line.width < 0.5 * (rule[2] - rule[0])
        and rule[0] <= line.box[0]
        and line.box[2] <= rule[2]
    ]


def _thick(rule: Box) -> Box:
    return (rule[0], rule[1] - 1, rule[2], rule[3] + 1)

"""Makes whole text lines: joins pieces of one line, splits lines that bridge two columns, groups native words into
lines.

A gap in a row is a gutter when neighbouring rows are blank at the same place; pieces are never joined over a gutter,
over a region's border, or over more than about an em. Does not look for text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from derender.document import Box, RegionType
from derender.layout.ink import Ink
from derender.layout.types import DetectedRegion, TextLineBox, WordLike, box_of, hull, overlap, quad_of
from derender.recognise.types import Quad

_SAME_ROW = 0.55
_SAME_ROW_LONG = 0.75
_JOIN_GAP = 1.1  # widest gap within a line, in heights of the lower piece
_COLUMN_KINDS = frozenset({RegionType.TEXT, RegionType.REFERENCE, RegionType.LIST, RegionType.TABLE, RegionType.FIGURE})


def lines_from_words(words: Sequence[WordLike]) -> list[TextLineBox]:
    """Text lines from native words or native line pieces, boxes in pixels; each line names its words in reading order.

    Words without text or area are left out (spaces); every other word is in exactly one line.
    """
    pieces = []
    for i, word in enumerate(words):
        x0, y0, x1, y1 = word.box
        if word.text.strip() and x1 > x0 and y1 > y0:
            vertical = y1 - y0 > 2.2 * (x1 - x0) and len(word.text.strip()) > 2
            pieces.append(TextLineBox(quad=quad_of(word.box), box=word.box, vertical=vertical, words=(i,)))
    return join_pieces(pieces, ())


def join_pieces(pieces: Sequence[TextLineBox], regions: Sequence[DetectedRegion]) -> list[TextLineBox]:
    """Joins pieces of one line. Every piece ends in exactly one line.

    regions: their borders part pieces that lie in different text regions. Vertical lines are left alone.
    """
    level = sorted((p for p in pieces if not p.vertical), key=lambda p: (p.box[0], p.box[1]))
    lines: list[TextLineBox] = list(level)
    home = {id(p): _home(p, regions) for p in level}
    merged = True
    while merged:
        merged = False
        lines.sort(key=lambda p: (p.box[0], p.box[1]))
        near = _Rows(lines, regions)
        used: set[int] = set()
        result: list[TextLineBox] = []
        for i, left in enumerate(lines):
            if i in used:
                continue
            for j in near.right_of(i):
                if j in used or home[id(left)] != home[id(lines[j])]:
                    continue
                if _joinable(left, lines[j]) and not near.gutter(i, j):
                    whole = _join(left, lines[j])
                    home[id(whole)] = home[id(left)]
                    used.update((i, j))
                    result.append(whole)
                    merged = True
                    break
            else:
                result.append(left)
                used.add(i)
        lines = result
    return lines + [p for p in pieces if p.vertical]


def split_bridges(lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion], ink: Ink) -> list[TextLineBox]:
    """Splits lines that run through two regions standing side by side, at the widest blank near the border between
    them.

    A line is split only where the picture has a blank strip at least 0.6 line heights wide; `ink` is the page the
    boxes refer to.
    """
    columns = sorted((r.box for r in regions if r.type in _COLUMN_KINDS), key=lambda b: b[0])
    pairs = [(a, b) for k, a in enumerate(columns) for b in columns[k + 1 :] if overlap(a[1], a[3], b[1], b[3]) > 0]
    result: list[TextLineBox] = []
    for line in lines:
        result += _split(line, pairs, ink)
    return result


def _split(line: TextLineBox, pairs: Sequence[tuple[Box, Box]], ink: Ink) -> list[TextLineBox]:
    """The line cut at the gutters between `pairs` of boxes that stand side by side somewhere on the page."""
    if line.vertical or line.words:
        return [line]
    x0, y0, x1, y1 = line.box
    middle, height = (y0 + y1) / 2, y1 - y0
    for a, b in pairs:
        beside = all(box[1] <= middle <= box[3] for box in (a, b))
        # On other rows the gutter must be a narrow one, well inside of the line.
        reach = 1.5 if beside else 5.0
        reaches = overlap(x0, x1, a[0], a[2]) > reach * height and overlap(x0, x1, b[0], b[2]) > reach * height
        if not reaches or b[0] < a[2] - height or b[0] <= a[0] or (not beside and b[0] - a[2] > 3 * height):
            continue
        slack = (1.5 if beside else 0.8) * height
        around = (max(x0, min(a[2], b[0]) - slack), y0, min(x1, max(a[2], b[0]) + slack), y1)
        strips = ink.blank_columns(around, 0.6 * height)
        if not strips:
            continue
        s0, s1 = max(strips, key=lambda s: s[1] - s[0])
        if s0 - x0 < 0.5 * height or x1 - s1 < 0.5 * height:
            continue
        words = sorted(d - c for c, d in ink.blank_columns(line.box, 0.14 * height))
        if not beside and s1 - s0 < 1.6 * words[len(words) // 2]:
            continue
        first, second = _cut(line, s0, s1)
        return [first, *_split(second, pairs, ink)]
    return [line]


def _cut(line: TextLineBox, end: float, start: float) -> tuple[TextLineBox, TextLineBox]:
    """The parts of a line left of x = end and right of x = start, corners moved along the line's own direction."""
    tl, tr, br, bl = line.quad

    def at(a: tuple[float, float], b: tuple[float, float], x: float) -> tuple[float, float]:
        share = (x - a[0]) / (b[0] - a[0]) if abs(b[0] - a[0]) > 1e-6 else 0.5
        return (x, a[1] + share * (b[1] - a[1]))

    left: Quad = (tl, at(tl, tr, end), at(bl, br, end), bl)
    right: Quad = (at(tl, tr, start), tr, br, at(bl, br, start))
    return replace(line, quad=left, box=box_of(left)), replace(line, quad=right, box=box_of(right))


def _home(piece: TextLineBox, regions: Sequence[DetectedRegion]) -> int:
    x, y = piece.centre
    inside = [(r.box[2] - r.box[0]) * (r.box[3] - r.box[1]) for r in regions]
    cover = [k for k, r in enumerate(regions) if r.box[0] <= x <= r.box[2] and r.box[1] <= y <= r.box[3]]
    return min(cover, key=inside.__getitem__) if cover else -1


def _joinable(a: TextLineBox, b: TextLineBox) -> bool:
    """Same row, similar height, and a gap of at most about an em (or a small overlap) between them."""
    low, high = sorted((a.height, b.height))
    # Two long pieces of one line share its baseline closely; a side note beside a paragraph does so only by chance.
    same = _SAME_ROW_LONG if min(a.width, b.width) > 3 * high else _SAME_ROW
    if overlap(a.box[1], a.box[3], b.box[1], b.box[3]) < same * low:
        return False
    gap = b.box[0] - a.box[2]
    # A superscript or a bullet is low beside a line; two lines of different size are not one line.
    if low < 0.55 * high and (min(a.width, b.width) > 3 * high or (a if a.height > b.height else b).width < 2 * high):
        return False
    return -0.5 * low <= gap <= _JOIN_GAP * low


def _join(a: TextLineBox, b: TextLineBox) -> TextLineBox:
    box = hull([a.box, b.box])
    tl, bl = a.quad[0], a.quad[3]
    tr, br = b.quad[1], b.quad[2]
    lean = abs(tr[1] - tl[1]) > 0.3 * max(a.height, b.height)
    quad: Quad = (tl, tr, br, bl) if lean else quad_of(box)
    share = a.width / max(1e-6, a.width + b.width)
    return replace(
        a,
        quad=quad,
        box=box,
        score=a.score * share + b.score * (1 - share),
        words=a.words + b.words,
        x_height=0.0,
        weight=0.0,
    )


class _Rows:
    """Which pieces stand to the right of a piece, and whether a gap between two pieces is a gutter."""

    def __init__(self, lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion]) -> None:
        self.lines = lines
        self.columns = [r.box for r in regions if r.type in _COLUMN_KINDS]
        self.by_top = sorted(range(len(lines)), key=lambda i: lines[i].box[1])
        self.tops = [lines[i].box[1] for i in self.by_top]
        self.tallest = max((line.height for line in lines), default=0.0)

    def _between(self, top: float, bottom: float) -> list[int]:
        from bisect import bisect_left, bisect_right

        first = bisect_left(self.tops, top - self.tallest)
        last = bisect_right(self.tops, bottom)
        return [i for i in self.by_top[first:last] if self.lines[i].box[3] > top]

    def right_of(self, i: int) -> list[int]:
        """Pieces on the row of i that start near or after its end, nearest first."""
        a = self.lines[i]
        found = [
            j
            for j in self._between(a.box[1], a.box[3])
            if j != i and self.lines[j].box[0] > a.box[0] and self.lines[j].box[0] - a.box[2] <= _JOIN_GAP * a.height
        ]
        return sorted(found, key=lambda j: self.lines[j].box[0])

    def gutter(self, i: int, j: int) -> bool:
        """Whether the gap between i and j goes on, blank and flanked by text, through two of the three rows above or
        below.
        """
        a, b = self.lines[i], self.lines[j]
        gap0, gap1 = a.box[2], b.box[0]
        height = min(a.height, b.height)
        # Columns seen elsewhere on the page end and begin here (detected boxes are generous, so they may even touch).
        ends = any(abs(b[2] - gap0) < 0.8 * height and b[2] - b[0] > 8 * height for b in self.columns)
        begins = any(abs(b[0] - gap1) < 0.8 * height and b[2] - b[0] > 8 * height for b in self.columns)
        if ends and begins and gap1 - gap0 > -0.4 * height:
            return True
        if gap1 - gap0 < 0.35 * height:
            return False
        top, bottom = min(a.box[1], b.box[1]), max(a.box[3], b.box[3])
        blank = [
            self._blank_row(top + k * 1.2 * height, bottom + k * 1.2 * height, gap0, gap1, height)
            for k in (-3, -2, -1, 1, 2, 3)
        ]
        return sum(blank[:3]) >= 2 and sum(blank[3:]) >= 2 or sum(blank[:3]) == 3 or sum(blank[3:]) == 3

    def _blank_row(self, top: float, bottom: float, gap0: float, gap1: float, height: float) -> bool:
        """Whether a row has text just left and just right of the strip gap0-gap1, and none in most of it."""
        middle = (top + bottom) / 2
        left = right = False
        for k in self._between(middle, middle):
            x0, _, x1, _ = self.lines[k].box
            if overlap(x0, x1, gap0, gap1) > 0.5 * (gap1 - gap0):
                return False
            left = left or gap0 - 2 * height < x1 <= gap0 + 0.5 * (gap1 - gap0)
            right = right or gap1 - 0.5 * (gap1 - gap0) <= x0 < gap1 + 2 * height
        return left and right

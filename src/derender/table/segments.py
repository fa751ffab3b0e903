"""Segments: stretches of a text line without a wide gap, and the rows of text that they stand in.

A segment is the smallest thing that columns are made from. Does not know columns, cells or ruling lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derender.document import Box
from derender.layout.types import hull, overlap
from derender.table.types import TableLine

SEGMENT_GAP = 0.7  # of the text height (about that of capitals): words further apart are in different segments


@dataclass(frozen=True)
class Segment:
    """Neighbouring words of one line. words: their boxes, numbers: their places in the line."""

    line: int
    words: tuple[Box, ...]
    numbers: tuple[int, ...]

    @property
    def box(self) -> Box:
        return hull(self.words)

    @property
    def centre(self) -> tuple[float, float]:
        x0, y0, x1, y1 = self.box
        return (x0 + x1) / 2, (y0 + y1) / 2

    def cut(self, after: int) -> tuple[Segment, Segment]:
        """Two segments: the words up to place `after` in this segment, and the rest."""
        k = after + 1
        return (
            Segment(self.line, self.words[:k], self.numbers[:k]),
            Segment(self.line, self.words[k:], self.numbers[k:]),
        )


def text_height(lines: Sequence[TableLine]) -> float:
    """Typical height of a text line in pixels, at least 4."""
    heights = [line.box[3] - line.box[1] for line in lines]
    return max(4.0, float(np.median(heights))) if heights else 4.0


def segments_of(lines: Sequence[TableLine], height: float) -> list[Segment]:
    """Every line's words, parted at wide gaps. A line without words is one segment."""
    result = []
    for number, line in enumerate(lines):
        words = line.words or (line.box,)
        start = 0
        for i in range(1, len(words) + 1):
            if i == len(words) or words[i][0] - words[i - 1][2] > SEGMENT_GAP * height:
                result.append(Segment(number, tuple(words[start:i]), tuple(range(start, i))))
                start = i
    return result


def text_rows(lines: Sequence[TableLine], segments: Sequence[Segment]) -> list[list[Segment]]:
    """Segments by row of text, top to bottom, left to right in each: what stands on one baseline.

    Lines of different columns that overlap by half of the lower one's height share a row; lines above each other never
    do.
    """
    rows: list[list[int]] = []
    for number in sorted(range(len(lines)), key=lambda i: lines[i].box[1] + lines[i].box[3]):
        box = lines[number].box
        best, most = -1, 0.0
        for r in range(len(rows) - 1, max(-1, len(rows) - 5), -1):
            shared = _shared(box, [lines[i].box for i in rows[r]])
            if shared > most:
                best, most = r, shared
        if most >= 0.5:
            rows[best].append(number)
        else:
            rows.append([number])
    place = {number: r for r, row in enumerate(rows) for number in row}
    result: list[list[Segment]] = [[] for _ in rows]
    for segment in segments:
        result[place[segment.line]].append(segment)
    for row in result:
        row.sort(key=lambda s: s.box[0])
    return sorted(result, key=lambda row: float(np.mean([s.centre[1] for s in row])))


def _shared(box: Box, row: list[Box]) -> float:
    """Share of the lower height that a line and a row have in common; 0 when the line lies above or below a member."""
    for other in row:
        width = min(box[2] - box[0], other[2] - other[0])
        if overlap(box[0], box[2], other[0], other[2]) > 0.3 * width:
            return 0.0
    top = float(np.median([b[1] for b in row]))
    bottom = float(np.median([b[3] for b in row]))
    return overlap(box[1], box[3], top, bottom) / max(1e-6, min(box[3] - box[1], bottom - top))

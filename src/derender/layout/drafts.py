"""The region in the making: what assign, split and furniture pass among themselves, and the page's typical text.

Does not touch pictures and does not decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from derender.document import Box, RegionType
from derender.layout.types import TextLineBox, hull, overlap


@dataclass
class Draft:
    """A region whose lines may still change. frame: the detector's box, kept for pictures only."""

    type: RegionType
    lines: list[TextLineBox] = field(default_factory=list)
    inner: list[TextLineBox] = field(default_factory=list)
    frame: Box | None = None
    score: float = 1.0

    @property
    def box(self) -> Box:
        """Hull of the lines and, for pictures, of the detector's box; a formula's number stands outside."""
        boxes = [line.box for line in self.lines]
        if self.type is not RegionType.FORMULA:
            boxes += [line.box for line in self.inner]
        return hull(boxes + ([self.frame] if self.frame else []))


@dataclass(frozen=True)
class PageText:
    """Typical measures of a page's text in pixels: small-letter height, stroke weight, box height and row distance of
    body lines.
    """

    x_height: float
    weight: float
    height: float
    pitch: float


def page_text(lines: Sequence[TextLineBox]) -> PageText:
    """Length-weighted medians over level lines; zeros when there are none."""
    level = [line for line in lines if not line.vertical]
    if not level:
        return PageText(0.0, 0.0, 0.0, 0.0)
    widths = [line.width for line in level]
    height = weighted_median([line.height for line in level], widths)
    distances, lengths = [], []
    ordered = sorted(level, key=lambda line: line.centre[1])
    for i, line in enumerate(ordered):
        for below in ordered[i + 1 :]:
            distance = below.centre[1] - line.centre[1]
            if distance > 3 * height:
                break
            shared = overlap(line.box[0], line.box[2], below.box[0], below.box[2])
            if distance > 0.5 * height and shared > 0.5 * min(line.width, below.width):
                distances.append(distance)
                lengths.append(shared)
                break
    return PageText(
        x_height=weighted_median([line.x_height for line in level], widths),
        weight=weighted_median([line.weight for line in level], widths),
        height=height,
        pitch=weighted_median(distances, lengths) if distances else 1.2 * height,
    )


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value at which half of the weight is reached."""
    order = np.argsort(values)
    total = np.cumsum(np.asarray(weights, float)[order])
    return float(np.asarray(values, float)[order][int(np.searchsorted(total, total[-1] / 2))])


def rows_of(lines: Sequence[TextLineBox]) -> list[list[TextLineBox]]:
    """Lines grouped into rows from the top; a row runs from left to right."""
    rows: list[list[TextLineBox]] = []
    for line in sorted(lines, key=lambda line: (line.centre[1], line.box[0])):
        if rows:
            row = hull([other.box for other in rows[-1]])
            shared = overlap(line.box[1], line.box[3], row[1], row[3])
            beside = all(
                overlap(line.box[0], line.box[2], o.box[0], o.box[2]) < 0.5 * min(line.width, o.width) for o in rows[-1]
            )
            if beside and shared > 0.5 * min(line.height, row[3] - row[1]):
                rows[-1].append(line)
                continue
        rows.append([line])
    return [sorted(row, key=lambda line: line.box[0]) for row in rows]

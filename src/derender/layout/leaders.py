"""Dot leaders: the rows of dots that lead from a heading to its page number in a table of contents.

Line detectors see letters, not dots, so a leader falls between two pieces of one line or off its end, and its dots are
lost. Here a line whose right end is followed by evenly spaced dots on its baseline grows over them, and over the piece
that they lead to. Works on level lines; does not count dots (the reader does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.layout.ink import Ink, ink_mask
from derender.layout.types import TextLineBox, hull, overlap, quad_of

_LEAST = 4  # dots that make a leader
_DOT = 0.3  # largest side of a dot, in line heights
_PITCH = 1.6  # widest step from dot to dot, in line heights
_EVEN = 0.35  # how far a step may be off the median, as a share of it


def join_leaders(lines: Sequence[TextLineBox], ink: Ink) -> list[TextLineBox]:
    """Lines, with those that a dot leader follows widened to hold it and what it leads to.

    ink: of the picture that the boxes refer to. Native and vertical lines stay as they are.
    """
    rest = sorted(lines, key=lambda line: line.box[0])
    gone: set[int] = set()
    result = []
    for i, line in enumerate(rest):
        if i in gone:
            continue
        while not (line.vertical or line.words):
            j = _next_on_row(line, rest, i, gone)
            end = _leader_end(line, rest[j].box[0] if j is not None else float(ink.grey.shape[1]), ink)
            if end is None:
                break
            line = _widen(line, [(line.box[0], line.box[1], end, line.box[3])])
            if j is None or rest[j].box[0] - end > 2.5 * line.height:
                break
            gone.add(j)
            line = _widen(line, [line.box, rest[j].box])
        result.append(line)
    return result


def _next_on_row(line: TextLineBox, lines: Sequence[TextLineBox], i: int, gone: set[int]) -> int | None:
    """The nearest line to the right that shares the row."""
    for j in range(len(lines)):
        other = lines[j]
        if j == i or j in gone or other.vertical or other.words or other.box[0] < line.box[2] - 0.5 * line.height:
            continue
        if overlap(line.box[1], line.box[3], other.box[1], other.box[3]) > 0.5 * min(line.height, other.height):
            return j
    return None


def _leader_end(line: TextLineBox, stop: float, ink: Ink) -> float | None:
    """Right edge of the last dot of a leader that begins at the line's end and ends before `stop`; None without one."""
    height = line.height
    begin = line.box[2] - 0.6 * height
    if stop - line.box[2] < 0.8 * height:
        return None
    # Taller than the line, so that letters of other lines are not cut to dots.
    around = (begin, line.box[1] - 0.4 * height, stop, line.box[3] + 0.4 * height)
    dots_D4, letters_L4 = _shapes(ink, around, _DOT * height)
    dots_D4 = dots_D4[(dots_D4[:, 1] >= line.box[1]) & (dots_D4[:, 3] <= line.box[3])]
    middle = (letters_L4[:, 1] + letters_L4[:, 3]) / 2
    left = letters_L4[(middle > line.box[1]) & (middle < line.box[3]), 0]
    own, next_ = left[left <= line.box[2] + 0.2 * height], left[left > line.box[2] + 0.2 * height]
    dots_D4 = dots_D4[(dots_D4[:, 0] >= own.max(initial=0.0)) & (dots_D4[:, 2] <= next_.min(initial=stop + 1))]
    if len(dots_D4) < _LEAST:
        return None
    low = np.median(dots_D4[:, 3])
    dots_D4 = dots_D4[np.abs(dots_D4[:, 3] - low) < 0.12 * height + 1]
    centre = np.sort((dots_D4[:, 0] + dots_D4[:, 2]) / 2)
    steps = np.diff(centre)
    if len(centre) < _LEAST or low < line.box[1] + 0.5 * height:
        return None
    pitch = float(np.median(steps))
    uneven = np.mean(np.abs(steps - pitch) > _EVEN * pitch + 1)
    end = float(dots_D4[:, 2].max()) + 1
    # Fragments of the line's own last letters are no leader.
    reaches = centre[0] - line.box[2] < 2.5 * height and end - line.box[2] > height
    return end if reaches and pitch < _PITCH * height and uneven <= 0.1 else None


def _shapes(ink: Ink, box: Box, dot: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(D, 4), (L, 4): round shapes no larger than a dot inside a box, and all others, as (x0, y0, x1, y1) in page
    pixels."""
    import cv2

    x0, y0 = max(0.0, round(box[0])), max(0.0, round(box[1]))
    mask = ink_mask(ink.crop(box))
    _, _, stats_S5, _ = cv2.connectedComponentsWithStats(np.ascontiguousarray(mask, np.uint8), connectivity=8)
    shapes = stats_S5[1:, :4].astype(np.float64)
    shapes[:, 2:] += shapes[:, :2]
    shapes += (x0, y0, x0, y0)
    sides = shapes[:, 2:] - shapes[:, :2]
    shapes, sides = shapes[sides.max(axis=1) > 1], sides[sides.max(axis=1) > 1]
    round_ = sides[:, 0] < 1.8 * sides[:, 1] + 1  # a row of dashes is not a leader
    small = (sides.max(axis=1) <= max(dot, 2.0)) & round_
    return shapes[small], shapes[~small]


def _widen(line: TextLineBox, boxes: Sequence[Box]) -> TextLineBox:
    box = hull(boxes)
    return replace(line, quad=quad_of(box), box=box, x_height=0.0, weight=0.0)

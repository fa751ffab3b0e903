"""Dot leaders: the rows of dots that lead from a heading to its page number in a table of contents.

Line detectors see letters, not dots, so a leader falls between two pieces of one line or off its end, and its dots are
lost. Here a line whose right end is followed by evenly spaced dots on its baseline grows over them, and over the piece
that they lead to (`join_leaders`), and the leaders of a line's picture are found again for the reader, which is not to
write dots (`leader_spans`). Works on level lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.layout.ink import Ink, ink_mask
from derender.layout.types import TextLineBox, hull, overlap, quad_of

_LEAST = 4  # dots that make a leader
_DOT = 0.3  # largest side of a dot, in line heights
_LOW = 0.4  # largest height of most dots, in heights of tall letters: small print in a tall box is as low as dots
_PITCH = 1.6  # widest step from dot to dot, in line heights
_EVEN = 0.35  # how far a step may be off the median, as a share of it
_TO_NUMBER = 2.5  # widest gap from a leader to what it leads to, in line heights
_LONG = 5  # dots that are a leader wherever they stand: an ellipsis has three, or six close ones
_APART = 0.52  # from here on, in heights of tall letters, a step has a space in it
_WIDE = 2.5  # least length of those, in line heights


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
            line = _widen(line, [(line.box[0], line.box[1], max(end, line.box[2]), line.box[3])])
            if j is None or rest[j].box[0] - end > _TO_NUMBER * line.height:
                line = _over_number(line, ink)
                break
            gone.add(j)
            line = _widen(line, [line.box, rest[j].box])
        result.append(line)
    return result


@dataclass(frozen=True)
class Leader:
    """One leader of a line: its left and right edge in pixels, how many dots it has, and whether they are set apart
    (". . .") or close ("...")."""

    x0: float
    x1: float
    dots: int
    apart: bool

    @property
    def text(self) -> str:
        return (" " if self.apart else "").join("." * self.dots)


def leader_spans(line: npt.NDArray[np.uint8], least: int = _LONG, length: float = _WIDE) -> list[Leader]:
    """The leaders in one line's upright picture, (H, W) grey or (H, W, 3) RGB, from left to right: low shapes on one
    height, mostly round and evenly apart, with no letter between them. Dots that have run together, and one that is
    missing, are allowed. least: dots; length: in line heights."""
    height = float(line.shape[0])
    if line.shape[1] < length * height:
        return []
    shapes_S4 = _shapes(line if line.ndim == 2 else Ink(line).grey)
    shapes_S4 = shapes_S4[np.argsort(shapes_S4[:, 0])]
    inside = shapes_S4[shapes_S4[:, 3] < height]
    if len(inside) >= least:  # else the box is so tight that the line's own dots touch its edge
        shapes_S4 = inside
    high = shapes_S4[:, 3] - shapes_S4[:, 1]
    letters = high[high > _DOT * height]
    tall = float(np.percentile(letters, 75)) if len(letters) else float(high.max(initial=0.0))
    runs = (_regular(run) for run in _low_runs(shapes_S4, height))
    long = [run for run in runs if len(run) >= least and run[-1, 2] - run[0, 0] >= length * height]
    return [found for run in long if (found := _leader(run, tall)) is not None]


def _low_runs(shapes_S4: npt.NDArray[np.float64], height: float) -> list[npt.NDArray[np.float64]]:
    """Neighbouring shapes, left to right, that are as low as dots and stand on one height."""
    runs: list[list[npt.NDArray[np.float64]]] = [[]]
    for shape in shapes_S4:
        middle = (shape[1] + shape[3]) / 2 / height
        if shape[3] - shape[1] > _DOT * height:
            if 0.25 < middle < 0.9:  # else of the row above or below, which a tall box touches
                runs.append([])
        elif middle > 0.5:
            run = runs[-1]
            low = np.median([s[3] for s in run]) if run else shape[3]
            if run and (shape[0] - run[-1][2] > _PITCH * height or abs(shape[3] - low) > 0.1 * height + 1):
                runs.append([])
            runs[-1].append(shape)
    return [np.asarray(run) for run in runs if run]


def _regular(run_S4: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A run between its first and last three dots, no higher than most and one step apart: outside stand
    letters of a tall box's small print, or parts of them."""
    high, steps = run_S4[:, 3] - run_S4[:, 1], np.diff(run_S4[:, 0])
    if len(run_S4) < 3:
        return run_S4[:0]
    pitch = float(np.median(steps))
    dot = high <= 1.3 * np.median(high) + 1
    even = np.abs(steps - pitch) <= _EVEN * pitch + 1
    threes = np.flatnonzero(even[:-1] & even[1:] & dot[:-2] & dot[1:-1] & dot[2:])
    return run_S4[threes[0] : threes[-1] + 3] if len(threes) else run_S4[:0]


def _leader(run_S4: npt.NDArray[np.float64], tall: float) -> Leader | None:
    """The leader that a run is: shapes mostly round, much lower than tall letters, and mostly whole steps apart."""
    wide, high = run_S4[:, 2] - run_S4[:, 0], run_S4[:, 3] - run_S4[:, 1]
    steps = np.diff(run_S4[:, 0])
    pitch = float(np.median(steps))
    if pitch <= 0 or np.median(high) > _LOW * tall or np.median(wide / np.maximum(high, 1)) > 1.8:
        return None
    off = np.abs(steps - np.maximum(1, np.round(steps / pitch)) * pitch)
    if np.mean(off > _EVEN * pitch + 1) > 0.2:
        return None
    dots = 1 + round((run_S4[-1, 0] - run_S4[0, 0]) / pitch)
    return Leader(float(run_S4[0, 0]), float(run_S4[-1, 2]), dots, pitch > _APART * tall)


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
    """Right edge of the last dot of a leader at the line's end, inside or behind it, that ends before `stop`; None
    without one."""
    height = line.height
    begin = max(line.box[0], line.box[2] - 3 * height)
    spans = leader_spans(ink.crop((begin, line.box[1], stop, line.box[3])), _LEAST, 0.8)
    found = [(leader.x0 + round(begin), leader.x1 + round(begin) + 1) for leader in spans]
    return next((x1 for x0, x1 in found if x0 < line.box[2] + 2.5 * height and x1 > line.box[2] - 0.5 * height), None)


def _over_number(line: TextLineBox, ink: Ink) -> TextLineBox:
    """The line over what its leader leads to where the detector saw none: a single digit is often missed."""
    reach = _TO_NUMBER * line.height
    x0, top = line.box[2], line.box[1]
    shapes_S4 = _shapes(ink.crop((x0, top, x0 + 2 * reach, line.box[3])))
    shapes_S4 = shapes_S4[np.argsort(shapes_S4[:, 0])]
    high = shapes_S4[:, 3] - shapes_S4[:, 1]
    end = 0.0
    for shape in shapes_S4[(high > 0.2 * line.height) & (high < line.height - 1)]:
        if shape[0] - end > (0.6 * line.height if end else reach):
            break
        end = max(end, float(shape[2]))
    return _widen(line, [(line.box[0], top, x0 + end + 0.2 * line.height, line.box[3])]) if end else line


def _shapes(grey: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """(S, 4): connected shapes of more than a pixel, as (x0, y0, x1, y1)."""
    import cv2

    mask = np.ascontiguousarray(ink_mask(grey), np.uint8)
    _, _, stats_S5, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    shapes = stats_S5[1:, :4].astype(np.float64)
    shapes[:, 2:] += shapes[:, :2]
    return shapes[(shapes[:, 2:] - shapes[:, :2]).max(axis=1) > 1]


def _widen(line: TextLineBox, boxes: Sequence[Box]) -> TextLineBox:
    box = hull(boxes)
    return replace(line, quad=quad_of(box), box=box, x_height=0.0, weight=0.0)

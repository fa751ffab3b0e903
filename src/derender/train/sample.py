"""A training sample before the tower: the line pictures of one text region and the text that a reader should write.

Does not render (render.py, pages.py) and does not degrade (degrade.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LineSample:
    """One line: its picture (H, W) gray, its box (x0, y0, x1, y1) in any unit common to the region, its own text."""

    image: Gray
    box: tuple[float, float, float, float]
    text: str


@dataclass(frozen=True)
class RegionSample:
    """Lines in reading order and the flowing target; "\\n" in it is a line break that a reader must keep."""

    lines: tuple[LineSample, ...]
    target: str
    kind: str


def forced_break(prev: tuple[float, float, float, float], nxt_first_word: float, right: float) -> bool:
    """Whether a line was ended on purpose: the next line's first word (of width nxt_first_word) would have fitted
    between its right end and the region's right edge."""
    height = prev[3] - prev[1]
    return right - prev[2] > nxt_first_word + 0.6 * height

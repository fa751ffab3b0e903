"""Measures the ink of text lines: height of small letters, stroke weight, blank gaps, and rules between regions.

Works on an upright grey picture with lines that are nearly level. Does not find lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.layout.types import TextLineBox

Mask = npt.NDArray[np.bool_]


def ink_mask(grey: npt.NDArray[np.uint8]) -> Mask:
    """True where a crop has ink, by Otsu's threshold; the rarer side counts as ink. All False when the crop has no
    contrast.
    """
    import cv2

    if grey.size == 0 or int(grey.max()) - int(grey.min()) < 24:
        return np.zeros(grey.shape, bool)
    _, mask = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    dark: Mask = mask.astype(bool)
    return dark if dark.mean() <= 0.5 else ~dark


class Ink:
    """Ink of one page. image: (H, W, 3) uint8 RGB."""

    def __init__(self, image: npt.NDArray[np.uint8]) -> None:
        import cv2

        self.grey: npt.NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)  # type: ignore[assignment]

    def crop(self, box: Box) -> npt.NDArray[np.uint8]:
        height, width = self.grey.shape
        x0, x1 = (int(np.clip(round(v), 0, width)) for v in (box[0], box[2]))
        y0, y1 = (int(np.clip(round(v), 0, height)) for v in (box[1], box[3]))
        return self.grey[y0:y1, x0:x1]

    def measure(self, line: TextLineBox) -> TextLineBox:
        """The line with x_height and weight filled in (left at 0 when there is no ink to measure).

        x_height: median height of the connected shapes, dots and dashes left out. weight: stroke width
        over x_height, where the width is twice the ink's area over its outline's length; both are sums over grey
        values (darkness, and its change from pixel to pixel), so strokes of one or two pixels are measured below
        pixel size.
        """
        import cv2

        grey = self.crop(line.box)
        mask = ink_mask(grey)
        if line.vertical:
            mask, grey = mask.T, grey.T
        if mask.sum() < 12:
            return line
        _, _, stats, _ = cv2.connectedComponentsWithStats(np.ascontiguousarray(mask, np.uint8), connectivity=8)
        tall, wide = stats[1:, 3], stats[1:, 2]
        letters = tall[(tall >= max(3, 0.2 * mask.shape[0])) & (wide < 8 * tall)]
        if not len(letters):
            return line
        x_height = float(np.median(letters))
        paper, ink = float(np.median(grey[~mask])), float(np.median(grey[mask]))
        dark = np.clip((grey.astype(np.float64) - paper) / (ink - paper if abs(ink - paper) > 1 else 1.0), 0, 1)
        dark[dark < 0.15] = 0
        step_y, step_x = np.diff(dark, axis=0), np.diff(dark, axis=1)
        outline = float(np.hypot(step_x[:-1], step_y[:, :-1]).sum())
        stroke = 2 * float(dark.sum()) / max(outline, 1.0)
        return replace(line, x_height=x_height, weight=stroke / x_height)

    def blank_columns(self, box: Box, least: float) -> list[tuple[float, float]]:
        """Vertical blank strips at least `least` pixels wide inside a box, from left to right, in page pixels."""
        mask = ink_mask(self.crop(box))
        if mask.size == 0:
            return []
        blank = ~mask.any(axis=0)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], blank, [False]]).astype(np.int8)))
        left = max(0.0, round(box[0]))
        return [(left + a, left + b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= least]

    def has_rule(self, box: Box, least: float) -> bool:
        """Whether a box holds a horizontal rule: a dark run of at least `least` pixels in one row, few rows high."""
        crop = self.crop(box)
        if crop.shape[0] < 2 or crop.shape[1] < least:
            return False
        background = float(np.median(crop))
        dark = np.abs(crop.astype(np.float32) - background) > 50
        rows = np.flatnonzero([longest_run(row) >= least for row in dark])
        return 0 < len(rows) <= max(4, crop.shape[0] // 2)


def without_lines(mask: Mask, box: Box, lines: Sequence[TextLineBox]) -> Mask:
    """A copy of the mask of a box (`ink_mask` of its crop) in which all that lies in the lines' boxes is blank."""
    out = mask.copy()
    left, top = max(0, round(box[0])), max(0, round(box[1]))
    for line in lines:
        x0, y0, x1, y1 = (
            int(v) for v in (line.box[0] - left, line.box[1] - top, line.box[2] - left, line.box[3] - top)
        )
        out[max(0, y0) : max(0, y1 + 1), max(0, x0) : max(0, x1 + 1)] = False
    return out


def longest_run(row: npt.NDArray[Any]) -> int:
    """Length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row.astype(bool), [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0

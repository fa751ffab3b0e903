"""Measures the ink of text lines: height of small letters, stroke weight, blank gaps, and rules between regions.

Works on an upright grey picture with lines that are nearly level. Does not find lines.
"""

from __future__ import annotations

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

        x_height: rows whose ink is at least 40% of the 90th percentile of the crop's rows. weight: area of the ink
        divided by half of its outline is about the stroke's width; that divided by x_height.
        """
        import cv2

        mask = ink_mask(self.crop(line.box))
        if line.vertical:
            mask = mask.T
        if mask.sum() < 12:
            return line
        rows = mask.sum(axis=1).astype(np.float64)
        strong = np.flatnonzero(rows >= 0.4 * np.percentile(rows[rows > 0], 90))
        x_height = float(strong[-1] - strong[0] + 1)
        inner = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 3)
        # On the ridge of a stroke the distance is half its width; the mean over a stroke's pixels is a quarter of it.
        stroke = 4.0 * float(inner[inner > 0].mean()) - 1.0
        return replace(line, x_height=x_height, weight=max(0.0, stroke) / x_height)

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


def longest_run(row: npt.NDArray[Any]) -> int:
    """Length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row.astype(bool), [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0

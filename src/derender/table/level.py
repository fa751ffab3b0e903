"""Turns a table's crop so that its text lines are level, and maps boxes and corners back.

For crops that lean by some degrees and for tables that lie on their side. Does not find lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.layout.types import box_of
from derender.recognise.types import Image, Quad

LEAST_DEGREES = 0.25  # smaller leans change nothing at the size of a crop

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Levelled:
    """A level picture, its lines' corners in it, and the 2 x 3 affine matrix that leads back to the crop's pixels."""

    image: Image
    quads: tuple[Quad, ...]
    back: Matrix

    def quad_back(self, quad: Quad) -> Quad:
        """Corners in the crop's pixels."""
        return _map(self.back, quad)

    def box_back(self, box: Box) -> Box:
        """Hull, in the crop's pixels, of a box of the level picture."""
        x0, y0, x1, y1 = box
        return box_of(_map(self.back, ((x0, y0), (x1, y0), (x1, y1), (x0, y1))))


def level(image: Image, quads: Sequence[Quad]) -> Levelled:
    """The crop turned by the median lean of its long text lines; untouched when they are level.

    image: (H, W, 3) uint8 RGB; quads: corners clockwise from each text's own top-left, in its pixels.
    """
    import cv2

    lean = _lean(quads)
    if abs(lean) < LEAST_DEGREES:
        return Levelled(image, tuple(quads), np.array([[1.0, 0, 0], [0, 1, 0]]))
    height, width = image.shape[:2]
    forward = cv2.getRotationMatrix2D((width / 2, height / 2), lean, 1.0)
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64) @ forward[:, :2].T
    low, high = corners.min(axis=0), corners.max(axis=0)
    size = np.ceil(high - low).astype(int)
    forward[:, 2] = -low
    centred = forward.copy()
    centred[:, 2] += forward[:, :2] @ (0.5, 0.5) - 0.5  # pixel centres lie at +0.5
    turned = cv2.warpAffine(
        image, centred, (int(size[0]), int(size[1])), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    back = np.asarray(cv2.invertAffineTransform(forward), np.float64)
    return Levelled(np.asarray(turned, np.uint8), tuple(_map(forward, q) for q in quads), back)


def _lean(quads: Sequence[Quad]) -> float:
    """Median direction of the long lines in degrees clockwise, weighted by length; 0 when there are none or when they
    do not agree: the detector's corners are off by a pixel or two, which is degrees on a short word.
    """
    angles, weights = [], []
    for a, b, _, d in quads:
        along, down = np.subtract(b, a), np.subtract(d, a)
        length = float(np.hypot(*along))
        if length > 3 * float(np.hypot(*down)):
            angles.append(float(np.degrees(np.arctan2(along[1], along[0]))))
            weights.append(length)
    if not angles:
        return 0.0
    order = np.argsort(angles)
    total = np.cumsum(np.asarray(weights)[order])
    median = angles[int(order[int(np.searchsorted(total, total[-1] / 2))])]
    agree = sum(w for a, w in zip(angles, weights, strict=True) if abs(a - median) < max(0.4, 0.4 * abs(median)))
    upright = round(median / 90) * 90.0
    return median if agree > 0.6 * total[-1] else upright


def _map(matrix: Matrix, quad: Quad) -> Quad:
    points = np.asarray(quad, np.float64) @ matrix[:, :2].T + matrix[:, 2]
    a, b, c, d = ((float(x), float(y)) for x, y in points)
    return (a, b, c, d)

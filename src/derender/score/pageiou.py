"""PageIoU: how well predicted regions cover the true ones, counted in pixels (after MinerU2.5's layout measure).

    PageIoU = sum over pixels of min(p, t) / sum over pixels of max(p, t)

p and t say how many predicted and true boxes cover the pixel, so overlapping or doubled boxes are punished too. The
sums may be limited to pixels with ink. Types and reading order are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from derender.score.types import NormBox


def coverage_HW(boxes: Sequence[NormBox], height: int, width: int) -> npt.NDArray[np.int32]:
    """(H, W) number of boxes over each pixel centre. Boxes are (x0, y0, x1, y1) shares of the page, clipped to it."""
    out = np.zeros((height, width), np.int32)
    for x0, y0, x1, y1 in boxes:
        c0, c1 = (min(width, max(0, round(v * width))) for v in (x0, x1))
        r0, r1 = (min(height, max(0, round(v * height))) for v in (y0, y1))
        out[r0:r1, c0:c1] += 1
    return out


def page_iou(
    pred: Sequence[NormBox],
    truth: Sequence[NormBox],
    ink_HW: npt.NDArray[np.bool_] | None = None,
    height: int = 1000,
    width: int = 1000,
) -> float:
    """PageIoU, 0-1; 1 when neither side covers anything. ink_HW limits the sums and sets the raster's size."""
    if ink_HW is not None:
        height, width = ink_HW.shape
    p_HW, t_HW = coverage_HW(pred, height, width), coverage_HW(truth, height, width)
    low_HW, high_HW = np.minimum(p_HW, t_HW), np.maximum(p_HW, t_HW)
    if ink_HW is not None:
        low_HW, high_HW = low_HW[ink_HW], high_HW[ink_HW]
    union = int(high_HW.sum())
    return int(low_HW.sum()) / union if union else 1.0

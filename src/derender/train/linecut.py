"""A drawn line cut out as a line detector would: a random margin around its ink. Does not draw and does not degrade."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def cut_to_ink(array: npt.NDArray[np.uint8], size: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """A drawn line cut to its ink plus a random margin, in black or a random dark grey."""
    rows = np.flatnonzero((array < 160).any(axis=1))
    if not len(rows):
        return array.copy()
    h = max(rows[-1] - rows[0] + 1, int(0.62 * size))
    mid = (rows[0] + rows[-1]) / 2
    low, high = min(rows[0], mid - h / 2), max(rows[-1], mid + h / 2)
    top = max(0, int(low - h * rng.uniform(0.02, 0.25)))
    bottom = min(array.shape[0], int(high + 1 + h * rng.uniform(0.02, 0.25)))
    ink = int(rng.integers(0, 90)) if rng.random() < 0.4 else 0
    return (255 - (255 - array[top:bottom].astype(np.int32)) * (255 - ink) // 255).astype(np.uint8)

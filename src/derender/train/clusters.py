"""Stage I, diversity-driven: groups regions by what the tower sees, so that sampling can be balanced by group.

A region's description is the mean and the spread of its columns' features, whitened; k-means (OpenCV's) finds the
groups. A region is then drawn with a chance of one over the square root of its group's size: rare kinds come more often
than their number says, without being repeated over and over. Does not look at pictures or texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.model.prefix import RegionPrefix


@dataclass(frozen=True)
class Clusters:
    """of_N: the group of each region; chance_N: how often to draw it, of mean 1."""

    of_N: npt.NDArray[np.int64]
    chance_N: npt.NDArray[np.float64]

    @property
    def sizes(self) -> list[int]:
        counts = Counter(self.of_N.tolist())
        return [counts[k] for k in sorted(counts)]


def describe(prefix: RegionPrefix) -> npt.NDArray[np.float32]:
    """(2 F,) mean and standard deviation of a region's merged columns."""
    columns = prefix.feature_PF[~prefix.line_P].astype(np.float32)
    if not len(columns):
        return np.zeros(2 * prefix.feature_PF.shape[1], np.float32)
    return np.concatenate([columns.mean(0), columns.std(0)])


def cluster(prefixes: Sequence[RegionPrefix], groups: int, seed: int = 0) -> Clusters:
    """Groups of regions, deterministic by seed. No more groups than regions."""
    import cv2

    x_NF = np.stack([describe(p) for p in prefixes])
    x_NF = (x_NF - x_NF.mean(0)) / np.maximum(x_NF.std(0), 1e-6)
    groups = max(1, min(groups, len(x_NF)))
    cv2.setRNGSeed(seed)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 50, 1e-3)
    _, labels, _ = cv2.kmeans(x_NF.astype(np.float32), groups, None, stop, 3, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    of_N = np.asarray(labels, np.int64).reshape(-1)
    chance = 1 / np.sqrt(np.bincount(of_N, minlength=groups)[of_N])
    return Clusters(of_N, chance / chance.mean())

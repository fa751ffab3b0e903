"""A formula's picture as connected pieces of ink: what the formula reader sees instead of columns or patches.

A display holds some thirty symbols on much paper. Pieces of ink are few, their boxes are exact, and what a formula
means is in where they stand to one another. The picture is first brought to one size of letters, so that thin strokes
of a small picture do not break. Does not know symbols.

Legend: H, W the picture; N pieces, in order of their left edges; S = GLYPH the side of a glyph's picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GLYPH = 32
LETTER = 24.0  # pixels: the height that a middling piece is brought to
CONTEXT = 1.8  # sides of the context picture, in units of that height
MAX_PIECES = 160
_ENLARGE = (0.25, 4.0)
_LEAST = 5  # pixels; fewer are dirt
_SHARPEN, _SPREAD = 2.0, LETTER / 12  # how much, and the reach, of what takes touching symbols apart

Gray = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pieces:
    """glyph_N2SS: the piece alone, fitted to the square, and its surroundings at the picture's scale; 255 is ink.
    box_N4: x0, y0, x1, y1 in units of LETTER from the ink's left edge and middle. scale: LETTER pixels over the
    picture's; offset: of the ink's left edge and middle, in scaled pixels. dropped: pieces beyond MAX_PIECES."""

    glyph_N2SS: npt.NDArray[np.uint8]
    box_N4: F32
    ink_N: F32
    scale: float
    offset: tuple[float, float]
    dropped: int = 0


def find_pieces(grey_HW: Gray) -> tuple[Pieces, npt.NDArray[np.int32]]:
    """The pieces of a picture, dark ink on light paper, and (H', W') the number of each pixel's piece (-1: none) at the
    scale that was read. An empty picture has no pieces."""
    import cv2

    grey_HW = _paper_white(grey_HW)
    first = _label(grey_HW)[1]
    scale = float(np.clip(LETTER / _letter_height(first), *_ENLARGE))
    if abs(scale - 1) > 0.05:
        size = (max(1, round(grey_HW.shape[1] * scale)), max(1, round(grey_HW.shape[0] * scale)))
        grey_HW = cv2.resize(grey_HW, size, interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA).astype(
            np.uint8
        )
    label_HW, stats_N5 = _label(_sharper(grey_HW))
    keep = np.flatnonzero(stats_N5[:, 4] >= _LEAST)
    order = keep[np.lexsort((stats_N5[keep, 1], stats_N5[keep, 0]))]
    dropped = max(0, len(order) - MAX_PIECES)
    if dropped:
        largest = np.sort(np.argsort(-stats_N5[order, 4], kind="stable")[:MAX_PIECES])
        order = order[largest]
    number = np.full(len(stats_N5) + 1, -1, np.int32)
    number[order] = np.arange(len(order))
    number_HW = number[label_HW]
    x, y, w, h = (stats_N5[order, k].astype(np.float32) for k in range(4))
    left, middle = (float(x.min()), float((y.min() + (y + h).max()) / 2)) if len(order) else (0.0, 0.0)
    box_N4: F32 = np.stack([x - left, y - middle, x + w - left, y + h - middle], 1).astype(np.float32) / LETTER
    ink_HW = 255 - grey_HW
    glyphs = [_glyphs(ink_HW, number_HW, n, stats_N5[k]) for n, k in enumerate(order)]
    glyph_N2SS = np.stack(glyphs) if glyphs else np.zeros((0, 2, GLYPH, GLYPH), np.uint8)
    ink_N = (stats_N5[order, 4] / np.maximum(w * h, 1)).astype(np.float32)
    return Pieces(glyph_N2SS, box_N4.reshape(-1, 4), ink_N, scale, (left, middle), dropped), number_HW


def _paper_white(grey_HW: Gray) -> Gray:
    """Light paper and dark ink at full contrast, shadows divided out."""
    import cv2

    grey_HW = np.ascontiguousarray(grey_HW)
    if np.median(grey_HW) < 110:
        grey_HW = (255 - grey_HW).astype(np.uint8)
    side = max(15, min(grey_HW.shape) // 2 | 1)
    paper = cv2.blur(cv2.dilate(grey_HW, np.ones((side, side), np.uint8)), (side, side)).astype(np.float32)
    flat = grey_HW / np.maximum(paper, 1)
    low = min(float(np.percentile(flat, 0.5)), 0.8)
    return np.asarray(np.clip((flat - low) / (0.98 - low), 0, 1) * 255, np.uint8)


def _sharper(grey_HW: Gray) -> Gray:
    """Edges made steeper: blur closes the gaps between symbols before a threshold can see them. For labels only; what
    the encoder sees of a piece stays as it is."""
    import cv2

    sharp = cv2.addWeighted(grey_HW, 1 + _SHARPEN, cv2.GaussianBlur(grey_HW, (0, 0), _SPREAD), -_SHARPEN, 0)
    return np.asarray(sharp, np.uint8)


def _label(grey_HW: Gray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(H, W) labels of pieces, the number of pieces for paper, and (N, 5) x, y, w, h, pixels."""
    import cv2

    level, _ = cv2.threshold(grey_HW, 0, 255, cv2.THRESH_OTSU)
    ink = (grey_HW <= np.clip(level, 90, 180)).astype(np.uint8)
    count, label, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    return np.where(label > 0, label - 1, count - 1).astype(np.int32), stats[1:]


def _letter_height(stats_N5: npt.NDArray[np.int32]) -> float:
    """Height of a middling letter in pixels, by the pieces that may be letters."""
    w, h, area = stats_N5[:, 2], stats_N5[:, 3], stats_N5[:, 4]
    letters = h[(area >= _LEAST) & (h < 4 * w) & (w < 4 * h) & (h > 3)]
    return float(np.percentile(letters, 60)) if len(letters) else LETTER


def _glyphs(
    ink_HW: Gray, number_HW: npt.NDArray[np.int32], n: int, stats_5: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint8]:
    import cv2

    x, y, w, h = (int(v) for v in stats_5[:4])
    own = np.where(number_HW[y : y + h, x : x + w] == n, ink_HW[y : y + h, x : x + w], 0).astype(np.uint8)
    inner = GLYPH - 4
    fit = inner / max(w, h)
    size = (max(1, round(w * fit)), max(1, round(h * fit)))
    small = cv2.resize(own, size, interpolation=cv2.INTER_AREA if fit < 1 else cv2.INTER_LINEAR)
    out = np.zeros((2, GLYPH, GLYPH), np.uint8)
    top, left = (GLYPH - size[1]) // 2, (GLYPH - size[0]) // 2
    out[0, top : top + size[1], left : left + size[0]] = small
    half = CONTEXT * LETTER / 2
    cx, cy = x + w / 2, y + h / 2
    k = GLYPH / (2 * half)
    move = np.array([[k, 0, (half - cx) * k - 0.5 + 0.5 * k], [0, k, (half - cy) * k - 0.5 + 0.5 * k]], np.float32)
    out[1] = cv2.warpAffine(ink_HW, move, (GLYPH, GLYPH), flags=cv2.INTER_LINEAR)
    return out

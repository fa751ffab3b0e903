"""Finds text lines in a page picture with the PP-OCRv6 detector that the rapidocr wheel packages (Apache-2.0).

The detector's cost grows with its input's area, so the input is made as small as the letters allow: their height is
estimated from connected components (letters.py). Pages that stay too large at that scale are cut into overlapping
tiles. Does not read text, and does not merge or split lines (merge_lines.py does).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from derender.document import Box
from derender.errors import ModelError
from derender.layout.letters import Letters, find_letters, small_print
from derender.layout.types import LayoutOptions, TextLineBox, area, box_of, intersection
from derender.onnx_session import open_session
from derender.recognise.types import Image, Quad

_STRIDE = 32  # the network's input sides are multiples of this
_PAD = 16  # blank border in input pixels: the detector misses text that touches the picture's edge
_TILE_OVERLAP = 0.12
_CLOSER_PIXELS = 1.2e6  # most input pixels spent on a second, closer look at small print
_MODEL = "PP-OCRv6_det_small.onnx"

Found = tuple[Quad, float, Box]
"""A line's corners, its score, and the tile it was found in; page pixels."""


@dataclass(frozen=True)
class DetectedLines:
    """Lines of one page. letters: the page's letter-like shapes; scale: detector input pixels per page pixel; tiles:
    inputs run.
    """

    lines: list[TextLineBox]
    letters: Letters
    scale: float
    tiles: int
    warnings: list[str]


class LineDetector:
    """Text line detector; the model is loaded at the first page and kept. Safe to call from several threads."""

    def __init__(self, options: LayoutOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._session: Any = None
        self._post: Any = None

    def _load(self) -> None:
        import rapidocr
        from rapidocr.ch_ppocr_det.utils import DBPostProcess

        path = Path(rapidocr.__file__).parent / "models" / _MODEL
        if not path.is_file():
            raise ModelError(f"the rapidocr package does not contain {_MODEL}; install rapidocr 3.10 or newer")
        self._session = open_session(path, self.options.threads, log_level=4)
        self._post = DBPostProcess(
            thresh=0.3, box_thresh=self.options.line_threshold, max_candidates=5000, unclip_ratio=1.6, use_dilation=True
        )

    def detect(self, image: Image, px_per_pt: float) -> DetectedLines:
        """Text lines of `image` ((H, W, 3) uint8 RGB) as quads in its pixels, in no particular order.

        px_per_pt: pixels per point, used to guess the letters' size (4.5 pt) when the picture has too few of them to
        measure. Raises ModelError when the packaged model is missing.
        """
        with self._lock:
            if self._session is None:
                self._load()
        height, width = image.shape[:2]
        warnings: list[str] = []
        letters = find_letters(image)
        scale = float(np.clip(self.options.x_height / (letters.x_height or 4.5 * px_per_pt), 0.05, 3.0))
        # Handwriting and posters have large letters beside small ones: do not go below a thumbnail.
        scale = max(scale, min(1.0, 480 / max(height, width)))
        tiles = self._tiles(width, height, scale)
        if len(tiles) > self.options.max_tiles:
            while len(tiles) > self.options.max_tiles:
                scale *= 0.9
                tiles = self._tiles(width, height, scale)
            warnings.append(
                f"The page was shrunk to {scale:.2f} of its size to find text lines; letters under "
                f"{self.options.x_height * 0.6 / scale:.0f} pixels may be missed."
            )
        found: list[Found] = []
        for x0, y0, x1, y1 in tiles:
            for quad, score in self._run(image[y0:y1, x0:x1], scale):
                moved: Quad = tuple((x + x0, y + y0) for x, y in quad)  # type: ignore[assignment]
                found.append((moved, score, (x0, y0, x1, y1)))
        if len(tiles) > 1:
            found = _drop_cut_copies(found)
        found = self._small_print(image, letters, scale, found)
        lines = [TextLineBox(quad=q, box=box_of(q), score=s, vertical=is_vertical(q)) for q, s, _ in found]
        return DetectedLines(lines, letters, scale, len(tiles), warnings)

    def _small_print(self, image: Image, letters: Letters, scale: float, found: list[Found]) -> list[Found]:
        """Looks again, closer, where letters are clearly smaller than the page's; the closer look replaces the
        first.
        """
        height, width = image.shape[:2]
        spent = 0.0
        for box, x_height in small_print(letters, (width, height)):
            closer = min(3.0, self.options.x_height / x_height)
            spent += area(box) * closer * closer
            if closer < 1.25 * scale or spent > _CLOSER_PIXELS:
                continue
            x0, y0, x1, y1 = (round(v) for v in box)
            own: Box = (x0, y0, x1, y1)
            inside = [f for f in found if intersection(box_of(f[0]), own) > 0.95 * area(box_of(f[0]))]
            kept = [f for f in found if f not in inside]
            fresh: list[Found] = []
            for quad, score in self._run(image[y0:y1, x0:x1], closer):
                moved: Quad = tuple((x + x0, y + y0) for x, y in quad)  # type: ignore[assignment]
                lies = box_of(moved)
                cut = (lies[0] < x0 + 2 and x0 > 0) or (lies[2] > x1 - 2 and x1 < width)
                cut = cut or (lies[1] < y0 + 2 and y0 > 0) or (lies[3] > y1 - 2 and y1 < height)
                if not cut and not any(intersection(lies, box_of(k[0])) > 0.4 * area(lies) for k in kept):
                    fresh.append((moved, score, own))
            lost = [
                f
                for f in inside
                if sum(intersection(box_of(f[0]), box_of(n[0])) for n in fresh) < 0.3 * area(box_of(f[0]))
            ]
            found = kept + fresh + lost
        return found

    def _tiles(self, width: int, height: int, scale: float) -> list[tuple[int, int, int, int]]:
        """Overlapping tiles (x0, y0, x1, y1) in page pixels, each at most max_side on its long side after scaling."""
        spans = []
        for size in (width, height):
            most = self.options.max_side / scale
            if size <= most * 1.05:
                spans.append([(0, size)])
                continue
            count = int(np.ceil((size - most * _TILE_OVERLAP) / (most * (1 - _TILE_OVERLAP))))
            starts = np.linspace(0, size - most, count)
            spans.append([(round(s), min(size, round(s + most))) for s in starts])
        return [(x0, y0, x1, y1) for y0, y1 in spans[1] for x0, x1 in spans[0]]

    def _run(self, tile: Image, scale: float) -> list[tuple[Quad, float]]:
        import cv2

        height, width = tile.shape[:2]
        h, w = max(8, round(height * scale)), max(8, round(width * scale))
        small = cv2.resize(tile, (w, h), interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
        full_h = -(-(h + 2 * _PAD) // _STRIDE) * _STRIDE
        full_w = -(-(w + 2 * _PAD) // _STRIDE) * _STRIDE
        edge = np.concatenate([small[0], small[-1], small[:, 0], small[:, -1]])
        canvas = np.empty((full_h, full_w, 3), np.uint8)
        canvas[:] = np.median(edge, axis=0).astype(np.uint8)
        canvas[_PAD : _PAD + h, _PAD : _PAD + w] = small
        # The model was trained on BGR pictures scaled to -1..1.
        x_CHW = (canvas[:, :, ::-1].astype(np.float32) / 127.5 - 1.0).transpose(2, 0, 1)
        prob = self._session.run(None, {"x": np.ascontiguousarray(x_CHW)[None]})[0]
        # Four times the input's size: the post-processing rounds corners to whole pixels of the size it is told.
        boxes, scores = self._post(prob, (full_h * 4, full_w * 4))
        result = []
        for points, score in zip(boxes, scores, strict=True):
            xs = np.clip((points[:, 0] / 4 - _PAD) * width / w, 0, width)
            ys = np.clip((points[:, 1] / 4 - _PAD) * height / h, 0, height)
            if xs.max() - xs.min() < 2 or ys.max() - ys.min() < 2:
                continue
            quad: Quad = tuple((float(x), float(y)) for x, y in zip(xs, ys, strict=True))  # type: ignore[assignment]
            result.append((quad, float(score)))
        return result


def is_vertical(quad: Quad) -> bool:
    """Whether a line is clearly taller than wide, so that its text runs downwards or lies on its side."""
    top = float(np.hypot(quad[1][0] - quad[0][0], quad[1][1] - quad[0][1]))
    side = float(np.hypot(quad[3][0] - quad[0][0], quad[3][1] - quad[0][1]))
    return side > 2.2 * top


def _drop_cut_copies(found: list[Found]) -> list[Found]:
    """Removes lines that an overlapping tile shows more completely: of two that share most of the smaller, the larger
    stays.
    """
    order = sorted(found, key=lambda item: -area(box_of(item[0])))
    kept: list[Found] = []
    for item in order:
        box = box_of(item[0])
        if not any(k[2] != item[2] and intersection(box, box_of(k[0])) > 0.6 * area(box) for k in kept):
            kept.append(item)
    return kept

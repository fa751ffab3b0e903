"""RapidOCR as a peer: its packaged models with their default settings, one object for each way of use.

`use_det=False` on a call stays in force for later calls of the same object (RapidOCR 3.10), hence two objects. Reads
text only: asked for formulas or tables it writes the plain text it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from derender.errors import MissingExtraError
from derender.score.page_images import page_images
from derender.score.types import Block, CropTask, Image, PageReading, Reading


class RapidOcrReader:
    """lines_by_recogniser: crops of one line go to the recogniser alone (its best), else through the detector too."""

    def __init__(self, dpi: int = 150, lines_by_recogniser: bool = True, threads: int = 2) -> None:
        """dpi: resolution PDFs are rendered at; RapidOCR itself shrinks pages to 2000 pixels a side."""
        try:
            from rapidocr import RapidOCR
        except ImportError as error:
            raise MissingExtraError("The reader needs the package rapidocr: pip install rapidocr.") from error
        self.name = "rapidocr" if lines_by_recogniser else "rapidocr-full"
        self.dpi, self.lines_by_recogniser = dpi, lines_by_recogniser
        options = {
            "Global.log_level": "error",
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
        self._full: Any = RapidOCR(params=options)
        self._recogniser: Any = RapidOCR(params=options) if lines_by_recogniser else None

    def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
        if task == "line" and self._recogniser is not None:
            return [self._line(image) for image in images]
        return ["\n".join(b.text for b in self._blocks(image)) for image in images]

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        """Blocks are detected lines in RapidOCR's order (top to bottom, then left to right)."""
        return Reading(tuple(PageReading(self._blocks(image)) for image in page_images(path, self.dpi)))

    def _line(self, image: Image) -> str:
        # an array is taken as BGR
        out = self._recogniser(np.ascontiguousarray(image[..., ::-1]), use_det=False, use_cls=False, use_rec=True)
        return "".join(out.txts or ())

    def _blocks(self, image: Image) -> tuple[Block, ...]:
        out = self._full(np.ascontiguousarray(image[..., ::-1]))
        if out.boxes is None or out.txts is None:
            return ()
        height, width = image.shape[:2]
        scale = np.array([width, height], np.float64)
        blocks = []
        for quad, text in zip(out.boxes, out.txts, strict=True):
            (x0, y0), (x1, y1) = np.min(quad, axis=0) / scale, np.max(quad, axis=0) / scale
            blocks.append(Block(text, (float(x0), float(y0), float(x1), float(y1))))
        return tuple(blocks)

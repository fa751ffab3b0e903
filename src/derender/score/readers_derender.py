"""derender itself as the system under test, through its public API only: `derender.read` and `derender.parse`.

A crop of one line and a crop of a block are both task "text". Pages are read with mode="ocr", so that a PDF's own
words do not help, and their Markdown is what is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from derender.document import PARATEXT, Document
from derender.recognise.types import Task
from derender.score.types import Block, CropTask, Image, PageReading, Reading


class DerenderReader:
    """read_options and parse_options are passed on to derender.read and derender.parse as keyword arguments."""

    name = "derender"

    def __init__(
        self, read_options: Mapping[str, Any] | None = None, parse_options: Mapping[str, Any] | None = None
    ) -> None:
        self.read_options = dict(read_options or {})
        self.parse_options = {"mode": "ocr", **(parse_options or {})}

    def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
        import derender

        out: list[str] = []
        for image in images:
            api_task: Task = "text" if task == "line" or task == "block" else task
            result = derender.read(image, task=api_task, **self.read_options)
            out.append((result.latex if task == "formula" else result.html if task == "table" else None) or result.text)
        return out

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        import derender

        return reading_of(derender.parse(path, **self.parse_options))


def reading_of(document: Document) -> Reading:
    """A Document as a Reading: body regions in reading order, boxes normalised, Markdown of each page and of all."""
    pages = []
    for page in document.pages:
        regions = sorted((r for r in page.regions if r.type not in PARATEXT), key=lambda r: r.order)
        blocks = tuple(
            Block(
                r.text or r.latex or "",
                (r.box[0] / page.width, r.box[1] / page.height, r.box[2] / page.width, r.box[3] / page.height),
                str(r.type),
            )
            for r in regions
        )
        alone = document.model_copy(update={"pages": [page]})
        pages.append(PageReading(blocks, alone.to_markdown()))
    return Reading(tuple(pages), document.to_markdown())

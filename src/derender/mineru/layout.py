"""Layout by the model: its answer to *Layout Detection* becomes regions in reading order (layout.types.PageLayout).

Stands in for derender.layout.analyse where a model reads. The answer has an entry a region,
`<|box_start|>x0 y0 x1 y1<|box_end|><|ref_start|>type<|ref_end|><|rotate_up|>`, numbers 0-1000 of the page. Lines inside
a region are found by their ink, for the sizes of headings only. Does not read text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from derender.document import Box, RegionType
from derender.errors import ModelError
from derender.ingest.blank import ink_mask
from derender.layout.types import LayoutRegion, PageLayout, TextLineBox, quad_of
from derender.recognise.types import Image, Quad, Recogniser, Request

_ENTRY = re.compile(
    r"<\|box_start\|>\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*<\|box_end\|>\s*<\|ref_start\|>\s*(\w+)\s*<\|ref_end\|>"
    r"(?:\s*<\|rotate_(up|right|down|left)\|>)?"
)
_TURNS = {"up": 0, "right": 1, "down": 2, "left": 3}
KINDS: dict[str, RegionType] = {
    "title": RegionType.TITLE,
    "text": RegionType.TEXT,
    "list": RegionType.LIST,
    "code": RegionType.TEXT,
    "algorithm": RegionType.TEXT,
    "phonetic": RegionType.TEXT,
    "unknown": RegionType.TEXT,
    "aside_text": RegionType.HEADER,
    "table": RegionType.TABLE,
    "equation": RegionType.FORMULA,
    "equation_block": RegionType.FORMULA,
    "image": RegionType.FIGURE,
    "image_block": RegionType.FIGURE,
    "chart": RegionType.FIGURE,
    "table_caption": RegionType.CAPTION,
    "image_caption": RegionType.CAPTION,
    "code_caption": RegionType.CAPTION,
    "table_footnote": RegionType.FOOTNOTE,
    "image_footnote": RegionType.FOOTNOTE,
    "page_footnote": RegionType.FOOTNOTE,
    "ref_text": RegionType.REFERENCE,
    "header": RegionType.HEADER,
    "footer": RegionType.FOOTER,
    "page_number": RegionType.PAGE_NUMBER,
}
"""The model's types (those of MinerU) as ours; aside_text, such as a margin's stamp, is paratext."""
CONTAINERS = {"equation_block": "equation", "image_block": "image"}
"""Types that only enclose others: dropped where they do."""
OUTSIDE = 0.1
"""Share of a page's ink outside of all regions from which on the page says so."""


@dataclass(frozen=True)
class Block:
    """One entry. box: 0-1000 of the page's width and height. turns: quarter turns clockwise that its text is off."""

    kind: str
    box: tuple[int, int, int, int]
    turns: int = 0


def parse_layout(answer: str) -> tuple[list[Block], list[str]]:
    """The entries of an answer, in its order, and one sentence for each kind of thing that could not be used.

    Corners in the wrong order are put right; boxes without area or beyond the page, and repeats, are left out.
    """
    blocks: list[Block] = []
    bad = repeated = 0
    for match in _ENTRY.finditer(answer):
        x0, y0, x1, y1 = (int(v) for v in match.groups()[:4])
        box = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        block = Block(match.group(5).lower(), box, _TURNS[match.group(6) or "up"])
        if box[2] > 1000 or box[3] > 1000 or box[0] == box[2] or box[1] == box[3]:
            bad += 1
        elif block in blocks:
            repeated += 1
        else:
            blocks.append(block)
    problems = []
    if bad:
        problems.append(f"{bad} regions of the model's layout lie outside of the page or have no area")
    if repeated:
        problems.append(f"the model's layout repeats itself {repeated} times; each region was taken once")
    rest = " ".join(_ENTRY.sub(" ", answer).split())
    if rest:
        problems.append(f"a part of the model's layout cannot be understood: {rest[:80]!r}")
    enclosing = [b for b in blocks if b.kind in CONTAINERS and any(_inside(o, b) for o in blocks)]
    return [b for b in blocks if b not in enclosing], problems


def _inside(inner: Block, outer: Block) -> bool:
    x, y = (inner.box[0] + inner.box[2]) / 2, (inner.box[1] + inner.box[3]) / 2
    of_kind = inner.kind == CONTAINERS[outer.kind]
    return of_kind and outer.box[0] <= x <= outer.box[2] and outer.box[1] <= y <= outer.box[3]


class ModelLayout:
    """Has the `analyse` of layout.analyse.LayoutAnalyser. recogniser: must answer the task "layout"."""

    def __init__(self, recogniser: Recogniser) -> None:
        self.recogniser = recogniser

    def analyse(self, image: Image, px_per_pt: float, words: Sequence[Any] = ()) -> PageLayout:
        """Regions of a page, boxes in pixels of `image`. Raises ModelError where the model gives no answer."""
        began = time.perf_counter()
        (answer,) = self.recogniser.recognise([Request("layout", image, "layout")])
        if answer.status == "failed":
            raise ModelError(f"the page could not be laid out: {'; '.join(answer.errors) or 'no answer'}")
        blocks, problems = parse_layout(answer.text)
        page = PageLayout(warnings=[*answer.errors, *problems])
        if not blocks:
            blocks = [Block("text", (0, 0, 1000, 1000))]
            page.warnings.append("the model named no region: the page was read as one")
        ink = ink_mask(image)
        page.regions = [_region(block, n, image, ink) for n, block in enumerate(blocks)]
        page.coverage = _covered(ink, page.regions)
        if page.coverage < 1 - OUTSIDE:
            page.warnings.append(
                f"{1 - page.coverage:.0%} of the page's ink lies outside of the regions that the model named"
            )
        unknown = sorted({b.kind for b in blocks} - set(KINDS))
        if unknown:
            page.warnings.append(f"regions of unknown type were read as text: {', '.join(unknown)}")
        page.seconds["layout model"] = time.perf_counter() - began
        return page


def _region(block: Block, order: int, image: Image, ink: np.ndarray) -> LayoutRegion:
    height, width = image.shape[:2]
    x0, y0, x1, y1 = block.box
    box = (x0 * width / 1000, y0 * height / 1000, x1 * width / 1000, y1 * height / 1000)
    kind = KINDS.get(block.kind, RegionType.TEXT)
    if kind is RegionType.FIGURE:
        return LayoutRegion(kind, box, order=order)
    rows = _rows(box, ink) if block.turns == 0 and kind not in (RegionType.TABLE, RegionType.FORMULA) else [box]
    lines = tuple(TextLineBox(turned_quad(row, block.turns), row) for row in rows)
    return LayoutRegion(kind, box, lines, line_height=median(line.height for line in lines), order=order)


def turned_quad(box: Box, turns: int) -> Quad:
    """The box's corners from its text's own top-left: quad_of for upright text, turned clockwise with the text."""
    corners = quad_of(box)
    a, b, c, d = (corners[(n + turns) % 4] for n in range(4))
    return (a, b, c, d)


def _rows(box: Box, ink: np.ndarray) -> list[Box]:
    """Boxes of a region's text lines: runs of pixel rows with ink, the box's width. The box where there is no run."""
    x0, y0, x1, y1 = (round(v) for v in box)
    inked = np.pad(ink[y0:y1, x0:x1].any(axis=1).astype(np.int8), 1)
    edges = np.flatnonzero(np.diff(inked))
    runs = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    tall = max((b - a for a, b in runs), default=0)
    # Dots and accents make runs of their own, much lower than a line.
    return [(box[0], float(y0 + a), box[2], float(y0 + b)) for a, b in runs if b - a >= 0.4 * tall] or [box]


def _covered(ink: np.ndarray, regions: Sequence[LayoutRegion]) -> float:
    total = int(ink.sum())
    outside = ink.copy()
    for region in regions:
        x0, y0, x1, y1 = region.box
        outside[int(y0) : round(y1) + 1, int(x0) : round(x1) + 1] = False
    return 1 - int(outside.sum()) / total if total else 1.0

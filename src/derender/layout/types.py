"""Typed containers of the layout stage: text lines, regions, the laid-out page, and the stage's options.

Units: pixels of the upright page picture, origin at its top-left corner, x to the right, y down. Boxes are
(x0, y0, x1, y1). Does not detect, group or order anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from derender.document import Box, RegionType
from derender.errors import UsageError
from derender.recognise.types import Quad


class WordLike(Protocol):
    """A word or a line of a born-digital page: its box in pixels of the page picture, and its text."""

    @property
    def box(self) -> Box: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class LayoutOptions:
    """Settings of the layout stage.

    threads: ONNX Runtime threads of each model. x_height: height in pixels that small letters shall have in the line
    detector's input (line recall on ten pages without the closer look at small print: 0.90 at 5, 0.95 at 6, 0.987 at
    7, 0.998 at 9, at nearly twice the cost of 7). max_side: longest side in pixels of one detector input; a page that
    needs more is cut into tiles. max_tiles: cap on tiles, beyond which the page is shrunk and a warning says so.
    line_threshold, region_threshold: detectors' scores, 0-1; formula_threshold: the same of formulas, lower: short
    ones are seen with little confidence, and what turns out to be words becomes text again (recognise/doubt.py).
    deskew: pages whose lines lean by more than this many degrees are turned before regions are looked for.
    """

    threads: int = 2
    x_height: float = 7.0
    max_side: int = 1664
    max_tiles: int = 16
    line_threshold: float = 0.5
    region_threshold: float = 0.45
    formula_threshold: float = 0.2
    deskew: float = 0.7

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UsageError(f"layout threads must be at least 1, not {self.threads}")
        if not 3 <= self.x_height <= 40:
            raise UsageError(f"layout x_height must lie in 3-40 pixels, not {self.x_height}")
        if self.max_side < 320 or self.max_tiles < 1:
            raise UsageError("layout max_side must be at least 320 pixels and max_tiles at least 1")
        if not all(0 < t < 1 for t in (self.line_threshold, self.region_threshold, self.formula_threshold)):
            raise UsageError("layout thresholds must lie between 0 and 1")
        if not self.deskew > 0:
            raise UsageError("layout deskew must be above 0 degrees")


@dataclass(frozen=True)
class TextLineBox:
    """One text line. quad: corners clockwise from the text's own top-left; box: the quad's axis-aligned hull.

    x_height: height of the small letters in pixels (0 when unknown); weight: stroke width divided by x_height (0 when
    unknown); vertical: taller than wide, so the text runs downwards or lies on its side; words: indices of the native
    words the line was made from, in reading order; marker: begins with a bullet that was found in the picture.
    """

    quad: Quad
    box: Box
    score: float = 1.0
    x_height: float = 0.0
    weight: float = 0.0
    vertical: bool = False
    words: tuple[int, ...] = ()
    marker: bool = False

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]

    @property
    def width(self) -> float:
        return self.box[2] - self.box[0]

    @property
    def centre(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


@dataclass(frozen=True)
class DetectedRegion:
    """One region as the region detector gave it, before text lines rule."""

    type: RegionType
    box: Box
    score: float


@dataclass(frozen=True)
class LayoutRegion:
    """One region of the page; `order` is its place in the reading order, from 0.

    lines: the region's text lines in reading order. inner_lines: for figures, the text lines inside the picture
    (`lines` is empty then). line_height: median height of small letters times 2, about the line's
    ascender-to-descender height in pixels, 0 without lines. bold: most lines have clearly heavier strokes than the
    page's body text.
    """

    type: RegionType
    box: Box
    lines: tuple[TextLineBox, ...] = ()
    inner_lines: tuple[TextLineBox, ...] = ()
    score: float = 1.0
    line_height: float = 0.0
    bold: bool = False
    order: int = 0

    @property
    def vertical(self) -> bool:
        """Most lines run downwards or lie on their side."""
        return sum(line.vertical for line in self.lines) * 2 > len(self.lines)


@dataclass
class PageLayout:
    """Regions in reading order. coverage: share of the found text lines that ended in a region (1 without lines).

    skew: degrees clockwise by which the text lines lean. seconds: by stage. warnings: sentences for the page's report.
    """

    regions: list[LayoutRegion] = field(default_factory=list)
    lines_found: int = 0
    coverage: float = 1.0
    skew: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def quad_of(box: Box) -> Quad:
    """The box's corners clockwise from its top-left."""
    x0, y0, x1, y1 = box
    return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def box_of(quad: Quad) -> Box:
    """The axis-aligned hull of four corners."""
    xs, ys = [p[0] for p in quad], [p[1] for p in quad]
    return (min(xs), min(ys), max(xs), max(ys))


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box around all boxes. Raises ValueError when there is none."""
    items = list(boxes)
    if not items:
        raise ValueError("hull of no boxes")
    return (
        min(b[0] for b in items),
        min(b[1] for b in items),
        max(b[2] for b in items),
        max(b[3] for b in items),
    )


def overlap(a0: float, a1: float, b0: float, b1: float) -> float:
    """Length that the intervals a0-a1 and b0-b1 share; 0 when they do not meet."""
    return max(0.0, min(a1, b1) - max(a0, b0))


def intersection(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    return overlap(a[0], a[2], b[0], b[2]) * overlap(a[1], a[3], b[1], b[3])


def area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])

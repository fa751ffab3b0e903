"""The layout stage's entry: from a page picture to regions in reading order, each with its text lines.

find lines -> turn level -> find regions -> mend lines -> find ruled tables -> assign -> split -> name furniture ->
order -> turn back. Does not read text.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from derender.document import Box, RegionType
from derender.layout.assign import assign, inside
from derender.layout.detect_lines import LineDetector
from derender.layout.detect_regions import PICTURES, RegionDetector
from derender.layout.drafts import Draft, PageText, page_text, weighted_median
from derender.layout.furniture import name_furniture
from derender.layout.ink import Ink
from derender.layout.kinds import number_formulas, settle_kinds, settle_title_block
from derender.layout.leaders import join_leaders
from derender.layout.letters import Letters, find_letters, lone_marks, take_in_bullets
from derender.layout.merge_lines import join_pieces, lines_from_words, split_bridges
from derender.layout.order import line_order, reading_order
from derender.layout.ruled_tables import settle_tables
from derender.layout.split import is_bold, split_regions
from derender.layout.types import (
    DetectedRegion,
    LayoutOptions,
    LayoutRegion,
    PageLayout,
    TextLineBox,
    WordLike,
    box_of,
    hull,
)
from derender.recognise.types import Image, Quad


class LayoutAnalyser:
    """Layout of one page after the other; models are loaded at first use and kept. Holds no page between calls."""

    def __init__(self, options: LayoutOptions | None = None) -> None:
        self.options = options or LayoutOptions()
        self._lines = LineDetector(self.options)
        self._regions = RegionDetector(self.options)

    def analyse(self, image: Image, px_per_pt: float, words: Sequence[WordLike] = ()) -> PageLayout:
        """Regions of a page in reading order; boxes and quads in pixels of `image`.

        image: (H, W, 3) uint8 RGB, upright; px_per_pt: its pixels per point. words: trustworthy native words or lines
        with boxes in pixels; when given, lines are made from them and no line detector runs (text in pictures is then
        not found). Raises ModelError when a packaged model is missing, ValueError when the image has another shape or
        kind.
        """
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise ValueError(f"the page picture must be (H, W, 3) uint8, not {image.shape} {image.dtype}")
        page = PageLayout()
        clock = _Clock(page)
        if min(image.shape[:2]) < 8:
            return page
        letters: Letters | None = None
        if words:
            lines = lines_from_words(words)
        else:
            found = self._lines.detect(image, px_per_pt)
            lines, letters = found.lines, found.letters
            page.warnings += found.warnings
        clock("lines")
        page.skew = skew_of(lines)
        turn = _Turn(image, page.skew if abs(page.skew) > self.options.deskew else 0.0)
        level = turn.image
        lines = [turn.level_line(line) for line in lines]
        regions = self._regions.detect(level)
        clock("regions")
        if letters and turn.angle:
            letters = find_letters(level)
        page.regions, page.lines_found = arrange(level, lines, regions, letters)
        page.regions = [turn.restore(region) for region in page.regions]
        kept = sum(len(r.lines) + len(r.inner_lines) for r in page.regions)
        page.coverage = kept / page.lines_found if page.lines_found else 1.0
        clock("arrange")
        return page


def arrange(
    level: Image, lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion], letters: Letters | None
) -> tuple[list[LayoutRegion], int]:
    """Regions in reading order, and the number of lines they share out.

    level: picture with level lines; lines, regions and letters in its pixels. With letters the lines are taken for
    detected ones: they are mended, and bullets and lone marks are added; None means native lines, which stay as they
    are.
    """
    ink = Ink(level)
    if letters:
        lines = join_leaders(join_pieces(split_bridges(lines, regions, ink), regions), ink)
        lines = take_in_bullets(letters, lines)
        lines = [*lines, *lone_marks(letters, lines, [r.box for r in regions if r.type in PICTURES])]
    lines = [ink.measure(line) for line in lines]
    text = page_text(_body(lines, regions))
    size = (float(level.shape[1]), float(level.shape[0]))
    regions = settle_tables(lines, regions, text, ink)
    drafts = assign(lines, regions, text, ink)
    drafts = split_regions(drafts, text, ink)
    drafts = number_formulas(drafts, text)
    drafts = name_furniture(drafts, size, text, ink)
    settle_kinds(drafts, text)
    order = reading_order([d.box for d in drafts], [d.type for d in drafts], size)
    drafts = [drafts[i] for i in order]
    settle_title_block(drafts, text)
    return [_finish(draft, place, text) for place, draft in enumerate(drafts)], len(lines)


def _body(lines: list[TextLineBox], regions: Sequence[DetectedRegion]) -> list[TextLineBox]:
    """Lines outside tables, whose digits say little of small letters; all where next to none is left."""
    taken = [r.box for r in regions if r.type is RegionType.TABLE]
    free = [o for o in lines if not any(inside(o, b) for b in taken)]
    wide = sum(line.width for line in free) > 20 * median(line.height for line in free) if free else False
    return free if wide else lines


def _finish(draft: Draft, order: int, text: PageText) -> LayoutRegion:
    heights = [line.x_height * 2 or line.height for line in draft.lines]
    return LayoutRegion(
        type=draft.type,
        box=draft.box,
        lines=tuple(line_order(draft.lines)),
        inner_lines=tuple(line_order(draft.inner)),
        score=draft.score,
        line_height=median(heights) if heights else 0.0,
        bold=is_bold(draft.lines, text),
        order=order,
    )


def skew_of(lines: Iterable[TextLineBox]) -> float:
    """Degrees clockwise by which lines lean: length-weighted median over lines at least four times as long as high."""
    angles, lengths = [], []
    for line in lines:
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = line.quad
        x, y = bx - ax + cx - dx, by - ay + cy - dy
        length = float(np.hypot(x, y)) / 2
        if not line.vertical and x > 0 and length > 4 * float(np.hypot(dx - ax, dy - ay)):
            angles.append(float(np.degrees(np.arctan2(y, x))))
            lengths.append(length)
    return weighted_median(angles, lengths) if len(angles) >= 3 else 0.0


class _Turn:
    """Turns a page and its boxes so that lines are level, and back. Without an angle everything passes unchanged."""

    def __init__(self, image: Image, degrees: float) -> None:
        self.size = (image.shape[1], image.shape[0])
        self.angle = degrees
        self.image = image
        if degrees:
            import cv2

            height, width = image.shape[:2]
            matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
            cos, sin = abs(matrix[0, 0]), abs(matrix[0, 1])
            new_w, new_h = round(width * cos + height * sin), round(width * sin + height * cos)
            matrix[:, 2] += ((new_w - width) / 2, (new_h - height) / 2)
            self.forward = matrix
            self.back = cv2.invertAffineTransform(matrix)
            edge = np.median(np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]]), axis=0)
            fill = tuple(float(v) for v in edge)
            turned = cv2.warpAffine(
                image, matrix, (new_w, new_h), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=fill
            )
            self.image = np.asarray(turned, np.uint8)

    def level_line(self, line: TextLineBox) -> TextLineBox:
        if not self.angle:
            return line
        quad = _apply(self.forward, line.quad)
        return replace(line, quad=quad, box=box_of(quad))

    def restore(self, region: LayoutRegion) -> LayoutRegion:
        if not self.angle:
            return region
        lines = tuple(self._back_line(line) for line in region.lines)
        inner = tuple(self._back_line(line) for line in region.inner_lines)
        x0, y0, x1, y1 = region.box
        corners = _apply(self.back, ((x0, y0), (x1, y0), (x1, y1), (x0, y1)))
        text = region.type not in (RegionType.FIGURE, RegionType.TABLE, RegionType.FORMULA)
        box = hull([line.box for line in lines]) if text and lines else box_of(corners)
        return replace(region, box=self._clip(box), lines=lines, inner_lines=inner)

    def _back_line(self, line: TextLineBox) -> TextLineBox:
        quad = _apply(self.back, line.quad)
        return replace(line, quad=quad, box=self._clip(box_of(quad)))

    def _clip(self, box: Box) -> Box:
        width, height = self.size
        x0, x1 = (float(np.clip(v, 0, width)) for v in (box[0], box[2]))
        y0, y1 = (float(np.clip(v, 0, height)) for v in (box[1], box[3]))
        return (x0, y0, x1, y1)


def _apply(matrix: np.ndarray, quad: Quad) -> Quad:
    moved = np.asarray(quad, np.float64) @ matrix[:, :2].T + matrix[:, 2]
    (a, b, c, d) = ((float(x), float(y)) for x, y in moved)
    return (a, b, c, d)


class _Clock:
    """Adds up seconds by stage."""

    def __init__(self, page: PageLayout) -> None:
        self.page = page
        self.last = time.perf_counter()

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self.page.seconds[stage] = self.page.seconds.get(stage, 0.0) + now - self.last
        self.last = now

"""One page on its way through the pipeline: from an opened page to laid-out regions and the requests to read them.

Decides for each region whether the page's own words or the picture is read (mode auto). Does not read pictures (a
recogniser does) and does not put documents together (pipeline.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from derender.assemble.join import join_lines
from derender.config import ParseOptions
from derender.document import Box, Cell, Line, Page, Region, RegionType, box_1000
from derender.ingest.blank import is_blank
from derender.ingest.lines import words_to_lines
from derender.ingest.orient import Turn, content_rotation, turn, turn_box, unturn_box, words_rotation
from derender.ingest.page import PageInput
from derender.ingest.textlayer import judge_words, near_page, trustworthy
from derender.ingest.tile import tiles
from derender.ingest.types import Word
from derender.layout.crops import crop_region, numbered_formula, region_request
from derender.layout.types import LayoutRegion, PageLayout, TextLineBox
from derender.recognise.types import Image, Request, Task
from derender.table.types import Rule, TableGrid

if TYPE_CHECKING:
    from derender.recognise.structure import SharedStructure
    from derender.table.read import FindStructure

PICTURE_SHARE = 0.02
"""Pictures covering more of a page than this may hold text that its words do not: lines are then detected."""
WORDY = 40
TASKS: dict[RegionType, Task] = {RegionType.TABLE: "table", RegionType.FORMULA: "formula"}
PICTURED = {RegionType.FIGURE}


@dataclass
class PageWork:
    """A page being read: waiting holds the ids of requests without a result yet, to_page turns boxes in pixels of a
    request's crop into the page's points.
    """

    page: Page
    waiting: set[str] = field(default_factory=set)
    to_page: dict[str, Callable[[Box], Box]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Word:
    """A native word in pixels of the upright picture (layout's WordLike)."""

    box: Box
    text: str


def prepare_page(
    opened: PageInput, options: ParseOptions, analyser: Any, tables: SharedStructure | None = None
) -> tuple[PageWork, list[Request]]:
    """Lays a page out and fills regions that its own words answer for; returns what is left to read.

    tables: reads the structure of tables whose words are known; without it their rule-based grid stands.

    Raises PageError when the page cannot be rendered.
    """
    began = time.perf_counter()
    image = opened.image
    words = opened.words() if options.mode != "ocr" else []
    page = Page(
        number=opened.number,
        width=round(opened.width_pt, 2),
        height=round(opened.height_pt, 2),
        dpi=round(opened.dpi, 2),
        warnings=list(opened.warnings),
    )
    work = PageWork(page)
    page.seconds["render"] = round(time.perf_counter() - began, 4)
    verdict = judge_words(words, (0, 0, opened.width_pt, opened.height_pt))
    if is_blank(image) and not (verdict.ok and options.mode == "text"):
        return work, []
    if options.mode == "text" and not words:
        page.warnings.append("the page has no text of its own; --mode text looks at nothing else")
        return work, []

    began = time.perf_counter()
    degrees = _rotation(image, words, verdict.ok or options.mode == "text", options)
    upright = turn(image, degrees)
    page.content_rotation = degrees
    k = opened.px_per_pt
    usable = near_page(words, opened.width_pt, opened.height_pt) if options.mode == "text" or verdict.ok else []
    if usable and len(usable) < len(words):
        page.warnings.append(f"{len(words) - len(usable)} words far off the page were left out")
    boxes = [turn_box(w.box, degrees, opened.width_pt, opened.height_pt) for w in usable]
    pixel_words = [_Word(_scale(b, k), w.text) for w, b in zip(usable, boxes, strict=True)]
    # Lines made from the words' baselines never bridge a gutter; lines made from boxes alone may.
    turned = [replace(w, box=b, angle=(w.angle + degrees) % 360) for w, b in zip(usable, boxes, strict=True)]
    native = options.mode == "text" or (bool(usable) and not _has_pictures(opened))
    pieces = [_Word(_scale(line.box, k), line.text) for line in words_to_lines(turned)] if native else []
    layout = _lay_out(upright, k, pieces, analyser)
    page.seconds["layout"] = round(time.perf_counter() - began, 4)
    page.warnings += layout.warnings
    page.coverage = round(layout.coverage, 4)

    requests = []
    owners = _share_out(layout.regions, pixel_words)
    for index, found in enumerate(layout.regions):
        mine = [turned[w] for w in owners[index]]
        wordy = found.type in PICTURED and _is_wordy(found, len(mine), upright)
        if wordy:
            found = replace(found, lines=found.inner_lines)
        region = _region(found, index, page, degrees, k)
        page.regions.append(region)
        if found.type in PICTURED and not wordy:
            continue
        own_words = bool(mine) and _use_words(mine, found, upright, k, options)
        if own_words:
            _fill_from_words(region, mine, degrees, page)
            if found.type is RegionType.TABLE:
                _fill_table(region, mine, upright, found.box, degrees, page, k, _finder(region, options, tables))
        # a formula's own words say little: its LaTeX is always read from the picture
        formula = found.type is RegionType.FORMULA and options.mode != "text"
        if formula or (not own_words and options.mode != "text" and found.lines):
            request = region_request(upright, found, f"{page.number}:{index}", TASKS.get(found.type, "text"))
            if formula and own_words:
                request = replace(request, lines=())
            elif formula and found.inner_lines:
                request = numbered_formula(upright, found, request)
            requests.append(_vertical(request) if found.vertical else request)
            work.waiting.add(request.id)
            work.to_page[request.id] = _from_crop(request.origin, page, degrees, k)
            if found.vertical:
                page.warnings.append(
                    "vertical text was read as if it ran from bottom to top; East Asian columns are not supported"
                )
    return work, requests


def _is_wordy(figure: LayoutRegion, words: int, page: Image) -> bool:
    """Whether a picture's text is read too: it fills half the page, or holds many words (a map, a poster, a form). The
    labels of an ordinary chart stay in the picture."""
    x0, y0, x1, y1 = figure.box
    return words >= WORDY or (x1 - x0) * (y1 - y0) > 0.5 * page.shape[0] * page.shape[1]


def _rotation(image: Image, words: Sequence[Word], trusted: bool, options: ParseOptions) -> Turn:
    if not options.orient:
        return 0
    return words_rotation(words) if trusted else content_rotation(image)


def _lay_out(image: Image, k: float, words: list[_Word], analyser: Any) -> PageLayout:
    """Layout of a page; of a very long or thin one, tile after tile."""
    pieces = tiles(image)
    if len(pieces) == 1:
        layout: PageLayout = analyser.analyse(image, k, words)
        return layout
    whole = PageLayout(warnings=[f"the picture is very long or thin: it was read in {len(pieces)} pieces"])
    kept = 0.0
    for tile in pieces:
        inside = [
            _Word(_move(w.box, -tile.x, -tile.y), w.text)
            for w in words
            if _centre_in(w.box, tile.x, tile.y, tile.image)
        ]
        if words and not inside:
            continue
        part: PageLayout = analyser.analyse(tile.image, k, inside)
        whole.regions += [_shift(r, tile.x, tile.y, len(whole.regions) + i) for i, r in enumerate(part.regions)]
        whole.lines_found += part.lines_found
        kept += part.coverage * part.lines_found
        whole.warnings += part.warnings
    whole.coverage = kept / whole.lines_found if whole.lines_found else 1.0
    return whole


def _has_pictures(opened: PageInput) -> bool:
    page = opened.width_pt * opened.height_pt
    return any((b[2] - b[0]) * (b[3] - b[1]) > PICTURE_SHARE * page for b in opened.images())


def _share_out(regions: Sequence[LayoutRegion], words: Sequence[_Word]) -> list[list[int]]:
    """Word numbers of each region: by the line that holds a word's centre, else by the region's box; a word that no
    region holds goes to the nearest, so that none is lost."""
    owners: list[list[int]] = [[] for _ in regions]
    if not regions:
        return owners
    line_boxes = [(line.box, i) for i, r in enumerate(regions) for line in (*r.lines, *r.inner_lines)]
    boxes = np.asarray([b for b, _ in line_boxes] or [(0, 0, 0, 0)], np.float64)
    line_owner = [i for _, i in line_boxes] or [0]
    region_boxes = np.asarray([r.box for r in regions], np.float64)
    for number, word in enumerate(words):
        x, y = (word.box[0] + word.box[2]) / 2, (word.box[1] + word.box[3]) / 2
        gap = _distance(boxes, x, y)
        at = int(np.argmin(gap))
        if line_boxes and gap[at] <= 0:
            owners[line_owner[at]].append(number)
            continue
        owners[int(np.argmin(_distance(region_boxes, x, y)))].append(number)
    return owners


def _distance(boxes: np.ndarray, x: float, y: float) -> np.ndarray:
    """Distance of a point to each box; 0 or below inside."""
    dx = np.maximum(boxes[:, 0] - x, x - boxes[:, 2])
    dy = np.maximum(boxes[:, 1] - y, y - boxes[:, 3])
    return np.maximum(dx, dy)


def _use_words(words: list[Word], found: LayoutRegion, upright: Image, k: float, options: ParseOptions) -> bool:
    if options.mode == "text":
        return True
    x0, y0, x1, y1 = (round(v) for v in found.box)
    crop = upright[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)]
    if crop.size == 0:
        return True
    box = (max(0, x0) / k, max(0, y0) / k, (max(0, x0) + crop.shape[1]) / k, (max(0, y0) + crop.shape[0]) / k)
    ok, _ = trustworthy(words, crop.mean(axis=2).astype(np.uint8), box)
    return ok


def _fill_from_words(region: Region, words: list[Word], degrees: Turn, page: Page) -> None:
    """Text, lines and source from native words (boxes in the upright frame)."""
    lines = words_to_lines(words)
    region.lines = [
        Line(box=_round(unturn_box(line.box, degrees, page.width, page.height)), text=line.text) for line in lines
    ]
    region.text = join_lines([line.text for line in lines])
    region.source = "text_layer"


def _fill_table(
    region: Region,
    words: list[Word],
    upright: Image,
    box: Box,
    degrees: Turn,
    page: Page,
    k: float,
    find: FindStructure | None,
) -> None:
    """Cells, HTML and text of a table from native words and the ruling lines of its picture."""
    from derender.table.native import table_from_words

    crop, (x, y) = crop_region(upright, box, 2.0)
    reading = table_from_words(words, crop, (x / k, y / k), k, find)

    def back(cell_box: Box) -> Box:
        return _round(unturn_box(cell_box, degrees, page.width, page.height))

    region.cells = place_cells(reading.cells, back)
    region.html, region.text = reading.html or None, reading.text


def _finder(region: Region, options: ParseOptions, tables: SharedStructure | None) -> FindStructure | None:
    """What finds the structure of a table whose words are known, and tells the region what had to be repaired."""
    if tables is None:
        return None

    def find(grid: TableGrid, rules: Sequence[Rule], size: tuple[float, float]) -> TableGrid:
        read = tables.read(grid, rules, size, options.decode)
        region.status, region.errors = read.status, list(read.errors)
        return read.grid

    return find


def place_cells(cells: Sequence[Cell], to_page: Callable[[Box], Box]) -> list[Cell]:
    """The cells with their boxes in page points."""
    return [c if c.box is None else c.model_copy(update={"box": to_page(c.box)}) for c in cells]


def _from_crop(origin: tuple[float, float], page: Page, degrees: Turn, k: float) -> Callable[[Box], Box]:
    """Turns a box in pixels of a crop at `origin` of the upright picture into the page's points."""

    def to_page(box: Box) -> Box:
        moved = _scale(_move(box, *origin), 1 / k)
        return _round(unturn_box(moved, degrees, page.width, page.height))

    return to_page


def _region(found: LayoutRegion, index: int, page: Page, degrees: Turn, k: float) -> Region:
    def back(box: Box) -> Box:
        return _round(unturn_box(_scale(box, 1 / k), degrees, page.width, page.height))

    box = back(found.box)
    return Region(
        id=f"p{page.number}r{index + 1}",
        type=found.type,
        order=index,
        box=box,
        box_1000=box_1000(box, page.width, page.height),
        lines=[Line(box=back(line.box)) for line in found.lines],
    )


def _vertical(request: Request) -> Request:
    """Lines of a vertical region as text that runs from bottom to top, as turned labels and margin stamps do."""
    assert request.lines is not None
    return replace(request, lines=tuple((d, a, b, c) for a, b, c, d in request.lines))


def _scale(box: Box, k: float) -> Box:
    return (box[0] * k, box[1] * k, box[2] * k, box[3] * k)


def _move(box: Box, x: float, y: float) -> Box:
    return (box[0] + x, box[1] + y, box[2] + x, box[3] + y)


def _round(box: Box) -> Box:
    return (round(box[0], 2), round(box[1], 2), round(box[2], 2), round(box[3], 2))


def _centre_in(box: Box, x: float, y: float, image: Image) -> bool:
    cx, cy = (box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y
    return 0 <= cx < image.shape[1] and 0 <= cy < image.shape[0]


def _shift(region: LayoutRegion, x: float, y: float, order: int) -> LayoutRegion:
    def line(item: TextLineBox) -> TextLineBox:
        a, b, c, d = ((px + x, py + y) for px, py in item.quad)
        return replace(item, quad=(a, b, c, d), box=_move(item.box, x, y))

    return replace(
        region,
        box=_move(region.box, x, y),
        lines=tuple(line(i) for i in region.lines),
        inner_lines=tuple(line(i) for i in region.inner_lines),
        order=order,
    )

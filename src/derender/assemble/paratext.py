"""Running headers, footers and page numbers: found because they repeat from page to page, or count with the pages.

Looks only at the top and bottom eighth of a page, and up to a fifth for what has nothing beyond it (a small page on
larger paper), so a slide's title in the middle stays body text; a centred number that ends a page is one anywhere in
its lower half. Does not remove anything: the regions change their
type, and writers leave paratext out unless asked for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from derender.assemble.lists import roman_value
from derender.document import PARATEXT, Document, Page, Region, RegionType

_BAND = 0.125
_WIDE_BAND = 0.2
_NUMBER_BAND = 0.1
_WINDOW = 4  # pages to either side: left and right pages, chapters with their own headers
_PAGE_WORD = r"(?:page|p\.|seite|s\.|página|pagina|pág\.|стр\.|第|sheet|blatt)"
_PAGE_NUMBER = re.compile(
    rf"^[\W_]*(?P<word>{_PAGE_WORD})?\s*(?P<value>\d{{1,4}}|[ivxlcdm]{{1,7}})(?:\s*(?P<of>of|von|de|di|sur|из|/|\|)\s*\d{{1,4}})?\s*[页頁]?[\W_]*$",
    re.IGNORECASE,
)
_CANDIDATES = frozenset({RegionType.TEXT, RegionType.TITLE, RegionType.LIST, RegionType.FOOTNOTE, RegionType.CAPTION})


def page_number(text: str) -> int | None:
    """The number when `text` is nothing but a page number ("- 12 -", "Page 3 of 9", "xiv"), else None."""
    match = _PAGE_NUMBER.match(text.strip())
    if match is None:
        return None
    value = match.group("value")
    return int(value) if value.isdigit() else roman_value(value)


@dataclass(frozen=True)
class _Candidate:
    region: Region
    page: int  # index into doc.pages
    top: bool
    place: float  # of the box's middle, share of the page's height
    key: str


def mark_paratext(doc: Document) -> Document:
    """Regions that repeat over pages become header or footer; those that hold only a page number, page_number."""
    by_page = [_candidates(page, index) for index, page in enumerate(doc.pages)]
    new_type: dict[int, RegionType] = {}
    shifts = _number_shifts(doc, by_page)
    for index, found in enumerate(by_page):
        for candidate in found:
            number = page_number(candidate.region.text)
            if number is not None:
                if _is_page_number(candidate, number, doc.pages[index], shifts, len(doc.pages)):
                    new_type[id(candidate.region)] = RegionType.PAGE_NUMBER
            elif candidate.region.type is RegionType.PAGE_NUMBER and not any(
                c.isdigit() for c in candidate.region.text
            ):
                new_type[id(candidate.region)] = RegionType.HEADER if candidate.top else RegionType.FOOTER
            elif _repeats(candidate, by_page):
                new_type[id(candidate.region)] = RegionType.HEADER if candidate.top else RegionType.FOOTER
    pages = []
    for page in doc.pages:
        regions = [
            region.model_copy(update={"type": new_type[id(region)], "level": None})
            if id(region) in new_type
            else region
            for region in page.regions
        ]
        pages.append(page.model_copy(update={"regions": regions}))
    return doc.model_copy(update={"pages": pages})


def _candidates(page: Page, index: int) -> list[_Candidate]:
    found: list[_Candidate] = []
    if page.height <= 0:
        return found
    for region in page.regions:
        upper, lower = region.box[3] / page.height, region.box[1] / page.height
        top = upper <= _BAND or (upper <= _WIDE_BAND and _is_outermost(region, page, top=True))
        bottom = lower >= 1 - _BAND or (lower >= 1 - _WIDE_BAND and _is_outermost(region, page, top=False))
        bottom = bottom or (page_number(region.text) is not None and _ends_page(region, page))
        # A header that the layout knew already may still be a page number, and confirms its neighbours.
        if (top or bottom) and (region.type in _CANDIDATES or region.type in PARATEXT) and region.text.strip():
            middle = (region.box[1] + region.box[3]) / 2 / page.height
            key = re.sub(r"\d+", "#", " ".join(region.text.lower().split()))
            found.append(_Candidate(region, index, top, middle, key))
    return found


def _is_outermost(region: Region, page: Page, top: bool) -> bool:
    """Whether no other region of the page lies further out than this one; what stands level with it does not."""
    slack = 0.4 * (region.box[3] - region.box[1])
    if top:
        return all(other is region or other.box[1] >= region.box[1] - slack for other in page.regions)
    return all(other is region or other.box[3] <= region.box[3] + slack for other in page.regions)


def _ends_page(region: Region, page: Page) -> bool:
    """Whether a region is the last on a page that its text does not fill: centred, set well apart, in the lower half.

    Pages printed from a browser have their number there.
    """
    height = region.box[3] - region.box[1]
    above = [other.box[3] for other in page.regions if other is not region]
    return (
        region.type is RegionType.TEXT
        and len(above) >= 3
        and region.box[1] > 0.5 * page.height
        and region.box[1] - max(above) > 1.5 * height
        and abs(region.box[0] + region.box[2] - page.width) / 2 < 0.03 * page.width
    )


def _repeats(candidate: _Candidate, by_page: list[list[_Candidate]]) -> bool:
    """Whether pages nearby carry nearly the same text at the same height: two of them, or the only other page."""
    if candidate.region.type in PARATEXT or not any(char.isalpha() for char in candidate.key):
        return False
    first, last = max(0, candidate.page - _WINDOW), min(len(by_page), candidate.page + _WINDOW + 1)
    same = sum(
        any(_alike(candidate, other) for other in by_page[index])
        for index in range(first, last)
        if index != candidate.page
    )
    return same >= (1 if len(by_page) <= 3 else 2)


def _alike(a: _Candidate, b: _Candidate) -> bool:
    return a.top == b.top and abs(a.place - b.place) < 0.025 and (a.key == b.key or fuzz.ratio(a.key, b.key) >= 85)


def _number_shifts(doc: Document, by_page: list[list[_Candidate]]) -> dict[int, int]:
    """How many pages show a number that differs from the page's place in the file by this much."""
    shifts: dict[int, int] = {}
    for page, found in zip(doc.pages, by_page, strict=True):
        for shift in {number - page.number for c in found if (number := page_number(c.region.text)) is not None}:
            shifts[shift] = shifts.get(shift, 0) + 1
    return shifts


def _is_page_number(c: _Candidate, number: int, page: Page, shifts: dict[int, int], pages: int) -> bool:
    if shifts.get(number - page.number, 0) >= 2 or _PAGE_NUMBER.match(c.region.text.strip())["word"]:  # type: ignore[index]
        return True
    if not c.top and c.region.text.strip().isdigit() and _ends_page(c.region, page):
        return True
    edge = c.place < _NUMBER_BAND if c.top else c.place > 1 - _NUMBER_BAND
    return edge and _is_outermost(c.region, page, c.top) and c.region.type is not RegionType.TITLE

"""Captions: which text is one, which figure or table it belongs to, and keeping the two together in reading order.

From geometry and the first words alone ("Figure 3:"); does not look at the picture.
"""

from __future__ import annotations

import re

from derender.document import Document, Page, Region, RegionType

_FIGURE_WORDS = (
    r"fig(?:ure|ures|s|\.)?|scheme|chart|plate|abb(?:ildung|\.)?|illustration|photo|algorithm|listing|图|圖|図"
)
_TABLE_WORDS = r"tab(?:le|les|elle|leau|\.)?|表"
_LABEL = re.compile(
    rf"^\W{{0,3}}(?P<kind>(?P<figure>{_FIGURE_WORDS})|(?P<table>{_TABLE_WORDS}))\s*(?P<number>[A-Z]?\d+(?:[.\-]\d+)*[a-z]?|[IVX]+\b)"
    r"(?P<end>\s*[.:|\u2013\u2014\uff1a-]|\s+(?=[A-Z\u4e00-\u9fff(])|$)",
    re.IGNORECASE,
)
OWNERS = frozenset({RegionType.FIGURE, RegionType.TABLE})


def label(text: str) -> str | None:
    """The label that a caption opens with ("Figure 3", "Table II"), or None."""
    match = _LABEL.match(text)
    # Flags make the look-ahead case-blind: "Figure 3 shows" is a sentence, "Figure 3 Shows" may be a caption.
    if match is None or (not match.group("end").strip() and match.end() < len(text) and text[match.end()].islower()):
        return None
    return text[match.start("kind") : match.end("number")]


def caption_targets(page: Page) -> dict[int, int]:
    """For each caption of the page, as id(region): id() of the nearest figure or table, near enough to be its own."""
    owners = [region for region in page.regions if region.type in OWNERS]
    result = {}
    for region in page.regions:
        if region.type is RegionType.CAPTION and owners:
            best = min(owners, key=lambda owner: _cost(region, owner, page))
            if _cost(region, best, page) < 0.25 * page.height:
                result[id(region)] = id(best)
    return result


def mark_captions(doc: Document) -> Document:
    """Text that opens like a caption and lies close to a figure or table becomes type caption."""
    pages = []
    for page in doc.pages:
        owners = [region for region in page.regions if region.type in OWNERS]
        regions = []
        for region in page.regions:
            if region.type in (RegionType.TEXT, RegionType.TITLE) and owners and label(region.text) is not None:
                if min(_cost(region, owner, page) for owner in owners) < 0.06 * page.height:
                    region = region.model_copy(update={"type": RegionType.CAPTION, "level": None})
            regions.append(region)
        pages.append(page.model_copy(update={"regions": regions}))
    return doc.model_copy(update={"pages": pages})


def place_captions(doc: Document) -> Document:
    """Moves each caption in the reading order next to its figure or table: before it when it lies above, else after."""
    return doc.model_copy(update={"pages": [_place(page) for page in doc.pages]})


def _place(page: Page) -> Page:
    targets = caption_targets(page)
    if not targets:
        return page
    before: dict[int, list[Region]] = {}
    after: dict[int, list[Region]] = {}
    ordered = sorted(page.regions, key=lambda region: region.order)
    by_id = {id(region): region for region in ordered}
    for region in ordered:
        if id(region) in targets:
            owner = by_id[targets[id(region)]]
            above = (region.box[1] + region.box[3]) / 2 < (owner.box[1] + owner.box[3]) / 2
            (before if above else after).setdefault(id(owner), []).append(region)
    placed: list[Region] = []
    for region in ordered:
        if id(region) not in targets:
            placed += [*before.get(id(region), []), region, *after.get(id(region), [])]
    regions = [region.model_copy(update={"order": order}) for order, region in enumerate(placed)]
    return page.model_copy(update={"regions": regions})


def _cost(caption: Region, owner: Region, page: Page) -> float:
    """Gap between the boxes in points, with extra for the wrong kind (a "Table 2" under a figure)."""
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = caption.box, owner.box
    gap = max(by0 - ay1, ay0 - by1, 0.0) + max(bx0 - ax1, ax0 - bx1, 0.0)
    match = _LABEL.match(caption.text)
    wrong = match is not None and (match.group("table") is not None) != (owner.type is RegionType.TABLE)
    return gap + (0.1 * page.height if wrong else 0.0)

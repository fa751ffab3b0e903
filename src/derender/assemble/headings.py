"""Levels of headings: from their numbering where they have one, else from the size of their letters over the document.

Sizes are the heights of line boxes; headings whose heights differ by less than an eighth share a level. Numbering
rules over size. Does not decide what is a heading (the layout does).
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import median

from derender.document import Document, Page, Region, RegionType

_DECIMAL = re.compile(r"^(?:\u00a7\s*)?(?P<number>(?:\d{1,2}|[A-Z])(?:\.\d{1,3})*)(?P<dot>\.?)(?=\s+\S|$)")
_ROMAN = re.compile(r"^[IVX]{1,5}\.\s+\S")
_NAMED = re.compile(
    r"^(?:chapter|part|appendix|kapitel|teil|anhang|chapitre|annexe)\s+(?:\d+|[IVXA-Z]+)\b", re.IGNORECASE
)
MAX_LEVEL = 6
_SAME = 0.88


def numbered_depth(text: str) -> int | None:
    """How deep the heading's own number lies ("2.1.3" is 3, "IV." and "Appendix B" are 1), or None without a number."""
    text = text.strip()
    match = _DECIMAL.match(text)
    if match is not None:
        number = match.group("number")
        # "A Study of" and "A. Smith" are no numbers; a lone letter counts only in "A.1"
        return None if number.isalpha() else number.count(".") + 1
    return 1 if _ROMAN.match(text) or _NAMED.match(text) else None


def letter_height(region: Region) -> float:
    """Height in points of one line of the region: the median of its lines, else the box's."""
    heights = [line.box[3] - line.box[1] for line in region.lines if line.box[3] > line.box[1]]
    return median(heights) if heights else region.box[3] - region.box[1]


def level_titles(doc: Document) -> Document:
    """Sets Region.level of every title that has none. The document's own title is alone on level 1 when there is
    one.
    """
    titles = [region for page in doc.pages for region in _titles(page)]
    if not titles:
        return doc
    heights = {id(region): letter_height(region) for region in titles}
    depths = {id(region): numbered_depth(region.text) for region in titles}
    top = _document_title(doc, heights, depths)
    offset = 0 if top is None else 1
    rest = [region for region in titles if region is not top]
    levels: dict[int, int] = {} if top is None else {id(top): 1}
    previous = offset
    for cluster in _clusters(rest, heights):
        known = Counter(depth for region in cluster if (depth := depths[id(region)]) is not None)
        size_level = known.most_common(1)[0][0] + offset if known else previous + 1
        previous = max(previous, size_level)
        for region in cluster:
            depth = depths[id(region)]
            levels[id(region)] = size_level if depth is None else depth + offset
    pages = []
    for page in doc.pages:
        regions = [
            region.model_copy(update={"level": min(levels[id(region)], MAX_LEVEL)})
            if id(region) in levels and region.level is None
            else region
            for region in page.regions
        ]
        pages.append(page.model_copy(update={"regions": regions}))
    return doc.model_copy(update={"pages": pages})


def _titles(page: Page) -> list[Region]:
    return [region for region in sorted(page.regions, key=lambda r: r.order) if region.type is RegionType.TITLE]


def _document_title(doc: Document, heights: dict[int, float], depths: dict[int, int | None]) -> Region | None:
    """The tallest heading of the first page with one, when it has no number and is clearly taller than all that
    follow.
    """
    first = next((found for page in doc.pages if (found := _titles(page))), [])
    if not first:
        return None
    top = max(first, key=lambda region: heights[id(region)])
    others = [height for key, height in heights.items() if key != id(top)]
    clearly = all(height < _SAME * heights[id(top)] for height in others)
    return top if depths[id(top)] is None and (clearly or not others) else None


def _clusters(regions: list[Region], heights: dict[int, float]) -> list[list[Region]]:
    clusters: list[list[Region]] = []
    for region in sorted(regions, key=lambda r: -heights[id(r)]):
        if clusters and heights[id(region)] >= _SAME * heights[id(clusters[-1][0])]:
            clusters[-1].append(region)
        else:
            clusters.append([region])
    return clusters

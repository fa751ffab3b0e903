"""Paragraphs that run over a column or page break (`Region.continues`), and the list of references.

Text is not moved or joined here: blocks.py does that for the writers, so the JSON keeps each piece on its page.
"""

from __future__ import annotations

import re

from derender.assemble.script import is_cjk
from derender.document import PARATEXT, Document, Page, Region, RegionType

_RUNNING = frozenset({RegionType.TEXT, RegionType.LIST, RegionType.REFERENCE})
_SKIPPED = PARATEXT | {RegionType.FIGURE, RegionType.TABLE, RegionType.CAPTION, RegionType.FOOTNOTE}
_SENTENCE_END = re.compile(r"[.!?:;\u3002\uff01\uff1f\uff1a\uff1b\u2026][\"'\u201d\u2019\u00bb\u300d\u300f)\]\uff09]*$")
_OPEN_END = re.compile(
    r"(?:[,(\[/\uff0c\u3001]|(?<=\w)[-\u2010\u00ad]|\b(?:the|a|an|of|in|on|to|and|or|with|for|by|from|at|as|that|which|is|"
    r"are|was|were|der|die|das|und|von|le|la|les|de|du|des|et|el|los|y))$",
    re.IGNORECASE,
)
_REFERENCES = re.compile(
    r"^\W*(?:[\dIVX.]+\s+)?(?:references|bibliography|works cited|literature cited|literatur(?:verzeichnis)?|"
    r"bibliographie|bibliografía|参考文献|參考文獻)\W*$",
    re.IGNORECASE,
)


def mark_references(doc: Document) -> Document:
    """Text and lists under a heading such as "References" become type reference, up to the next heading."""
    inside = False
    pages = []
    for page in doc.pages:
        changed: dict[int, Region] = {}
        for region in sorted(page.regions, key=lambda r: r.order):
            if region.type is RegionType.TITLE:
                inside = bool(_REFERENCES.match(region.text))
            elif inside and region.type in (RegionType.TEXT, RegionType.LIST):
                changed[id(region)] = region.model_copy(update={"type": RegionType.REFERENCE})
        pages.append(page.model_copy(update={"regions": [changed.get(id(region), region) for region in page.regions]}))
    return doc.model_copy(update={"pages": pages})


def mark_continued(doc: Document) -> Document:
    """Sets `continues` where a paragraph breaks off at a column's or page's end or around a figure, and goes on."""
    last: tuple[Page, Region] | None = None
    skipped = False
    pages = []
    for page in doc.pages:
        changed: dict[int, Region] = {}
        for region in sorted(page.regions, key=lambda r: r.order):
            if region.type in _SKIPPED or (region.type in _RUNNING and not region.text.strip()):
                skipped = skipped or region.type not in PARATEXT
                continue
            if region.type in _RUNNING:
                if region.continues is None and last is not None and _continues(*last, page, region, skipped):
                    changed[id(region)] = region.model_copy(update={"continues": last[1].id})
                last = (page, region)
            else:
                last = None  # a heading or formula ends the paragraph
            skipped = False
        pages.append(page.model_copy(update={"regions": [changed.get(id(region), region) for region in page.regions]}))
    return doc.model_copy(update={"pages": pages})


def _continues(page_a: Page, a: Region, page_b: Page, b: Region, skipped: bool) -> bool:
    if b.type is not a.type and not (a.type is RegionType.LIST and b.type is RegionType.TEXT):
        return False
    if page_a is page_b:
        new_column = b.box[1] < a.box[1] and b.box[0] >= a.box[2] - 0.02 * page_a.width
        if not (new_column or skipped):
            return False
    elif page_b.number != page_a.number + 1:
        return False
    left, right = a.text.rstrip(), b.text.lstrip()
    if _SENTENCE_END.search(left):
        return False
    opening = right.lstrip("\"'\u201c\u2018\u00ab([")
    if opening[:1].islower():
        return not re.match(r"^[a-z][.)]\s", opening)  # "a) first item"
    if is_cjk(left[-1:]) and is_cjk(right[:1]):
        return _reaches_right_edge(a)
    if b.type is RegionType.LIST:
        return False
    return bool(_OPEN_END.search(left)) and opening[:1].isalnum() and not re.match(r"^(?:\[?\d{1,3}[.)\]])\s", opening)


def _reaches_right_edge(region: Region) -> bool:
    """Whether the region's last line is full: a paragraph that ended in mid-line did end."""
    if not region.lines:
        return False
    line = region.lines[-1]
    return line.box[2] >= region.box[2] - 1.5 * (line.box[3] - line.box[1])

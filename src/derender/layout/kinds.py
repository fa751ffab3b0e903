"""Second thoughts about kinds, once all regions of a page are known: captions, references, the lines under a title.

Retypes regions by their neighbours; moves no line. Does not read text, so "Table 1" far from any table stays text.
"""

from __future__ import annotations

from collections.abc import Sequence

from derender.document import RegionType
from derender.layout.drafts import Draft, PageText, rows_of
from derender.layout.split import is_bold, size_ratio
from derender.layout.types import overlap

_PICTURES = (RegionType.FIGURE, RegionType.TABLE)


def settle_kinds(drafts: Sequence[Draft], text: PageText) -> None:
    """Retypes captions and lone references in place; to be called when headers and footers are named."""
    for draft in drafts:
        if draft.type in (RegionType.TEXT, RegionType.TITLE) and _is_caption(draft, drafts, text):
            draft.type = RegionType.CAPTION
    _demote_references(drafts)


def settle_title_block(ordered: Sequence[Draft], text: PageText) -> None:
    """Names and dates under a document's title are text: large, not bold, smaller than the title above, another
    heading below.

    ordered: drafts in reading order; retyped in place.
    """
    body = [d for d in ordered if d.type not in (RegionType.HEADER, RegionType.FIGURE)]
    block: list[Draft] = []
    for draft in body:
        if draft.type is not RegionType.TITLE:
            break
        block.append(draft)
    if len(block) < 2 or size_ratio(block[0].lines, text) < 1.3:
        return
    for draft in block[1:-1]:
        if size_ratio(draft.lines, text) * 1.15 < size_ratio(block[0].lines, text) and not is_bold(draft.lines, text):
            draft.type = RegionType.TEXT


def number_formulas(drafts: Sequence[Draft], text: PageText) -> list[Draft]:
    """Gives each equation number (a short line level with a formula, right of it) to its formula, as an inner line.

    A lone row of text with such a number at its right is a formula that the detector took for text or a heading.
    """
    gone: list[Draft] = []
    drafts = [part for draft in drafts for part in _part_number(draft, text)]
    for number in drafts:
        if number.type in (RegionType.FIGURE, RegionType.TABLE, RegionType.FORMULA) or len(number.lines) != 1:
            continue
        line = number.lines[0]
        if line.vertical or not 0.8 * line.height < line.width < 3.2 * max(line.height, text.height):
            continue
        level = [
            d
            for d in drafts
            if d is not number
            and d not in gone
            and d.box[1] - 0.2 * line.height < line.centre[1] < d.box[3] + 0.2 * line.height
            and d.box[2] < line.box[0]
        ]
        if not level:
            continue
        nearest = max(level, key=lambda d: d.box[2])
        gap = line.box[0] - nearest.box[2]
        alone = nearest.type in (RegionType.TEXT, RegionType.TITLE) and len(rows_of(nearest.lines)) == 1
        centred = gap > 2 * text.height and nearest.box[2] - nearest.box[0] > 2 * line.width
        formula = nearest.type is RegionType.FORMULA and not nearest.inner
        above = [
            d
            for d in drafts
            if d.type is RegionType.TEXT and len(d.lines) >= 2 and d.box[0] < nearest.box[0] + text.height
        ]
        at_edge = any(abs(d.box[2] - line.box[2]) < 1.2 * text.height for d in above)
        if gap < 25 * text.height and at_edge and (formula or (alone and centred)):
            nearest.type = RegionType.FORMULA
            nearest.frame = nearest.frame or nearest.box
            nearest.inner = [line]
            gone.append(number)
    return [d for d in drafts if d not in gone]


def _part_number(draft: Draft, text: PageText) -> list[Draft]:
    """Parts a lone row of two far-apart pieces, the second of them short."""
    if draft.type not in (RegionType.TEXT, RegionType.TITLE) or len(draft.lines) != 2 or len(rows_of(draft.lines)) != 1:
        return [draft]
    left, right = sorted(draft.lines, key=lambda line: line.box[0])
    if right.box[0] - left.box[2] < 1.5 * text.height or right.width > 3.2 * text.height:
        return [draft]
    return [Draft(draft.type, lines=[line], score=draft.score) for line in (left, right)]


def _is_caption(draft: Draft, drafts: Sequence[Draft], text: PageText) -> bool:
    """At most two rows right above or below a figure or table, centred on it, narrower than it, in body type or
    smaller.
    """
    if not draft.lines or len(rows_of(draft.lines)) > 2 or size_ratio(draft.lines, text) > 1.1:
        return False
    box = draft.box
    for picture in drafts:
        if picture.type not in _PICTURES:
            continue
        other = picture.box
        width = other[2] - other[0]
        gap = max(other[1] - box[3], box[1] - other[3])
        off = abs(box[0] + box[2] - other[0] - other[2]) / 2
        inset = min(box[0] - other[0], other[2] - box[2])
        if -0.5 * text.height < gap < 0.9 * text.pitch and off < 0.06 * width and inset > 0.04 * width:
            captioned = any(
                d is not draft
                and d.type is RegionType.CAPTION
                and overlap(d.box[0], d.box[2], other[0], other[2]) > 0
                and -0.5 * text.height < max(other[1] - d.box[3], d.box[1] - other[3]) < 2 * text.pitch
                for d in drafts
            )
            if not captioned:
                return True
    return False


def _demote_references(drafts: Sequence[Draft]) -> None:
    """Single "references" of a page are paragraphs that cite: a real list leaves several entries after splitting."""
    entries = [d for d in drafts if d.type is RegionType.REFERENCE]
    if len(entries) < 3 and sum(len(d.lines) for d in entries) < 12:
        for draft in entries:
            draft.type = RegionType.TEXT

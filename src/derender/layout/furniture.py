"""Names what stands outside the body: running headers, footers, page numbers, footnotes.

Evidence: place in the page's outer strips, isolation from the body, letter size, a rule above. Does nothing on
pictures that do not look like a page (few lines, or text that runs to the edge), so that crops are not robbed of
their first line.
"""

from __future__ import annotations

from collections.abc import Sequence

from derender.document import Box, RegionType
from derender.layout.drafts import Draft, PageText, rows_of
from derender.layout.ink import Ink
from derender.layout.split import is_large
from derender.layout.types import overlap

_TOP, _BOTTOM = 0.11, 0.885  # outer strips, in shares of the page's height
_LEAST_LINES = 8
_MANY_LINES = 20  # with fewer, a running line must stand further apart
_RUNNING = frozenset({RegionType.HEADER, RegionType.FOOTER})
_CANDIDATES = (
    frozenset({RegionType.TEXT, RegionType.TITLE, RegionType.REFERENCE, RegionType.LIST, RegionType.CAPTION}) | _RUNNING
)


def name_furniture(drafts: Sequence[Draft], size: tuple[float, float], text: PageText, ink: Ink) -> list[Draft]:
    """Retypes drafts (and parts a page number from the running line it stands in). size: page width and height in
    pixels.
    """
    width, height = size
    if sum(len(d.lines) for d in drafts) < _LEAST_LINES or height < 0.5 * width:
        return list(drafts)
    result: list[Draft] = []
    running = _running_row(drafts, size, text)
    for draft in drafts:
        where = RegionType.HEADER if draft in running else _strip(draft, drafts, size, text, ink)
        if where is RegionType.FOOTER and draft.type is not RegionType.FOOTER:
            # A footnote's rule is short; a rule over the whole width belongs to a footer.
            box = draft.box
            above = (box[0], box[1] - 1.2 * text.height, box[2], box[1] + 0.2 * text.height)
            if not ink.has_rule(above, 0.6 * (box[2] - box[0])) and _is_footnote(draft, drafts, size, text, ink):
                where = None
        if where is None:
            if draft.type in _RUNNING:
                draft.type = RegionType.TEXT
            result.append(draft)
            continue
        for part in _single_pieces(draft, text):
            part.type = where
            if _is_number(part, text, width):
                part.type = RegionType.PAGE_NUMBER
            result.append(part)
    for draft in result:
        if draft.type in (RegionType.TEXT, RegionType.LIST, RegionType.REFERENCE) and _is_footnote(
            draft, result, size, text, ink
        ):
            draft.type = RegionType.FOOTNOTE
    return result


def _running_row(drafts: Sequence[Draft], size: tuple[float, float], text: PageText) -> list[Draft]:
    """The page's first row when it is a running head close above the body: single lines far apart, a number at an end.

    Old print sets it so; the detector then takes its capitals for a formula.
    """
    width, height = size
    top = min(drafts, key=lambda d: d.box[1]).box
    row = sorted((d for d in drafts if overlap(*top[1::2], *d.box[1::2]) > 0), key=lambda d: d.box[0])
    bottom = max(d.box[3] for d in row)
    kinds = _CANDIDATES | {RegionType.FORMULA}
    lone = all(d.type in kinds and len(d.lines) == 1 and d.box[3] - d.box[1] < 2 * text.height for d in row)
    if not lone or len(row) < 2 or bottom > (_TOP + 0.02) * height or row[-1].box[2] - row[0].box[0] < 0.35 * width:
        return []
    apart = all(b.box[0] - a.box[2] > 2 * text.height for a, b in zip(row, row[1:], strict=False))
    numbered = any(_is_number(d, text, width) for d in (row[0], row[-1]))
    below = all(d in row or d.box[1] > bottom - 0.5 * text.height for d in drafts)
    return row if apart and numbered and below and not any(is_large(d.lines, text) for d in row) else []


def _strip(
    draft: Draft, drafts: Sequence[Draft], size: tuple[float, float], text: PageText, ink: Ink
) -> RegionType | None:
    """HEADER or FOOTER when a draft lies in an outer strip, apart from the body; else None.

    Without the detector's word for it, only the page's outermost row counts, in type no larger than the body's: what
    is named here is left out of Markdown, so a doubtful line stays text.
    """
    width, height = size
    if draft.type not in _CANDIDATES or not draft.lines or any(line.vertical for line in draft.lines):
        return None
    box = draft.box
    detected = draft.type in _RUNNING
    if len(rows_of(draft.lines)) > (4 if detected else 2):
        return None
    if not detected:
        tall = max(line.height for line in draft.lines) > 1.2 * text.height
        if tall or is_large(draft.lines, text):
            return None
    number = _is_number(draft, text, width)
    few = sum(len(d.lines) for d in drafts) < _MANY_LINES and not number
    further = 0.04 if detected else 0.0
    least = 0.2 * text.pitch if detected else (2.0 if few else 0.8) * text.pitch
    others = [d.box for d in drafts if d is not draft]
    if box[3] < (_TOP + further) * height:
        beyond = [b for b in others if b[1] > box[3] - 0.5 * text.height]
        outer = all(b in beyond or overlap(b[1], b[3], box[1], box[3]) > 0 for b in others)
        gap = min((b[1] for b in beyond), default=height) - box[3]
        rule = ink.has_rule((box[0], box[3], box[2], box[3] + 0.8 * text.height), 0.5 * (box[2] - box[0]))
        if (outer or detected) and gap > (0.2 * text.pitch if rule else least):
            return RegionType.HEADER
    if number and box[1] > (_BOTTOM - 0.07) * height:
        # Under wide margins the page number stands further in, and further apart.
        further, least = 0.07, max(least, (0.8 if box[1] > _BOTTOM * height else 1.4) * text.pitch)
    if box[1] > (_BOTTOM - further) * height:
        beyond = [b for b in others if b[3] < box[1] + 0.5 * text.height]
        outer = all(b in beyond or overlap(b[1], b[3], box[1], box[3]) > 0 for b in others)
        gap = box[1] - max((b[3] for b in beyond), default=0.0)
        above = (box[0], box[1] - 1.2 * text.height, box[2], box[1] + 0.2 * text.height)
        wide = box[1] > 0.9 * height and box[2] - box[0] > 0.6 * width
        rule = wide and ink.has_rule(above, 0.6 * (box[2] - box[0]))
        if (outer or detected) and (gap > least or rule):
            return RegionType.FOOTER
    return None


def _single_pieces(draft: Draft, text: PageText) -> list[Draft]:
    """A running line's far-apart pieces as drafts of their own, so that a page number in it can be told from the
    rest.
    """
    rows = rows_of(draft.lines)
    if len(rows) != 1 or len(rows[0]) < 2:
        return [draft]
    return [Draft(draft.type, lines=[line], score=draft.score) for line in rows[0]]


def _is_number(draft: Draft, text: PageText, width: float) -> bool:
    """One short line: up to about seven characters."""
    box = draft.box
    return len(draft.lines) == 1 and box[2] - box[0] < min(4.0 * max(text.height, box[3] - box[1]), 0.12 * width)


def _is_footnote(draft: Draft, drafts: Sequence[Draft], size: tuple[float, float], text: PageText, ink: Ink) -> bool:
    """Small type in the page's lower part with a short rule just above it, or right below another footnote's place."""
    box = draft.box
    sizes = [line.x_height or 0.5 * line.height for line in draft.lines]
    if not sizes or box[1] < 0.5 * size[1] or text.x_height <= 0:
        return False
    if sum(sizes) / len(sizes) > 0.95 * text.x_height:
        return False
    top = _stack_top(box, drafts, text)
    # Nothing but more small type may follow below in the same column.
    for other in drafts:
        if other is draft or other.type in (RegionType.FOOTER, RegionType.PAGE_NUMBER, RegionType.FOOTNOTE):
            continue
        below = other.box[1] > box[3] - 0.5 * text.height and overlap(other.box[0], other.box[2], box[0], box[2]) > 0
        lines = other.lines or other.inner
        if below and (
            not lines or sum(li.x_height or 0.5 * li.height for li in lines) / len(lines) > 0.95 * text.x_height
        ):
            return False
    return ink.has_rule(
        (box[0] - text.height, top - 1.6 * text.height, box[2] + text.height, top + 0.25 * text.height), 3 * text.height
    )


def _stack_top(box: Box, drafts: Sequence[Draft], text: PageText) -> float:
    """Top of the pile of small-type regions that stand directly above one another and end with `box`."""
    top = box[1]
    moved = True
    while moved:
        moved = False
        for other in drafts:
            if not other.lines:
                continue
            b = other.box
            small = sum(li.x_height or 0.5 * li.height for li in other.lines) / len(other.lines) <= 0.95 * text.x_height
            near = 0 <= top - b[3] + 0.5 * text.height < 1.2 * text.height
            if (
                small
                and near
                and b[1] < top - 1
                and overlap(b[0], b[2], box[0], box[2]) > 0.5 * min(b[2] - b[0], box[2] - box[0])
            ):
                top, moved = b[1], True
    return top

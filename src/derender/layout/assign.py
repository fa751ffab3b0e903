"""Text lines rule: gives every line to exactly one region, and makes regions of the lines that no detected box covers.

A text region is the set of lines whose centre its detected box covers; its box becomes their hull. Pictures (figure,
table, formula) keep their box. A "figure" that is mostly text is dissolved into text, or becomes a table when its
lines stand in a grid. Does not split paragraphs or name headers and footers (split.py, furniture.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derender.document import Box, RegionType
from derender.layout.detect_regions import PICTURES
from derender.layout.drafts import Draft, PageText, rows_of
from derender.layout.ink import Ink, ink_mask, without_lines
from derender.layout.types import DetectedRegion, TextLineBox, area, hull, intersection, overlap

_PRIORITY = {
    RegionType.CAPTION: 0,
    RegionType.TITLE: 1,
    RegionType.FORMULA: 2,
    RegionType.TABLE: 3,
    RegionType.HEADER: 4,
    RegionType.FOOTER: 4,
    RegionType.REFERENCE: 5,
    RegionType.TEXT: 5,
    RegionType.FIGURE: 6,
}


def assign(lines: Sequence[TextLineBox], regions: Sequence[DetectedRegion], text: PageText, ink: Ink) -> list[Draft]:
    """Drafts that together hold every line exactly once; text drafts without lines are dropped, pictures are kept.

    lines and regions: in pixels of the upright picture that `ink` measures.
    """
    regions = _settle_figures(list(lines), list(regions), ink)
    regions = [r for r in regions if not _swallowed(r, regions)]
    drafts = [Draft(r.type, frame=r.box if r.type in PICTURES else None, score=r.score) for r in regions]
    free: list[TextLineBox] = []
    for line in lines:
        home = _home(line, regions)
        if home is None:
            free.append(line)
        elif drafts[home].type is RegionType.FIGURE:
            drafts[home].inner.append(line)
        else:
            drafts[home].lines.append(line)
    drafts = [d for d in drafts if d.lines or d.frame]
    free = _attach(free, drafts, text)
    for table in [d for d in drafts if d.type is RegionType.TABLE]:
        _give_back(table, drafts, text, ink)
    drafts += group_lines(free, [d.box for d in drafts], text)
    return drafts


def _home(line: TextLineBox, regions: Sequence[DetectedRegion]) -> int | None:
    """The region whose box covers the line's centre; of several, the one that covers most of the line."""
    x, y = line.centre
    best: tuple[float, int, float, int] | None = None
    for i, region in enumerate(regions):
        x0, y0, x1, y1 = region.box
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            continue
        share = intersection(line.box, region.box) / max(1e-6, area(line.box))
        if region.type is RegionType.FORMULA and share < 0.5:
            continue
        key = (-round(4 * share), _PRIORITY[region.type], area(region.box), i)
        if best is None or key < best:
            best = key
    return best[3] if best else None


def _swallowed(region: DetectedRegion, regions: Sequence[DetectedRegion]) -> bool:
    """Text inside a table, figure or formula is the picture's; captions at the upper or lower edge are not."""
    if region.type in PICTURES:
        return any(
            other is not region
            and other.type in (RegionType.TABLE, RegionType.FIGURE)
            and area(other.box) > area(region.box)
            and intersection(region.box, other.box) > 0.8 * area(region.box)
            and region.type is not RegionType.TABLE
            for other in regions
        )
    for other in regions:
        if other.type not in PICTURES or intersection(region.box, other.box) < 0.7 * area(region.box):
            continue
        if region.type is RegionType.CAPTION and region.score > 0.5:
            middle = (region.box[1] + region.box[3]) / 2
            place = (middle - other.box[1]) / max(1e-6, other.box[3] - other.box[1])
            if not 0.2 < place < 0.8:
                continue
        if area(other.box) > area(region.box):
            return True
    return False


def _settle_figures(lines: list[TextLineBox], regions: list[DetectedRegion], ink: Ink) -> list[DetectedRegion]:
    """Dissolves figures that hold little but text; those whose lines stand in a grid become tables."""
    result = []
    for region in regions:
        if region.type is RegionType.FIGURE:
            inner = [line for line in lines if inside(line, region.box)]
            texts = [r.box for r in regions if r.type not in PICTURES]
            free = [line for line in inner if not any(inside(line, b) for b in texts)]
            if _mostly_text(inner, free, region.box, ink):
                if _is_grid(inner):
                    result.append(DetectedRegion(RegionType.TABLE, region.box, region.score))
                continue
        result.append(region)
    return result


def inside(line: TextLineBox, box: Box) -> bool:
    """Whether a line's centre lies in a box."""
    x, y = line.centre
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _mostly_text(inner: Sequence[TextLineBox], free: Sequence[TextLineBox], box: Box, ink: Ink) -> bool:
    """Whether a box holds paragraphs of its own, or lines fill a good part of it and little ink lies outside of them.

    inner: lines in the box; free: those of them that lie in no text region.
    """
    paragraphs = [line for line in free if prose(line, free)]
    # A photo of a page: paragraphs whatever surrounds them.
    if len(paragraphs) >= 6 and sum(area(line.box) for line in paragraphs) > 0.12 * area(box):
        return True
    if len(inner) < 4 or sum(intersection(line.box, box) for line in inner) < 0.16 * area(box):
        return False
    outside = without_lines(ink_mask(ink.crop(box)), box, inner)
    return bool(np.mean(outside) < 0.02)


def prose(line: TextLineBox, others: Sequence[TextLineBox]) -> bool:
    """Whether a line is long and has a line of about its extent directly above or below."""
    if line.vertical or line.width < 10 * line.height:
        return False
    for other in others:
        distance = abs(other.centre[1] - line.centre[1])
        if other is not line and 0.5 * line.height < distance < 1.8 * line.height:
            shared = overlap(line.box[0], line.box[2], other.box[0], other.box[2])
            if shared > 0.75 * max(line.width, other.width):
                return True
    return False


def _is_grid(lines: Sequence[TextLineBox]) -> bool:
    """Whether most rows have several lines and their left edges recur from row to row."""
    rows = rows_of([line for line in lines if not line.vertical])
    several = [row for row in rows if len(row) >= 2]
    if len(several) < 3 or len(several) < 0.5 * len(rows) or sum(len(r) for r in several) < 2.5 * len(several):
        return False
    edges = [line.box[0] for row in several for line in row]
    tolerance = float(np.median([line.height for line in lines]))
    recurring = sum(sum(abs(e - other) < tolerance for other in edges) >= max(3, 0.4 * len(several)) for e in edges)
    return recurring > 0.6 * len(edges)


def _give_back(table: Draft, drafts: Sequence[Draft], text: PageText, ink: Ink) -> None:
    """The last line of a paragraph, when the table's box reached up to it: it stands alone above the table's first rule
    and continues the paragraph above. The box then begins below it."""
    order = sorted(table.lines, key=lambda line: line.centre[1])
    if len(order) < 3 or order[0].vertical:
        return
    line, x0, x1 = order[0], table.box[0], table.box[2]
    middle, below = line.centre[1], order[1].centre[1]  # boxes are high enough to hold a rule beside their letters
    if below - middle < 0.6 * line.height or not ink.has_rule((x0, middle, x1, below), 0.8 * (x1 - x0)):
        return
    for draft in drafts:
        above = max(draft.lines, key=lambda o: o.centre[1], default=None)
        if draft.type is not RegionType.TEXT or above is None or not alike(line, above, 1.33):
            continue
        near = 0 < middle - above.centre[1] < 1.15 * max(text.pitch, text.height)
        if near and abs(line.box[0] - min(o.box[0] for o in draft.lines)) < 0.5 * line.height:
            if not ink.has_rule((line.box[0], above.centre[1], line.box[2], middle), 0.8 * line.width):
                table.lines.remove(line)
                draft.lines.append(line)
                if table.frame:
                    table.frame = (*table.frame[:1], max(table.frame[1], line.box[3]), *table.frame[2:])
                return


def _attach(free: list[TextLineBox], drafts: list[Draft], text: PageText) -> list[TextLineBox]:
    """Adds lines to the region that they touch (detected boxes are tight by up to half a line); gives back the rest."""
    changed = True
    while changed and free:
        changed, rest = False, []
        for line in sorted(free, key=lambda line: (line.box[1], line.box[0])):
            draft = _neighbour(line, drafts, text)
            if draft is None:
                rest.append(line)
            else:
                draft.lines.append(line)
                changed = True
        free = rest
    return free


def _neighbour(line: TextLineBox, drafts: list[Draft], text: PageText) -> Draft | None:
    """The text or table region that a line continues at normal row distance, or on whose last row it stands."""
    best: tuple[float, int] | None = None
    for i, draft in enumerate(drafts):
        if draft.type is RegionType.FIGURE or line.vertical:
            continue
        box = draft.box
        if draft.type is RegionType.FORMULA:
            continue
        if draft.type is RegionType.TABLE:
            if intersection(line.box, box) > 0.3 * area(line.box):
                best = min(best or (1e9, i), (0.0, i))
            continue
        if not draft.lines or draft.type in (RegionType.HEADER, RegionType.FOOTER):
            continue
        nearest = min(draft.lines, key=lambda o: abs(o.centre[1] - line.centre[1]))
        if not alike(line, nearest, 1.33):
            continue
        shared = overlap(line.box[0], line.box[2], box[0], box[2])
        gap = max(line.box[1] - nearest.box[3], nearest.box[1] - line.box[3])
        if shared > 0.8 * line.width and gap < max(0.25 * text.height, text.pitch - text.height + 0.15 * text.height):
            if draft.type in (RegionType.TITLE, RegionType.CAPTION) and gap > 0.2 * text.height:
                continue
            trial = hull([box, line.box])
            if not any(
                d is not draft
                and intersection(trial, d.box)
                > intersection(box, d.box) + intersection(line.box, d.box) + 0.2 * area(line.box)
                for d in drafts
            ):
                best = min(best or (1e9, i), (max(0.0, gap), i))
    return drafts[best[1]] if best else None


def alike(a: TextLineBox, b: TextLineBox, most: float) -> bool:
    """Whether two lines' type sizes differ by no more than a factor, by x-height or by box height.

    Either is enough: capitals and digits raise the x-height, and lines without descenders have lower boxes.
    """
    ratios = [(a.height, b.height)] + ([(a.x_height, b.x_height)] if a.x_height and b.x_height else [])
    return any(1 / most < p / max(1e-6, q) < most for p, q in ratios)


def group_lines(free: Sequence[TextLineBox], taken: Sequence[Box], text: PageText) -> list[Draft]:
    """New text regions from lines by nearness, alignment and height; never across a taken box or a column's edge."""
    left = sorted(free, key=lambda line: (line.box[1], line.box[0]))
    groups: list[list[TextLineBox]] = []
    near: list[list[TextLineBox]] = []
    for line in left:
        # Lines come from the top down: a group that ends too far above this one is too far above all that follow.
        near = [g for g in near if line.box[1] - g[-1].box[3] <= 0.55 * g[-1].height]
        fitting = [g for g in near if _continues(g, line, text)]
        fitting = [g for g in fitting if not _crosses(hull([*(o.box for o in g), line.box]), line, g, taken)]
        if fitting:
            min(fitting, key=lambda g: line.box[1] - g[-1].box[3]).append(line)
        else:
            groups.append([line])
            near.append(groups[-1])
    return [Draft(RegionType.TEXT, lines=group) for group in groups]


def _continues(group: list[TextLineBox], line: TextLineBox, text: PageText) -> bool:
    last = group[-1]
    if last.vertical != line.vertical:
        return False
    if line.vertical:
        beside = max(line.box[0] - last.box[2], last.box[0] - line.box[2])
        return (
            beside < 1.0 * max(line.width, last.width)
            and overlap(line.box[1], line.box[3], last.box[1], last.box[3]) > 0
        )
    if not alike(line, last, 1.4):
        return False
    gap = line.box[1] - last.box[3]
    if gap > 0.55 * min(line.height, last.height) or line.centre[1] - last.centre[1] < 0.4 * last.height:
        return False
    shared = overlap(line.box[0], line.box[2], last.box[0], last.box[2])
    return shared > 0.5 * min(line.width, last.width)


def _crosses(trial: Box, line: TextLineBox, group: Sequence[TextLineBox], taken: Sequence[Box]) -> bool:
    """Whether joining would make the group's hull reach into a taken box that it did not touch before."""
    before = hull([o.box for o in group])
    slack = 0.3 * line.height * line.width
    return any(intersection(trial, b) > intersection(before, b) + intersection(line.box, b) + slack for b in taken)

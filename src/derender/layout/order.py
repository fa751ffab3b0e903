"""Reading order of boxes by recursive XY-cut with column handling, and of text lines within a region.

Pure functions of geometry and kinds: no picture, no text. The source is the XY-cut of Nagy and Seth (1984); ours are
the two rules that make it follow columns: bands of a page that share a gutter are read as one, column by column, and
a vertical cut counts only where its two sides stand beside each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from derender.document import Box, RegionType
from derender.layout.types import TextLineBox, area, hull, intersection, overlap

_LAST = (RegionType.FOOTNOTE, RegionType.FOOTER, RegionType.PAGE_NUMBER)
_MOST_LAID_OVER = 200  # a set of more boxes is a map or a drawing, and every pair is looked at
_NARROW = 0.62  # side notes: narrower than this share of the main column's text


def reading_order(boxes: Sequence[Box], types: Sequence[RegionType], page_size: tuple[float, float]) -> list[int]:
    """Indices of `boxes` in reading order: headers, body, footnotes, footers, page numbers.

    boxes: (x0, y0, x1, y1), y down; types: one for each box; page_size: width and height in the same unit. Side notes
    come after the column that they stand beside; captions stay next to their figure or table. The result is a
    permutation of range(len(boxes)) and depends on geometry only, not on the order of the input. Raises ValueError
    when boxes and types differ in number.
    """
    if len(boxes) != len(types):
        raise ValueError(f"{len(boxes)} boxes but {len(types)} types")
    groups: dict[RegionType | None, list[int]] = {}
    for i, kind in enumerate(types):
        key = kind if kind is RegionType.HEADER or kind in _LAST else None
        groups.setdefault(key, []).append(i)
    rank = _canonical(boxes, types)
    result: list[int] = []
    for key in (RegionType.HEADER, None, *_LAST):
        members = sorted(groups.get(key, []), key=rank.__getitem__)
        if key is None:
            body = _Cutter(boxes, page_size).order(members)
            result += _captions_beside(body, boxes, types)
        else:
            result += _rows(members, boxes)
    return result


def line_order(lines: Sequence[TextLineBox]) -> list[TextLineBox]:
    """Lines of one region in reading order: rows from the top, left to right; vertical text from right to left."""
    vertical = [line for line in lines if line.vertical]
    if vertical and len(vertical) * 2 > len(lines):
        return sorted(lines, key=lambda line: (-line.centre[0], line.box[1]))
    boxes = [line.box for line in lines]
    members = sorted(range(len(lines)), key=lambda i: (boxes[i][1], boxes[i][0], boxes[i][3], boxes[i][2]))
    return [lines[i] for i in _rows(members, boxes)]


def _canonical(boxes: Sequence[Box], types: Sequence[RegionType]) -> list[int]:
    """A rank for each box that does not depend on the input's order (ties are equal boxes of equal kind)."""
    order = sorted(
        range(len(boxes)), key=lambda i: (boxes[i][1], boxes[i][0], boxes[i][3], boxes[i][2], types[i].value)
    )
    rank = [0] * len(boxes)
    for place, i in enumerate(order):
        rank[i] = place
    return rank


def _rows(members: Sequence[int], boxes: Sequence[Box]) -> list[int]:
    """Boxes row by row: a box joins the row whose vertical middle it shares, rows run from left to right."""
    rows: list[list[int]] = []
    for i in sorted(members, key=lambda i: (boxes[i][1] + boxes[i][3], boxes[i][0])):
        y0, y1 = boxes[i][1], boxes[i][3]
        if rows:
            top = median(boxes[j][1] for j in rows[-1])
            bottom = median(boxes[j][3] for j in rows[-1])
            clash = any(
                overlap(boxes[i][0], boxes[i][2], boxes[j][0], boxes[j][2]) > 0.5 * (boxes[i][2] - boxes[i][0])
                for j in rows[-1]
            )
            if not clash and overlap(y0, y1, top, bottom) > 0.5 * min(y1 - y0, bottom - top):
                rows[-1].append(i)
                continue
        rows.append([i])
    return [i for row in rows for i in sorted(row, key=lambda i: (boxes[i][0], boxes[i][1]))]


def _common(gutters: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """What two bands' gutters share."""
    return [(max(a, c), min(b, d)) for a, b in gutters for c, d in others if min(b, d) > max(a, c)]


class _Cutter:
    """The recursion; keeps the boxes, shrunk a little so that boxes that touch or overlap slightly can be cut apart."""

    def __init__(self, boxes: Sequence[Box], page_size: tuple[float, float]) -> None:
        self.boxes = list(boxes)
        heights = sorted(b[3] - b[1] for b in boxes) or [1.0]
        line = heights[len(heights) // 4]  # regions of one line are the shortest
        self.slack = min(0.3 * line, 0.01 * page_size[1])
        self.small: list[Box] = []
        for x0, y0, x1, y1 in boxes:
            dx = min(self.slack, 0.2 * (x1 - x0))
            dy = min(self.slack, 0.2 * (y1 - y0))
            self.small.append((x0 + dx, y0 + dy, x1 - dx, y1 - dy))
        self.line = line

    def order(self, members: list[int]) -> list[int]:
        if len(members) <= 1:
            return list(members)
        columns = self._columns(members)
        if len(columns) > 1:
            if self._is_grid(columns):
                return _rows(members, self.boxes)
            return [i for column in self._side_notes_last(columns) for i in self.order(column)]
        bands = self._bands(members)
        if len(bands) > 1:
            return [i for part in self._merge(bands) for i in (part if len(part) == 1 else self._part(part, members))]
        return self._uncut(members)

    def _part(self, part: list[int], members: list[int]) -> list[int]:
        """A part of a set that was cut; the same set again would mean that no cut was made."""
        return self.order(part) if len(part) < len(members) else self._uncut(part)

    def _uncut(self, members: list[int]) -> list[int]:
        """A set that no cut parts: the box that lies over most others is set aside when the rest can be cut without it.

        It is put back after the run of boxes that it lies over, so that a picture under a column's text does not keep
        the page's columns from being seen.
        """
        if len(members) > _MOST_LAID_OVER:
            return self._by_precedence(members)
        over = {i: {j for j in members if j != i and intersection(self.small[i], self.small[j]) > 0} for i in members}
        top = max(members, key=lambda i: (len(over[i]), area(self.boxes[i])))
        rest = [i for i in members if i != top]
        if not over[top] or not (len(self._columns(rest)) > 1 or len(self._bands(rest)) > 1):
            return self._by_precedence(members)
        result = self.order(rest)
        place = next(k for k, i in enumerate(result) if i in over[top])
        while place < len(result) and result[place] in over[top]:
            place += 1
        return [*result[:place], top, *result[place:]]

    def _gaps(self, members: Sequence[int], axis: int) -> list[tuple[float, float]]:
        """Intervals of one axis (0: x, 1: y) that no box covers, between the outermost boxes."""
        spans = sorted((self.small[i][axis], self.small[i][axis + 2]) for i in members)
        gaps, end = [], spans[0][1]
        for start, stop in spans[1:]:
            if start > end:
                gaps.append((end, start))
            end = max(end, stop)
        return gaps

    def _bands(self, members: list[int]) -> list[list[int]]:
        """Cut by every horizontal gap, from the top."""
        cuts = [(a + b) / 2 for a, b in self._gaps(members, 1)]
        bands: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
        for i in members:
            middle = (self.small[i][1] + self.small[i][3]) / 2
            bands[sum(cut < middle for cut in cuts)].append(i)
        return bands

    def _columns(self, members: list[int]) -> list[list[int]]:
        """Cut by the vertical gaps whose sides stand beside each other, from the left; one part when there is none."""
        gaps = self._gaps(members, 0)
        parts: list[list[int]] = [[] for _ in range(len(gaps) + 1)]
        for i in members:
            middle = (self.small[i][0] + self.small[i][2]) / 2
            parts[sum((a + b) / 2 < middle for a, b in gaps)].append(i)
        # Neighbours that share little height are no columns (a date at the right above a text at the left).
        joined = [parts[0]]
        for part in parts[1:]:
            a, b = hull(self.boxes[i] for i in joined[-1]), hull(self.boxes[i] for i in part)
            shared = overlap(a[1], a[3], b[1], b[3])
            if shared < 0.35 * min(a[3] - a[1], b[3] - b[1]):
                joined[-1] = joined[-1] + part
            else:
                joined.append(part)
        return joined

    def _is_grid(self, columns: list[list[int]]) -> bool:
        """Narrow labels with their values: every box of the shortest column starts level with one in each other
        column.
        """
        hulls = [hull(self.boxes[i] for i in column) for column in columns]
        if hulls[0][2] - hulls[0][0] > 0.6 * max(b[2] - b[0] for b in hulls):
            return False
        if max(len(c) for c in columns) < 2:
            return False
        few = min(columns, key=len)
        if len(few) < 2 or any(self.boxes[i][3] - self.boxes[i][1] > 2.5 * self.line for i in few):
            return False
        for column in columns:
            for i in few:
                if not any(abs(self.boxes[i][1] - self.boxes[j][1]) < 0.5 * self.line for j in column):
                    return False
        return len(self._bands([i for c in columns for i in c])) > 1

    def _side_notes_last(self, columns: list[list[int]]) -> list[list[int]]:
        """Of two columns, a narrow one with little in it follows the main one."""
        if len(columns) != 2:
            return columns
        widths, ink = [], []
        for column in columns:
            sizes = sorted((self.boxes[i][2] - self.boxes[i][0], self.boxes[i][3] - self.boxes[i][1]) for i in column)
            areas = [w * h for w, h in sizes]
            ink.append(sum(areas))
            # The width of the column's text: half of its area is in boxes at least this wide.
            widths.append(next(w for k, (w, _) in enumerate(sizes) if sum(areas[: k + 1]) >= sum(areas) / 2))
        if widths[0] < _NARROW * widths[1] and ink[0] < 0.4 * ink[1]:
            return [columns[1], columns[0]]
        return columns

    def _merge(self, bands: list[list[int]]) -> list[list[int]]:
        """Joins neighbouring bands that share a gutter, so that columns are followed through accidental level gaps."""
        parts: list[list[int]] = []
        gutters: list[list[tuple[float, float]]] = []
        i = 0
        while i < len(bands):
            band = bands[i]
            own = self._gutters(band)
            if parts and gutters[-1]:
                common = _common(gutters[-1], own)
                if common:
                    parts[-1] = parts[-1] + band
                    gutters[-1] = common
                    i += 1
                    continue
                taken = self._one_sided_run(bands, i, gutters[-1], parts[-1])
                if taken:
                    for extra in bands[i : i + taken]:
                        parts[-1] = parts[-1] + extra
                    i += taken
                    continue
            elif own and parts:
                # One-sided boxes just above a two-column band belong to its column (the other column starts lower).
                run: list[int] = []
                while parts and not gutters[-1] and self._fits_beside(parts[-1], own, band):
                    run = parts.pop() + run
                    gutters.pop()
                band = run + band
            parts.append(band)
            gutters.append(own)
            i += 1
        return parts

    def _gutters(self, band: list[int]) -> list[tuple[float, float]]:
        """Vertical gaps of a band, without those that only part labels from values."""
        return self._gaps(band, 0) if len(band) > 1 else []

    def _one_sided_run(
        self, bands: list[list[int]], start: int, gaps: list[tuple[float, float]], above: list[int]
    ) -> int:
        """How many bands from `start` continue one column of the part above; 0 unless one of them is about as wide as
        its column, or they stand at the right and both columns go on below (a heading in the right column).
        """
        count, convincing, right = 0, False, True
        for band in bands[start:]:
            own = self._gutters(band)
            if own or not self._on_one_side(band, gaps):
                convincing = convincing or (count > 0 and right and bool(_common(gaps, own)))
                break
            count += 1
            right = right and any(min(self.small[i][0] for i in band) >= a for a, _ in gaps)
            convincing = convincing or self._fits_beside(band, gaps, above)
        return count if convincing else 0

    def _on_one_side(self, band: list[int], gaps: list[tuple[float, float]]) -> bool:
        box = hull(self.small[i] for i in band)
        return any(box[2] <= b and box[0] < a or box[0] >= a and box[2] > b for a, b in gaps)

    def _fits_beside(self, band: list[int], gaps: list[tuple[float, float]], columns: list[int]) -> bool:
        """Whether a band lies on one side of a gutter and is about as wide as what stands there."""
        if not self._on_one_side(band, gaps):
            return False
        box = hull(self.boxes[i] for i in band)
        middle = (box[0] + box[2]) / 2
        same = [i for i in columns if overlap(self.boxes[i][0], self.boxes[i][2], box[0], box[2]) > 0]
        if not same:
            return False
        column = hull(self.boxes[i] for i in same)
        return column[0] <= middle <= column[2] and box[2] - box[0] >= 0.6 * (column[2] - column[0])

    def _by_precedence(self, members: list[int]) -> list[int]:
        """For boxes that no cut parts: repeatedly takes a box that nothing left has to precede, down a column if
        possible.

        A precedes B when it is above B and they share width, or left of B and they share height (after Breuel 2003).
        """
        left = sorted(members, key=lambda i: (self.boxes[i][1], self.boxes[i][0], self.boxes[i][3], self.boxes[i][2]))
        after = {j: [i for i in left if i != j and self._precedes(j, i)] for j in left}
        before = Counter(i for following in after.values() for i in following)  # a map has a thousand boxes
        result: list[int] = []
        while left:
            free = [i for i in left if not before[i]] or left[:1]
            chosen = self._below(result[-1], free) if result else free[0]
            left.remove(chosen)
            result.append(chosen)
            before.subtract(after[chosen])
        return result

    def _below(self, last: int, free: list[int]) -> int:
        """The free box that goes on below the last one in its column, else the first free one."""
        a = self.boxes[last]
        under = []
        for i in free:
            b = self.boxes[i]
            shared = overlap(a[0], a[2], b[0], b[2])
            if b[1] + b[3] > a[1] + a[3] and shared > 0.5 * min(a[2] - a[0], b[2] - b[0]):
                under.append(i)
        return min(under, key=lambda i: (self.boxes[i][1], self.boxes[i][0])) if under else free[0]

    def _precedes(self, a: int, b: int) -> bool:
        p, q = self.boxes[a], self.boxes[b]
        wide = overlap(p[0], p[2], q[0], q[2]) / max(1e-6, min(p[2] - p[0], q[2] - q[0]))
        tall = overlap(p[1], p[3], q[1], q[3]) / max(1e-6, min(p[3] - p[1], q[3] - q[1]))
        if wide > tall:
            return p[1] + p[3] < q[1] + q[3]
        return tall > 0 and p[0] + p[2] < q[0] + q[2]


def _captions_beside(order: list[int], boxes: Sequence[Box], types: Sequence[RegionType]) -> list[int]:
    """Moves each caption directly before or after the figure or table that it is closest to, when one is near."""
    pictures = [i for i in order if types[i] in (RegionType.FIGURE, RegionType.TABLE)]
    result = list(order)
    for caption in [i for i in order if types[i] is RegionType.CAPTION]:
        box = boxes[caption]
        near: list[tuple[float, int]] = []
        for i in pictures:
            other = boxes[i]
            gap = max(other[1] - box[3], box[1] - other[3], 0.0)
            shared = overlap(box[0], box[2], other[0], other[2])
            if shared > 0.5 * min(box[2] - box[0], other[2] - other[0]) and gap < 3 * (box[3] - box[1]):
                near.append((gap, i))
        if not near:
            continue
        target = min(near, key=lambda item: (item[0], result.index(item[1])))[1]
        place, own = result.index(target), result.index(caption)
        between = result[min(place, own) + 1 : max(place, own)]
        if any(types[i] is not RegionType.CAPTION for i in between):
            result.remove(caption)
            below = box[1] + box[3] > boxes[target][1] + boxes[target][3]
            result.insert(result.index(target) + (1 if below else 0), caption)
    return result

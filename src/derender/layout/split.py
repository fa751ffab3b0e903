"""Splits text regions where geometry is clear: columns, headings, paragraphs, list items and references.

Evidence: row distance, indentation, marker and hanging indent, height and weight of letters, and lines that end
early. Does not know the text, so numbered headings in body type stay where they are unless spacing sets them off.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from derender.document import RegionType
from derender.layout.drafts import Draft, PageText, rows_of
from derender.layout.ink import Ink
from derender.layout.types import TextLineBox, hull, overlap

Row = list[TextLineBox]
_FLOWING = frozenset({RegionType.TEXT, RegionType.REFERENCE, RegionType.LIST})
_BOLD = 1.22  # stroke weight over the body's
_LARGE = 1.17  # x-height over the body's


def split_regions(drafts: Sequence[Draft], text: PageText, ink: Ink) -> list[Draft]:
    """Splits text and reference drafts; other kinds pass, except titles that are plain paragraphs. Keeps every line."""
    result: list[Draft] = []
    for draft in drafts:
        if draft.type is RegionType.TITLE and _is_paragraph(draft, text):
            draft.type = RegionType.TEXT
        if draft.type not in _FLOWING or any(line.vertical for line in draft.lines):
            result.append(draft)
            continue
        for column in split_columns(draft.lines, text.height):
            result += _split_rows(column, draft, text, ink)
    return result


def is_bold(lines: Sequence[TextLineBox], text: PageText) -> bool:
    """Whether most of the lines' length has clearly heavier strokes than the page's body."""
    known = [line for line in lines if line.weight > 0]
    if not known or text.weight <= 0:
        return False
    heavy = 0.0
    for line in known:
        # A line of capitals has no small letters to compare with: the box tells its size then.
        expected = text.x_height * max(1.0, line.height / text.height)
        stroke = line.weight * line.x_height
        relative = stroke / min(line.x_height, expected) / text.weight
        # Small type has relatively thick strokes without being bold: the stroke itself must be thicker, too.
        if relative > _BOLD and stroke > 1.08 * text.weight * text.x_height:
            heavy += line.width
    return heavy > 0.6 * sum(line.width for line in known)


def is_large(lines: Sequence[TextLineBox], text: PageText) -> bool:
    """Whether letters are clearly larger than the page's body, by x-height and by box height.

    Both are asked for: capitals and digits in body type raise the x-height alone.
    """
    return size_ratio(lines, text) > _LARGE


def size_ratio(lines: Sequence[TextLineBox], text: PageText) -> float:
    """Type size over the body's; 1 when unknown."""
    sizes = [line.x_height for line in lines if line.x_height > 0 and not line.vertical]
    if not sizes or text.x_height <= 0:
        return 1.0
    return min(median(sizes) / text.x_height, median(line.height for line in lines) / text.height)


def split_columns(lines: Sequence[TextLineBox], height: float) -> list[list[TextLineBox]]:
    """Parts lines that stand in columns with at least three rows each (two, when they are wide), from left to right."""
    spans = sorted((line.box[0], line.box[2]) for line in lines)
    end = spans[0][1]
    for start, stop in spans[1:]:
        # Generous line boxes of neighbouring columns may touch.
        if start - end > -0.4 * height:
            cut = (start + end) / 2
            left = [line for line in lines if line.centre[0] < cut]
            right = [line for line in lines if line.centre[0] >= cut]
            # Slivers narrower than the overlap allowed can all lie on one side of the cut.
            if left and right and _are_columns(left, right, height):
                return [*split_columns(left, height), *split_columns(right, height)]
        end = max(end, stop)
    return [list(lines)]


def _are_columns(left: Sequence[TextLineBox], right: Sequence[TextLineBox], height: float) -> bool:
    a, b = hull([line.box for line in left]), hull([line.box for line in right])
    narrow = min(a[2] - a[0], b[2] - b[0])
    fewest = min(len(rows_of(left)), len(rows_of(right)))
    tall = fewest >= 3 and narrow > 5 * height or fewest == 2 and narrow > 11 * height
    return tall and overlap(a[1], a[3], b[1], b[3]) > 0


def _is_paragraph(draft: Draft, text: PageText) -> bool:
    """A "title" of four or more rows in body type."""
    return len(rows_of(draft.lines)) >= 4 and not is_bold(draft.lines, text) and not is_large(draft.lines, text)


def _split_rows(lines: Sequence[TextLineBox], draft: Draft, text: PageText, ink: Ink) -> list[Draft]:
    rows = rows_of(lines)
    frame = _Frame(rows, text)
    marks = [_marker(row, ink) for row in rows]
    marked, sure = [m[0] for m in marks], [m[1] for m in marks]
    starts = {0}
    heads: set[int] = set()
    for i in range(1, len(rows)):
        if frame.gap_before(i):
            starts.add(i)
    for i, n in _heading_runs(rows, frame, text, starts):
        starts.update({i, i + n} - {len(rows)})
        heads.update(range(i, i + n))
    for i in sorted(starts):
        if i not in heads and not sure[i] and frame.headed(i):
            starts.add(i + 1)
            heads.add(i)
    hanging = frame.hanging(marked)
    # Paragraphs that cite are often taken for references: entries have marks or hang.
    listed = hanging or any(sure)
    items: set[int] = set()
    item_text: float | None = None  # where the text of the item that the rows belong to begins
    hung = False
    for i in range(len(rows)):
        if i in heads:
            item_text = None
            continue
        if i > 0 and frame.centred_alone(i):
            starts.update({i, i + 1} - {len(rows)})
        if item_text is not None and i not in starts and not sure[i] and not hanging:
            if abs(frame.lefts[i] - item_text) < 0.5 * frame.height:
                hung = True
                continue
            if frame.lefts[i] < item_text - 0.6 * frame.height and (hung or frame.ends_early(i - 1)):
                starts.add(i)
                item_text = None
                continue
        if hanging and frame.at_margin(i):
            starts.add(i)
            items.add(i)
        elif marked[i] and _item_start(i, rows, marked, sure, frame, starts):
            starts.add(i)
            items.add(i)
            item_text, hung = frame.lefts[i] + marked[i], False
        elif not hanging and i > 0 and frame.indented(i):
            starts.add(i)
    result = []
    order = sorted(starts)
    for start, stop in zip(order, [*order[1:], len(rows)], strict=True):
        kind = draft.type
        if kind is RegionType.REFERENCE and not listed:
            kind = RegionType.TEXT
        if start in heads:
            kind = RegionType.TITLE
        elif start in items and draft.type is RegionType.TEXT and marked[start]:
            kind = RegionType.LIST
        result.append(Draft(kind, lines=[line for row in rows[start:stop] for line in row], score=draft.score))
    return result


class _Frame:
    """Margins and row distances of a block of rows."""

    def __init__(self, rows: Sequence[Row], text: PageText) -> None:
        self.rows = rows
        self.boxes = [hull([line.box for line in row]) for row in rows]
        self.height = median([b[3] - b[1] for b in self.boxes])
        self.lefts = [b[0] for b in self.boxes]
        self.rights = [b[2] for b in self.boxes]
        self.left = min(self.lefts)
        self.right = max(self.rights)
        middles = [(b[1] + b[3]) / 2 for b in self.boxes]
        self.distances = [0.0] + [b - a for a, b in zip(middles, middles[1:], strict=False)]
        usual = text.pitch * self.height / text.height if text.height else 1.2 * self.height
        inner = sorted(self.distances[1:])
        # With few rows the page's own row distance is the better guide.
        self.pitch = median(inner) if len(inner) >= 4 else min([usual, *inner])
        centres = [(b[0] + b[2]) / 2 for b in self.boxes]
        spread = max(centres) - min(centres)
        ragged = max(self.lefts) - self.left
        self.centred = len(rows) > 1 and ragged > self.height and spread < 0.35 * ragged

    def gap_before(self, i: int) -> bool:
        """A row distance clearly over the usual one; tall rows (fractions, large type) count by their free space."""
        free = self.boxes[i][1] - self.boxes[i - 1][3]
        usual = self.pitch - self.height
        wide = self.distances[i] > 1.28 * self.pitch and free > usual + 0.22 * self.height
        return wide and self.distances[i] - self.pitch > 0.25 * self.height

    def at_margin(self, i: int) -> bool:
        return self.lefts[i] - self.left < 0.4 * self.height

    def ends_early(self, i: int) -> bool:
        return self.rights[i] < self.right - 2 * self.height

    def headed(self, i: int) -> bool:
        """A block's first row that ends far too early for justified text, while at least two of the next three rows
        are full.
        """
        following = range(i + 1, min(i + 4, len(self.rows)))
        full = sum(self.rights[j] > self.right - 0.8 * self.height for j in following)
        width = self.rights[i] - self.lefts[i]
        return full >= 2 and self.at_margin(i) and width < 0.7 * (self.right - self.left) and self.at_margin(i + 1)

    def centred_alone(self, i: int) -> bool:
        """A row set in alike from both margins between rows that are not: a heading in capitals or a displayed
        formula.
        """
        left, right = self.lefts[i] - self.left, self.right - self.rights[i]
        if self.centred or min(left, right) < 1.5 * self.height or abs(left - right) > 0.8 * self.height:
            return False
        return self.at_margin(i - 1) and (self.ends_early(i - 1) or min(left, right) > 3 * self.height)

    def hanging(self, marked: Sequence[float]) -> bool:
        """First rows stand out to the left: several rows at the margin, each run after one indented by one common
        amount.
        """
        inside = [i for i in range(len(self.rows)) if not self.at_margin(i)]
        if self.centred or len(self.rows) < 3 or not inside or not self.at_margin(0):
            return False
        steps = [self.lefts[i] - self.left for i in inside]
        common = median(steps)
        close = sum(abs(s - common) < 0.5 * self.height for s in steps)
        outside = [i for i in range(len(self.rows)) if self.at_margin(i)]
        followed = sum(i + 1 < len(self.rows) and not self.at_margin(i + 1) for i in outside)
        if close < 0.8 * len(steps) or common > 0.35 * (self.right - self.left):
            return False
        # A lone first line with all others indented, or more indented rows than a paragraph's first lines would give.
        many = len(inside) >= 0.4 * len(self.rows)
        return many and (followed >= 0.5 * len(outside) or all(marked[i] > 0 for i in outside))

    def indented(self, i: int) -> bool:
        """A paragraph's first line: set in from the margin while the row above is not, or the row above ends early."""
        if self.centred:
            return False
        step = self.lefts[i] - self.left
        if not 0.45 * self.height < step < 0.3 * (self.right - self.left):
            return False
        if (
            i + 1 < len(self.rows)
            and not self.at_margin(i + 1)
            and abs(self.lefts[i + 1] - self.lefts[i]) < 0.3 * self.height
        ):
            # Two rows set in alike: a quotation or an item's continuation, unless the row above ends early.
            return self.at_margin(i - 1) and self.rights[i - 1] < self.right - 3 * self.height
        return self.at_margin(i - 1) or self.rights[i - 1] < self.right - 2 * self.height


def _heading_runs(rows: Sequence[Row], frame: _Frame, text: PageText, starts: set[int]) -> list[tuple[int, int]]:
    """(first row, number of rows) of headings: at most three rows in bolder or larger type that end before the
    margin.
    """
    runs = []
    i = 0
    while i < len(rows):
        n = 0
        while i + n < len(rows) and n < 4 and _heading_row(rows[i + n], text) and (n == 0 or i + n not in starts):
            n += 1
        if 0 < n <= 3:
            last = i + n - 1
            alone = last + 1 == len(rows) or last + 1 in starts
            short = frame.rights[last] < frame.right - 1.5 * frame.height or alone
            whole = n < len(rows) or is_large(rows[0], text) or (is_bold(rows[0], text) and len(rows) <= 2)
            first = (
                i in starts
                or i == 0
                or frame.rights[i - 1] < frame.right - 2 * frame.height
                or frame.distances[i] > 1.1 * frame.pitch
            )
            if short and whole and first:
                runs.append((i, n))
        i += max(n, 1)
    return runs


def _heading_row(row: Row, text: PageText) -> bool:
    widest = max(line.width for line in row)
    if widest < 1.5 * max(line.height for line in row):
        return False
    return is_bold(row, text) or is_large(row, text)


def _marker(row: Row, ink: Ink) -> tuple[float, bool]:
    """Distance from the row's left edge to its text, when the row begins with a short mark and a wide blank (else 0),
    and
    whether the blank is clearly wider than those between the line's words.

    A mark is a bullet, "1.", "(a)" or "[12]": at most 2.2 box heights wide, followed by a blank of at least 0.3.
    """
    first = row[0]
    if first.marker:
        strips = ink.blank_columns(first.box, 0.25 * first.height)
        return (strips[0][1] - first.box[0] if strips and strips[0][0] > first.box[0] else 1.0), True
    if len(row) > 1 and first.width < 2.2 * first.height and row[1].box[0] - first.box[2] < 2 * first.height:
        return row[1].box[0] - first.box[0], True
    if first.width < 3 * first.height:
        return 0.0, False
    x0, y0, x1, y1 = first.box
    strips = ink.blank_columns((x0, y0, x0 + 3.2 * first.height, y1), 0.3 * first.height)
    strips = [s for s in strips if s[0] > x0 + 0.15 * first.height]
    if not strips or strips[0][0] - x0 > 2.2 * first.height or strips[0][1] > x0 + 3.1 * first.height:
        return 0.0, False
    words = sorted(b - a for a, b in ink.blank_columns((x0, y0, x1, y1), 0.14 * first.height))
    usual = words[len(words) // 2] if len(words) >= 3 else 0.35 * first.height
    return strips[0][1] - x0, strips[0][1] - strips[0][0] >= 1.35 * usual


def _item_start(
    i: int, rows: Sequence[Row], marked: Sequence[float], sure: Sequence[bool], frame: _Frame, starts: set[int]
) -> bool:
    """A marked row is an item when its own continuation hangs, or a neighbouring item's mark is just as wide."""
    if rows[i][0].marker:
        return True
    text_at = frame.lefts[i] + marked[i]
    if i + 1 < len(rows) and i + 1 not in starts:
        hang = abs(frame.lefts[i + 1] - text_at) < (0.35 if sure[i] else 0.2) * frame.height
        if hang and not frame.ends_early(i):
            return True
    for j in (i - 1, i + 1):
        if (
            0 <= j < len(rows)
            and sure[i]
            and sure[j]
            and abs(frame.lefts[j] + marked[j] - text_at) < 0.2 * frame.height
        ):
            if frame.ends_early(min(i, j)) and abs(frame.lefts[j] - frame.lefts[i]) < 0.5 * frame.height:
                return True
    return False

"""Which columns a heading stands over when its text is narrower than they are.

From the rule drawn under it, shared out where several headings stand over one rule, else from what it is centred on.
Does not decide which rows are headings (rows.py) and does not make cells (grid.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from derender.layout.types import overlap
from derender.table.rows import Placed
from derender.table.types import Rule

Span = tuple[int, int]
Extents = Sequence[tuple[float, float]]


def heading_spans(
    row: Sequence[Placed], owned: frozenset[int], extents: Extents, rules: Sequence[Rule], height: float
) -> list[Span]:
    """First and last column of each segment of a heading row.

    owned: columns that have headings of their own further down. extents: where each column's text lies (x from, to);
    height: text height. A span never shrinks and never runs into another segment's columns.
    """
    spans = [(a, b) for _, a, b in row]
    for numbers, cols in _over_rules(row, extents, rules, height):
        for number, span in zip(numbers, _share(cols, [row[i] for i in numbers], extents, height), strict=True):
            spans[number] = span
    for i, (segment, a, b) in enumerate(row):
        if spans[i] == (a, b):
            taken = {c for k, (first, last) in enumerate(spans) if k != i for c in range(first, last + 1)}
            spans[i] = _centred((segment, a, b), owned - taken, extents, height)
    return spans


def _over_rules(
    row: Sequence[Placed], extents: Extents, rules: Sequence[Rule], height: float
) -> list[tuple[list[int], list[int]]]:
    """Rules close under the row: (the segments that stand over each, left to right; the columns that it underlines)."""
    found = []
    done: set[int] = set()
    for rule in rules:
        numbers = []
        for i, (segment, _, _) in enumerate(row):
            x0, _, x1, y1 = segment.box
            under = rule.horizontal and -0.3 * height <= rule.at - y1 < 1.6 * height
            if under and i not in done and overlap(x0, x1, *rule.span) >= 0.8 * (x1 - x0):
                numbers.append(i)
        cols = [c for c, e in enumerate(extents) if overlap(*e, *rule.span) > 0.5 * (e[1] - e[0])]
        inside = all(cols and cols[0] <= row[i][1] and row[i][2] <= cols[-1] for i in numbers)
        whole = len(cols) == len(extents) and len(numbers) == 1
        if whole:
            middle = (extents[0][0] + extents[-1][1]) / 2
            inside = inside and abs(middle - row[numbers[0]][0].centre[0]) <= height
        if numbers and inside and cols[0] + len(cols) - 1 == cols[-1] and (cols[0] > 0 or len(numbers) == 1):
            found.append((sorted(numbers, key=lambda i: row[i][0].box[0]), cols))
            done |= set(numbers)
    return found


def _share(cols: Sequence[int], row: Sequence[Placed], extents: Extents, height: float) -> list[Span]:
    """The columns over a rule shared out among its headings so that each is centred on its share; headings keep their
    own columns where that does not come out well.
    """
    own = [(a, b) for _, a, b in row]
    if any(b >= c for (_, b), (c, _) in zip(own, own[1:], strict=False)):
        return own
    best: dict[int, tuple[float, list[Span]]] = {cols[0]: (0.0, [])}
    for segment, a, b in row:
        after: dict[int, tuple[float, list[Span]]] = {}
        for start, (cost, spans) in best.items():
            for end in range(b, cols[-1] + 1):
                if start > a:
                    continue
                off = abs((extents[start][0] + extents[end][1]) / 2 - segment.centre[0])
                if end + 1 not in after or cost + off < after[end + 1][0]:
                    after[end + 1] = (cost + off, [*spans, (start, end)])
        best = after
    cost, spans = best.get(cols[-1] + 1, (float("inf"), own))
    return spans if len(row) == 1 or cost / len(row) <= 2.5 * height else own


def _centred(heading: Placed, free: frozenset[int], extents: Extents, height: float) -> Span:
    """The span, among free neighbours, that the heading is centred on clearly better than on its own columns."""
    segment, a, b = heading
    centre = segment.centre[0]

    def off(i: int, j: int) -> float:
        return abs((extents[i][0] + extents[j][1]) / 2 - centre)

    choice, least = (a, b), off(a, b)
    if not all(c in free for c in range(a, b + 1)) or (a == b and least < 0.5 * height):
        return a, b
    low, high = a, b
    while low - 1 in free:
        low -= 1
    while high + 1 in free:
        high += 1
    for i in range(low, a + 1):
        for j in range(b, high + 1):
            if off(i, j) < least - 0.2 * height:
                choice, least = (i, j), off(i, j)
    return choice

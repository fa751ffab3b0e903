"""From text lines and ruling lines to a grid of cells: the rule-based table structure.

    rows of text -> separators -> segments in columns -> table rows -> spans -> cells

Rows and columns from gaps and rules (columns.py, rows.py), spans from text or rules that cross them. No line is lost.
Does not look at the picture and does not read text. Expects level lines (read.py turns a leaning crop).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from derender.document import Box
from derender.layout.types import hull, overlap
from derender.table.columns import Separator, find_separators
from derender.table.headings import heading_spans
from derender.table.place import place
from derender.table.rows import Placed, RowPlan, plan_rows
from derender.table.segments import Segment, segments_of, text_height, text_rows
from derender.table.types import GridCell, Piece, Rule, TableGrid, TableLine


@dataclass
class _Cell:
    """A rectangle of the grid in the making; bounds inclusive."""

    top: int
    bottom: int
    left: int
    right: int
    segments: list[Segment] = field(default_factory=list)


def grid_from_lines(
    lines: Sequence[TableLine | Box], rules: Sequence[Rule] = (), size: tuple[float, float] | None = None
) -> TableGrid:
    """The grid of a table. lines: text lines with their words where known, or bare boxes; size: (width, height) of the
    crop in pixels, for the outer edges (by default the hull of the text).

    Every line has at least one piece, and every piece belongs to one cell. No lines give a grid without cells.
    """
    items = [line if isinstance(line, TableLine) else TableLine(line) for line in lines]
    if not items:
        return TableGrid(0, 0)
    height = text_height(items)
    rows = text_rows(items, segments_of(items, height))
    separators = find_separators(rows, rules, height)
    placed = place(rows, separators, rules, height)
    extents = _extents(placed, separators)
    plan = plan_rows(placed, rules, extents, height)
    cells = _row_cells(placed, plan, extents, separators, rules, height)
    cells = _fill(cells, len(plan.groups), len(extents))
    cells = _lattice_spans(cells, separators, rules, plan, placed)
    cells = _row_spans(cells, plan, rules)
    return _finish(cells, plan, placed, separators, size, items)


def _extents(placed: Sequence[Sequence[Placed]], separators: Sequence[Separator]) -> list[tuple[float, float]]:
    """Where the text of each column lies: hull of the segments that are in it alone."""
    boxes: list[list[Box]] = [[] for _ in range(len(separators) + 1)]
    everything = [s.box for row in placed for s, _, _ in row]
    for row in placed:
        for segment, a, b in row:
            if a == b:
                boxes[a].append(segment.box)
    xs = [min(b[0] for b in everything), *(s.x for s in separators), max(b[2] for b in everything)]
    return [
        (min(b[0] for b in own), max(b[2] for b in own)) if own else (xs[c], xs[c + 1]) for c, own in enumerate(boxes)
    ]


def _row_cells(
    placed: Sequence[Sequence[Placed]],
    plan: RowPlan,
    extents: Sequence[tuple[float, float]],
    separators: Sequence[Separator],
    rules: Sequence[Rule],
    height: float,
) -> list[_Cell]:
    """The filled cells of each table row; segments whose columns overlap share a cell."""
    cells: list[_Cell] = []
    for r, group in enumerate(plan.groups):
        own: list[_Cell] = []
        members = [p for number in group for p in placed[number]]
        spans = [(a, b) for _, a, b in members]
        if r < plan.header:
            lower = [p for group in plan.groups[r + 1 : plan.header] for number in group for p in placed[number]]
            owned = frozenset(c for _, a, b in lower for c in range(a, b + 1))
            spans = heading_spans(members, owned, extents, rules, height)
        for (segment, first, last), (a, b) in zip(members, spans, strict=True):
            if r < plan.header:
                low, high = _between_rules(first, last, separators)
                a, b = max(a, low), min(b, high)
            elif a == 0 < b and len(members) == 1 and len(extents) > 2:
                b = 0  # a heading between rows that runs over the first column's edge
            own.append(_Cell(r, r, a, b, [segment]))
        cells += _join_overlapping(_mend(own, rules, height) if r < plan.header else own)
    return cells


def _mend(cells: list[_Cell], rules: Sequence[Rule], height: float) -> list[_Cell]:
    """Headings whose words the detector parted: a cell that begins a word gap after the one before it belongs to it."""
    cells = sorted(cells, key=lambda c: c.segments[0].box[0])
    joined: list[_Cell] = []
    for cell in cells:
        before = joined[-1].segments[-1].box if joined else None
        here = cell.segments[0].box
        near = before is not None and -0.2 * height < here[0] - before[2] < 0.6 * height
        level = before is not None and overlap(before[1], before[3], here[1], here[3]) > 0.6 * (here[3] - here[1])
        y = (here[1] + here[3]) / 2
        drawn = before is not None and any(
            not r.horizontal and r.span[0] <= y <= r.span[1] and before[2] - 2 <= r.at <= here[0] + 2 for r in rules
        )
        wide = bool(joined) and (joined[-1].left < joined[-1].right or cell.left < cell.right)
        if near and level and wide and not drawn:
            joined[-1].right = max(joined[-1].right, cell.right)
            joined[-1].segments += cell.segments
        else:
            joined.append(cell)
    return joined


def _between_rules(a: int, b: int, separators: Sequence[Separator]) -> tuple[int, int]:
    """The columns around a..b up to the next vertical rules."""
    low, high = a, b
    while low > 0 and not separators[low - 1].ruled:
        low -= 1
    while high < len(separators) and not separators[high].ruled:
        high += 1
    return low, high


def _join_overlapping(cells: list[_Cell]) -> list[_Cell]:
    cells = sorted(cells, key=lambda c: (c.left, c.right))
    joined: list[_Cell] = []
    for cell in cells:
        if joined and cell.left <= joined[-1].right:
            joined[-1].right = max(joined[-1].right, cell.right)
            joined[-1].segments += cell.segments
        else:
            joined.append(cell)
    return joined


def _fill(cells: list[_Cell], rows: int, cols: int) -> list[_Cell]:
    """Empty cells for the places that no cell covers."""
    taken = {(r, c) for x in cells for r in range(x.top, x.bottom + 1) for c in range(x.left, x.right + 1)}
    empty = [_Cell(r, r, c, c) for r in range(rows) for c in range(cols) if (r, c) not in taken]
    return sorted([*cells, *empty], key=lambda x: (x.top, x.left))


def _lattice_spans(
    cells: list[_Cell],
    separators: Sequence[Separator],
    rules: Sequence[Rule],
    plan: RowPlan,
    placed: Sequence[Sequence[Placed]],
) -> list[_Cell]:
    """Joins neighbours of a row where a column's rule is interrupted and one of the two is empty."""
    verticals = [r for r in rules if not r.horizontal]
    for r, group in enumerate(plan.groups):
        y = float(np.mean([p[0].centre[1] for number in group for p in placed[number]]))
        open_C = [_is_open(s, verticals, y) for s in separators]
        joined = True
        while joined:  # a filled cell grows over one empty neighbour after the other, to both sides
            joined = False
            for c in (c for c, is_open in enumerate(open_C) if is_open):
                left = next((x for x in cells if x.top == x.bottom == r and x.right == c), None)
                right = next((x for x in cells if x.top == x.bottom == r and x.left == c + 1), None)
                if left and right and bool(left.segments) != bool(right.segments):
                    left.right = right.right
                    left.segments += right.segments
                    cells.remove(right)
                    joined = True
    return cells


def _is_open(s: Separator, verticals: Sequence[Rule], y: float) -> bool:
    """Whether a separator's rule is drawn elsewhere but not at height y."""
    near = [v for v in verticals if abs(v.at - s.x) < 6 + 0.5 * (s.high - s.low)]
    return s.ruled and bool(near) and not any(v.span[0] - 3 <= y <= v.span[1] + 3 for v in near)


def _row_spans(cells: list[_Cell], plan: RowPlan, rules: Sequence[Rule]) -> list[_Cell]:
    """Joins cells above each other where a rule that parts two rows leaves a column out."""
    lattice = any(not r.horizontal for r in rules)
    for border, ruled in enumerate(plan.ruled):
        if not ruled:
            continue
        for upper in [x for x in cells if x.bottom == border]:
            if ruled & set(range(upper.left, upper.right + 1)):
                continue
            lower = next((x for x in cells if x.top == border + 1 and x.left == upper.left), None)
            if lower is None or lower.right != upper.right:
                continue
            header = border + 1 < plan.header
            one_empty = not (upper.segments and lower.segments)
            both_empty = not upper.segments and not lower.segments
            if header and not both_empty or lattice and (one_empty or upper.left == 0):
                upper.bottom = lower.bottom
                upper.segments += lower.segments
                cells.remove(lower)
    return cells


def _finish(
    cells: list[_Cell],
    plan: RowPlan,
    placed: Sequence[Sequence[Placed]],
    separators: Sequence[Separator],
    size: tuple[float, float] | None,
    lines: Sequence[TableLine],
) -> TableGrid:
    box = hull(line.box for line in lines)
    x0, y0, x1, y1 = box if size is None else (0.0, 0.0, float(size[0]), float(size[1]))
    spans = []
    for group in plan.groups:
        boxes = [p[0].box for number in group for p in placed[number]]
        spans.append((min(b[1] for b in boxes), max(b[3] for b in boxes)))
    inner = [max((a[1] + b[0]) / 2, a[0]) for a, b in zip(spans, spans[1:], strict=False)]
    row_edges = np.maximum.accumulate([min(y0, box[1]), *inner, max(y1, box[3])])
    col_edges = (min(x0, box[0]), *(s.x for s in separators), max(x1, box[2]))
    pieces: list[Piece] = []
    out = []
    for cell in sorted(cells, key=lambda x: (x.top, x.left)):
        numbers = []
        for segments in _one_line(cell.segments):
            numbers.append(len(pieces))
            pieces.append(
                Piece(hull(s.box for s in segments), segments[0].line, tuple(n for s in segments for n in s.numbers))
            )
        out.append(
            GridCell(
                cell.top,
                cell.left,
                cell.bottom - cell.top + 1,
                cell.right - cell.left + 1,
                cell.top < plan.header,
                tuple(numbers),
            )
        )
    return TableGrid(
        len(plan.groups),
        len(separators) + 1,
        tuple(out),
        tuple(pieces),
        tuple(float(y) for y in row_edges),
        tuple(float(x) for x in col_edges),
    )


def _one_line(segments: Sequence[Segment]) -> list[list[Segment]]:
    """A cell's segments in reading order; those of one line stay together."""
    by_line: dict[int, list[Segment]] = {}
    for s in segments:
        by_line.setdefault(s.line, []).append(s)
    groups = [sorted(g, key=lambda s: s.box[0]) for g in by_line.values()]
    tops = sorted(groups, key=lambda g: hull(s.box for s in g)[1] + hull(s.box for s in g)[3])
    rows: list[list[list[Segment]]] = []
    for group in tops:
        box = hull(s.box for s in group)
        if rows:
            last = hull(s.box for g in rows[-1] for s in g)
            if overlap(box[1], box[3], last[1], last[3]) > 0.6 * min(box[3] - box[1], last[3] - last[1]):
                rows[-1].append(group)
                continue
        rows.append([group])
    return [g for row in rows for g in sorted(row, key=lambda g: g[0].box[0])]

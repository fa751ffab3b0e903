"""What to read for each cell: corners of the text lines' parts that lie in it.

A line that bridges two columns is cut at the gap, so that a recogniser reads each part as a line of its own. Does not
crop and does not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derender.layout.types import overlap
from derender.recognise.types import Quad
from derender.table.types import Rule, TableGrid

PAD = 0.25  # of a line's height: what a cut part keeps of the gap on either side, as detected lines do


@dataclass(frozen=True)
class CellQuad:
    """One line part to read. cell: number of its cell in the grid; line: number of the text line it is part of."""

    quad: Quad
    cell: int
    line: int


def cell_quads(grid: TableGrid, lines: Sequence[Quad], rules: Sequence[Rule] = ()) -> list[CellQuad]:
    """The parts to read, cell by cell in the grid's order, in reading order in each cell.

    lines: corners of the text lines that the grid was made from, same order, in the same (level) pixels. A line that
    lies in one cell as a whole keeps its corners, unless they reach beyond a vertical one of `rules`: a rule at a
    line's end is read as a stroke.
    """
    parts: dict[int, list[int]] = {}
    for number, piece in enumerate(grid.pieces):
        parts.setdefault(piece.line, []).append(number)
    result = []
    for c, cell in enumerate(grid.cells):
        for number in cell.pieces:
            piece = grid.pieces[number]
            quad = lines[piece.line]
            low, high = -np.inf, np.inf
            for other in parts[piece.line]:
                box = grid.pieces[other].box
                if other != number and box[0] >= piece.box[2]:
                    high = min(high, (piece.box[2] + box[0]) / 2)
                elif other != number and box[2] <= piece.box[0]:
                    low = max(low, (piece.box[0] + box[2]) / 2)
            for rule in rules:
                if not rule.horizontal and overlap(*rule.span, piece.box[1], piece.box[3]) > 0:
                    if rule.at <= piece.box[0]:
                        low = max(low, rule.at + rule.thickness / 2 + 1)
                    elif rule.at >= piece.box[2]:
                        high = min(high, rule.at - rule.thickness / 2 - 1)
            low, high = min(low, piece.box[0]), max(high, piece.box[2])
            result.append(CellQuad(_cut(quad, piece.box[0], piece.box[2], float(low), float(high)), c, piece.line))
    return result


def _cut(quad: Quad, x0: float, x1: float, low: float, high: float) -> Quad:
    """The quad between x0 and x1 and some of the gap, at most to low and high."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = quad
    height = max(1.0, ((dy - ay) + (cy - by)) / 2)
    left, right = max(x0 - PAD * height, low), min(x1 + PAD * height, high)
    start, end = min(ax, dx), max(bx, cx)
    start, end = min(start, x0), max(end, x1)
    if (
        x0 >= min(ax, dx)
        and x1 <= max(bx, cx)
        and left <= start + 0.6 * height
        and right >= end - 0.6 * height
        and low < start
        and high > end
    ):
        return quad
    left, right = max(left, start), min(right, end)
    if right - left < 1:
        return quad

    def at(p: tuple[float, float], q: tuple[float, float], x: float) -> tuple[float, float]:
        share = 0.0 if q[0] == p[0] else (x - p[0]) / (q[0] - p[0])
        return (x, p[1] + share * (q[1] - p[1]))

    return (
        at((ax, ay), (bx, by), left),
        at((ax, ay), (bx, by), right),
        at((dx, dy), (cx, cy), right),
        at((dx, dy), (cx, cy), left),
    )

"""Places a table structure on the plane: text lines of every cell, ruling lines in one of several styles.

Units: pixels; a font size, paddings and column widths are drawn. Does not spoil anything (table_noise.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from derender.document import Box
from derender.table.types import Rule
from derender.train.table_structure import CellPlan, Structure

Style = Literal["ruled", "rows", "half", "unruled", "zebra"]
STYLES: tuple[Style, ...] = ("ruled", "rows", "half", "unruled", "zebra")
SPACE = 0.28  # of an em


@dataclass(frozen=True)
class Placed:
    """A table on the plane. lines: (box, number of the cell), cell by cell; em: font size in pixels."""

    size: tuple[float, float]
    em: float
    style: Style
    lines: tuple[tuple[Box, int], ...]
    rules: tuple[Rule, ...]


def draw_style(rng: np.random.Generator) -> Style:
    """One of STYLES, as often as print has them."""
    return STYLES[int(rng.choice(5, p=[0.3, 0.15, 0.25, 0.2, 0.1]))]


def place_table(rng: np.random.Generator, table: Structure) -> Placed:
    """Lays a structure out as a typesetter does: words wrapped at the columns' widths, rows as high as they need."""
    em = float(rng.uniform(9, 26))
    style = draw_style(rng)
    pad = float(rng.uniform(0.3, 0.8) if style == "ruled" else rng.uniform(0.45, 1.5)) * em
    lead = float(rng.uniform(1.1, 1.35)) * em
    gap = float(rng.uniform(0.05, 0.9)) * em * (1.0 if rng.random() < 0.8 else 0.2)
    if rng.random() < 0.2:  # airy rows
        gap = float(rng.uniform(0.9, 2.5)) * em
    widths = _column_widths(rng, table, em, pad)
    x_edges = np.concatenate([[0.0], np.cumsum(widths)])
    wrapped: list[list[float]] = []
    starts: list[set[int]] = []  # of bulleted items, by the line
    indent = float(rng.uniform(1.0, 2.5)) * em  # of bulleted items
    for cell in table.cells:
        room = float(x_edges[cell.col + cell.colspan] - x_edges[cell.col]) - 2 * pad - (indent if cell.items else 0)
        rows: list[float] = []
        first: set[int] = set()
        for item in np.array_split(np.asarray(cell.words) * em, max(1, cell.items)):
            first.add(len(rows))
            rows += _wrap(item.tolist(), max(room, 1.0), SPACE * em)
        wrapped.append(rows)
        starts.append(first if cell.items else set())
    broken = any(len(w) > 1 for cell, w in zip(table.cells, wrapped, strict=True) if not cell.header)
    if broken and style not in ("ruled", "rows") and rng.random() < 0.85:  # else nobody could tell lines from rows
        gap = max(gap, float(rng.uniform(0.3, 1.0)) * em)
    apart = float(rng.uniform(0.0, 0.5)) * lead  # between items
    if rng.random() < 0.7:
        apart = min(apart, 0.6 * gap)
    counts = [len(w) + max(0, len(s) - 1) * apart / lead for w, s in zip(wrapped, starts, strict=True)]
    heights = _row_heights(table, counts, lead, gap)
    if rng.random() < 0.3:
        heights += _lone(table) * float(rng.uniform(0.3, 1.5)) * lead
    own_dot = rng.random() < 0.5  # the detector finds bullets as lines of their own
    y_edges = np.concatenate([[0.0], np.cumsum(heights)])
    valign = float(rng.choice([0.0, 0.5, 1.0], p=[0.55, 0.3, 0.15]))
    head_valign = float(rng.choice([0.0, 0.5, 1.0], p=[0.3, 0.3, 0.4]))
    lines: list[tuple[Box, int]] = []
    for number, (cell, rows) in enumerate(zip(table.cells, wrapped, strict=True)):
        x0, x1 = float(x_edges[cell.col]) + pad, float(x_edges[cell.col + cell.colspan]) - pad
        free = float(y_edges[cell.row + cell.rowspan] - y_edges[cell.row]) - gap - counts[number] * lead
        y = float(y_edges[cell.row]) + gap / 2 + max(0.0, free) * (head_valign if cell.header else valign)
        for i, width in enumerate(rows):
            left = x0 + indent if cell.items else _left(rng, table, cell, x0, x1, width, em)
            if i in starts[number]:
                y += apart if i else 0.0
                if own_dot:
                    lines.append(((x0, y + 0.3 * lead, x0 + 0.4 * em, y + 0.7 * lead), number))
                else:
                    width += left - x0
                    left = x0
            lines.append(((left, y + 0.08 * lead, left + width, y + 0.92 * lead), number))
            if cell.mark and i == len(rows) - 1 and rng.random() < 0.3:  # raised, and found as a line of its own
                lines.append(((left + width + 0.1 * em, y, left + width + 0.5 * em, y + 0.5 * lead), number))
            y += lead
    rules = _rules(rng, table, style, x_edges, y_edges)
    return Placed((float(x_edges[-1]), float(y_edges[-1])), em, style, tuple(lines), tuple(rules))


def _column_widths(rng: np.random.Generator, table: Structure, em: float, pad: float) -> np.ndarray:
    longest = np.full(table.cols, 1.0 * em)
    narrow = rng.random() < 0.5  # headings are broken to the width of what stands below them
    limit = float(rng.uniform(6, 22)) * em
    for cell in table.cells:
        if cell.colspan == 1 and cell.words:
            whole = em * (sum(cell.words) + SPACE * (len(cell.words) - 1))
            if narrow and cell.header:
                whole = em * max(cell.words)
            longest[cell.col] = max(longest[cell.col], min(whole, max(limit, em * max(cell.words))))
    spread = float(rng.choice([1.0, rng.uniform(1.0, 1.5), rng.uniform(1.5, 3.5)], p=[0.4, 0.35, 0.25]))
    if rng.random() < 0.25:  # columns of one width, but for the first
        longest[1:] = longest[1:].max(initial=0.0)
    return longest * spread + 2 * pad  # wide tables are set to the width of the page


def _wrap(words: list[float], room: float, space: float) -> list[float]:
    """Widths of the lines that the words make; a word wider than the room has a line of its own."""
    rows: list[float] = []
    for word in words:
        if rows and rows[-1] + space + word <= room:
            rows[-1] += space + word
        else:
            rows.append(min(word, room))
    return rows


def _lone(table: Structure) -> np.ndarray:
    """1 for rows of the body that hold a single filled cell: headings between rows, which often stand apart."""
    filled = np.zeros(table.rows)
    for cell in table.cells:
        if cell.words:
            filled[cell.row : cell.row + cell.rowspan] += 1
    filled[: table.head + 1] = 0
    return np.asarray(filled == 1, float)


def _row_heights(table: Structure, counts: list[float], lead: float, gap: float) -> np.ndarray:
    heights = np.full(table.rows, lead + gap)
    spanning = []
    for cell, count in zip(table.cells, counts, strict=True):
        if cell.rowspan == 1:
            heights[cell.row] = max(heights[cell.row], count * lead + gap)
        else:
            spanning.append((cell, count * lead + gap))
    for cell, need in spanning:
        own = slice(cell.row, cell.row + cell.rowspan)
        heights[own] += max(0.0, need - float(heights[own].sum())) / cell.rowspan
    return heights


def _left(
    rng: np.random.Generator, table: Structure, cell: CellPlan, x0: float, x1: float, width: float, em: float
) -> float:
    """Left end of a line in the room x0-x1."""
    align = table.aligns[cell.col]
    if cell.colspan > 1 or (cell.header and align != "left"):
        return (x0 + x1 - width) / 2
    if cell.col == 0 and not cell.header and rng.random() < 0.01:  # a total
        return max(x0, x1 - width)
    if align == "left":
        indent = em * float(rng.integers(0, 3)) if cell.col == 0 and not cell.header and rng.random() < 0.1 else 0.0
        return x0 + min(indent, max(0.0, x1 - x0 - width))
    if align == "centre":
        return (x0 + x1 - width) / 2
    tail = 0.5 * em * float(rng.integers(0, 4)) if align == "decimal" else 0.0  # digits after the point
    return max(x0, x1 - width - 1.5 * em + tail) if align == "decimal" else x1 - width


def _rules(
    rng: np.random.Generator, table: Structure, style: Style, x_edges: np.ndarray, y_edges: np.ndarray
) -> list[Rule]:
    owner = table.owner()
    thick = float(rng.uniform(1, 3))
    rules: list[Rule] = []
    if style in ("unruled", "zebra"):
        return rules
    closed = rng.random() < 0.8
    for border in range(table.rows + 1):
        outer = border in (0, table.rows)
        if style == "half" and not (outer or border <= table.head or rng.random() < 0.04):
            continue
        if outer and not closed:
            continue
        open_C = np.ones(table.cols, bool) if outer else owner[border - 1] != owner[border]
        if style == "half" and 0 < border < table.head:  # under groups only, a little apart from each other
            groups = {int(owner[border - 1, c]) for c in range(table.cols)}
            for cell in (table.cells[g] for g in sorted(groups)):
                if cell.colspan > 1 and cell.row + cell.rowspan == border:
                    a, b = float(x_edges[cell.col]), float(x_edges[cell.col + cell.colspan])
                    trim = 0.04 * (b - a) * float(rng.integers(0, 2))
                    rules.append(_level(a + trim, b - trim, float(y_edges[border]), thick))
            continue
        rules += [_level(float(x_edges[a]), float(x_edges[b]), float(y_edges[border]), thick) for a, b in runs(open_C)]
    if style == "ruled":
        for border in range(table.cols + 1):
            outer = border in (0, table.cols)
            if outer and not closed:
                continue
            open_R = np.ones(table.rows, bool) if outer else owner[:, border - 1] != owner[:, border]
            for a, b in runs(open_R):
                x = float(x_edges[border])
                rules.append(Rule(x, float(y_edges[a]), x, float(y_edges[b]), False, thick))
    return rules


def _level(x0: float, x1: float, y: float, thickness: float) -> Rule:
    return Rule(x0, y, x1, y, True, thickness)


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """(start, stop) of the stretches that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]

"""Random table structures: which cells there are, their spans, headings and how much text each holds.

Sizes in ems of the table's font. Does not place anything (table_boxes.py) and draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Align = Literal["left", "centre", "right", "decimal"]
MAX_ROWS, MAX_COLS = 40, 15


@dataclass(frozen=True)
class CellPlan:
    """One cell. words: widths of its words in ems, empty for an empty cell; mark: a footnote mark follows; items: how
    many bulleted items the words make, 0 for running text."""

    row: int
    col: int
    rowspan: int
    colspan: int
    header: bool
    words: tuple[float, ...]
    mark: bool = False
    items: int = 0


@dataclass(frozen=True)
class Structure:
    """A grid of cells that tile it, each column's alignment and the number of heading rows."""

    rows: int
    cols: int
    head: int
    cells: tuple[CellPlan, ...]
    aligns: tuple[Align, ...]

    def owner(self) -> np.ndarray:
        """(rows, cols): the number of the cell that covers each place."""
        owner_RC = np.zeros((self.rows, self.cols), np.int64)
        for number, x in enumerate(self.cells):
            owner_RC[x.row : x.row + x.rowspan, x.col : x.col + x.colspan] = number
        return owner_RC


def draw_structure(rng: np.random.Generator) -> Structure:
    """A random structure of 1-40 rows and 1-15 columns; small tables are the most frequent."""
    rows = int(min(MAX_ROWS, 1 + rng.gamma(1.8, 5.5)))
    cols = int(min(MAX_COLS, 1 + rng.gamma(2.2, 2.0)))
    levels = int(rng.choice([0, 1, 2, 3], p=[0.15, 0.5, 0.25, 0.1]))
    head = min(levels, rows - 1) if cols > 1 else min(levels, 1, rows - 1)
    numeric = rng.random() < 0.75
    aligns: list[Align] = []
    for c in range(cols):
        if c == 0:
            aligns.append("left" if rng.random() < 0.85 else "centre")
        elif numeric and rng.random() < 0.8:
            aligns.append(("right", "decimal", "centre")[int(rng.integers(3))])  # type: ignore[arg-type]
        else:
            aligns.append("left" if rng.random() < 0.6 else "centre")
    lists = float(rng.choice([0.0, 0.8], p=[0.9, 0.1]))
    owner = np.full((rows, cols), -1, np.int64)
    cells: list[CellPlan] = []

    def put(row: int, col: int, height: int, width: int, words: tuple[float, ...]) -> None:
        owner[row : row + height, col : col + width] = len(cells)
        mark = bool(words) and rng.random() < 0.03
        items = (
            int(rng.integers(1, 1 + len(words) // 3)) if row >= head and len(words) > 5 and rng.random() < lists else 0
        )
        cells.append(CellPlan(row, col, height, width, row < head, words, mark and not items, items))

    _heading(rng, head, cols, put)
    _row_headings(rng, head, rows, cols, put)
    empty = float(rng.choice([0.0, 0.03, 0.2]))
    long = float(rng.choice([0.0, 0.1, 0.6], p=[0.5, 0.3, 0.2]))
    for r in range(head, rows):
        if cols > 1 and rng.random() < 0.04 and (owner[r] < 0).all():
            _between(rng, r, cols, put)
        for c in range(cols):
            if owner[r, c] >= 0:
                continue
            width = 1
            if rng.random() < 0.006:
                width = int(rng.integers(1, 4))
                while not (owner[r, c : c + width] < 0).all() or c + width > cols:
                    width -= 1
            put(r, c, 1, width, () if rng.random() < empty else _words(rng, aligns[c], c == 0, long))
    order = sorted(cells, key=lambda x: (x.row, x.col))
    return Structure(rows, cols, head, tuple(order), tuple(aligns))


def _heading(rng: np.random.Generator, head: int, cols: int, put) -> None:  # type: ignore[no-untyped-def]
    """Heading rows from the top: groups over groups over columns; columns outside any group reach down."""
    if head == 0:
        return
    corner = rng.random()  # an empty corner, one that reaches down, or a plain one

    def level(row: int, first: int, last: int) -> None:
        c = first
        while c < last:
            left = last - c
            if row == head - 1:
                put(row, c, 1, 1, _label(rng))
                c += 1
            elif left >= 2 and rng.random() < 0.75:
                width = int(rng.integers(2, min(left, 6) + 1))
                put(row, c, 1, width, _label(rng))
                level(row + 1, c, c + width)
                c += width
            else:
                put(row, c, head - row, 1, _label(rng))
                c += 1

    start = 0
    if cols > 1 and corner < 0.85:
        if corner < 0.6 or head == 1:
            put(0, 0, head, 1, () if corner < 0.15 else _label(rng))
        else:
            for r in range(head - 1):
                put(r, 0, 1, 1, ())
            put(head - 1, 0, 1, 1, _label(rng))
        start = 1
    level(0, start, cols)


def _row_headings(rng: np.random.Generator, head: int, rows: int, cols: int, put) -> None:  # type: ignore[no-untyped-def]
    """Row headings over several rows in the first column, and in some of them in the second too."""
    if cols < 3 or rng.random() > 0.2:
        return
    nested = cols > 3 and rng.random() < 0.2
    steady = int(rng.integers(2, 5)) if rng.random() < 0.5 else 0
    r = head
    while r < rows:
        height = min(rows - r, steady or int(rng.integers(1, 6)))
        put(r, 0, height, 1, _label(rng))
        if nested:
            at = r
            while at < r + height:
                part = min(r + height - at, int(rng.integers(1, 3)))
                put(at, 1, part, 1, _label(rng))
                at += part
        r += height


def _between(rng: np.random.Generator, row: int, cols: int, put) -> None:  # type: ignore[no-untyped-def]
    """A heading between body rows: one cell over the whole width, or a label before empty cells."""
    words = _label(rng)
    if rng.random() < 0.4:
        put(row, 0, 1, cols, words)
        return
    put(row, 0, 1, 1, words)
    for c in range(1, cols):
        put(row, c, 1, 1, ())


def _label(rng: np.random.Generator) -> tuple[float, ...]:
    return tuple((0.8 + rng.gamma(2.5, 0.9, int(rng.integers(1, 5)))).tolist())


def _words(rng: np.random.Generator, align: Align, first: bool, long: float) -> tuple[float, ...]:
    if align in ("right", "decimal") and rng.random() < 0.95:
        return (float(0.5 * rng.integers(1, 9)),)
    if rng.random() < (long if align == "left" else 0.2 * long):
        return tuple((0.6 + rng.gamma(2.5, 0.9, int(rng.integers(4, 30)))).tolist())
    return tuple((0.6 + rng.gamma(2.5, 0.9, int(rng.integers(1, 6 if first else 4)))).tolist())

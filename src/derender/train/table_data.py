"""Training samples for the table decoder: line boxes and ruling lines in, OTSL with pointers out. No rendering.

    structure -> boxes -> detector noise -> reading order -> tokens `<fcel> <line 3> <line 4> <ecel> <lcel> <nl>`

Deterministic: sample i of a seed is always the same. Does not make tensors and does not render (a rendered share with
the real detector's boxes is table_render.py). Tables lying on their side are left to the reader, which levels them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from derender.assemble.otsl import ECEL, FCEL, LCEL, NL, UCEL, XCEL
from derender.document import Box
from derender.table.types import Rule, TableGrid
from derender.train.table_boxes import Style, place_table
from derender.train.table_noise import DetectorNoise, Line, spoil
from derender.train.table_structure import Structure, draw_structure

CLEAN = DetectorNoise(0, 0, 0, 0, 0, 0, 0)
_POINTER = re.compile(r"<line (\d+)>")


@dataclass(frozen=True)
class TableSample:
    """One table. boxes: detected lines in reading order, pixels, all inside (0, 0, *size); rules: ruling lines; tokens:
    OTSL in which `<line n>` after <fcel> points to boxes[n]; header_rows: rows of heading; stray: boxes that no cell
    points to (noise). A box over several cells is pointed to by each of them; a filled cell all of whose boxes were
    missed is <ecel>. grid: the rule-based grid where it was made of more than the boxes; they are then its pieces.
    """

    size: tuple[float, float]
    boxes: tuple[Box, ...]
    rules: tuple[Rule, ...]
    tokens: tuple[str, ...]
    rows: int
    cols: int
    header_rows: int
    style: Style
    stray: tuple[int, ...] = ()
    grid: TableGrid | None = None


def make_table(seed: int, index: int, noise: DetectorNoise | None = None) -> TableSample:
    """Sample `index` of `seed`. noise: by default that of DetectorNoise; CLEAN for none."""
    rng = np.random.default_rng((seed, index))
    table = draw_structure(rng)
    placed = place_table(rng, table)
    clean: list[Line] = [(box, (cell,)) for box, cell in placed.lines]
    lines, rules = spoil(rng, clean, list(placed.rules), placed.em, noise or DetectorNoise())
    lines = _in_order(lines, placed.em)
    shift, size = _frame(rng, lines, rules, placed.em, placed.size)
    boxes = tuple(_move(box, *shift) for box, _ in lines)
    moved = tuple(
        Rule(r.x0 + shift[0], r.y0 + shift[1], r.x1 + shift[0], r.y1 + shift[1], r.horizontal, r.thickness)
        for r in rules
    )
    tokens = tokens_of(table, lines)
    stray = tuple(n for n, (_, cells) in enumerate(lines) if not cells)
    return TableSample(size, boxes, moved, tokens, table.rows, table.cols, table.head, placed.style, stray)


def tables(seed: int, start: int = 0, noise: DetectorNoise | None = None) -> Iterator[TableSample]:
    """Samples start, start + 1, ... of a seed, without end."""
    index = start
    while True:
        yield make_table(seed, index, noise)
        index += 1


def pointers(text: str) -> list[int]:
    """The line numbers in a cell's text as derender.assemble.otsl gives it for these tokens."""
    return [int(n) for n in _POINTER.findall(text)]


def _in_order(lines: list[Line], em: float) -> list[Line]:
    """Rows of text from the top, left to right in each: the order that lines reach the decoder in."""
    rows: list[tuple[float, list[Line]]] = []
    for line in sorted(lines, key=lambda item: item[0][1] + item[0][3]):
        middle = (line[0][1] + line[0][3]) / 2
        if rows and middle - rows[-1][0] < 0.4 * em:
            rows[-1][1].append(line)
        else:
            rows.append((middle, [line]))
    return [line for _, row in rows for line in sorted(row, key=lambda item: item[0][0])]


def _frame(
    rng: np.random.Generator, lines: list[Line], rules: list[Rule], em: float, size: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(shift, size) of a crop that holds everything, with a margin such as a region detector leaves."""
    xs = [v for box, _ in lines for v in (box[0], box[2])] + [v for r in rules for v in (r.x0, r.x1)] or [0.0, size[0]]
    ys = [v for box, _ in lines for v in (box[1], box[3])] + [v for r in rules for v in (r.y0, r.y1)] or [0.0, size[1]]
    margin = rng.uniform(0.0, 0.8, 4) * em
    shift = (float(margin[0]) - min(xs), float(margin[1]) - min(ys))
    return shift, (max(xs) + shift[0] + float(margin[2]) + 1.0, max(ys) + shift[1] + float(margin[3]) + 1.0)


def _move(box: Box, x: float, y: float) -> Box:
    return (box[0] + x, box[1] + y, box[2] + x, box[3] + y)


def tokens_of(table: Structure, lines: Sequence[Line]) -> tuple[str, ...]:
    """A structure's OTSL with pointers. lines: each with the numbers of its cells."""
    held: list[list[int]] = [[] for _ in table.cells]
    for number, (_, cells) in enumerate(lines):
        for cell in cells:
            held[cell].append(number)
    tokens: list[str] = []
    for r, row in enumerate(table.owner().tolist()):
        for c, number in enumerate(row):
            plan = table.cells[number]
            if (plan.row, plan.col) == (r, c):
                tokens.append(FCEL if held[number] else ECEL)
                tokens += [f"<line {n}>" for n in held[number]]
            else:
                tokens.append(LCEL if plan.row == r else UCEL if plan.col == c else XCEL)
        tokens.append(NL)
    return tuple(tokens)

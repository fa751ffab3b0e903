"""Reads a table's crop: plan (level, rules, words, grid, what to read), then texts into cells, OTSL and HTML.

The plan knows no recogniser; `TableReader` joins it with any function that reads cells. Does not find tables on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from derender.assemble.otsl import cells_to_otsl
from derender.assemble.tables import cells_to_html
from derender.document import Box, Cell
from derender.layout.types import box_of
from derender.recognise.types import Image, Quad
from derender.table.grid import grid_from_lines
from derender.table.level import level
from derender.table.quads import cell_quads
from derender.table.rules import find_rules
from derender.table.types import Rule, TableGrid
from derender.table.words import ink_words

if TYPE_CHECKING:
    from derender.layout.detect_lines import LineDetector

CellText = tuple[str, float | None]
"""A cell's text and its confidence (0-1, None when there is nothing to be sure of)."""
FindStructure = Callable[[TableGrid, Sequence[Rule], tuple[float, float]], TableGrid]
"""A better grid of the same pieces: the rule-based grid, the ruling lines, (width, height) of the crop -> grid."""
ReadCells = Callable[[Image, list[tuple[Quad, ...]]], list[CellText]]
"""Reads cells of one picture: for each cell the corners of its lines, in reading order -> its text."""


@dataclass(frozen=True)
class TablePlan:
    """A table's structure and what to read in it. All in the crop's pixels.

    boxes: of the grid's cells; quads: for each cell the line parts to read; lines: for each of those the number of the
    text line it is part of.
    """

    grid: TableGrid
    boxes: tuple[Box, ...] = ()
    quads: tuple[tuple[Quad, ...], ...] = ()
    lines: tuple[tuple[int, ...], ...] = ()


@dataclass
class TableReading:
    """A table as read. text: a row a line, cells parted by tabs."""

    cells: list[Cell] = field(default_factory=list)
    otsl: str = ""
    html: str = ""
    text: str = ""


def plan_table(image: Image, quads: Sequence[Quad], structure: FindStructure | None = None) -> TablePlan:
    """The structure of a table. image: (H, W, 3) uint8 RGB; quads: its text lines in its pixels, corners clockwise
    from each text's own top-left; structure: what makes the table of the rule-based grid, which is kept without it. No
    lines give a plan without cells.
    """
    if not quads:
        return TablePlan(TableGrid(0, 0))
    flat = level(image, quads)
    boxes = [box_of(q) for q in flat.quads]
    rules = find_rules(flat.image, float(np.median([b[3] - b[1] for b in boxes])), boxes)
    height, width = flat.image.shape[:2]
    lines = ink_words(flat.image, boxes, rules)
    # What the detector took for text although it is a ruling line has no ink of its own.
    kept = [i for i, line in enumerate(lines) if line.words] or list(range(len(lines)))
    grid = grid_from_lines([lines[i] for i in kept], rules, (width, height))
    if structure is not None:
        grid = structure(grid, rules, (float(width), float(height)))
    cell_parts: list[list[Quad]] = [[] for _ in grid.cells]
    cell_lines: list[list[int]] = [[] for _ in grid.cells]
    for part in cell_quads(grid, [flat.quads[i] for i in kept], rules):
        cell_parts[part.cell].append(flat.quad_back(part.quad))
        cell_lines[part.cell].append(kept[part.line])
    return TablePlan(
        grid,
        tuple(_clip(flat.box_back(grid.box(cell)), image) for cell in grid.cells),
        tuple(tuple(p) for p in cell_parts),
        tuple(tuple(n) for n in cell_lines),
    )


def _clip(box: Box, image: Image) -> Box:
    height, width = image.shape[:2]
    x0, y0 = min(max(box[0], 0.0), width), min(max(box[1], 0.0), height)
    return (x0, y0, min(max(box[2], x0), width), min(max(box[3], y0), height))


def table_reading(grid: TableGrid, boxes: Sequence[Box], texts: Sequence[CellText]) -> TableReading:
    """Cells, OTSL, HTML and plain text from a grid and, for each of its cells, box and text."""
    cells = [
        Cell(
            row=cell.row,
            col=cell.col,
            rowspan=cell.rowspan,
            colspan=cell.colspan,
            header=cell.header,
            text=text,
            box=box,
            confidence=None if confidence is None else round(confidence, 4),
        )
        for cell, box, (text, confidence) in zip(grid.cells, boxes, texts, strict=True)
    ]
    if not cells:
        return TableReading()
    return TableReading(cells, "".join(cells_to_otsl(cells)), cells_to_html(cells), cells_to_text(cells))


def cells_to_text(cells: Sequence[Cell]) -> str:
    """A line for each row, cells parted by tabs; places that a span covers are empty."""
    rows = max((c.row for c in cells), default=-1) + 1
    cols = max((c.col + c.colspan for c in cells), default=0)
    grid = [[""] * cols for _ in range(rows)]
    for cell in cells:
        grid[cell.row][cell.col] = " ".join(cell.text.split())
    return "\n".join("\t".join(row).rstrip() for row in grid)


class TableReader:
    """Reads table crops with a function that reads cells, and a line detector for crops that come without lines.
    structure: see plan_table."""

    def __init__(
        self, read_cells: ReadCells, detector: LineDetector | None = None, structure: FindStructure | None = None
    ) -> None:
        self.read_cells, self.detector, self.structure = read_cells, detector, structure

    def read(self, image: Image, lines: Sequence[Quad] | None = None) -> TableReading:
        """image: (H, W, 3) uint8 RGB; lines: corners of its text lines, None to have them detected (ValueError when
        there is no detector).
        """
        if lines is None:
            if self.detector is None:
                raise ValueError("a table without lines needs a line detector")
            lines = detect_lines(image, self.detector)
        plan = plan_table(image, lines, self.structure)
        return table_reading(plan.grid, plan.boxes, self.read_cells(image, list(plan.quads)))


def detect_lines(image: Image, detector: LineDetector) -> tuple[Quad, ...]:
    """Text lines of a table's crop. Where most of them stand upright, the table lies on its side and is taken to be
    turned left, as print is: text from bottom to top.
    """
    found = detector.detect(image, 150 / 72).lines
    if sum(line.vertical for line in found) * 2 > len(found):
        return tuple((d, a, b, c) for a, b, c, d in (line.quad for line in found))
    return tuple(line.quad for line in found)

"""Typed containers of the table reader: text lines, ruling lines, the grid.

Units: pixels of the table's crop, origin at its top-left corner, x to the right, y down. Boxes are (x0, y0, x1, y1).
Does not find or group anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender.document import Box


@dataclass(frozen=True)
class TableLine:
    """One text line of the crop. words: boxes of its words or ink runs, left to right; empty when not known.

    text: what it says, when known (native words); word_texts: the same word by word, in the order of `words`, or
    empty. confidence: 0-1 or None.
    """

    box: Box
    text: str = ""
    confidence: float | None = None
    words: tuple[Box, ...] = ()
    word_texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One ruling line, drawn through the middle of its stroke: (x0, y0) left or upper end, (x1, y1) the other."""

    x0: float
    y0: float
    x1: float
    y1: float
    horizontal: bool
    thickness: float = 1.0

    @property
    def at(self) -> float:
        """y of a horizontal rule, x of a vertical one, at its middle."""
        return (self.y0 + self.y1) / 2 if self.horizontal else (self.x0 + self.x1) / 2

    @property
    def span(self) -> tuple[float, float]:
        """Where it begins and ends, along itself."""
        return (self.x0, self.x1) if self.horizontal else (self.y0, self.y1)

    @property
    def length(self) -> float:
        return self.span[1] - self.span[0]


@dataclass(frozen=True)
class Piece:
    """A part of a text line that lies in one cell: its box, the line's number, the numbers of that line's words."""

    box: Box
    line: int
    words: tuple[int, ...] = ()


@dataclass(frozen=True)
class GridCell:
    """One cell: place, spans (at least 1), header flag, and the numbers of its pieces in reading order."""

    row: int
    col: int
    rowspan: int = 1
    colspan: int = 1
    header: bool = False
    pieces: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableGrid:
    """A rectangular grid: every (row, col) is covered by exactly one cell; every piece belongs to exactly one.

    row_edges, col_edges: rows + 1 and cols + 1 positions.
    """

    rows: int
    cols: int
    cells: tuple[GridCell, ...] = ()
    pieces: tuple[Piece, ...] = ()
    row_edges: tuple[float, ...] = (0.0,)
    col_edges: tuple[float, ...] = (0.0,)

    def box(self, cell: GridCell) -> Box:
        """The cell's rectangle."""
        return (
            self.col_edges[cell.col],
            self.row_edges[cell.row],
            self.col_edges[cell.col + cell.colspan],
            self.row_edges[cell.row + cell.rowspan],
        )

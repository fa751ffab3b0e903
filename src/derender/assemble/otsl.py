"""OTSL, the token language for table structure, <-> a grid of cells; and repair of token strings that are no table.

Tokens: <fcel> cell with text, <ecel> empty cell, <lcel> joined to the left, <ucel> joined to the one above, <xcel>
inside a span in both directions, <nl> end of row (Lysak et al., "Optimized Table Tokenization", arXiv 2305.03393).
Any other string in a sequence is text of the cell before it. Does not know which rows are headers: OTSL cannot say
it, so the caller does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from derender.document import Cell

FCEL, ECEL, LCEL, UCEL, XCEL, NL = "<fcel>", "<ecel>", "<lcel>", "<ucel>", "<xcel>", "<nl>"
TAGS = frozenset({FCEL, ECEL, LCEL, UCEL, XCEL, NL})
_SPLIT = re.compile(r"(<(?:[fexlu]cel|nl)>)")


class _Slot:
    """One place of the grid while it is being repaired."""

    def __init__(self, tag: str, text: str = "") -> None:
        self.tag = tag
        self.text = text

    def own(self) -> None:
        """Makes the place a cell of its own."""
        self.tag = FCEL if self.text else ECEL


def tokenise(text: str) -> list[str]:
    """An OTSL string as tokens: tags, and the stretches of text between them (outer white space stripped, empty
    dropped).
    """
    return [piece.strip() for piece in _SPLIT.split(text) if piece.strip()]


def repair_otsl(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """A rectangular, valid OTSL sequence with the same texts, and one sentence for each kind of repair at a place.

    Valid input comes back unchanged with no repairs; so does the output of this function.
    """
    repairs: list[str] = []
    grid = _read(tokens, repairs)
    _even_out(grid, repairs)
    _fix_spans(grid, repairs)
    return _write(grid), repairs


def otsl_to_cells(tokens: Sequence[str], header_rows: int = 0) -> list[Cell]:
    """The cells of a token sequence (repaired first), row by row. Cells that start above `header_rows` are headers."""
    grid = _read(repair_otsl(tokens)[0], [])
    cells = []
    for r, row in enumerate(grid):
        for c, slot in enumerate(row):
            if slot.tag in (FCEL, ECEL):
                height, width = _extent(grid, r, c)
                cell = Cell(row=r, col=c, rowspan=height, colspan=width, header=r < header_rows, text=slot.text)
                cells.append(cell)
    return cells


def cells_to_otsl(cells: Sequence[Cell]) -> list[str]:
    """The tokens of a grid. Places that no cell covers become <ecel>. Raises ValueError when two cells overlap."""
    owners = occupancy(cells)
    rows = max((r for r, _ in owners), default=-1) + 1
    cols = max((c for _, c in owners), default=-1) + 1
    tokens: list[str] = []
    for r in range(rows):
        for c in range(cols):
            cell = owners.get((r, c))
            if cell is None:
                tokens.append(ECEL)
            elif (cell.row, cell.col) == (r, c):
                tokens += [FCEL, cell.text] if cell.text else [ECEL]
            else:
                tokens.append(LCEL if cell.row == r else UCEL if cell.col == c else XCEL)
        tokens.append(NL)
    return tokens


def occupancy(cells: Sequence[Cell]) -> dict[tuple[int, int], Cell]:
    """Which cell covers each (row, col). Raises ValueError when two cells cover the same place."""
    owners: dict[tuple[int, int], Cell] = {}
    for cell in cells:
        for r in range(cell.row, cell.row + cell.rowspan):
            for c in range(cell.col, cell.col + cell.colspan):
                if (r, c) in owners:
                    raise ValueError(f"two table cells cover row {r}, column {c}")
                owners[(r, c)] = cell
    return owners


def _read(tokens: Sequence[str], repairs: list[str]) -> list[list[_Slot]]:
    grid: list[list[_Slot]] = []
    row: list[_Slot] = []
    for token in tokens:
        if token == NL:
            if row:
                grid.append(row)
            else:
                repairs.append(f"dropped an empty row after row {len(grid)}")
            row = []
        elif token in TAGS:
            row.append(_Slot(token))
        elif row:
            row[-1].text = f"{row[-1].text} {token}" if row[-1].text else token
            if row[-1].tag == ECEL:
                row[-1].tag = FCEL
                repairs.append(f"row {len(grid)}, column {len(row) - 1}: an empty cell had text")
        else:
            repairs.append(f"row {len(grid)}: text before the first cell was given a cell")
            row.append(_Slot(FCEL, token))
    if row:
        repairs.append(f"row {len(grid)}: the last row had no end")
        grid.append(row)
    return grid


def _even_out(grid: list[list[_Slot]], repairs: list[str]) -> None:
    width = max((len(row) for row in grid), default=0)
    for r, row in enumerate(grid):
        if len(row) < width:
            repairs.append(f"row {r}: {width - len(row)} missing cells were added")
            row += [_Slot(ECEL) for _ in range(width - len(row))]


def _fix_spans(grid: list[list[_Slot]], repairs: list[str]) -> None:
    """Row by row: every cell claims its rectangle; a joining tag that no rectangle claims becomes a cell of its own."""
    claimed: dict[tuple[int, int], _Slot] = {}
    for r, row in enumerate(grid):
        for c, slot in enumerate(row):
            origin = claimed.get((r, c))
            if origin is not None:
                if slot.text:
                    repairs.append(f"row {r}, column {c}: text inside a span went to the span's cell")
                    origin.text = f"{origin.text} {slot.text}" if origin.text else slot.text
                    origin.tag = FCEL
                    slot.text = ""
                continue
            if slot.tag not in (FCEL, ECEL):
                repairs.append(f"row {r}, column {c}: {slot.tag} joined nothing and became a cell")
                slot.own()
            _claim(grid, r, c, claimed, repairs)


def _claim(grid: list[list[_Slot]], r: int, c: int, claimed: dict[tuple[int, int], _Slot], repairs: list[str]) -> None:
    width = 1
    while c + width < len(grid[r]) and grid[r][c + width].tag == LCEL and (r, c + width) not in claimed:
        width += 1
    height = 1
    while r + height < len(grid):
        below = grid[r + height][c : c + width]
        free = all((r + height, c + k) not in claimed for k in range(width))
        joins = below[0].tag == UCEL and all(slot.tag not in (FCEL, ECEL) for slot in below[1:])
        if not free or not joins:
            break
        for k, slot in enumerate(below[1:], start=1):
            if slot.tag != XCEL:
                repairs.append(f"row {r + height}, column {c + k}: {slot.tag} inside a span became {XCEL}")
                slot.tag = XCEL
        height += 1
    for i in range(height):
        for k in range(width):
            claimed[(r + i, c + k)] = grid[r][c]


def _extent(grid: list[list[_Slot]], r: int, c: int) -> tuple[int, int]:
    """(rowspan, colspan) of the cell at (r, c) in a valid grid."""
    width = 1
    while c + width < len(grid[r]) and grid[r][c + width].tag == LCEL:
        width += 1
    height = 1
    while r + height < len(grid) and grid[r + height][c].tag == UCEL:
        if [slot.tag for slot in grid[r + height][c + 1 : c + width]] != [XCEL] * (width - 1):
            break
        height += 1
    return height, width


def _write(grid: list[list[_Slot]]) -> list[str]:
    tokens: list[str] = []
    for row in grid:
        for slot in row:
            tokens.append(slot.tag)
            if slot.text:
                tokens.append(slot.text)
        tokens.append(NL)
    return tokens

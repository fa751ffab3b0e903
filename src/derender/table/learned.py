"""The table that the network reads: decoded OTSL, and the pieces of text that its draft placed, as a grid of cells.

Each piece goes where the decoded tags put the place that the draft gave it; the two are aligned, so that a row or
column that the decoder adds or drops moves what comes after it. No piece is lost. Runs no network and reads no text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from derender.assemble.otsl import NL, otsl_to_cells, repair_otsl
from derender.document import Box, Cell
from derender.layout.types import hull
from derender.table.draft import TableDraft, tag_names
from derender.table.intervals import reading_order
from derender.table.types import GridCell, TableGrid


def decoded_grid(
    grid: TableGrid, draft: TableDraft, tags: Sequence[str], box_N4: np.ndarray
) -> tuple[TableGrid, list[str]]:
    """The grid of decoded `tags`, and what had to be repaired in them. grid: the rule-based one, whose pieces are the
    draft's lines and stay as they are; box_N4: of the pieces, as the network saw them. Tags without a cell give the
    draft's own grid."""
    fixed, repairs = repair_otsl(tags)
    if not otsl_to_cells(fixed):
        fixed, repairs = tag_names(draft.ids_K.tolist()), [*repairs, "no cell was decoded: the draft stands"]
    cells = otsl_to_cells(fixed, draft.heading)
    owner = {
        (r, c): k
        for k, cell in enumerate(cells)
        for r in range(cell.row, cell.row + cell.rowspan)
        for c in range(cell.col, cell.col + cell.colspan)
    }
    held: list[list[int]] = [[] for _ in cells]
    where = _places(draft, fixed)
    for span in draft.cells:
        for n in span.lines:
            held[owner[where[draft.index(span.top, span.left)]]].append(n)
    seen: set[int] = set()
    pieces: list[tuple[int, ...]] = []
    for own in held:  # a piece over several cells is read once, in the first of them
        pieces.append(reading_order(tuple(n for n in own if n not in seen), box_N4))
        seen.update(own)
    return _built(cells, pieces, grid), repairs


def _places(draft: TableDraft, tags: Sequence[str]) -> list[tuple[int, int]]:
    """(row, column) in the decoded table of every tag of the draft."""
    at: list[tuple[int, int]] = []
    row = col = 0
    for tag in tags:
        at.append((row, max(0, col - 1)) if tag == NL else (row, col))
        row, col = (row + 1, 0) if tag == NL else (row, col + 1)
    drafted = tag_names(draft.ids_K.tolist())
    out = [(0, 0)] * len(drafted)
    for op in Levenshtein.opcodes(drafted, list(tags)):
        for k in range(op.src_start, op.src_end):
            j = op.dest_start + (k - op.src_start if op.tag in ("equal", "replace") else -1)
            out[k] = at[min(max(j, 0), len(at) - 1)]
    return out


def _built(cells: Sequence[Cell], pieces: Sequence[tuple[int, ...]], old: TableGrid) -> TableGrid:
    rows = max(c.row + c.rowspan for c in cells)
    cols = max(c.col + c.colspan for c in cells)
    down: list[list[Box]] = [[] for _ in range(rows)]
    along: list[list[Box]] = [[] for _ in range(cols)]
    for cell, own in zip(cells, pieces, strict=True):
        if own and cell.rowspan == 1:
            down[cell.row].append(hull(old.pieces[n].box for n in own))
        if own and cell.colspan == 1:
            along[cell.col].append(hull(old.pieces[n].box for n in own))
    return TableGrid(
        rows,
        cols,
        tuple(
            GridCell(c.row, c.col, c.rowspan, c.colspan, c.header, own) for c, own in zip(cells, pieces, strict=True)
        ),
        old.pieces,
        _edges(down, 1, old.row_edges[0], old.row_edges[-1]),
        _edges(along, 0, old.col_edges[0], old.col_edges[-1]),
    )


def _edges(boxes: Sequence[Sequence[Box]], axis: int, start: float, end: float) -> tuple[float, ...]:
    """Borders between rows (axis 1) or columns (axis 0): midway between the text on either side; those of empty ones
    share what lies between their neighbours. Never falling."""
    count = len(boxes)
    known = [k for k in range(count) if boxes[k]]
    at, value = [0.0], [start]
    for a, b in zip(known, known[1:], strict=False):
        low, high = float(np.median([x[axis + 2] for x in boxes[a]])), float(np.median([x[axis] for x in boxes[b]]))
        for k in range(a + 1, b + 1):  # one border where they are neighbours
            at.append(float(k))
            value.append(low + (high - low) * (k - a) / (b - a + 1))
    at.append(float(count))
    value.append(end)
    edges = np.maximum.accumulate(np.interp(np.arange(count + 1), at, value))
    return tuple(float(min(x, end)) for x in edges)

"""How well the rule-based grid reads generated tables: the bound that a learned table decoder has to beat.

    python -m derender.train.table_baseline --seed 9001 --count 200 [--clean]

Prints TEDS-S and TEDS by ruling style. A cell's text is the numbers of the lines in it, so TEDS counts which line goes
to which cell and no letters are read. Boxes come from the generator with its detector noise, not from a real detector,
and have no words: the grid does worse here than on pictures, where it can cut lines at gaps in the ink.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from derender.assemble.otsl import otsl_to_cells
from derender.assemble.tables import cells_to_html
from derender.document import Cell
from derender.score.teds import teds, teds_s
from derender.table.grid import grid_from_lines
from derender.table.read import table_reading
from derender.table.types import TableGrid
from derender.train.table_data import CLEAN, TableSample, pointers, tables


@dataclass(frozen=True)
class StyleScore:
    """Mean scores (0-1) over `count` tables of one ruling style, or of "all"."""

    style: str
    count: int
    teds_s: float
    teds: float


def truth_cells(sample: TableSample) -> list[Cell]:
    """The true cells; text: the numbers of the lines that stand in the cell, parted by spaces."""
    return [
        cell.model_copy(update={"text": _numbers(pointers(cell.text))})
        for cell in otsl_to_cells(sample.tokens, sample.header_rows)
    ]


def grid_cells(sample: TableSample) -> list[Cell]:
    """The rule-based grid's cells for the same boxes and rules, texts as in truth_cells."""
    return numbered(grid_from_lines(sample.boxes, sample.rules, sample.size))


def numbered(grid: TableGrid) -> list[Cell]:
    """A grid's cells, the numbers of their lines as text."""
    texts = [(line_numbers(grid, cell.pieces), None) for cell in grid.cells]
    return table_reading(grid, [grid.box(cell) for cell in grid.cells], texts).cells


def line_numbers(grid: TableGrid, pieces: Iterable[int]) -> str:
    """The numbers of the lines that pieces of a grid are of, each once, in the pieces' order."""
    return _numbers(dict.fromkeys(grid.pieces[p].line for p in pieces))


def baseline(samples: Iterable[TableSample]) -> list[StyleScore]:
    """Scores by style, in alphabetical order, then over all. Needs the extra `score`; no samples give an empty list."""
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in samples:
        truth, found = cells_to_html(truth_cells(sample)), cells_to_html(grid_cells(sample))
        pair = (teds_s(found, truth), teds(found, truth))
        scores[sample.style].append(pair)
        scores["all"].append(pair)
    return [
        StyleScore(style, len(pairs), sum(s for s, _ in pairs) / len(pairs), sum(t for _, t in pairs) / len(pairs))
        for style, pairs in sorted(scores.items(), key=lambda item: (item[0] == "all", item[0]))
    ]


def _numbers(lines: Iterable[int]) -> str:
    return " ".join(str(n) for n in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of the rule-based grid on generated tables.")
    parser.add_argument("--seed", type=int, default=9001)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--clean", action="store_true", help="without detector noise")
    args = parser.parse_args()
    for s in baseline(islice(tables(args.seed, noise=CLEAN if args.clean else None), args.count)):
        print(f"{s.style:8} {s.count:4} tables  TEDS-S {s.teds_s:.3f}  TEDS {s.teds:.3f}")


if __name__ == "__main__":
    main()

"""Scores of table structure on generated tables: rule-based grid, the encoder's draft, and decode modes of one decoder.

A cell's text is the numbers of the lines in it, so TEDS counts which line goes to which cell and no letters are read.
Modes are interleaved table by table, one table at a time. Needs the extra `score`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from derender.assemble.tables import cells_to_html
from derender.document import Cell
from derender.recognise.structure import StructureReader
from derender.recognise.types import DecodeStats
from derender.score.teds import teds, teds_s
from derender.table.intervals import Span
from derender.table.types import TableGrid
from derender.train.table_baseline import line_numbers, numbered, truth_cells
from derender.train.table_data import TableSample
from derender.train.table_encoder import HELD_OUT, Source, sample_grid, training_sample


@dataclass(frozen=True)
class Outcome:
    """One table by one reader: grid, draft, or a decode mode. seconds: of decoding alone."""

    reader: str
    style: str
    teds_s: float
    teds: float
    tags: int = 0
    forwards: int = 0
    seconds: float = 0.0


def held_out_tables(seed: int, source: Source = training_sample) -> Iterable[TableSample]:
    """Tables with the noise of training, of a seed that training leaves alone. source: makes table `index` of a seed.
    Raises ValueError for another seed."""
    if seed < HELD_OUT:
        raise ValueError(f"seeds below {HELD_OUT} are trained on")
    index = 0
    while True:
        yield source(seed, index)
        index += 1


def evaluate(
    seed: int, count: int, readers: dict[str, StructureReader], source: Source = training_sample
) -> list[Outcome]:
    """All readers on the first `count` tables of a seed that have any text."""
    out: list[Outcome] = []
    for sample in islice((s for s in held_out_tables(seed, source) if s.boxes), count):
        grid = sample_grid(sample)
        truth = cells_to_html(truth_cells(sample))
        out.append(_outcome("grid", sample, numbered(grid), truth))
        for k, (name, reader) in enumerate(readers.items()):
            read = reader.read(grid, sample.rules, sample.size)
            if k == 0 and read.draft is not None:
                cells = drafted(grid, read.draft.cells, read.draft.heading)
                out.append(_outcome("draft", sample, cells, truth))
            out.append(_outcome(name, sample, numbered(read.grid), truth, read.stats))
    return out


def _outcome(
    name: str, sample: TableSample, cells: list[Cell], truth: str, stats: DecodeStats | None = None
) -> Outcome:
    html, s = cells_to_html(cells), stats or DecodeStats()
    return Outcome(name, sample.style, teds_s(html, truth), teds(html, truth), s.tokens, s.forwards, s.seconds)


def drafted(grid: TableGrid, spans: Sequence[Span], heading: int) -> list[Cell]:
    """The draft's cells, the numbers of their lines as text."""
    return [
        Cell(
            row=s.top,
            col=s.left,
            rowspan=s.bottom - s.top + 1,
            colspan=s.right - s.left + 1,
            header=s.top < heading,
            text=line_numbers(grid, s.lines),
        )
        for s in spans
    ]


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown: a row for each reader over all tables, then by ruling style."""
    names = list(dict.fromkeys(o.reader for o in outcomes))
    lines: list[str] = []
    for style in ["all", *sorted({o.style for o in outcomes})]:
        some = [o for o in outcomes if style in ("all", o.style)]
        base = sum(o.seconds for o in some if o.reader == "ar")
        lines += ["", f"| {style} | tables | TEDS-S % | TEDS % | tags a forward | speed over ar |", "|" + "---|" * 6]
        for name in names:
            mine = [o for o in some if o.reader == name]
            forwards, seconds = sum(o.forwards for o in mine), sum(o.seconds for o in mine)
            lines.append(
                f"| {name} | {len(mine)} | {100 * np.mean([o.teds_s for o in mine]):.2f} | "
                f"{100 * np.mean([o.teds for o in mine]):.2f} | "
                f"{sum(o.tags for o in mine) / forwards if forwards else 0:.1f} | "
                f"{base / seconds if seconds and base else 0:.2f} |"
            )
    return lines[1:]

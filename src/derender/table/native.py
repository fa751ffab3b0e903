"""Tables of born-digital pages: the grid from the page's own words, with the ruling lines of its picture.

Does not judge whether the words can be trusted (page.py does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derender.assemble.join import join_lines
from derender.document import Box
from derender.ingest.lines import words_to_lines
from derender.ingest.types import Word, hull
from derender.recognise.types import Image
from derender.table.grid import grid_from_lines
from derender.table.read import FindStructure, TableReading, table_reading
from derender.table.rules import find_rules
from derender.table.types import TableLine

RIM = 0.18  # of a word box's height above and below its letters: native boxes run from ascent to descent


@dataclass(frozen=True)
class _Frame:
    """Crop pixels = (points - origin) * scale."""

    x: float
    y: float
    scale: float

    def pixels(self, box: Box) -> Box:
        x0, y0, x1, y1 = box
        return (
            (x0 - self.x) * self.scale,
            (y0 - self.y) * self.scale,
            (x1 - self.x) * self.scale,
            (y1 - self.y) * self.scale,
        )

    def points(self, box: Box) -> Box:
        x0, y0, x1, y1 = box
        return (
            x0 / self.scale + self.x,
            y0 / self.scale + self.y,
            x1 / self.scale + self.x,
            y1 / self.scale + self.y,
        )


def table_from_words(
    words: Sequence[Word],
    image: Image,
    origin: tuple[float, float],
    px_per_pt: float,
    structure: FindStructure | None = None,
) -> TableReading:
    """The table that `words` make. words: boxes in points of the upright page, level; image: the region's picture,
    (H, W, 3) uint8 RGB, whose top-left pixel lies at `origin` (points). Cell boxes come in points too.
    structure: see plan_table.
    """
    frame = _Frame(origin[0], origin[1], px_per_pt)
    lines, numbers = [], []
    for line in words_to_lines(words):
        members = sorted(line.words, key=lambda w: w.box[0])
        boxes = tuple(_letters(frame.pixels(w.box)) for w in members)
        lines.append(TableLine(hull(list(boxes)), line.text, None, boxes, tuple(w.text for w in members)))
        numbers.append(members)
    if not lines:
        return TableReading()
    height = float(np.median([line.box[3] - line.box[1] for line in lines]))
    rules = find_rules(image, 1.3 * height, [line.box for line in lines])
    size = (float(image.shape[1]), float(image.shape[0]))
    grid = grid_from_lines(lines, rules, size)
    if structure is not None:
        grid = structure(grid, rules, size)
    texts = []
    for cell in grid.cells:
        own = [numbers[grid.pieces[p].line][w] for p in cell.pieces for w in grid.pieces[p].words]
        text = join_lines([line.text for line in sorted(words_to_lines(own), key=lambda x: x.box[1] + x.box[3])])
        texts.append((text, None))
    return table_reading(grid, [frame.points(grid.box(cell)) for cell in grid.cells], texts)


def _letters(box: Box) -> Box:
    rim = RIM * (box[3] - box[1])
    return (box[0], box[1] + rim, box[2], box[3] - rim)

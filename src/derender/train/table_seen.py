"""What the real detector sees of a table that was drawn: its pieces, labelled with the cells whose text they cover.

    picture -> detector, rules, rule-based grid -> which piece stands in which cell

For tables set by a browser (table_render.py) and by TeX (table_tex.py), which know where each cell's text stands. Also
the letters that fill their cells. Draws no table and trains nothing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageFilter

from derender.document import Box
from derender.table.types import Rule, TableGrid
from derender.train.table_boxes import Style
from derender.train.table_data import TableSample, tokens_of
from derender.train.table_structure import CellPlan, Structure, draw_structure

if TYPE_CHECKING:
    from derender.layout.detect_lines import LineDetector

LETTER = 0.5  # of an em
MOST_CELLS = 220
_LETTERS = "eeeeeeaaaaaooooiiiiinnnnnrrrrtttttlllssssuudddccmmpphhgbvyfwkxqjz"


def draw_typical(rng: np.random.Generator) -> Structure:
    """A random structure of at most MOST_CELLS cells."""
    table = draw_structure(rng)
    while len(table.cells) > MOST_CELLS:
        table = draw_structure(rng)
    return table


def seen(
    rng: np.random.Generator,
    picture: Image.Image,
    rectangles: Sequence[Sequence[Box]],
    table: Structure,
    style: Style,
    detector: LineDetector,
) -> TableSample:
    """A sample whose boxes are the pieces of its own rule-based grid; none where nothing is found.

    rectangles: of each cell's lines of text, in the picture's pixels, in the order of `table.cells`.
    """
    from derender.table.read import detect_lines, plan_table

    image = np.asarray(_spoilt(rng, picture))
    found: list[tuple[TableGrid, Sequence[Rule]]] = []

    def keep(grid: TableGrid, rules: Sequence[Rule], size: tuple[float, float]) -> TableGrid:
        found.append((grid, rules))
        return grid

    plan_table(image, detect_lines(image, detector), keep)
    grid, rules = found[0] if found else (TableGrid(0, 0), ())
    grid = replace(grid, pieces=tuple(replace(p, line=k) for k, p in enumerate(grid.pieces)))
    held = [cells_under(p.box, rectangles) for p in grid.pieces]
    lines = [(p.box, cells) for p, cells in zip(grid.pieces, held, strict=True)]
    return TableSample(
        (float(image.shape[1]), float(image.shape[0])),
        tuple(p.box for p in grid.pieces),
        tuple(rules),
        tokens_of(table, lines),
        table.rows,
        table.cols,
        table.head,
        style,
        tuple(k for k, cells in enumerate(held) if not cells),
        grid,
    )


def cells_under(box: Box, rectangles: Sequence[Sequence[Box]]) -> tuple[int, ...]:
    """The cells whose text a box covers: half of the lower one's height, and 30% of the narrower one's width."""
    out = []
    for number, rects in enumerate(rectangles):
        for x0, y0, x1, y1 in rects:
            across, down = min(box[2], x1) - max(box[0], x0), min(box[3], y1) - max(box[1], y0)
            narrow, low = min(box[2] - box[0], x1 - x0), min(box[3] - box[1], y1 - y0)
            if across > 0.3 * narrow and down > 0.5 * low:
                out.append(number)
                break
    return tuple(out)


def draw_words(rng: np.random.Generator, table: Structure, cell: CellPlan) -> list[str]:
    """A cell's words, about as wide as planned: a lone one of a column of numbers is a number."""
    numeric = not cell.header and len(cell.words) == 1 and table.aligns[cell.col] in ("right", "decimal")
    return [_number(rng, w) if numeric else _word(rng, w) for w in cell.words]


def _word(rng: np.random.Generator, width: float) -> str:
    letters = "".join(rng.choice(list(_LETTERS), max(1, min(14, round(width / LETTER)))))
    return letters.capitalize() if rng.random() < 0.3 else letters


def _number(rng: np.random.Generator, width: float) -> str:
    digits = "".join(str(d) for d in rng.integers(0, 10, max(1, round(width / LETTER))))
    if len(digits) > 2 and rng.random() < 0.5:
        digits = f"{digits[:-2]}.{digits[-2:]}"
    return ("−" if rng.random() < 0.1 else "") + digits + ("%" if rng.random() < 0.05 else "")


def _spoilt(rng: np.random.Generator, picture: Image.Image) -> Image.Image:
    """Some pictures blurred and packed as a JPEG."""
    if rng.random() < 0.5:
        return picture
    out = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.2, 0.9))))
    packed = io.BytesIO()
    out.save(packed, "JPEG", quality=int(rng.integers(30, 90)))
    return Image.open(packed).convert("RGB")

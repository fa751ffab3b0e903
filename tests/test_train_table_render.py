"""Tables set by a browser: the HTML is the structure, text belongs to the cells that it stands in."""

from __future__ import annotations

import shutil
from itertools import islice

import numpy as np
import pytest
from lxml import html

from derender.train.table_encoder import grid_is_right, label
from derender.train.table_render import TableRenderer, table_html
from derender.train.table_seen import cells_under
from derender.train.table_structure import draw_structure


def test_the_html_is_the_structure() -> None:
    for index in range(30):
        rng = np.random.default_rng(index)
        table = draw_structure(rng)
        root = html.fromstring(table_html(rng, table, "ruled"))
        cells = [
            (r, int(cell.get("rowspan", 1)), int(cell.get("colspan", 1)), cell.tag == "th", bool(cell.text_content()))
            for r, row in enumerate(root.iter("tr"))
            for cell in row
        ]
        assert cells == [(c.row, c.rowspan, c.colspan, c.header, bool(c.words)) for c in table.cells]


def test_a_piece_is_of_the_cells_whose_text_it_covers() -> None:
    left, right, empty = [(0.0, 0.0, 40.0, 10.0), (0.0, 12.0, 30.0, 22.0)], [(60.0, 0.0, 100.0, 10.0)], []
    cells = [left, right, empty]
    assert cells_under((0, 1, 41, 10), cells) == (0,)
    assert cells_under((0, 12, 31, 22), cells) == (0,)
    assert cells_under((0, 0, 100, 10), cells) == (0, 1)
    assert cells_under((0, 9, 40, 13), cells) == ()  # between two lines
    assert cells_under((45, 0, 55, 10), cells) == ()  # between two cells


@pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs Chromium")
def test_a_browsers_tables_are_labelled_as_the_detector_finds_them() -> None:
    pytest.importorskip("selenium")
    with TableRenderer() as renderer:
        samples = [s for s in (renderer.sample(9500, k) for k in range(4)) if s.style == "ruled"]
        again = renderer.sample(9500, 0)
    assert len(samples) >= 2
    for sample in samples:
        assert sample.grid is not None and len(sample.boxes) == len(sample.grid.pieces) > 0
        labelled = label(sample)
        assert labelled is not None and len(labelled.rect_L4) == len(sample.boxes)
        assert len(sample.stray) <= 0.05 * len(sample.boxes)
        assert grid_is_right(labelled)  # ruled on all sides: what rules show is what the browser was told
    first = next(islice(samples, 1))
    assert (again.boxes, again.tokens) == (first.boxes, first.tokens)

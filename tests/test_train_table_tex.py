"""Tables set by TeX: the tabular is the structure, and letters belong to the cell whose black they have."""

from __future__ import annotations

import re

import numpy as np
import pytest

from derender.errors import UsageError
from derender.formula.tex import tex_ready, typeset_pages
from derender.train import table_tex
from derender.train.table_encoder import grid_is_right, label
from derender.train.table_structure import draw_structure
from derender.train.table_tex import TableTypesetter, black
from derender.train.table_tex import table_tex as source_of


def test_every_row_of_the_tabular_has_all_columns() -> None:
    for index in range(40):
        rng = np.random.default_rng(index)
        table = draw_structure(rng)
        body = source_of(rng, table, "ruled").split(r"\begin{tabular}")[1]
        rows = [row for row in re.split(r" \\\\(?! [a-zA-Z•]|\\textbullet)", body) if "&" in row or r"\color" in row]
        rows = [re.sub(r"\\shortstack(\[l\])?\{[^}]*\}", "", row) for row in rows]
        for row in rows:
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            assert row.count("&") + 1 + sum(spans) - len(spans) == table.cols
        heights = [int(n) for n in re.findall(r"\\multirow(?:\[t\])?\{(\d+)\}", body)]
        assert sorted(heights) == sorted(c.rowspan for c in table.cells if c.rowspan > 1)


def test_every_cell_has_its_own_black() -> None:
    blacks = [black(k) for k in range(4096)]
    assert len(set(blacks)) == 4096 and max(max(b) for b in blacks) == 15


def test_no_tex_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_tex, "tex_present", lambda: False)
    with pytest.raises(UsageError, match="pdflatex"):
        TableTypesetter()


def _tables_can_be_set() -> bool:
    return tex_ready() and typeset_pages(table_tex._HEAD % table_tex._FONTS[1], ["a"]) is not None


@pytest.mark.skipif(not _tables_can_be_set(), reason="needs pdflatex with booktabs, multirow, colortbl")
def test_tables_of_tex_are_labelled_as_the_detector_finds_them() -> None:
    typesetter = TableTypesetter()
    samples = [typesetter.sample(9600, k) for k in range(8)]
    assert typesetter.sample(9600, 3).tokens == samples[3].tokens
    ruled = [s for s in samples if s.style == "ruled"]
    assert len(ruled) >= 2
    right = []
    for sample in ruled:
        assert sample.grid is not None and len(sample.boxes) == len(sample.grid.pieces) > 0
        labelled = label(sample)
        assert labelled is not None and len(labelled.rect_L4) == len(sample.boxes)
        assert len(sample.stray) <= 0.05 * len(sample.boxes)
        right.append(grid_is_right(labelled))
    assert sum(right) >= 0.6 * len(right)  # what rules show is mostly what TeX was told

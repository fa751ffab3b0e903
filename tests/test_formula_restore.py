"""The formula encoder comes back from the shipped weights, to be trained further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from derender.errors import ModelError
from derender.formula.tower import FORMULA_WEIGHTS, FormulaTower
from derender.model.formula_export import export_encoder
from derender.model.formula_restore import restore_encoder
from derender.model.restore import restore


def test_the_encoder_comes_back_as_it_was_shipped(tmp_path: Path) -> None:
    export_encoder(*restore_encoder(FORMULA_WEIGHTS), tmp_path)
    rng = np.random.default_rng(0)
    grey = np.full((60, 200), 255, np.uint8)
    for x in range(10, 180, 30):
        grey[15:45, x : x + int(rng.integers(8, 20))] = 0
    (one, first, _), (two, second, _) = (FormulaTower(f, threads=1).read(grey) for f in (FORMULA_WEIGHTS, tmp_path))
    assert np.abs(one.feature_PF - two.feature_PF).max() < 1e-5
    assert (first.draft_D == second.draft_D).all()


def test_the_decoder_of_formulas_comes_back() -> None:
    assert restore(FORMULA_WEIGHTS).c.features == 256


def test_a_folder_with_something_else_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no export of the formula encoder"):
        restore_encoder(tmp_path)

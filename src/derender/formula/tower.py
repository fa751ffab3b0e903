"""The formula reader's encoder on ONNX Runtime: a picture in, the decoder's prefix out.

What the text tower and build_prefix are for text. The packaged weights lie in weights/formula. Does not decode.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.errors import ModelError
from derender.formula.components import GLYPH, Gray, Pieces, find_pieces
from derender.formula.path import FormulaReading, read_path
from derender.model.prefix import GEOMETRY, RegionPrefix
from derender.model.tower import WEIGHTS
from derender.onnx_session import open_session

FORMULA_WEIGHTS = WEIGHTS / "formula"
F32 = npt.NDArray[np.float32]


class FormulaTower:
    """threads: ONNX Runtime's within one call. Raises ModelError when a file is missing."""

    def __init__(self, folder: Path | None = None, threads: int = 2) -> None:
        folder = folder or FORMULA_WEIGHTS
        for name in ("pieces.onnx", "gaps.onnx"):
            if not (folder / name).is_file():
                raise ModelError(f"the formula reader's weights are incomplete: {name} is missing")
        self._pieces = open_session(folder / "pieces.onnx", threads)
        self._gaps = open_session(folder / "gaps.onnx", threads)
        self.gaps: list[list[int]] = json.loads(self._gaps.get_modelmeta().custom_metadata_map["gaps"])

    def read(self, grey_HW: Gray) -> tuple[RegionPrefix, FormulaReading, Pieces]:
        """One picture, dark on light or the other way round."""
        pieces, _ = find_pieces(grey_HW)
        features_ND, reading = self.encode(pieces)
        return formula_prefix(features_ND, reading), reading, pieces

    def encode(self, pieces: Pieces) -> tuple[F32, FormulaReading]:
        """(N, D) features of the pieces, and what the path through them reads."""
        n = len(pieces.box_N4)
        glyph = np.zeros((1, n + 1, 2, GLYPH, GLYPH), np.uint8)
        box, ink = np.zeros((1, n + 1, 4), np.float32), np.zeros((1, n + 1), np.float32)
        glyph[0, 1:], box[0, 1:], ink[0, 1:] = pieces.glyph_N2SS, pieces.box_N4, pieces.ink_N
        h, symbol, following, pair = self._pieces.run(None, {"glyph": glyph, "box": box, "ink": ink})

        def gap_logits(stops: list[int]) -> F32:
            a, b = np.asarray(stops[:-1]), np.asarray(stops[1:])
            feed = {"source": h[0, a], "target": h[0, b], "pair": pair[0, a, b]}
            return np.asarray(self._gaps.run(None, feed)[0])

        return h[0, 1:], read_path(symbol[0, 1:], following[0], gap_logits, self.gaps, pieces.box_N4)


def formula_prefix(features_ND: F32, reading: FormulaReading) -> RegionPrefix:
    """What the decoder is prefilled with: the pieces in the order of the reading, and the reading as its draft."""
    order = np.argsort(reading.position_N, kind="stable")
    n = len(order)
    return RegionPrefix(
        feature_PF=features_ND[order],
        geometry_PG=np.zeros((n, GEOMETRY), np.float32),
        line_P=np.zeros(n, bool),
        position_P=reading.position_N[order],
        draft_D=reading.draft_D,
        prob_D=reading.prob_D,
        alternatives=np.zeros(0, np.int64),
    )

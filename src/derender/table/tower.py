"""The table reader's encoder on ONNX Runtime: a rule-based grid and rules in, features and a draft out.

What the text tower is for text. The packaged weights lie in weights/table. Does not decode and sees no picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.errors import ModelError
from derender.model.tower import WEIGHTS
from derender.onnx_session import open_session
from derender.table.draft import TableDraft, make_draft
from derender.table.tokens import TableTokens, table_tokens
from derender.table.types import Rule, TableGrid

TABLE_WEIGHTS = WEIGHTS / "table"
F32 = npt.NDArray[np.float32]


class TableTower:
    """threads: ONNX Runtime's within one call. Raises ModelError when the file is missing."""

    def __init__(self, folder: Path | None = None, threads: int = 2) -> None:
        path = (folder or TABLE_WEIGHTS) / "lines.onnx"
        if not path.is_file():
            raise ModelError("the table reader's weights are incomplete: lines.onnx is missing")
        self._lines = open_session(path, threads)

    def read(
        self, grid: TableGrid, rules: Sequence[Rule], size: tuple[float, float]
    ) -> tuple[TableTokens, F32, TableDraft]:
        """Tokens, (N, D) features of the tokens, and the draft, whose lines are the grid's pieces. grid: with at least
        one piece; rules, size: as for grid_from_lines."""
        tokens = table_tokens(grid, rules, size)
        h, relation, flag = self._lines.run(None, {"place": tokens.place_NF[None], "pair": tokens.pair_NNP[None]})
        n = tokens.lines
        return tokens, h[0], make_draft(tokens, relation[0, :n, :n], flag[0, :n])

"""Writes a trained table encoder as ONNX: lines.onnx, features of all tokens, relations and flags of the lines.

Weights are stored as float16 and computed with as float32. Does not train and does not touch the decoder (export.py).

Legend as in table_encoder.py.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from derender.model.formula_export import export_module
from derender.model.graph import store_half
from derender.model.table_encoder import TableEncoder, TableEncoderConfig
from derender.table.tokens import PAIR, PLACE


class _Lines(nn.Module):
    def __init__(self, model: TableEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, place: Tensor, pair: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.model(place, pair, torch.ones_like(place[..., 0], dtype=torch.bool))
        return h, self.model.relations(h, pair), self.model.flags(h)


def load_table_encoder(checkpoint: Path, which: str = "ema") -> TableEncoder:
    """The encoder of a checkpoint. Strict: a key that does not fit is an error."""
    data = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = TableEncoder(TableEncoderConfig.from_json(data["config"]))
    model.load_state_dict(data[which])
    return model.eval()


def export_table_encoder(model: TableEncoder, out: Path) -> None:
    """Writes lines.onnx into folder `out`."""
    import onnx

    out.mkdir(parents=True, exist_ok=True)
    n, path = 5, out / "lines.onnx"
    inputs = (torch.rand(1, n, PLACE), torch.rand(1, n, n, PAIR))
    axes = {"place": {1: "N"}, "pair": {1: "N", 2: "N"}, "h": {1: "N"}, "relation": {1: "N", 2: "N"}, "flag": {1: "N"}}
    export_module(_Lines(model), inputs, path, ["place", "pair"], ["h", "relation", "flag"], axes)
    saved = onnx.load(str(path))
    store_half(saved)
    onnx.save(saved, str(path))

"""Writes a trained formula encoder as ONNX: pieces.onnx (features and opinions) and gaps.onnx (the gaps of a path).

Weights are stored as float16 and computed with as float32; the list of gaps travels in gaps.onnx's metadata. Does not
train and does not touch the decoder.

Legend as in formula_encoder.py; K transitions of a path.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from derender.formula.components import GLYPH
from derender.model.formula_encoder import PAIR, FormulaEncoder, FormulaEncoderConfig
from derender.model.graph import store_half

_OPSET = 18


class _Pieces(nn.Module):
    def __init__(self, model: FormulaEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, glyph: Tensor, box: Tensor, ink: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        real = torch.ones_like(ink, dtype=torch.bool)
        h, pair = self.model(glyph, box, ink, real)
        return h, self.model.symbol(h), self.model.next_logits(h, pair, real), pair


class _Gaps(nn.Module):
    def __init__(self, model: FormulaEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor, pair: Tensor) -> Tensor:
        return self.model.gap_logits(source, target, pair)


def load_encoder(checkpoint: Path, which: str = "ema") -> tuple[FormulaEncoder, list[list[int]]]:
    """The encoder of a checkpoint and its gaps. Strict: a key that does not fit is an error."""
    data = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = FormulaEncoder(FormulaEncoderConfig.from_json(data["config"]))
    model.load_state_dict(data[which])
    return model.eval(), json.loads(data["gaps"])


def export_encoder(model: FormulaEncoder, gaps: Sequence[Sequence[int]], out: Path) -> None:
    """Writes both files into folder `out`."""
    import onnx

    out.mkdir(parents=True, exist_ok=True)
    n, width = 5, model.c.width
    pieces = (torch.zeros(1, n, 2, GLYPH, GLYPH, dtype=torch.uint8), torch.rand(1, n, 4), torch.rand(1, n))
    steps = (torch.rand(3, width), torch.rand(3, width), torch.rand(3, PAIR))
    _export(_Pieces(model), pieces, out / "pieces.onnx", ["glyph", "box", "ink"], ["h", "symbol", "next", "pair"], 1)
    _export(_Gaps(model), steps, out / "gaps.onnx", ["source", "target", "pair"], ["gap"], 0)
    for name in ("pieces.onnx", "gaps.onnx"):
        saved = onnx.load(str(out / name))
        store_half(saved)
        if name == "gaps.onnx":
            entry = saved.metadata_props.add()
            entry.key, entry.value = "gaps", json.dumps([list(g) for g in gaps])
        onnx.save(saved, str(out / name))


def _export(
    module: nn.Module, inputs: tuple[Any, ...], path: Path, names: list[str], out: list[str], axis: int
) -> None:
    export_module(module, inputs, path, names, out, {name: {axis: "N"} for name in names})


def export_module(
    module: nn.Module,
    inputs: tuple[Any, ...],
    path: Path,
    names: list[str],
    out: list[str],
    axes: dict[str, dict[int, str]],
) -> None:
    """One module as an ONNX file. axes: the sizes that may vary, by input or output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter on its own future, and on shapes that it need not follow
        torch.onnx.export(
            module.eval(),
            inputs,
            str(path),
            input_names=names,
            output_names=out,
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )

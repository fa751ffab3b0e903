"""The formula encoder back from an export: pieces.onnx and gaps.onnx to a FormulaEncoder and its gaps.

So the shipped weights can be trained further without a checkpoint. Weights come back as the float16 that they were
stored in; no optimiser state does. Matrices without a name of their own are known by the order of computation. Does
not restore the decoder (restore.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from derender.errors import ModelError
from derender.model.formula_encoder import FormulaEncoder, FormulaEncoderConfig

_HALF = "_half"


def restore_encoder(folder: Path) -> tuple[FormulaEncoder, list[list[int]]]:
    """The encoder of an export's folder and its gaps, as load_encoder gives them. Needs torch and onnx. Raises
    ModelError where a file is missing or holds something else."""
    import onnx

    try:
        pieces, gaps = (onnx.load(str(folder / name)) for name in ("pieces.onnx", "gaps.onnx"))
        gap_list: list[list[int]] = json.loads({p.key: p.value for p in gaps.metadata_props}["gaps"])
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder.name} holds no export of the formula encoder: {error}") from None
    named, matrices = _constants(pieces.graph)
    more, _ = _constants(gaps.graph)
    state = {**named, **more}
    layers = len({k.split(".")[1] for k in named if k.startswith("layers.")})
    places = ["place.0", "place.2", "pair.0", "pair.2"]
    for i in range(layers):
        places += [f"layers.{i}.{name}" for name in ("qkv", "out", "gate_up", "down")]
    places += ["symbol", "source", "target", "next_pair.0", "next_pair.2"]
    if len(matrices) != len(places):
        raise ModelError(f"{folder.name} holds no export of the formula encoder: {len(matrices)} matrices")
    state |= {f"{place}.weight": matrix.T for place, matrix in zip(places, matrices, strict=True)}
    try:
        config = FormulaEncoderConfig(
            width=len(state["start"]),
            layers=layers,
            heads=len(state["pair.2.bias"]) // layers,
            hidden=state["layers.0.down.weight"].shape[1],
            channels=tuple(len(state[f"glyph.{k}.bias"]) for k in (0, 2, 4)),  # type: ignore[arg-type]
            tokens=len(state["symbol.bias"]),
            gaps=len(gap_list),
        )
        model = FormulaEncoder(config)
        model.load_state_dict({k: torch.from_numpy(np.array(v, np.float32)) for k, v in state.items()})
    except (RuntimeError, KeyError) as error:
        raise ModelError(f"{folder.name} holds no export of the formula encoder: {error}") from None
    return model.eval(), gap_list


def _constants(graph: Any) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Weights with a name, and the nameless matrices in the order in which they are multiplied with."""
    from onnx import numpy_helper

    arrays = {t.name.removesuffix(_HALF): numpy_helper.to_array(t) for t in graph.initializer}
    named = {k.removeprefix("model."): v for k, v in arrays.items() if k.startswith("model.")}
    order = [i for n in graph.node if n.op_type == "MatMul" for i in n.input if i in arrays]
    return named, [arrays[i] for i in order]

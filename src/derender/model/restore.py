"""The PyTorch decoder back from an export: decoder.onnx, prefill.onnx, tables.npz and config.json to a Decoder.

So the shipped weights can be trained further, and be measured in PyTorch, without a checkpoint. Float32 exports come
back as they were; int8 ones with their rounded weights, which is what ONNX Runtime computes with. What an export folds
together stays folded, without changing what is computed: the output matrix holds the logit scale, and the values of an
int8 export keep a unit of their own (chosen here so that value weights are as large as key weights). No optimiser state
comes back. Does not read the tower.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from derender.errors import ModelError
from derender.model.config import DecoderConfig
from derender.model.decoder import EMBED_SCALE, Decoder
from derender.model.export import QK_GRID

_NORMS = ("SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization")


class _Constants:
    """The weights in one ONNX file, by the names that graph.py gave them."""

    def __init__(self, path: Path) -> None:
        import onnx
        from onnx import numpy_helper

        try:
            graph = onnx.load(str(path)).graph
        except (OSError, ValueError) as error:
            raise ModelError(f"{path.name} of the export cannot be read: {error}") from None
        self.path, self.nodes = path, list(graph.node)
        self.arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

    def matrix(self, name: str) -> tuple[np.ndarray, bool]:
        """Weight (inputs, outputs) as float32, and whether it was int8."""
        if name not in self.arrays:
            raise ModelError(f"{self.path.name} has no weight {name!r}: it is not an export of the compact decoder")
        array = self.arrays[name]
        if array.dtype != np.int8:
            return np.array(array, np.float32), False
        node = next(n for n in self.nodes if name in n.input)
        return array * self.arrays[node.input[3]].astype(np.float32), True

    def bias(self, name: str) -> np.ndarray:
        """The bias that is added to the product with weight `name`."""
        node = next(n for n in self.nodes if name in n.input)
        if node.op_type == "MatMulIntegerToFloat":
            return np.array(self.arrays[node.input[6]])
        add = next(n for n in self.nodes if n.op_type == "Add" and node.output[0] in n.input)
        return np.array(self.arrays[add.input[1]])

    def norms(self) -> Iterator[np.ndarray]:
        """Weights of all norms in the order of computation."""
        for node in self.nodes:
            if node.op_type in _NORMS:
                yield np.array(self.arrays[node.input[2 if node.op_type.startswith("Skip") else 1]])


def restore(folder: Path) -> Decoder:
    """The decoder of an export's folder. Needs torch and onnx. Raises ModelError where a file is missing or does not
    fit its configuration."""
    try:
        config = DecoderConfig.from_json((folder / "config.json").read_text("utf-8"))
        with np.load(folder / "tables.npz") as file:
            tables = {name: np.array(file[name]) for name in file.files}
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder.name} holds no export of the compact decoder: {error}") from None
    state = {**_embeddings(tables), **_prefix(_Constants(folder / "prefill.onnx"), config)}
    head, int8 = _rows(_Constants(folder / "decoder.onnx"), config, state)
    core = head.pop("core")
    out = head["out"]
    vectors = state["class_vectors"]
    state |= head
    state["core_out"] = core - vectors[state["core_ids"].astype(np.int64)] @ out.T
    state["logit_scale"] = np.float32(1.0)
    if int8:
        _settle_values(state, config)
    tensors = {name: torch.tensor(np.asarray(value)) for name, value in state.items()}
    core_ids = tensors["core_ids"].long()
    model = Decoder(config, tensors["class_vectors"].float(), core_ids)
    tensors |= {"core_ids": core_ids, "core_index": model.core_index}
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelError(f"{folder.name} does not fit its configuration: {error}") from None
    return model.eval()


def _embeddings(tables: dict[str, np.ndarray]) -> dict[str, Any]:
    scaled = {name: tables[name] / EMBED_SCALE for name in ("token_in", "draft_in", "left_in")}
    plain = ("core_ids", "core_token", "core_draft", "core_left", "mask_token", "row_type", "prob_vector")
    vectors = tables["class_rows"].astype(np.float32) * tables["class_scale"][:, None]
    return {**scaled, **{name: tables[name] for name in plain}, "class_vectors": vectors}


def _prefix(file: _Constants, c: DecoderConfig) -> dict[str, Any]:
    """The merger, the line tokens and every layer's weights for keys and values, all of which are float32 there."""
    norm = next(n for n in file.nodes if n.op_type == "LayerNormalization")
    state = {
        "merger.0.weight": file.arrays[norm.input[1]],
        "merger.0.bias": file.arrays[norm.input[2]],
    }
    for name, key in (("merge1", "merger.1"), ("merge2", "merger.3"), ("line_in", "line_in")):
        state[f"{key}.weight"], state[f"{key}.bias"] = file.matrix(name)[0].T, file.bias(name)
    size = c.kv_heads * c.head_dim
    for i in range(c.layers):
        both = file.matrix(f"kv{i}")[0].T
        state[f"layers.{i}.wk.weight"], state[f"layers.{i}.wv.weight"] = both[:size], both[size:]
    return state


def _rows(file: _Constants, c: DecoderConfig, state: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The rest of the layers, the head, and whether products are int8."""
    out: dict[str, Any] = {}
    norms = file.norms()
    out["layers.0.norm1.weight"] = next(norms)
    int8 = False
    for i in range(c.layers):
        at = f"layers.{i}"
        qkv, int8 = file.matrix(f"qkv{i}")
        out[f"{at}.wq.weight"] = qkv.T[: c.heads * c.head_dim]
        grid_q, grid_k = (QK_GRID, QK_GRID) if int8 else (1 / np.sqrt(c.head_dim), 1.0)
        out[f"{at}.qnorm.weight"] = next(norms) / np.float32(grid_q)
        out[f"{at}.knorm.weight"] = next(norms) / np.float32(grid_k)
        out[f"{at}.norm2.weight"] = next(norms)
        for name in ("wo", "gate_up", "down"):
            out[f"{at}.{name}.weight"] = file.matrix(f"{name}{i}")[0].T
        out["norm.weight" if i + 1 == c.layers else f"layers.{i + 1}.norm1.weight"] = next(norms)
    out["core"], out["core_bias"] = file.matrix("core_head")[0].T, file.bias("core_head")
    out["out"] = file.matrix("class_head")[0]
    return out, int8


def _settle_values(state: dict[str, Any], c: DecoderConfig) -> None:
    """Takes the export's unit out of the values: any unit computes the same, but training wants weights of one size."""
    for i in range(c.layers):
        key, value, out = (f"layers.{i}.{name}.weight" for name in ("wk", "wv", "wo"))
        unit = float(np.sqrt((state[value] ** 2).mean() / max(1e-12, float((state[key] ** 2).mean()))))
        state[value], state[out] = state[value] / np.float32(unit), state[out] * np.float32(unit)

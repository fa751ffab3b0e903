"""A small writer of ONNX graphs: names nodes, keeps constants, and offers the few compound operations a decoder needs.

Matrix products can be int8: weights per column in seven bits (so that AVX2's 16-bit sums cannot overflow), activations
with one fixed scale each, found by calibration. A fixed scale, unlike a dynamic one, keeps a row's result independent
of the other rows in its batch: batched equals single, and `exact` decoding equals autoregressive decoding.

Does not know the decoder (export.py does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OPSET = 20
LEVELS = 63  # symmetric seven-bit weights


class Graph:
    """scales: activation scale (largest absolute value to represent) by weight name; a weight without one stays
    float."""

    def __init__(self, scales: Mapping[str, float] | None = None) -> None:
        from onnx import helper

        self.helper: Any = helper
        self.scales = dict(scales or {})
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._count = 0

    def input(self, name: str, shape: Sequence[str | int], dtype: str = "float") -> str:
        from onnx import TensorProto

        kind = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64}[dtype]
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, value: str) -> None:
        """Makes `value` an output called `name`; no other node may have been given it under that name."""
        from onnx import TensorProto

        for node in self.nodes:
            node.input[:] = [name if i == value else i for i in node.input]
            node.output[:] = [name if o == value else o for o in node.output]
        self.outputs.append(self.helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def const(self, array: Any, dtype: Any = np.float32, name: str = "") -> str:
        array = np.asarray(array, dtype)
        name = name or f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def scalar(self, value: int) -> str:
        return self.const(value, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Adds a node; returns its output name, or a list of names when there are several."""
        self._count += 1
        names = [f"{kind.lower()}{self._count}_{i}" for i in range(outputs)]
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def rms_norm(self, x: str, weight: np.ndarray, eps: float) -> str:
        return str(self.op("SimplifiedLayerNormalization", x, self.const(weight), axis=-1, epsilon=eps))

    def add_norm(self, x: str, y: str, weight: np.ndarray, eps: float) -> tuple[str, str]:
        """(rms_norm(x + y), x + y) in one node."""
        name = f"norm{self._count}"
        self._count += 1
        outputs = [name, "", "", f"{name}_sum"]
        inputs = [x, y, self.const(weight)]
        kind, domain = "SkipSimplifiedLayerNormalization", "com.microsoft"
        self.nodes.append(self.helper.make_node(kind, inputs, outputs, domain=domain, epsilon=eps))
        return name, f"{name}_sum"

    def rotary(self, x: str, at: str, cos: str, sin: str) -> str:
        """Rotary positions for x (B, heads, R, E): row at[b, r] of cos and sin (rows, E / 2); halves, not pairs."""
        return str(self.op("RotaryEmbedding", x, at, cos, sin, domain="com.microsoft", interleaved=0))

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        out = self.op("Split", x, self.ints(*sizes), outputs=len(sizes), axis=axis)
        return [out] if isinstance(out, str) else list(out)

    def matmul(self, x: str, weight_IO: np.ndarray, name: str, bias: np.ndarray | None = None) -> str:
        """x @ weight (+ bias), in int8 where `scales` has an activation scale for `name`."""
        if name not in self.scales:
            y = self.op("MatMul", x, self.const(weight_IO, name=name))
            return str(self.op("Add", y, self.const(bias)) if bias is not None else y)
        a_scale = self.const(self.scales[name] / 127.0)
        zero = self.const(128, np.uint8)
        column_O = np.maximum(np.abs(weight_IO).max(0), 1e-8) / LEVELS
        quantised = np.clip(np.rint(weight_IO / column_O), -LEVELS, LEVELS)
        b = self.const(quantised, np.int8, name=name)
        b_scale, b_zero = self.const(column_O), self.const(np.zeros(len(column_O)), np.int8)
        q = self.op("QuantizeLinear", x, a_scale, zero)
        parts = [q, b, a_scale, b_scale, zero, b_zero]
        if bias is not None:
            parts.append(self.const(bias))
        return str(self.op("MatMulIntegerToFloat", *parts, domain="com.microsoft"))

    def save(self, path: Path, metadata: Mapping[str, str] | None = None) -> None:
        import onnx
        from onnx import numpy_helper

        graph = self.helper.make_graph(
            self.nodes,
            path.stem,
            self.inputs,
            self.outputs,
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        opsets = [self.helper.make_opsetid("", OPSET), self.helper.make_opsetid("com.microsoft", 1)]
        model = self.helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="derender")
        for key, value in (metadata or {}).items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        onnx.save(model, str(path))


def store_half(model: Any) -> None:
    """Keeps the large weights as float16 with a cast behind each; ONNX Runtime folds the casts when it loads the file,
    so computation stays float32 and the file is half as large."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    casts = []
    for tensor in list(graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.size < 1000:
            continue
        name = tensor.name
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT, name=f"{name}_cast"))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)

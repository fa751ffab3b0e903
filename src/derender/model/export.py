"""Writes a trained compact decoder as files that ONNX Runtime runs: decoder.onnx, prefill.onnx, tables.npz,
config.json.

decoder.onnx is one forward over rows with given caches (see runtime_onnx.py), prefill.onnx makes a prefix's keys and
values, tables.npz holds what the runtime embeds rows with. int8 by default; float32 for comparison. Does not train and
does not touch the tower.

Legend as in decoder.py; N rows whose logits are wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from derender.model.decoder import EMBED_SCALE, Decoder, Layer, round_rows
from derender.model.graph import Graph

NEVER = -1e9
QK_GRID = 64  # steps of a query's or key's unit; |q|, |k| <= sqrt(E) times a norm weight of at most 2: sums below 2**24
V_LEVELS = 127  # steps of a value's calibrated range
P_GRID = 2048  # steps of the largest attention weight; weights add up to less than 64 of it: sums below 2**24


def _np(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().float().numpy())


def _angles(g: Graph, place: str, theta: float, half: int) -> tuple[str, str]:
    """cos and sin, (rows, half), of positions (rows, 1)."""
    freq = theta ** (-np.arange(half) / half)
    angle = g.op("Mul", place, g.const(freq))
    return g.op("Cos", angle), g.op("Sin", angle)


def value_unit(scales: dict[str, float], layer: int) -> float:
    """Whole-number steps of a unit of a layer's values; 1 without calibration (float32)."""
    return V_LEVELS / scales[f"v{layer}"] if scales else 1.0


def _weights(g: Graph, scores: str, whole: bool) -> tuple[str, str]:
    """Attention weights over the last axis and their sum ("" when they add up to one). whole: whole numbers, whose
    products and sums with whole values are exact in float32."""
    if not whole:
        return g.op("Softmax", scores, axis=-1), ""
    top = g.op("Sub", g.op("ReduceMax", scores, g.ints(-1), keepdims=1), g.const(np.log(P_GRID)))
    p = g.op("Round", g.op("Exp", g.op("Sub", scores, top)))
    return p, g.op("ReduceSum", p, g.ints(-1), keepdims=1)


def decoder_graph(model: Decoder, scales: dict[str, float]) -> Graph:
    """The whole forward. With scales it is exact: int8 products add up in whole numbers anyway, and attention is put on
    grids of whole numbers small enough for float32 sums without rounding. So a row's logits do not depend, to the last
    bit, on how many rows and keys stand beside it, and `exact` decoding gives the text of `ar`.

    Inputs x (B,R,D), center, place (B,R), own (B,R,R) additive, position (B,P), text_place (B,T), need (N,) row
    indices into B*R, and per layer kp (B,G,E,P), vp (B,G,P,E), kt (B,G,E,T), vt (B,G,T,E). Outputs core (N,V) logits,
    class (N,C) to be multiplied with class vectors, and per layer k, v (B,G,R,E) of the rows."""
    c = model.c
    h, kv, e, half = c.heads, c.kv_heads, c.head_dim, c.head_dim // 2
    share = h // kv
    whole = bool(scales)
    # the values' unit is folded into the product that makes them and out of the one that takes them
    g = Graph({**scales, **{f"wo{i}": scales[f"wo{i}"] * value_unit(scales, i) for i in range(c.layers) if whole}})
    x = g.input("x", ["B", "R", c.width])
    center, place = g.input("center", ["B", "R"]), g.input("place", ["B", "R"])
    own = g.input("own", ["B", "R", "R"])
    position, text_place = g.input("position", ["B", "P"]), g.input("text_place", ["B", "T"])
    need = g.input("need", ["N"], "int64")
    caches = [
        (
            g.input(f"kp{i}", ["B", kv, e, "P"]),
            g.input(f"vp{i}", ["B", kv, "P", e]),
            g.input(f"kt{i}", ["B", kv, e, "T"]),
            g.input(f"vt{i}", ["B", kv, "T", e]),
        )
        for i in range(c.layers)
    ]
    last, one = g.ints(-1), g.ints(1)
    center_1 = g.op("Unsqueeze", center, last)
    # every row has its own angles, so rows' numbers are their positions in the tables of cosines
    row_shape = g.op("Shape", center)
    numbers = g.op("Range", g.scalar(0), g.op("ReduceProd", row_shape, keepdims=0), g.scalar(1))
    at = g.op("Reshape", numbers, row_shape)
    column = g.ints(-1, 1)
    cos_q, sin_q = _angles(g, g.op("Reshape", center, column), c.rope_theta, half)
    cos_k, sin_k = _angles(g, g.op("Reshape", place, column), c.rope_theta, half)

    # (B, kv, share * R, S) biases; head k * share + j is row group j of kv head k
    far = g.op("Abs", g.op("Sub", g.op("Unsqueeze", position, one), center_1))
    reach = g.op("LessOrEqual", far, g.const(c.reach_columns))
    slope = g.const(-np.asarray(c.slopes, np.float32).reshape(1, h, 1, 1))
    far_1 = g.op("Unsqueeze", far, one)
    bias_p = g.op("Where", g.op("Unsqueeze", reach, one), g.op("Mul", far_1, slope), g.const(NEVER))
    batch, p_size, t_size = (
        g.op("Shape", x, end=1),
        g.op("Shape", position, start=1),
        g.op("Shape", text_place, start=1),
    )
    r_size = g.op("Shape", x, start=1, end=2)
    bias_p = g.op("Reshape", bias_p, g.op("Concat", batch, g.ints(kv, -1), p_size, axis=0))
    back = g.op("Sub", center_1, g.op("Unsqueeze", text_place, one))
    bias_t = g.op("Where", g.op("LessOrEqual", back, g.const(c.reach_text)), g.const(0.0), g.const(NEVER))
    bias_rows = g.op("Concat", bias_t, own, axis=-1)
    bias_rows = g.op("Unsqueeze", g.op("Concat", *[bias_rows] * share, axis=1), one)
    bias = g.op("Concat", bias_p, g.op("Expand", bias_rows, g.ints(1, kv, 1, 1)), axis=-1)

    sizes = g.op("Concat", p_size, t_size, r_size, axis=0)
    heads_shape = g.ints(0, 0, h + 2 * kv, e)
    grouped, flat = g.ints(0, kv, -1, e), g.ints(0, 0, h * e)
    head_rows = g.op("Concat", batch, g.ints(h), r_size, g.ints(e), axis=0)
    first = model.layers[0]
    assert isinstance(first, Layer)
    n = g.rms_norm(x, _np(first.norm1.weight), c.eps)
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        kp, vp, kt, vt = caches[i]
        unit_v = value_unit(scales, i)
        qkv_w = np.concatenate([_np(layer.wq.weight), _np(layer.wk.weight), _np(layer.wv.weight) * unit_v]).T
        qkv = g.op("Reshape", g.matmul(n, qkv_w, f"qkv{i}"), heads_shape)
        q, k, v = g.split(g.op("Transpose", qkv, perm=[0, 2, 1, 3]), [h, kv, kv], 1)
        # float: 1/sqrt(E) of the scores rides on the query's norm weight
        unit_q, unit_k = (QK_GRID, QK_GRID) if whole else (1 / np.sqrt(e), 1.0)
        q = g.rotary(g.rms_norm(q, _np(layer.qnorm.weight) * unit_q, c.eps), at, cos_q, sin_q)
        k = g.rotary(g.rms_norm(k, _np(layer.knorm.weight) * unit_k, c.eps), at, cos_k, sin_k)
        if whole:
            q, k, v = g.op("Round", q), g.op("Round", k), g.op("Round", v)
        q = g.op("Reshape", q, grouped)
        scores = g.op(
            "Concat",
            g.op("MatMul", q, kp),
            g.op("MatMul", q, kt),
            g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
            axis=-1,
        )
        if whole:
            scores = g.op("Mul", scores, g.const(1 / (QK_GRID**2 * np.sqrt(e))))
        p, total = _weights(g, g.op("Add", scores, bias), whole)
        p_p, p_t, p_o = g.op("Split", p, sizes, outputs=3, axis=-1)
        y = g.op("Add", g.op("Add", g.op("MatMul", p_p, vp), g.op("MatMul", p_t, vt)), g.op("MatMul", p_o, v))
        y = g.op("Div", y, total) if total else y
        y = g.op("Reshape", y, head_rows)
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), flat)
        n, x = g.add_norm(x, g.matmul(y, _np(layer.wo.weight).T / unit_v, f"wo{i}"), _np(layer.norm2.weight), c.eps)
        gate_up = g.matmul(n, _np(layer.gate_up.weight).T, f"gate_up{i}")
        gate, up = g.split(gate_up, [c.hidden, c.hidden], -1)
        act = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
        down = g.matmul(act, _np(layer.down.weight).T, f"down{i}")
        if i + 1 < c.layers:
            following = model.layers[i + 1]
            assert isinstance(following, Layer)
            n, x = g.add_norm(x, down, _np(following.norm1.weight), c.eps)
        else:
            x = g.op("Add", x, down)
        g.output(f"k{i}", k)
        g.output(f"v{i}", v)
    rows = g.op("Gather", g.op("Reshape", x, g.ints(-1, c.width)), need, axis=0)
    rows = g.rms_norm(rows, _np(model.norm.weight), c.eps)
    weight, bias_v = model.core_head()
    g.output("core", g.matmul(rows, _np(weight).T, "core_head", _np(bias_v)))
    g.output("class", g.matmul(rows, _np(model.out * model.logit_scale), "class_head"))
    return g


def prefill_graph(model: Decoder, scales: dict[str, float]) -> Graph:
    """Keys and values of the prefix, on the same grids as decoder_graph's.

    Inputs feature (1,P,F), geometry (1,P,G), line (1,P,1) as 0 or 1, position (1,P); outputs per layer k (1,G,E,P)
    and v (1,G,P,E). Float32: it runs once a region."""
    c = model.c
    kv, e, half = c.kv_heads, c.head_dim, c.head_dim // 2
    g = Graph()
    feature, geometry = g.input("feature", [1, "P", c.features]), g.input("geometry", [1, "P", c.geometry])
    line, position = g.input("line", [1, "P", 1]), g.input("position", [1, "P"])
    norm, first, _, second = model.merger
    x = g.op(
        "LayerNormalization",
        feature,
        g.const(_np(norm.weight)),
        g.const(_np(norm.bias)),
        axis=-1,
        epsilon=float(norm.eps),
    )  # type: ignore[union-attr,arg-type]
    x = g.op("Gelu", g.matmul(x, _np(first.weight).T, "merge1", _np(first.bias)))
    x = g.matmul(x, _np(second.weight).T, "merge2", _np(second.bias))
    lines = g.matmul(geometry, _np(model.line_in.weight).T, "line_in", _np(model.line_in.bias))
    x = g.op("Add", x, g.op("Mul", line, g.op("Sub", lines, x)))
    cos, sin = _angles(g, g.op("Reshape", position, g.ints(-1, 1)), c.rope_theta, half)
    size = g.op("Shape", position)
    at = g.op("Reshape", g.op("Range", g.scalar(0), g.op("ReduceProd", size, keepdims=0), g.scalar(1)), size)
    shape = g.ints(0, 0, 2 * kv, e)
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        n = g.rms_norm(x, _np(layer.norm1.weight), c.eps)
        kv_w = np.concatenate([_np(layer.wk.weight), _np(layer.wv.weight) * value_unit(scales, i)]).T
        both = g.op("Transpose", g.op("Reshape", g.matmul(n, kv_w, f"kv{i}"), shape), perm=[0, 2, 1, 3])
        k, v = g.split(both, [kv, kv], 1)
        unit_k = QK_GRID if scales else 1.0
        k = g.rotary(g.rms_norm(k, _np(layer.knorm.weight) * unit_k, c.eps), at, cos, sin)
        if scales:
            k, v = g.op("Round", k), g.op("Round", v)
        g.output(f"k{i}", g.op("Transpose", k, perm=[0, 1, 3, 2]))
        g.output(f"v{i}", v)
    return g


def tables(model: Decoder) -> dict[str, np.ndarray]:
    """What the runtime embeds rows with; class vectors as int8 rows with a scale each."""
    vectors = _np(model.class_vectors)
    scale = np.maximum(np.abs(vectors).max(1), 1e-8) / 127
    return {
        "class_rows": np.rint(vectors / scale[:, None]).astype(np.int8),
        "class_scale": scale.astype(np.float32),
        "core_ids": np.asarray(model.core_ids.cpu().numpy()),
        "token_in": _np(model.token_in) * EMBED_SCALE,
        "draft_in": _np(model.draft_in) * EMBED_SCALE,
        "core_token": _np(model.core_token),
        "core_draft": _np(model.core_draft),
        "left_in": _np(model.left_in) * EMBED_SCALE,
        "core_left": _np(model.core_left),
        "mask_token": _np(model.mask_token),
        "row_type": _np(model.row_type),
        "prob_vector": _np(model.prob_vector),
    }


def export(model: Decoder, out: Path, scales: dict[str, float] | None) -> None:
    """Writes all files into folder `out`. scales: from calibrate.activation_scales, or None for float32."""
    out.mkdir(parents=True, exist_ok=True)
    model.class_vectors.copy_(round_rows(model.class_vectors))  # as new models have them already
    decoder_graph(model, scales or {}).save(out / "decoder.onnx")
    prefill_graph(model, scales or {}).save(out / "prefill.onnx")
    np.savez_compressed(out / "tables.npz", **tables(model))  # type: ignore[arg-type]
    (out / "config.json").write_text(model.c.to_json())

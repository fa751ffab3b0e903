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


def _np(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().float().numpy())


def _angles(g: Graph, place: str, theta: float, half: int, reps: int) -> tuple[str, str]:
    """cos and signed sin of shape (..., reps, 2 half) for positions (..., 1)."""
    freq = theta ** (-np.arange(half) / half)
    angle = g.op("Mul", place, g.const(freq))
    cos, sin = g.op("Cos", angle), g.op("Sin", angle)
    cos, sin = g.op("Concat", cos, cos, axis=-1), g.op("Concat", g.op("Neg", sin), sin, axis=-1)
    axes = g.ints(-2)
    cos, sin = g.op("Unsqueeze", cos, axes), g.op("Unsqueeze", sin, axes)
    tile = g.ints(*([1] * 2), reps, 1)
    return g.op("Tile", cos, tile), g.op("Tile", sin, tile)


def _rotate(g: Graph, x: str, cos: str, sin: str, half: int) -> str:
    a, b = g.split(x, [half, half], -1)
    swapped = g.op("Concat", b, a, axis=-1)
    return str(g.op("Add", g.op("Mul", x, cos), g.op("Mul", swapped, sin)))


def decoder_graph(model: Decoder, scales: dict[str, float]) -> Graph:
    """Inputs x (B,R,D), center, place (B,R), own (B,R,R) additive, position (B,P), text_place (B,T), need (N,) row
    indices into B*R, and per layer kp (B,G,E,P), vp (B,G,P,E), kt (B,G,E,T), vt (B,G,T,E). Outputs core (N,V) logits,
    class (N,C) to be multiplied with class vectors, and per layer k, v (B,G,R,E) of the rows."""
    c = model.c
    h, kv, e, half = c.heads, c.kv_heads, c.head_dim, c.head_dim // 2
    share = h // kv
    g = Graph(scales)
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
    center_1, place_1 = g.op("Unsqueeze", center, last), g.op("Unsqueeze", place, last)
    cos_q, sin_q = _angles(g, center_1, c.rope_theta, half, h)
    cos_k, sin_k = _angles(g, place_1, c.rope_theta, half, kv)
    cos, sin = g.op("Concat", cos_q, cos_k, axis=2), g.op("Concat", sin_q, sin_k, axis=2)

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
    rows_shape = g.ints(0, 0, h + kv, e)
    value_shape, grouped, flat = g.ints(0, 0, kv, e), g.ints(0, kv, -1, e), g.ints(0, 0, h * e)
    head_rows = g.op("Concat", batch, g.ints(h), r_size, g.ints(e), axis=0)
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        kp, vp, kt, vt = caches[i]
        qkv_w = np.concatenate([_np(layer.wq.weight), _np(layer.wk.weight), _np(layer.wv.weight)]).T
        qkv = g.matmul(g.rms_norm(x, _np(layer.norm1.weight), c.eps), qkv_w, f"qkv{i}")
        qk, v = g.split(qkv, [(h + kv) * e, kv * e], -1)
        qk = g.rms_norm(g.op("Reshape", qk, rows_shape), np.ones(e, np.float32), c.eps)
        # 1/sqrt(E) of the scores rides on the query's norm weight
        qk_weight = np.concatenate(
            [np.tile(_np(layer.qnorm.weight) / np.sqrt(e), (h, 1)), np.tile(_np(layer.knorm.weight), (kv, 1))]
        )
        qk = _rotate(g, g.op("Mul", qk, g.const(qk_weight)), cos, sin, half)
        q, k = g.split(qk, [h, kv], 2)
        q = g.op("Reshape", g.op("Transpose", q, perm=[0, 2, 1, 3]), grouped)
        k = g.op("Transpose", k, perm=[0, 2, 1, 3])
        v = g.op("Transpose", g.op("Reshape", v, value_shape), perm=[0, 2, 1, 3])
        g.output(f"k{i}", k)
        g.output(f"v{i}", v)
        scores = g.op(
            "Concat",
            g.op("MatMul", q, kp),
            g.op("MatMul", q, kt),
            g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
            axis=-1,
        )
        p = g.op("Softmax", g.op("Add", scores, bias), axis=-1)
        p_p, p_t, p_o = g.op("Split", p, sizes, outputs=3, axis=-1)
        y = g.op("Add", g.op("Add", g.op("MatMul", p_p, vp), g.op("MatMul", p_t, vt)), g.op("MatMul", p_o, v))
        y = g.op("Reshape", y, head_rows)
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), flat)
        x = g.op("Add", x, g.matmul(y, _np(layer.wo.weight).T, f"wo{i}"))
        gate_up = g.matmul(g.rms_norm(x, _np(layer.norm2.weight), c.eps), _np(layer.gate_up.weight).T, f"gate_up{i}")
        gate, up = g.split(gate_up, [c.hidden, c.hidden], -1)
        act = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
        x = g.op("Add", x, g.matmul(act, _np(layer.down.weight).T, f"down{i}"))
    rows = g.op("Gather", g.op("Reshape", x, g.ints(-1, c.width)), need, axis=0)
    rows = g.rms_norm(rows, _np(model.norm.weight), c.eps)
    weight, bias_v = model.core_head()
    g.output("core", g.matmul(rows, _np(weight).T, "core_head", _np(bias_v)))
    g.output("class", g.matmul(rows, _np(model.out * model.logit_scale), "class_head"))
    return g


def prefill_graph(model: Decoder) -> Graph:
    """Inputs feature (1,P,F), geometry (1,P,G), line (1,P,1) as 0 or 1, position (1,P); outputs per layer k (1,G,E,P)
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
    cos, sin = _angles(g, g.op("Unsqueeze", position, g.ints(-1)), c.rope_theta, half, kv)
    shape = g.ints(0, 0, kv, e)
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        n = g.rms_norm(x, _np(layer.norm1.weight), c.eps)
        kv_w = np.concatenate([_np(layer.wk.weight), _np(layer.wv.weight)]).T
        k, v = g.split(g.matmul(n, kv_w, f"kv{i}"), [kv * e, kv * e], -1)
        k = g.rms_norm(g.op("Reshape", k, shape), _np(layer.knorm.weight), c.eps)
        k = _rotate(g, k, cos, sin, half)
        g.output(f"k{i}", g.op("Transpose", k, perm=[0, 2, 3, 1]))
        g.output(f"v{i}", g.op("Transpose", g.op("Reshape", v, shape), perm=[0, 2, 1, 3]))
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
    prefill_graph(model).save(out / "prefill.onnx")
    np.savez_compressed(out / "tables.npz", **tables(model))  # type: ignore[arg-type]
    (out / "config.json").write_text(model.c.to_json())

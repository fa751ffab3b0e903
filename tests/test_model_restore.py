"""An export comes back as the PyTorch decoder that it was made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.errors import ModelError
from derender.model.export import export
from derender.model.restore import restore
from derender.model.runtime_onnx import OnnxRuntime
from derender.model.runtime_torch import TorchRuntime
from model_fixtures import tiny_decoder, tiny_prefix, tiny_vocab

SCALES = {
    **{f"{name}{i}": 8.0 for name in ("qkv", "wo", "gate_up", "down", "v") for i in range(2)},
    "core_head": 8.0,
    "class_head": 8.0,
}


def _read(runtime: object) -> list[list[int]]:
    engine = Engine(runtime, DecodeConfig(mode="sliding", rule="threshold:0.3", window=8, block=8))  # type: ignore[arg-type]
    prefixes = [tiny_prefix("the quick brown fox jumps", seed=i) for i in range(3)]
    return [r.tokens for r in sorted(engine.run(enumerate(prefixes)), key=lambda r: int(str(r.id)))]


def test_float32_comes_back_as_it_was(tmp_path: Path) -> None:
    model = tiny_decoder()
    export(model, tmp_path, None)
    found, given = restore(tmp_path).state_dict(), model.state_dict()
    assert set(found) == set(given)
    folded = {"out", "core_out", "logit_scale"}
    for name in set(given) - folded:
        torch.testing.assert_close(found[name], given[name], rtol=1e-5, atol=1e-6, msg=name)
    for (weight, bias), (weight_0, bias_0) in [(restore(tmp_path).core_head(), model.core_head())]:
        torch.testing.assert_close(weight, weight_0, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(bias, bias_0)
    torch.testing.assert_close(found["out"], given["out"] * given["logit_scale"])


def test_it_decodes_as_the_decoder_it_came_from(tmp_path: Path) -> None:
    model = tiny_decoder(noise=0.1)
    export(model, tmp_path, None)
    texts = _read(TorchRuntime(model, tiny_vocab()))
    assert any(texts) and _read(TorchRuntime(restore(tmp_path), tiny_vocab())) == texts


def test_int8_exported_again_has_the_very_same_weights(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    export(tiny_decoder(), tmp_path / "first", SCALES)
    export(restore(tmp_path / "first"), tmp_path / "again", SCALES)

    def whole(folder: str) -> dict[str, np.ndarray]:
        graph = onnx.load(str(tmp_path / folder / "decoder.onnx")).graph
        return {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.data_type == onnx.TensorProto.INT8}

    first, again = whole("first"), whole("again")
    names = [n for n in first if first[n].size > 200]
    assert len(names) == 4 * 2 + 2
    for name in names:
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)


def test_int8_in_torch_reads_nearly_as_onnx_runtime_does(tmp_path: Path) -> None:
    model = tiny_decoder(noise=0.05)
    export(model, tmp_path, SCALES)
    texts, found = (
        _read(OnnxRuntime(tiny_vocab(), tmp_path, threads=1)),
        _read(TorchRuntime(restore(tmp_path), tiny_vocab())),
    )
    same = sum(a == b for x, y in zip(texts, found, strict=True) for a, b in zip(x, y, strict=False))
    assert same >= 0.9 * sum(map(len, texts)) > 0


def test_what_is_no_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no export"):
        restore(tmp_path)

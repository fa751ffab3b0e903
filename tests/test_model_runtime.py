"""Both runtimes against the training forward and against each other: cached = uncached, batched = single, ONNX =
torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.decode.protocol import Rows
from derender.model.decoder import attention_bias
from derender.model.export import export
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq
from derender.model.runtime_onnx import OnnxRuntime
from derender.model.runtime_torch import TorchRuntime
from derender.train.dataset import NoiseConfig, Region, make_chunk
from derender.train.objective import collate, visibility
from model_fixtures import tiny_decoder, tiny_prefix, tiny_vocab

TEXT = "the quick brown fox jumps over the lazy dog. a second line, not quite the same"
Runtime = TorchRuntime | OnnxRuntime


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("weights")
    export(tiny_decoder(), out, None)
    return out


@pytest.fixture(params=["torch", "onnx"])
def make(request: pytest.FixtureRequest, folder: Path) -> Callable[[], Runtime]:
    if request.param == "torch":
        return lambda: TorchRuntime(tiny_decoder(), tiny_vocab())
    return lambda: OnnxRuntime(tiny_vocab(), folder, threads=1)


def decode(runtime: Runtime, prefixes: list[RegionPrefix], config: DecodeConfig, batch: int = 8) -> list[list[int]]:
    engine: Engine[RegionPrefix, CompactSeq] = Engine(runtime, config, max_batch=batch)
    results = {r.id: r.tokens for r in engine.run(enumerate(prefixes))}
    return [results[i] for i in range(len(prefixes))]


def test_cached_decoding_equals_the_training_forward(make: Callable[[], Runtime]) -> None:
    """Commit rows fed in pieces, then a masked window, give the logits of one uncached forward with training's mask."""
    vocab, model = tiny_vocab(), tiny_decoder()
    prefix = tiny_prefix(TEXT[:40])
    target = np.array(vocab.encode("the quik brown fox jumps"), np.int64)
    from derender.model.align import anchors

    region = Region(prefix, target, np.array(anchors(prefix.draft_D.tolist(), target.tolist(), vocab.soft_ids)))
    noise = NoiseConfig(full=1.0, blocks=(8,), wrong=0.0, no_draft=0.0, reach_columns=12.0)
    chunk = make_chunk(region, np.random.default_rng(3), vocab, model.core_ids.numpy(), noise)
    batch = collate([chunk], model.core_index, vocab.mask_id)
    with torch.inference_mode():
        bias = attention_bias(visibility(batch, model.c.reach_columns, model.c.reach_text), model.c.slopes)
        kv = model.prefix_kv(model.embed_prefix(batch.feature, batch.geometry, batch.line), batch.position)
        x = model.embed_rows(batch.ids, batch.left, batch.draft, batch.prob, (batch.stream > 0).long(), vocab.mask_id)
        x, _ = model.run(x, batch.center, batch.place, kv, bias)
        logits = model.logits(x[0], torch.zeros(0, dtype=torch.long))[:, : model.c.n_core].numpy()
    runtime = make()
    (seq,) = runtime.prefill([prefix])
    tokens = [vocab.bos_id, *target.tolist()]
    n = len(tokens)
    got = []
    for a, b in ((0, 1), (1, 2), (2, 9), (9, n)):
        (out,) = runtime.forward([Rows(seq, tokens[a:b], (), want_next=True)])
        assert out.next_CK is not None
        got.append(out.next_CK[:, : model.c.n_core])
    assert np.abs(np.concatenate(got) - logits[:n]).max() < 1e-3

    first = int(chunk.first[0][chunk.block[0] == 1][0])  # the second window of the first noisy stream
    rows = np.flatnonzero(chunk.block[0] == 1)
    (seq,) = runtime.prefill([prefix])
    (out,) = runtime.forward([Rows(seq, tokens[:first], [vocab.mask_id] * len(rows))])
    assert out.window_WK is not None
    expected = logits[n : n + len(chunk.block[0])][rows]
    assert np.abs(out.window_WK[:, : model.c.n_core] - expected).max() < 1e-3


@pytest.mark.parametrize("mode", ["ar", "block", "sliding", "exact"])
def test_batched_equals_single(make: Callable[[], Runtime], mode: str) -> None:
    prefixes = [tiny_prefix(TEXT[: 9 + 13 * i], seed=i, lines=1 + i % 3) for i in range(6)]
    config = DecodeConfig(mode=mode, rule="threshold:0.5", max_tokens=90)  # type: ignore[arg-type]
    runtime = make()
    together = decode(runtime, prefixes, config, batch=4)
    alone = [decode(runtime, [p], config)[0] for p in prefixes]
    assert together == alone


def test_exact_equals_autoregressive(make: Callable[[], Runtime]) -> None:
    prefixes = [tiny_prefix(TEXT[: 20 + 11 * i], seed=10 + i) for i in range(5)]
    runtime = make()
    ar = decode(runtime, prefixes, DecodeConfig(mode="ar", max_tokens=90))
    assert (
        decode(runtime, prefixes, DecodeConfig(mode="exact", draft="window", draft_threshold=0.2, max_tokens=90)) == ar
    )
    assert decode(runtime, prefixes, DecodeConfig(mode="exact", draft="reading", max_tokens=90)) == ar


def test_a_reading_that_is_right_is_verified_a_window_at_a_time() -> None:
    """An untrained decoder repeats the draft, so drafting from the reading takes about one forward in 32 tokens."""
    runtime = TorchRuntime(tiny_decoder(noise=0.0), tiny_vocab())
    engine: Engine[RegionPrefix, CompactSeq] = Engine(runtime, DecodeConfig(mode="exact", draft="reading", window=16))
    (result,) = engine.run([(0, tiny_prefix(TEXT, lines=1))])
    assert len(result.tokens) > 60 and result.stats.forwards < len(result.tokens) / 8


@pytest.mark.parametrize("mode", ["ar", "block", "sliding", "exact"])
def test_onnx_equals_torch(folder: Path, mode: str) -> None:
    prefixes = [tiny_prefix(TEXT[: 15 + 9 * i], seed=20 + i, lines=1 + i % 2) for i in range(5)]
    config = DecodeConfig(mode=mode, rule="threshold:0.5", max_tokens=90)  # type: ignore[arg-type]
    a = decode(TorchRuntime(tiny_decoder(), tiny_vocab()), prefixes, config)
    b = decode(OnnxRuntime(tiny_vocab(), folder, threads=1), prefixes, config)
    assert a == b


def test_an_untrained_decoder_repeats_the_draft() -> None:
    vocab = tiny_vocab()
    runtime = TorchRuntime(tiny_decoder(noise=0.0), vocab)
    prefix = tiny_prefix("jumps over the lazy dog", lines=1)
    (seq,) = runtime.prefill([prefix])
    (out,) = runtime.forward([Rows(seq, [vocab.bos_id], [vocab.mask_id] * 16)])
    assert out.window_WK is not None
    read = seq.candidates_K[out.window_WK.argmax(1)]
    assert (read == prefix.draft_D[:16]).mean() > 0.8


def test_hiding_the_draft_changes_the_logits(make: Callable[[], Runtime]) -> None:
    runtime = make()
    logits = []
    for use in (True, False):
        runtime.use_draft = use
        (seq,) = runtime.prefill([tiny_prefix(TEXT[:20])])
        (out,) = runtime.forward([Rows(seq, [runtime.spec.bos_id], [0] * 4)])
        assert out.window_WK is not None
        logits.append(out.window_WK)
    assert np.abs(logits[0] - logits[1]).max() > 1e-2


def test_truncated_rows_leave_no_trace(make: Callable[[], Runtime]) -> None:
    runtime = make()
    vocab = tiny_vocab()
    prefix = tiny_prefix(TEXT[:30])
    tokens = [vocab.bos_id, *vocab.encode("the qui")]
    (a,), (b,) = runtime.prefill([prefix]), runtime.prefill([prefix])
    runtime.forward([Rows(a, tokens + vocab.encode("zzz"), [0] * 8)])
    runtime.truncate(a, len(tokens))
    runtime.forward([Rows(b, tokens, [0] * 8)])
    follow = vocab.encode("ck b")
    (x,) = runtime.forward([Rows(a, follow, [0] * 8, want_next=True)])
    (y,) = runtime.forward([Rows(b, follow, [0] * 8, want_next=True)])
    assert x.next_CK is not None and y.next_CK is not None and np.abs(x.next_CK - y.next_CK).max() < 1e-4


def test_long_regions_need_no_more_cache_than_short_ones(folder: Path) -> None:
    runtime = OnnxRuntime(tiny_vocab(), folder, threads=1)
    prefix = tiny_prefix((TEXT + " ") * 12, lines=12)
    (seq,) = runtime.prefill([prefix])
    pending = [runtime.spec.bos_id]
    for i in range(60):
        runtime.forward([Rows(seq, pending, [0] * 16)])
        pending = prefix.draft_D[i * 12 : i * 12 + 12].tolist()
    assert runtime.slots.text_place.shape[1] <= 128 and runtime.slots.position.shape[1] <= 320


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny decoder in int8, calibrated on a made-up chunk."""
    from derender.train.calibrate import activation_scales

    vocab, model, rng = tiny_vocab(), tiny_decoder(), np.random.default_rng(0)
    prefix = tiny_prefix(TEXT, lines=3)
    target = prefix.draft_D
    region = Region(prefix, target, np.arange(len(target) + 1))
    chunks = [make_chunk(region, rng, vocab, model.core_ids.numpy(), NoiseConfig()) for _ in range(4)]
    out = tmp_path_factory.mktemp("int8")
    export(model, out, activation_scales(model, [chunks], vocab.mask_id))
    return out


def next_logits(runtime: OnnxRuntime, prefixes: list[RegionPrefix], cuts: list[int], window: int) -> np.ndarray:
    """Logits of all next-token rows of the first prefix's own draft, fed in pieces; the other prefixes ride along."""
    seqs = runtime.prefill(prefixes)
    tokens = [[runtime.spec.bos_id, *p.draft_D.tolist()] for p in prefixes]
    out = []
    for a, b in zip([0, *cuts], [*cuts, 30], strict=True):
        rows = [
            Rows(s, t[a:b], [runtime.spec.mask_id] * window, want_next=True) for s, t in zip(seqs, tokens, strict=True)
        ]
        out.append(runtime.forward(rows)[0].next_CK)
    for seq in seqs:
        runtime.release(seq)
    return np.concatenate(out)


def test_int8_logits_do_not_depend_on_what_else_is_in_the_forward(int8: Path) -> None:
    """To the last bit: one row at a time (`ar`), many (`exact`), with windows, and beside other sequences."""
    runtime = OnnxRuntime(tiny_vocab(), int8, threads=1)
    first, *others = [tiny_prefix(TEXT, seed=i, lines=1 + i) for i in range(4)]
    alone = next_logits(runtime, [first], list(range(1, 30)), 0)
    for prefixes, cuts, window in (
        ([first], [], 0),
        ([first], [1, 3, 20], 0),
        ([first], [1, 14], 16),
        ([first, *others], list(range(1, 30)), 0),
        ([first, *others], [2, 19], 7),
    ):
        assert np.array_equal(next_logits(runtime, prefixes, cuts, window), alone)


def test_int8_stays_near_float32(int8: Path, folder: Path) -> None:
    prefix = tiny_prefix(TEXT, lines=2)
    exact = next_logits(OnnxRuntime(tiny_vocab(), folder, threads=1), [prefix], [10, 20], 4)
    near = next_logits(OnnxRuntime(tiny_vocab(), int8, threads=1), [prefix], [10, 20], 4)
    assert 0 < np.abs(near - exact).max() < 0.15 * np.abs(exact).max()

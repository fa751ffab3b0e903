"""Activation scales for int8: the largest values that each matrix product's input takes, by percentile, on real chunks.

One fixed scale per product (see model.graph). Values above it are clipped, so the percentile is high. Does not quantise
(model.graph does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from derender.errors import InputError
from derender.model.decoder import Decoder, Layer
from derender.model.tokens import Vocab
from derender.train.dataset import Chunk, NoiseConfig, load_shard, make_chunk
from derender.train.objective import collate, sums_of

PERCENTILE = 99.995


@torch.inference_mode()
def activation_scales(model: Decoder, batches: Sequence[Sequence[Chunk]], mask_id: int) -> dict[str, float]:
    """Scale by product name as in export.py: qkv, wo, gate_up and down of each layer, core_head and class_head
    (inputs), and v of each layer (the values)."""
    seen: dict[str, list[float]] = {}

    def watch(name: str, after: bool = False) -> Callable[..., None]:
        def hook(_module: Any, args: tuple[Any, ...], output: Any = None) -> None:
            values = (output if after else args[0]).detach().abs().flatten().numpy()
            seen.setdefault(name, []).append(float(np.percentile(values, PERCENTILE)))

        return hook

    handles = []
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        for name, module in (("qkv", layer.wq), ("wo", layer.wo), ("gate_up", layer.gate_up), ("down", layer.down)):
            handles.append(module.register_forward_hook(watch(f"{name}{i}")))
        handles.append(layer.wv.register_forward_hook(watch(f"v{i}", after=True)))
    keep: list[float] = []
    handles.append(
        model.norm.register_forward_hook(
            lambda _m, _a, out: keep.append(float(np.percentile(out.detach().abs().flatten().numpy(), PERCENTILE)))
        )
    )
    try:
        for chunks in batches:
            sums_of(model, collate(chunks, model.core_index, mask_id), mask_id)
    finally:
        for handle in handles:
            handle.remove()
    scales = {name: float(np.max(values)) for name, values in seen.items()}
    return {**scales, "core_head": max(keep), "class_head": max(keep)}


def calibrate_on_shards(model: Decoder, shards: Path, vocab: Vocab, regions: int = 96) -> dict[str, float]:
    """activation_scales on the first `regions` regions of the first shard in a folder. Raises InputError without
    one."""
    first = min(shards.glob("shard-*.npz"), default=None)
    if first is None:
        raise InputError(f"no shards in {shards.name} to calibrate with")
    rng = np.random.default_rng(5)
    core = model.core_ids.numpy()
    chunks = [
        make_chunk(region, rng, vocab, core, NoiseConfig(wrong=0.0))
        for region in islice(load_shard(first, vocab), regions)
    ]
    chunks.sort(key=lambda c: len(c.clean))
    return activation_scales(model, [chunks[i : i + 8] for i in range(0, len(chunks), 8)], vocab.mask_id)

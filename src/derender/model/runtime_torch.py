"""The compact decoder as an engine runtime, in PyTorch: plain, for training-time decoding, tests and CUDA.

Caches keys and values per sequence and pads them into a batch at each forward. derender.model.runtime_onnx is the fast
one on a CPU; both pass the same contract tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from derender.decode.protocol import RowLogits, Rows
from derender.model.decoder import Decoder, attention_bias
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq, compact_spec, pad_rows, row_visibility
from derender.model.tokens import TokenIds

KV = list[tuple[Tensor, Tensor]]


@dataclass
class _Cache:
    """Per layer (k, v) of (G, entries, E): prefix, and committed text; places of the latter."""

    prefix: KV
    position: Tensor
    text: KV
    place: list[float] = field(default_factory=list)


class TorchRuntime:
    """Implements decode.protocol.Runtime for a compact Decoder. Not thread-safe. prefill takes RegionPrefix objects."""

    def __init__(self, model: Decoder, vocab: TokenIds, device: str = "cpu", use_draft: bool = True) -> None:
        self.model = model.eval().to(device)
        self.vocab, self.device, self.use_draft = vocab, device, use_draft
        self.core = model.core_ids.cpu().numpy()
        self.spec = compact_spec(model.c, vocab, "compact/torch")

    @torch.inference_mode()
    def prefill(self, prefixes: Sequence[RegionPrefix]) -> list[CompactSeq]:
        out = []
        for prefix in prefixes:
            seq = CompactSeq(prefix, self.vocab, self.core, self.use_draft)
            position = self._tensor(prefix.position_P)[None]
            x = self.model.embed_prefix(
                self._tensor(prefix.feature_PF).float()[None],
                self._tensor(prefix.geometry_PG)[None],
                self._tensor(prefix.line_P)[None],
            )
            kv = [(k[0], v[0]) for k, v in self.model.prefix_kv(x, position)]
            seq.cache = _Cache(kv, position[0], [(k[:, :0], v[:, :0]) for k, v in kv])
            out.append(seq)
        return out

    @torch.inference_mode()
    def forward(self, rows: Sequence[Rows[CompactSeq]]) -> list[RowLogits]:
        for r in rows:
            r.seq.settle()
        c = self.model.c
        arrays = [r.seq.place_rows(r) for r in rows]
        caches: list[_Cache] = [r.seq.cache for r in rows]
        center = self._tensor(pad_rows([a.center for a in arrays], -1e5))
        place = self._tensor(pad_rows([a.place for a in arrays], -1e5))
        position = _pad([cache.position for cache in caches], 1e6)
        far = (position[:, None] - center[:, :, None]).abs()
        far[far > c.reach_columns] = float("inf")
        text_place = _pad([self._tensor(np.asarray(cache.place, np.float32)) for cache in caches], -1e6)
        text = torch.zeros(*center.shape, text_place.shape[1], device=self.device)
        text[center[:, :, None] - text_place[:, None] > c.reach_text] = float("inf")
        own = torch.zeros(*center.shape, center.shape[1], device=self.device)
        own[~self._tensor(row_visibility(arrays, c.reach_text))] = float("inf")
        bias = attention_bias(torch.cat([far, text, own], 2), c.slopes)
        prefix_kv = [_stack([cache.prefix[i] for cache in caches]) for i in range(c.layers)]
        text_kv = [_stack([cache.text[i] for cache in caches]) for i in range(c.layers)]
        x = self.model.embed_rows(
            self._tensor(pad_rows([a.ids for a in arrays], 0)),
            self._tensor(pad_rows([a.left_RK for a in arrays], self.vocab.mask_id)),
            self._tensor(pad_rows([a.draft for a in arrays], 0)),
            self._tensor(pad_rows([a.prob for a in arrays], 0)),
            self._tensor(pad_rows([a.window for a in arrays], 1)),
            self.vocab.mask_id,
        )
        x, new = self.model.run(x, center, place, prefix_kv, bias, text_kv)
        out = []
        for b, (r, a) in enumerate(zip(rows, arrays, strict=True)):
            cache = caches[b]
            cache.text = [
                (torch.cat([t[0], k[b, :, : a.commits]], 1), torch.cat([t[1], v[b, :, : a.commits]], 1))
                for t, (k, v) in zip(cache.text, new, strict=True)
            ]
            cache.place += a.place[: a.commits].tolist()
            logits = self.model.logits(x[b, : len(a.ids)], self._tensor(r.seq.extra_X)).float().cpu().numpy()
            out.append(
                RowLogits(logits[: a.commits] if r.want_next else None, logits[a.commits :] if r.window else None)
            )
        return out

    def truncate(self, seq: CompactSeq, length: int) -> None:
        dropped = seq.drop(length)
        if dropped:
            cache: _Cache = seq.cache
            keep = len(cache.place) - dropped
            cache.text = [(k[:, :keep], v[:, :keep]) for k, v in cache.text]
            del cache.place[keep:]

    def release(self, seq: CompactSeq) -> None:
        seq.cache = None

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _pad(tensors: Sequence[Tensor], fill: float) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(tensors), batch_first=True, padding_value=fill)


def _stack(kv: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Pads (G, S, E) keys and values of several sequences to (B, G, S, E)."""
    k, v = (_pad([pair[i].transpose(0, 1) for pair in kv], 0.0).transpose(1, 2) for i in range(2))
    return k, v

"""The SDAR decoder (Qwen3 layers) of MinerU-Diffusion over keys and values that are cached per sequence. Our own code.

Rows of all sequences are one packed matrix for projections and feed-forward, so nothing is padded and unequal prompts
cost nothing; attention runs sequence by sequence. Block-causal attention is a list of spans: the rows of a span see the
first `keys` entries of their sequence, whatever comes after is invisible to them. Names of modules are those of the
checkpoint's tensors. Does not know of pictures, engines or files.

Layer (arXiv 2505.09388, SDAR arXiv 2510.06303): x += Wo·attention(rope(norm(Wq·h)), rope(norm(Wk·h)), Wv·h) with
h = norm(x); x += Wdown·(silu(Wgate·h) ⊙ Wup·h). Grouped queries, no biases, plain 1-D rotary positions.

Legend: R packed rows, D width, H heads, G kv heads, E head size, L layers, S entries of a cache, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from derender.mineru.config import TextShape
from derender.model.decoder import RMSNorm

GROW = 512  # entries by which a full cache grows


class KVCache:
    """Keys and values of one sequence. length: entries that are kept; what lies behind it is scratch, so a forward that
    fails half-way leaves the cache as it was."""

    def __init__(self, shape: TextShape, capacity: int, device: torch.device, dtype: torch.dtype) -> None:
        self.length = 0
        self._data = torch.empty(
            (shape.layers, 2, shape.kv_heads, capacity, shape.head_dim), device=device, dtype=dtype
        )  # (L, 2, G, S, E)

    @property
    def capacity(self) -> int:
        return self._data.shape[3]

    def reserve(self, rows: int) -> None:
        """Makes room for that many rows behind the kept entries."""
        if self.length + rows <= self.capacity:
            return
        grown = self.length + rows + GROW
        data = self._data.new_empty((*self._data.shape[:3], grown, self._data.shape[4]))
        data[:, :, :, : self.length] = self._data[:, :, :, : self.length]
        self._data = data

    def write(self, layer: int, k_GRE: Tensor, v_GRE: Tensor) -> tuple[Tensor, Tensor]:
        """Puts rows behind the kept entries; returns keys and values (G, S, E) up to and with them."""
        end = self.length + k_GRE.shape[1]
        keys, values = self._data[layer, 0], self._data[layer, 1]
        keys[:, self.length : end] = k_GRE
        values[:, self.length : end] = v_GRE
        return keys[:, :end], values[:, :end]


@dataclass(frozen=True)
class Span:
    """Rows start to stop of a segment see the first `keys` entries of the sequence, cached and new ones together."""

    start: int
    stop: int
    keys: int


@dataclass(frozen=True)
class Segment:
    """One sequence's rows in a forward. keep: how many of them, from the first, stay in the cache."""

    cache: KVCache
    rows: int
    keep: int
    spans: tuple[Span, ...]


def block_spans(rows: int, block: int, cached: int = 0) -> tuple[Span, ...]:
    """Spans of rows in blocks that end where the rows end: the first block is the one that may be short.

    Each row sees its block and everything before it (the mask of MinerU-Diffusion's prefill).
    """
    first = rows % block
    edges = [0, *([first] if first else []), *range(first + block, rows + 1, block)]
    return tuple(Span(a, b, cached + b) for a, b in zip(edges, edges[1:], strict=False))


def step_spans(commit: int, window: int, cached: int) -> tuple[Span, ...]:
    """Spans of a decoding step: commit rows see the cache and one another, window rows both and one another."""
    spans = []
    if commit:
        spans.append(Span(0, commit, cached + commit))
    if window:
        spans.append(Span(commit, commit + window, cached + commit + window))
    return tuple(spans)


def rotary(position_R: Tensor, size: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin, (R, 1, E) each, in the halves layout (arXiv 2104.09864); computed in float32."""
    step = torch.arange(0, size, 2, device=position_R.device, dtype=torch.float32)
    angle = position_R[:, None].float() * (1.0 / theta ** (step / size))
    angle = torch.cat([angle, angle], -1)[:, None]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _rotate(x_RHE: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x_RHE.chunk(2, -1)
    return x_RHE * cos + torch.cat([-b, a], -1) * sin


def attend(q_HRE: Tensor, k_GSE: Tensor, v_GSE: Tensor, spans: Sequence[Span]) -> Tensor:
    """Attention of one sequence's rows, (H, R, E). Few spans are so many plain attentions; many are one with a mask."""
    q, k, v = q_HRE[None], k_GSE[None], v_GSE[None]
    if len(spans) > 2:
        mask = span_mask(spans, k_GSE.shape[1], q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)[0]
    parts = [
        F.scaled_dot_product_attention(q[:, :, s.start : s.stop], k[:, :, : s.keys], v[:, :, : s.keys], enable_gqa=True)
        for s in spans
    ]
    return torch.cat(parts, 2)[0]


def span_mask(spans: Sequence[Span], keys: int, device: torch.device | str = "cpu") -> Tensor:
    """(R, S) bool, true where a row sees an entry."""
    seen = torch.tensor([s.keys for s in spans for _ in range(s.stop - s.start)], device=device)
    return torch.arange(keys, device=device)[None] < seen[:, None]


class Attention(nn.Module):
    def __init__(self, c: TextShape, layer: int) -> None:
        super().__init__()
        self.c, self.layer = c, layer
        self.q_proj = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.q_norm, self.k_norm = RMSNorm(c.head_dim, c.eps), RMSNorm(c.head_dim, c.eps)

    def forward(self, h_RD: Tensor, segments: Sequence[Segment], cos: Tensor, sin: Tensor) -> Tensor:
        rows, e = h_RD.shape[0], self.c.head_dim
        q = _rotate(self.q_norm(self.q_proj(h_RD).view(rows, -1, e)), cos, sin).transpose(0, 1)
        k = _rotate(self.k_norm(self.k_proj(h_RD).view(rows, -1, e)), cos, sin).transpose(0, 1)
        v = self.v_proj(h_RD).view(rows, -1, e).transpose(0, 1)
        parts, at = [], 0
        for segment in segments:
            stop = at + segment.rows
            keys, values = segment.cache.write(self.layer, k[:, at:stop], v[:, at:stop])
            parts.append(attend(q[:, at:stop], keys, values, segment.spans))
            at = stop
        y_HRE = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return self.o_proj(y_HRE.transpose(0, 1).reshape(rows, -1))


class FeedForward(nn.Module):
    def __init__(self, c: TextShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.width, c.hidden, bias=False)
        self.up_proj = nn.Linear(c.width, c.hidden, bias=False)
        self.down_proj = nn.Linear(c.hidden, c.width, bias=False)

    def forward(self, h_RD: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(h_RD)) * self.up_proj(h_RD))


class DecoderLayer(nn.Module):
    def __init__(self, c: TextShape, layer: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(c, layer), FeedForward(c)
        self.input_layernorm = RMSNorm(c.width, c.eps)
        self.post_attention_layernorm = RMSNorm(c.width, c.eps)

    def forward(self, x_RD: Tensor, segments: Sequence[Segment], cos: Tensor, sin: Tensor) -> Tensor:
        x_RD = x_RD + self.self_attn(self.input_layernorm(x_RD), segments, cos, sin)
        return x_RD + self.mlp(self.post_attention_layernorm(x_RD))


class Stack(nn.Module):
    """Embedding, layers and the last norm: `language_model.model`."""

    def __init__(self, c: TextShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocabulary, c.width)
        self.layers = nn.ModuleList(DecoderLayer(c, n) for n in range(c.layers))
        self.norm = RMSNorm(c.width, c.eps)


class MineruDecoder(nn.Module):
    """`language_model` of the checkpoint."""

    def __init__(self, c: TextShape) -> None:
        super().__init__()
        self.c = c
        self.model = Stack(c)
        self.lm_head = nn.Linear(c.width, c.vocabulary, bias=False)

    def embed(self, ids_R: Tensor) -> Tensor:
        return self.model.embed_tokens(ids_R)

    def forward(self, x_RD: Tensor, segments: Sequence[Segment]) -> Tensor:
        """Hidden states (R, D) of the rows, normed, ready for `lm_head`. x_RD: embeddings, segment after segment.

        The caches grow by each segment's `keep` once all layers have run; positions go on from the cache's length.
        """
        for segment in segments:
            segment.cache.reserve(segment.rows)
        position_R = torch.cat([torch.arange(s.rows, device=x_RD.device) + s.cache.length for s in segments])
        cos, sin = rotary(position_R, self.c.head_dim, self.c.rope_theta, x_RD.dtype)
        for layer in self.model.layers:
            x_RD = layer(x_RD, segments, cos, sin)
        x_RD = self.model.norm(x_RD)
        for segment in segments:
            segment.cache.length += segment.keep
        return x_RD

"""The compact block-diffusion decoder in PyTorch: Qwen3 layers over text rows, with a visual prefix as extra keys.

One forward serves training (clean and noisy rows at once) and decoding (commit rows and window rows over a cache):
the caller says which keys each row may see. Prefix entries get their keys and values from each layer's own weights but
are not updated by the layers (the tower has already put them in context), so a prefix costs one projection a layer.
Does not know of engines, commit rules or files.

Row inputs: token id, its left neighbours, and the draft's character at the place the row predicts, with its
probability. A *window* row predicts its own place, a *commit* row the next one; `center` is that place (an anchor,
see model.align).

Legend: B batch, R rows, P prefix entries, S keys, D width, H heads, G kv heads, E head size, V core vocabulary,
X extra candidates, C class width (120).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from derender.model.config import DecoderConfig

LEFT = 2  # left neighbours whose embeddings are added to a row
EMBED_SCALE = 8.0  # norm of a token embedding: half a unit a channel, well above the learned additions


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope(x_BHRE: Tensor, position_BR: Tensor, theta: float) -> Tensor:
    """Rotary positions (arXiv 2104.09864), halves layout; positions may be fractional."""
    half = x_BHRE.shape[-1] // 2
    freq = theta ** (-torch.arange(half, device=x_BHRE.device, dtype=torch.float32) / half)
    angle = position_BR[:, None, :, None].float() * freq
    cos, sin = angle.cos().to(x_BHRE.dtype), angle.sin().to(x_BHRE.dtype)
    a, b = x_BHRE[..., :half], x_BHRE[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention_bias(distance_BRS: Tensor, slopes: tuple[float, ...]) -> Tensor:
    """(B, H, R, S): -slope * distance per head. distance_BRS: |count - center| of a prefix key, 0 of a visible text
    key, inf where a row must not see a key. The slopes are constants (ALiBi, arXiv 2108.12409), not learned, so that
    the bias needs no gradient and the fused attention kernel applies."""
    return torch.stack(
        [-s * distance_BRS if s else torch.where(distance_BRS.isinf(), -distance_BRS, 0.0) for s in slopes], 1
    )


class Layer(nn.Module):
    """RMSNorm, grouped-query attention with q/k norm and rotary positions, SwiGLU (the Qwen3 layer)."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.c = c
        self.norm1, self.norm2 = RMSNorm(c.width, c.eps), RMSNorm(c.width, c.eps)
        self.wq = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.wk = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.wv = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.wo = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.qnorm, self.knorm = RMSNorm(c.head_dim, c.eps), RMSNorm(c.head_dim, c.eps)
        self.gate_up = nn.Linear(c.width, 2 * c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def kv(self, h_BRD: Tensor, position_BR: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, G, R, E) of rows or of prefix entries. h_BRD: after norm1."""
        b, r, _ = h_BRD.shape
        k = self.knorm(self.wk(h_BRD).view(b, r, self.c.kv_heads, self.c.head_dim)).transpose(1, 2)
        v = self.wv(h_BRD).view(b, r, self.c.kv_heads, self.c.head_dim).transpose(1, 2)
        return rope(k, position_BR, self.c.rope_theta), v

    def forward(
        self, x_BRD: Tensor, h_BRD: Tensor, center_BR: Tensor, k_BGSE: Tensor, v_BGSE: Tensor, bias_BHRS: Tensor
    ) -> Tensor:
        """h_BRD: x after norm1, which the rows' keys needed too. bias_BHRS: -inf where a row must not see a key, else
        the distance bias (attention_bias)."""
        b, r, _ = x_BRD.shape
        q = self.qnorm(self.wq(h_BRD).view(b, r, self.c.heads, self.c.head_dim)).transpose(1, 2)
        q = rope(q, center_BR, self.c.rope_theta)
        share = self.c.heads // self.c.kv_heads
        k, v = k_BGSE.repeat_interleave(share, 1), v_BGSE.repeat_interleave(share, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias_BHRS)
        x_BRD = x_BRD + self.wo(y.transpose(1, 2).reshape(b, r, -1))
        gate, up = self.gate_up(self.norm2(x_BRD)).chunk(2, -1)
        return x_BRD + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    """class_VC: the tower's class vectors for every token id (specials: rows to be learned); core_V: ids of the core
    vocabulary. Both are buffers and travel with the weights."""

    class_vectors: Tensor
    core_ids: Tensor
    core_index: Tensor

    def __init__(self, c: DecoderConfig, class_vectors: Tensor, core_ids: Tensor) -> None:
        super().__init__()
        self.c = c
        self.register_buffer("class_vectors", class_vectors)
        self.register_buffer("core_ids", core_ids)
        index = torch.full((class_vectors.shape[0],), -1, dtype=torch.long)
        index[core_ids] = torch.arange(len(core_ids))
        self.register_buffer("core_index", index)
        # The draft's embedding and the output share an orthonormal map of the class vectors, so that before any
        # training the decoder repeats the draft and learns only where to depart from it.
        basis = torch.linalg.qr(torch.randn(c.width, c.class_width))[0]
        self.draft_in = nn.Parameter(basis.t().clone())
        self.token_in = nn.Parameter(torch.linalg.qr(torch.randn(c.width, c.class_width))[0].t().clone())
        self.out = nn.Parameter(basis.clone())
        self.core_token = nn.Parameter(torch.randn(len(core_ids), c.width) * 0.02)
        self.core_draft = nn.Parameter(torch.randn(len(core_ids), c.width) * 0.02)
        # Left neighbours: what stands one and two places before the row, where it is known. Zero at first.
        self.left_in = nn.Parameter(torch.zeros(LEFT, c.class_width, c.width))
        self.core_left = nn.Parameter(torch.zeros(LEFT, len(core_ids), c.width))
        self.core_out = nn.Parameter(torch.zeros(len(core_ids), c.width))
        self.core_bias = nn.Parameter(torch.zeros(len(core_ids)))
        self.logit_scale = nn.Parameter(torch.tensor(1.0))
        self.mask_token = nn.Parameter(torch.randn(c.width) * 0.05)
        self.row_type = nn.Parameter(torch.randn(2, c.width) * 0.05)
        self.prob_vector = nn.Parameter(torch.randn(c.width) * 0.05)
        self.merger = nn.Sequential(
            nn.LayerNorm(c.features), nn.Linear(c.features, 2 * c.width), nn.GELU(), nn.Linear(2 * c.width, c.width)
        )
        self.line_in = nn.Linear(c.geometry, c.width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.width, c.eps)
        with torch.no_grad():
            for layer in self.layers:
                assert isinstance(layer, Layer)
                layer.wo.weight.mul_(0.3)
                layer.down.weight.mul_(0.3)

    def _embed(self, ids: Tensor, basis_CD: Tensor, core_VD: Tensor) -> Tensor:
        index = self.core_index[ids]
        core = F.embedding(index.clamp(min=0), core_VD) * (index >= 0).unsqueeze(-1)
        return self.class_vectors[ids] @ (EMBED_SCALE * basis_CD) + core

    def embed_rows(
        self, ids_BR: Tensor, left_BRK: Tensor, draft_BR: Tensor, prob_BR: Tensor, window_BR: Tensor, mask_id: int
    ) -> Tensor:
        """Row embeddings (B, R, D). left_BRK: tokens one and two places before, the mask where unknown; draft_BR,
        prob_BR: the draft where the row predicts; window_BR: 1 for window rows."""
        token = self._embed(ids_BR, self.token_in, self.core_token)
        token = torch.where((ids_BR == mask_id).unsqueeze(-1), self.mask_token, token)
        draft = self._embed(draft_BR, self.draft_in, self.core_draft)
        for k in range(LEFT):
            token = token + self._embed(left_BRK[..., k], self.left_in[k], self.core_left[k])
        return token + draft + prob_BR.unsqueeze(-1) * self.prob_vector + self.row_type[window_BR]

    def embed_prefix(self, feature_BPF: Tensor, geometry_BPG: Tensor, line_BP: Tensor) -> Tensor:
        """Prefix entries (B, P, D)."""
        return torch.where(line_BP.unsqueeze(-1), self.line_in(geometry_BPG), self.merger(feature_BPF))

    def core_head(self) -> tuple[Tensor, Tensor]:
        """Output matrix (V, D) and bias (V,) of the core vocabulary."""
        weight = self.class_vectors[self.core_ids] @ self.out.t() * self.logit_scale + self.core_out
        return weight, self.core_bias

    def logits(self, x_RD: Tensor, extra_X: Tensor) -> Tensor:
        """(..., V + X) logits: core vocabulary, then the candidates extra_X (token ids, shared by all rows)."""
        weight, bias = self.core_head()
        h = self.norm(x_RD)
        core = h @ weight.t() + bias
        extra = (h @ self.out * self.logit_scale) @ self.class_vectors[extra_X].t()
        return torch.cat([core, extra], -1)

    def run(
        self,
        x_BRD: Tensor,
        center_BR: Tensor,
        place_BR: Tensor,
        prefix_kv: list[tuple[Tensor, Tensor]],
        bias_BHRS: Tensor,
        cache_kv: list[tuple[Tensor, Tensor]] | None = None,
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Runs the layers over rows; keys are [prefix | cache | rows]. Returns hidden states and the rows' keys and
        values of every layer. place_BR: where a row's own token stands (rotary position of its key)."""
        new: list[tuple[Tensor, Tensor]] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            h_BRD = layer.norm1(x_BRD)
            k, v = layer.kv(h_BRD, place_BR)
            new.append((k, v))
            parts = [prefix_kv[i], *([cache_kv[i]] if cache_kv else []), (k, v)]
            x_BRD = layer(
                x_BRD,
                h_BRD,
                center_BR,
                torch.cat([p[0] for p in parts], 2),
                torch.cat([p[1] for p in parts], 2),
                bias_BHRS,
            )
        return x_BRD, new

    def prefix_kv(self, x_BPD: Tensor, position_BP: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [layer.kv(layer.norm1(x_BPD), position_BP) for layer in self.layers if isinstance(layer, Layer)]


def unit_class_vectors(weight_CV: Tensor, n_tokens: int, seed: int = 0) -> Tensor:
    """(n_tokens, C) unit vectors for all token ids from the tower's CTC head (C, classes), centred.

    Specials get random unit rows; row 0 (blank, mask) is zero, which also stands for "no draft here".
    """
    vectors = weight_CV.t().float()
    vectors = vectors - vectors[1:].mean(0)
    generator = torch.Generator().manual_seed(seed)
    extra = torch.randn(n_tokens - len(vectors), vectors.shape[1], generator=generator)
    vectors = F.normalize(torch.cat([vectors, extra]), dim=1)
    vectors[0] = 0.0
    return round_rows(vectors)


def round_rows(vectors_VC: Tensor) -> Tensor:
    """Each row on its own grid of 255 steps, so that the exported tables hold the very same numbers in int8."""
    step = vectors_VC.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
    return (vectors_VC / step).round() * step

"""The formula reader's encoder in PyTorch: pieces of ink in, their features out, and a reading by pointers.

Where the text tower has CTC, this has a path: each piece names its symbol (or is nothing of its own), points at the
piece that is read after it, and the tokens between two pieces (braces, scripts, fonts) are one class, a *gap*. The
reading is the decoder's draft, as CTC's is for text; the features are its prefix. Attention between pieces is biased by
where they stand to one another. Does not know of pictures, engines or files.

Legend: B batch, N pieces (index 0 is the start and, as a target, the end), D width, H heads, V formula tokens, G gaps.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAIR = 12  # values that say where one piece stands to another
PLACE = 30  # and where a piece stands and how large it is


@dataclass(frozen=True)
class FormulaEncoderConfig:
    """width, layers, heads, hidden: of the transformer; channels: of the glyph network; tokens: formula tokens (0 is
    "nothing of its own"); gaps: classes of gaps."""

    width: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int = 512
    channels: tuple[int, int, int] = (24, 48, 96)
    tokens: int = 0
    gaps: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> FormulaEncoderConfig:
        data = json.loads(text)
        return cls(**{**data, "channels": tuple(data["channels"])})


def pair_features(box_BN4: Tensor) -> Tensor:
    """(B, N, N, PAIR) where piece j stands to piece i: differences of edges and middles in units of letters and of i's
    height, ratios of sizes, overlaps. Squashed, so that far is far."""
    x0, y0, x1, y1 = box_BN4.unbind(-1)
    w, h = (x1 - x0).clamp(min=0.02), (y1 - y0).clamp(min=0.02)
    cx, cy = (x0 + x1) / 2, (y0 + y1) / 2

    def minus(a: Tensor, b: Tensor) -> Tensor:
        return a[:, None, :] - b[:, :, None]

    big = torch.maximum(h, 0.4 * w.clamp(max=2.0))
    overlap = torch.minimum(x1[:, None, :], x1[:, :, None]) - torch.maximum(x0[:, None, :], x0[:, :, None])
    rise = torch.minimum(y1[:, None, :], y1[:, :, None]) - torch.maximum(y0[:, None, :], y0[:, :, None])
    values = [
        minus(cx, cx) / 4,
        minus(cx, cx),
        minus(x0, x1) * 2,
        minus(cy, cy),
        minus(cy, cy) / big[:, :, None] * 2,
        minus(y1, y1) * 2,
        minus(y0, y0) * 2,
        torch.log(h[:, None, :] / h[:, :, None]),
        torch.log(w[:, None, :] / w[:, :, None]),
        overlap / torch.minimum(w[:, None, :], w[:, :, None]) * 2,
        rise / torch.minimum(h[:, None, :], h[:, :, None]) * 2,
        minus(y0, y1) * 2,
    ]
    return torch.tanh(torch.stack(values, -1) / 2)


def place_features(box_BN4: Tensor, ink_BN: Tensor) -> Tensor:
    """(B, N, PLACE): the piece's own place and size, and waves of its middle."""
    x0, y0, x1, y1 = box_BN4.unbind(-1)
    w, h = (x1 - x0).clamp(min=0.02), (y1 - y0).clamp(min=0.02)
    middle = torch.stack([(x0 + x1) / 2, (y0 + y1) / 2], -1)
    freq = 2.0 ** torch.arange(-3, 3, device=box_BN4.device)
    waves = (middle[..., None] * freq).flatten(-2)
    size = torch.stack([x0 / 30, y0 / 4, y1 / 4, torch.log(w), torch.log(h)], -1)
    return torch.cat([size, ink_BN[..., None].to(size.dtype), waves.sin(), waves.cos()], -1)


class Norm(nn.Module):
    """Root-mean-square norm in operations that ONNX has."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class EncoderLayer(nn.Module):
    """Pre-norm attention with a bias for each pair and head, SwiGLU."""

    def __init__(self, c: FormulaEncoderConfig) -> None:
        super().__init__()
        self.heads = c.heads
        self.norm1, self.norm2 = Norm(c.width), Norm(c.width)
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.out = nn.Linear(c.width, c.width, bias=False)
        self.gate_up = nn.Linear(c.width, 2 * c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def forward(self, x_BND: Tensor, bias_BHNN: Tensor) -> Tensor:
        b, n, d = x_BND.shape
        q, k, v = self.qkv(self.norm1(x_BND)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias_BHNN)
        x_BND = x_BND + self.out(y.transpose(1, 2).reshape(b, n, d))
        gate, up = self.gate_up(self.norm2(x_BND)).chunk(2, -1)
        return x_BND + self.down(F.silu(gate) * up)


class FormulaEncoder(nn.Module):
    """See the module's docstring. Index 0 of every sequence is no piece but the start of the path."""

    def __init__(self, c: FormulaEncoderConfig) -> None:
        super().__init__()
        self.c = c
        one, two, three = c.channels
        self.glyph = nn.Sequential(
            nn.Conv2d(2, one, 3, 2, 1), nn.GELU(),
            nn.Conv2d(one, two, 3, 2, 1), nn.GELU(),
            nn.Conv2d(two, three, 3, 2, 1), nn.GELU(),
            nn.Flatten(), nn.Linear(three * 16, c.width),
        )  # fmt: skip
        self.place = nn.Sequential(nn.Linear(PLACE, c.width), nn.GELU(), nn.Linear(c.width, c.width))
        self.start = nn.Parameter(torch.randn(c.width) * 0.1)
        self.pair = nn.Sequential(nn.Linear(PAIR, 32), nn.GELU(), nn.Linear(32, c.layers * c.heads))
        self.layers = nn.ModuleList(EncoderLayer(c) for _ in range(c.layers))
        self.norm = Norm(c.width)
        self.symbol = nn.Linear(c.width, c.tokens)
        self.source, self.target = nn.Linear(c.width, 96), nn.Linear(c.width, 96)
        self.next_pair = nn.Sequential(nn.Linear(PAIR, 32), nn.GELU(), nn.Linear(32, 1))
        self.gap_from, self.gap_to = nn.Linear(c.width, c.width), nn.Linear(c.width, c.width)
        self.gap_pair = nn.Linear(PAIR, c.width)
        self.gap = nn.Sequential(nn.GELU(), nn.Linear(c.width, c.gaps))

    def forward(self, glyph_BN2SS: Tensor, box_BN4: Tensor, ink_BN: Tensor, real_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, N, D) and pair features (B, N, N, PAIR). Entry 0 is the start: its glyph and box are ignored.
        glyph: uint8; real_BN: whether an entry is the start or a piece, and not padding."""
        b, n = box_BN4.shape[:2]
        picture = glyph_BN2SS.reshape(b * n, *glyph_BN2SS.shape[2:]).float() / 255
        x = self.glyph(picture).view(b, n, -1) + self.place(place_features(box_BN4, ink_BN))
        first = torch.arange(n, device=x.device)[None, :, None] == 0
        x = torch.where(first, self.start, x)
        pair = pair_features(box_BN4)
        edge = first[..., 0]
        pair = pair.masked_fill((edge[:, :, None] | edge[:, None, :])[..., None], 0.0)
        bias = self.pair(pair).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~real_BN[:, None, None, :], -1e9)
        for i, layer in enumerate(self.layers):
            x = layer(x, bias[:, i * self.c.heads : (i + 1) * self.c.heads])
        return self.norm(x), pair

    def next_logits(self, h_BND: Tensor, pair_BNNP: Tensor, real_BN: Tensor) -> Tensor:
        """(B, N, N): from each entry (0: the start), which entry is read next (0: the end)."""
        score = self.source(h_BND) @ self.target(h_BND).transpose(1, 2) / 96**0.5
        score = score + self.next_pair(pair_BNNP)[..., 0]
        index = torch.arange(score.shape[1], device=score.device)
        itself = (index[:, None] == index) & (index > 0)
        return score.masked_fill(itself | ~real_BN[:, None, :], -1e9)

    def gap_logits(self, from_KD: Tensor, to_KD: Tensor, pair_KP: Tensor) -> Tensor:
        """(K, G) for transitions of the path; the end's features are the start's."""
        return self.gap(self.gap_from(from_KD) + self.gap_to(to_KD) + self.gap_pair(pair_KP))

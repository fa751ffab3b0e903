"""The table reader's encoder in PyTorch: text lines and ruling lines in, their features out, and how lines stand.

For each pair of lines it says, for rows and for columns alike, whose cell begins first, and whether one cell ends
before the other begins. From these relations the draft is made (table/intervals.py), as CTC's reading is for text;
the features are the decoder's prefix. Attention is biased by where tokens stand to one another. Does not know
pictures, OTSL or files.

Legend: B batch, N tokens (lines, then rules), D width, H heads, F place values, P pair values.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from derender.errors import ModelError
from derender.model.formula_encoder import EncoderLayer, FormulaEncoderConfig, Norm
from derender.table.tokens import PAIR, PLACE

RELATIONS = 8  # for rows, then columns: begins before, begins with, ends before it begins, overlaps
FLAGS = 3  # holds several cells; is of no cell; is of the heading


@dataclass(frozen=True)
class TableEncoderConfig:
    """width, layers, heads, hidden: of the transformer; match, relate: sizes of the pair head."""

    width: int = 96
    layers: int = 4
    heads: int = 4
    hidden: int = 192
    match: int = 8
    relate: int = 32

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> TableEncoderConfig:
        """Raises ModelError when a key is unknown."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ModelError(f"the table encoder's configuration does not fit this version: {error}") from None


class TableEncoder(nn.Module):
    """See the module's docstring."""

    def __init__(self, c: TableEncoderConfig) -> None:
        super().__init__()
        self.c = c
        layer = FormulaEncoderConfig(width=c.width, layers=c.layers, heads=c.heads, hidden=c.hidden)
        self.place = nn.Sequential(nn.Linear(PLACE, c.width), nn.GELU(), nn.Linear(c.width, c.width))
        self.pair = nn.Sequential(nn.Linear(PAIR, 32), nn.GELU(), nn.Linear(32, c.layers * c.heads))
        self.layers = nn.ModuleList(EncoderLayer(layer) for _ in range(c.layers))
        self.norm = Norm(c.width)
        self.flags = nn.Linear(c.width, FLAGS)
        self.source = nn.Linear(c.width, RELATIONS * c.match)
        self.target = nn.Linear(c.width, RELATIONS * c.match)
        self.relate_from, self.relate_to = nn.Linear(c.width, c.relate), nn.Linear(c.width, c.relate)
        self.relate_pair = nn.Linear(PAIR, c.relate)
        self.relate = nn.Sequential(nn.GELU(), nn.Linear(c.relate, RELATIONS))

    def forward(self, place_BNF: Tensor, pair_BNNP: Tensor, real_BN: Tensor) -> Tensor:
        """Features (B, N, D). real_BN: whether an entry is a token and not padding."""
        x = self.place(place_BNF)
        bias = self.pair(pair_BNNP).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~real_BN[:, None, None, :], -1e9)
        for i, layer in enumerate(self.layers):
            x = layer(x, bias[:, i * self.c.heads : (i + 1) * self.c.heads])
        return self.norm(x)

    def relations(self, h_BND: Tensor, pair_BNNP: Tensor) -> Tensor:
        """(B, N, N, 8) logits of i to j, made symmetric where the relation is. See RELATIONS."""
        b, n, _ = h_BND.shape
        source = self.source(h_BND).view(b, n, RELATIONS, self.c.match).transpose(1, 2)
        target = self.target(h_BND).view(b, n, RELATIONS, self.c.match).transpose(1, 2)
        match = (source @ target.transpose(2, 3) / self.c.match**0.5).permute(0, 2, 3, 1)
        mixed = self.relate_from(h_BND)[:, :, None] + self.relate_to(h_BND)[:, None] + self.relate_pair(pair_BNNP)
        one_way = match + self.relate(mixed)
        both = one_way + one_way.transpose(1, 2)
        same = torch.arange(RELATIONS, device=h_BND.device) % 2 == 1
        return torch.where(same, 0.5 * both, one_way)

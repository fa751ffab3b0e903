"""Sizes of the compact decoder, and the character-count attention's reach. Frozen; saved beside the weights as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from derender.errors import ModelError


@dataclass(frozen=True)
class DecoderConfig:
    """width, layers, heads, kv_heads, head_dim, hidden: the Qwen3 layer. features, geometry: prefix entries.

    reach_columns: a row sees prefix entries whose character count is at most this far from the character it predicts;
    reach_text: and committed tokens at most this far back. A bounded reach makes the cost of a block independent of
    the region's length and lets training on chunks carry over to long regions (sliding-window attention).
    slopes: distance bias of each head, from nearly none to sharp. block: the longest window trained. n_core: size of
    the always-present part of the output vocabulary.
    """

    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    hidden: int = 512
    features: int = 240
    geometry: int = 6
    class_width: int = 120
    slopes: tuple[float, ...] = (0.02, 0.15, 0.5, 1.5)
    reach_columns: float = 40.0
    reach_text: float = 96.0
    block: int = 32
    max_window: int = 48
    n_core: int = 0
    vocab: int = 0
    rope_theta: float = 1000.0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_dim % 2 or len(self.slopes) != self.heads:
            raise ModelError("heads must be a multiple of kv_heads, head_dim even, and each head must have a slope")

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> DecoderConfig:
        """Raises ModelError when a key is unknown."""
        data = json.loads(text)
        try:
            return cls(**{**data, "slopes": tuple(data["slopes"])})
        except (TypeError, KeyError) as error:
            raise ModelError(f"the decoder's configuration does not fit this version: {error}") from None

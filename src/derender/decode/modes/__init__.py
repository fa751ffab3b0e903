"""The decode modes: one small state machine per sequence each, made by `make_decoder`.

A decoder says which rows its sequence wants next and digests their logits. It never touches the runtime: forwards,
batching, truncation and release are the engine's.
"""

from __future__ import annotations

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.modes.ar import ArDecoder
from derender.decode.modes.base import SequenceDecoder
from derender.decode.modes.block import BlockDecoder, FullDecoder
from derender.decode.modes.exact import ExactDecoder, ReadingDecoder
from derender.decode.modes.sliding import KeepingDecoder, SlidingDecoder
from derender.decode.protocol import RuntimeSpec, S

__all__ = [
    "ArDecoder",
    "BlockDecoder",
    "ExactDecoder",
    "FullDecoder",
    "KeepingDecoder",
    "ReadingDecoder",
    "SequenceDecoder",
    "SlidingDecoder",
    "make_decoder",
]


def make_decoder(seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> SequenceDecoder[S]:
    """The state machine of `config.mode` for one fresh sequence. Raises ModelError where that breaks the contract."""
    read_off = config.draft == "reading" or (config.draft == "auto" and spec.reading)
    makers: dict[str, type[SequenceDecoder[S]]] = {
        "ar": ArDecoder,
        "block": BlockDecoder,
        "sliding": KeepingDecoder if config.keep else SlidingDecoder,
        "exact": ReadingDecoder if read_off else ExactDecoder,
        "full": FullDecoder,
    }
    return makers[config.mode](seq, spec, config, rng)

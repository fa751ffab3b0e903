"""A tiny random decoder and made-up regions for model tests: real code, small sizes, no files."""

from __future__ import annotations

import numpy as np
import torch

from derender.model.config import DecoderConfig
from derender.model.decoder import Decoder, unit_class_vectors
from derender.model.prefix import RegionPrefix, build_prefix, line_geometry
from derender.model.tokens import Vocab, core_ids, vocab_from_charset
from derender.model.tower import FEATURES, LineReading

CHARS = "abcdefghijklmnopqrstuvwxyz-.,漢字"


def tiny_vocab() -> Vocab:
    return vocab_from_charset(CHARS)


def tiny_decoder(seed: int = 0, noise: float = 0.3) -> Decoder:
    """Two layers; weights far from the copying start, so that every input matters to the logits."""
    torch.manual_seed(seed)
    vocab = tiny_vocab()
    core = torch.tensor(core_ids(vocab))
    config = DecoderConfig(
        width=128,
        layers=2,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        vocab=len(vocab),
        n_core=len(core),
        reach_columns=12.0,
        reach_text=20.0,
    )
    model = Decoder(config, unit_class_vectors(torch.randn(FEATURES, len(vocab.chars) + 1), len(vocab)), core)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(noise * torch.randn_like(p) * max(0.05, float(p.std()) if p.numel() > 1 else 0.1))
    return model.eval()


def tiny_prefix(text: str, seed: int = 0, lines: int = 2) -> RegionPrefix:
    """The prefix of a region in which CTC reads `text`, split into lines, with random features."""
    rng = np.random.default_rng(seed)
    vocab = tiny_vocab()
    parts = np.array_split(np.array(vocab.encode(text), np.int64), lines)
    readings = []
    for part in parts:
        classes: list[int] = []
        at = []
        for token in part:
            classes += [0] * int(rng.integers(1, 3))
            at.append(len(classes))
            classes += [int(token)] * int(rng.integers(1, 3))
        classes += [0]
        top = np.stack([part, *(rng.integers(1, len(vocab.chars), len(part)) for _ in range(3))], 1)
        readings.append(
            LineReading(
                rng.normal(size=(len(classes), FEATURES)).astype(np.float32),
                np.array(classes, np.int64),
                part,
                rng.random(len(part)).astype(np.float32),
                np.array(at, np.int64),
                top.reshape(-1, 4).astype(np.int64),
            )
        )
    boxes = [(0.0, 20.0 * i, 100.0 + 7 * i, 20.0 * i + 12) for i in range(lines)]
    return build_prefix(readings, line_geometry(boxes), vocab)

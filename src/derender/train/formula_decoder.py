"""Trains the decoder of formulas: text's network, objective and loop, over the formula encoder's prefixes.

A shard holds what the encoder makes of a file of samples (formula_pieces.py): features, draft and positions. The
decoder should see drafts as bad as they will be, so its samples must be others than the encoder was trained on. Does
not train the encoder.

Legend: P pieces, D drafted tokens, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from derender.formula.path import FormulaReading
from derender.formula.tower import FormulaTower, formula_prefix
from derender.formula.vocabulary import FORMULA_TOKENS, FormulaVocab
from derender.model.align import anchors
from derender.model.config import DecoderConfig
from derender.model.decoder import Decoder
from derender.model.restore import restore
from derender.train.calibrate import activation_scales
from derender.train.dataset import NoiseConfig, Region, make_chunk
from derender.train.formula_pieces import load_samples
from derender.train.loop import ShardSet, TrainConfig, Trainer, decoder_of

CLASS_WIDTH = 120
VOCAB = FormulaVocab()


def write_features(samples: Path, tower: FormulaTower, out: Path) -> int:
    """One shard from one file of samples; returns how many formulas it holds."""
    features, drafts, probs, positions, targets = [], [], [], [], []
    for sample in load_samples(samples):
        feature_NF, reading = tower.encode(sample.pieces)
        features.append(feature_NF.astype(np.float16))
        drafts.append(reading.draft_D.astype(np.int16))
        probs.append(reading.prob_D)
        positions.append(reading.position_N)
        targets.append(np.asarray(sample.ids, np.int16))
    part = out.with_suffix(".tmp.npz")
    np.savez(
        part,
        feature=np.concatenate(features),
        position=np.concatenate(positions),
        pieces=np.array([len(f) for f in features]),
        draft=np.concatenate(drafts),
        prob=np.concatenate(probs),
        drafted=np.array([len(d) for d in drafts]),
        target=np.concatenate(targets),
        lengths=np.array([len(t) for t in targets]),
    )
    part.replace(out)
    return len(targets)


def load_features(path: Path) -> Iterator[Region]:
    """The formulas of one shard, as the loop's regions."""
    with np.load(path) as z:
        a = {k: z[k] for k in z.files}
    by_piece, by_draft, by_target = (np.cumsum(a[k])[:-1] for k in ("pieces", "drafted", "lengths"))
    for feature, position, draft, prob, target in zip(
        np.split(a["feature"], by_piece),
        np.split(a["position"], by_piece),
        np.split(a["draft"], by_draft),
        np.split(a["prob"], by_draft),
        np.split(a["target"], by_target),
        strict=True,
    ):
        prefix = formula_prefix(feature, FormulaReading(draft.astype(np.int64), prob, position))
        ids = target.astype(np.int64)
        anchor = np.asarray(anchors(prefix.draft_D.tolist(), ids.tolist(), VOCAB.soft_ids), np.int64)
        yield Region(prefix, ids, anchor, kind="formula")


class FormulaShards(ShardSet):
    """ShardSet over the shards of write_features."""

    def load(self, path: Path) -> Iterator[Region]:
        return load_features(path)


def new_formula_decoder(features: int, layers: int = 4, seed: int = 0) -> Decoder:
    """Untrained. The tokens' vectors are random: there is no CTC head to take them from. All tokens are candidates."""
    generator = torch.Generator().manual_seed(seed)
    head_CV = torch.randn(CLASS_WIDTH, len(FORMULA_TOKENS), generator=generator)
    config = DecoderConfig(features=features, layers=layers, reach_columns=64.0, reach_text=160.0)
    return decoder_of(config, VOCAB, range(1, len(FORMULA_TOKENS)), head_CV, seed)


def calibrate(model: Decoder, shards: Path, count: int = 96) -> dict[str, float]:
    """Activation scales for the int8 export, over the first shard."""
    rng = np.random.default_rng(11)
    regions = islice(load_features(sorted(shards.glob("shard-*.npz"))[0]), count)
    core = model.core_ids.numpy()
    chunks = [make_chunk(r, rng, VOCAB, core, NoiseConfig(wrong=0.0)) for r in regions]
    return activation_scales(model, [chunks[i : i + 8] for i in range(0, len(chunks), 8)], VOCAB.mask_id)


def train_config(steps: int, rows: int, threads: int, device: str, lr: float = 1e-3) -> TrainConfig:
    """The recipe: whole formulas in one chunk, a certainty term in the last fifth."""
    noise = NoiseConfig(chunk=160, full=0.5, no_draft=0.05)
    return TrainConfig(
        steps=steps,
        rows=rows,
        lr=lr,
        warmup=min(100, steps // 4),
        ema=0.998,
        certainty=0.05,
        threads=threads,
        device=device,
        noise=noise,
    )


def train(shards: Path, out: Path, config: TrainConfig, seconds: float | None = None, init: Path | None = None) -> None:
    """Trains in folder `out`, resuming what is there. init: an export's folder to start from."""
    found = FormulaShards(shards, VOCAB)
    found.refresh()
    features = found.regions[0].prefix.feature_PF.shape[1]
    Trainer(restore(init) if init else new_formula_decoder(features), found, config, out).run(seconds)

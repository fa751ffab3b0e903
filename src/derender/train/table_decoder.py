"""Trains the decoder of tables: text's network, objective and loop, over the table encoder's prefixes.

A shard holds what the encoder makes of tables that it was not trained on, so that the decoder sees drafts as bad as
they will be. The target is the OTSL of the true table, tags only. Does not train the encoder.

Legend: P prefix entries, K drafted tags, D features, G place values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from derender.assemble.otsl import TAGS
from derender.model.align import anchors
from derender.model.config import DecoderConfig
from derender.model.decoder import Decoder
from derender.model.prefix import RegionPrefix
from derender.table.draft import PLACE_VALUES, table_prefix
from derender.table.tower import TableTower
from derender.table.vocabulary import TABLE_TOKENS, TableVocab, encode_tags
from derender.train.calibrate import activation_scales
from derender.train.dataset import NoiseConfig, Region, make_chunk
from derender.train.loop import ShardSet, TrainConfig, Trainer, decoder_of, load_decoder
from derender.train.mine import HardSet
from derender.train.table_data import TableSample
from derender.train.table_encoder import MAX_TOKENS, Source, sample_grid, training_sample

CLASS_WIDTH = 32
DRAFT_RIGHT = 0.75  # share of what is drawn: most tables that people read are plain, most generated ones are not
VOCAB = TableVocab()


def target_ids(sample: TableSample) -> np.ndarray:
    """The true OTSL without pointers."""
    return np.asarray(encode_tags([t for t in sample.tokens if t in TAGS]), np.int64)


def write_features(
    seed: int,
    count: int,
    tower: TableTower,
    out: Path,
    most: int = MAX_TOKENS,
    source: Source = training_sample,
) -> int:
    """One shard of the first `count` tables of a seed; returns how many tables it holds. source: see write_tables."""
    prefixes: list[RegionPrefix] = []
    targets = []
    for index in range(count):
        sample = source(seed, index)
        if 0 < len(sample.boxes) and len(sample.boxes) + len(sample.rules) <= most:
            tokens, feature_ND, draft = tower.read(sample_grid(sample), sample.rules, sample.size)
            prefixes.append(table_prefix(tokens, feature_ND, draft))
            targets.append(target_ids(sample))
    part = out.with_suffix(".tmp.npz")
    np.savez(
        part,
        feature=np.concatenate([p.feature_PF for p in prefixes]).astype(np.float16),
        geometry=np.concatenate([p.geometry_PG for p in prefixes]).astype(np.float16),
        place=np.concatenate([p.line_P for p in prefixes]),
        position=np.concatenate([p.position_P for p in prefixes]),
        entries=np.array([len(p.position_P) for p in prefixes]),
        draft=np.concatenate([p.draft_D for p in prefixes]).astype(np.int8),
        prob=np.concatenate([p.prob_D for p in prefixes]),
        drafted=np.array([len(p.draft_D) for p in prefixes]),
        target=np.concatenate(targets).astype(np.int8),
        lengths=np.array([len(t) for t in targets]),
    )
    part.replace(out)
    return len(targets)


def load_features(path: Path) -> Iterator[Region]:
    """The tables of one shard, as the loop's regions."""
    with np.load(path) as z:
        a = {k: z[k] for k in z.files}
    by_entry, by_draft, by_target = (np.cumsum(a[k])[:-1] for k in ("entries", "drafted", "lengths"))
    columns = [np.split(a[k], by_entry) for k in ("feature", "geometry", "place", "position")]
    columns += [np.split(a[k], by_draft) for k in ("draft", "prob")] + [np.split(a["target"], by_target)]
    for feature, geometry, place, position, draft, prob, target in zip(*columns, strict=True):
        prefix = RegionPrefix(
            feature, geometry.astype(np.float32), place, position, draft.astype(np.int64), prob, np.zeros(0, np.int64)
        )
        ids = target.astype(np.int64)
        anchor = np.asarray(anchors(prefix.draft_D.tolist(), ids.tolist(), VOCAB.soft_ids), np.int64)
        yield Region(prefix, ids, anchor, kind="table")


class TableShards(ShardSet):
    """ShardSet over the shards of write_features."""

    def load(self, path: Path) -> Iterator[Region]:
        """Chances are such that tables whose draft is right make up DRAFT_RIGHT of what is drawn."""
        found = list(load_features(path))
        right = np.array([np.array_equal(r.prefix.draft_D, r.target) for r in found])
        if not 0 < right.sum() < len(right):
            yield from found
            return
        ratio = DRAFT_RIGHT / (1 - DRAFT_RIGHT) * (len(right) - right.sum()) / right.sum()
        for region, fits in zip(found, right, strict=True):
            yield replace(region, chance=float(ratio) if fits else 1.0)


def new_table_decoder(features: int, layers: int = 3, seed: int = 0) -> Decoder:
    """Untrained, half as wide as text's. The tags' vectors are random; all tags are candidates."""
    generator = torch.Generator().manual_seed(seed)
    head_CV = torch.randn(CLASS_WIDTH, len(TABLE_TOKENS), generator=generator)
    config = DecoderConfig(
        width=128,
        layers=layers,
        head_dim=32,
        hidden=256,
        features=features,
        geometry=PLACE_VALUES,
        class_width=CLASS_WIDTH,
        reach_columns=64.0,
        reach_text=160.0,
    )
    return decoder_of(config, VOCAB, range(1, len(TABLE_TOKENS)), head_CV, seed)


def calibrate(model: Decoder, shards: Path, count: int = 96) -> dict[str, float]:
    """Activation scales for the int8 export, over the first shard."""
    rng = np.random.default_rng(11)
    regions = islice(load_features(sorted(shards.glob("shard-*.npz"))[0]), count)
    core = model.core_ids.numpy()
    chunks = [make_chunk(r, rng, VOCAB, core, NoiseConfig(chunk=160, wrong=0.0)) for r in regions]
    return activation_scales(model, [chunks[i : i + 8] for i in range(0, len(chunks), 8)], VOCAB.mask_id)


def train_config(steps: int, rows: int, threads: int, lr: float = 1e-3) -> TrainConfig:
    """The recipe: chunks of 160 tags, a certainty term in the last fifth."""
    noise = NoiseConfig(chunk=160, full=0.5, no_draft=0.02, wrong=0.01, reach_columns=64.0)
    return TrainConfig(
        steps=steps,
        rows=rows,
        lr=lr,
        warmup=100,
        ema=0.998,
        certainty=0.05,
        threads=threads,
        noise=noise,
        save_every=100,
    )


def train(
    shards: Path,
    out: Path,
    config: TrainConfig,
    seconds: float | None = None,
    hard: HardSet | None = None,
    init: Path | None = None,
) -> None:
    """Trains in folder `out`, resuming what is there. hard: of stage II; init: checkpoint to start from."""
    found = TableShards(shards, VOCAB, hard=hard)
    found.refresh()
    model = load_decoder(init) if init else new_table_decoder(found.regions[0].prefix.feature_PF.shape[1])
    Trainer(model, found, config, out).run(seconds)

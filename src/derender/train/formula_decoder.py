"""Trains the decoder of formulas: text's network, objective and loop, over the formula encoder's prefixes.

A shard holds what the encoder makes of a file of samples (formula_pieces.py): features, draft and positions. The
decoder should see drafts as bad as they will be, so its samples must be others than the encoder was trained on. Does
not train the encoder.

    python -m derender.train.formula_decoder features --samples FILE .. --encoder DIR --out DIR
    python -m derender.train.formula_decoder run --shards DIR --out DIR --steps 3000
    python -m derender.train.formula_decoder export --checkpoint FILE --shards DIR --out DIR

Legend: P pieces, D drafted tokens, F features.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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
from derender.train.calibrate import activation_scales
from derender.train.dataset import NoiseConfig, Region, make_chunk
from derender.train.formula_pieces import load_samples
from derender.train.loop import ShardSet, TrainConfig, Trainer, decoder_of, load_decoder

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


def train(shards: Path, out: Path, config: TrainConfig, seconds: float | None = None) -> None:
    """Trains in folder `out`, resuming what is there."""
    found = FormulaShards(shards, VOCAB)
    found.refresh()
    features = found.regions[0].prefix.feature_PF.shape[1]
    Trainer(new_formula_decoder(features), found, config, out).run(seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: see the module's docstring."""
    from derender.model.export import export

    parser = argparse.ArgumentParser(description="Trains the decoder of formulas.")
    command = parser.add_subparsers(dest="command", required=True)
    features = command.add_parser("features", help="samples through the encoder")
    features.add_argument("--samples", type=Path, nargs="+", required=True)
    features.add_argument("--encoder", type=Path, required=True, help="folder of pieces.onnx and gaps.onnx")
    run = command.add_parser("run", help="train")
    run.add_argument("--steps", type=int, default=3000)
    run.add_argument("--rows", type=int, default=1024)
    run.add_argument("--lr", type=float, default=1e-3)
    run.add_argument("--seconds", type=float)
    run.add_argument("--threads", type=int, default=2)
    write = command.add_parser("export", help="ONNX files of a checkpoint")
    write.add_argument("--checkpoint", type=Path, required=True)
    write.add_argument("--float32", action="store_true")
    for p in (run, write):
        p.add_argument("--shards", type=Path, required=True)
    for p in (features, run, write):
        p.add_argument("--out", type=Path, required=True)
    a = parser.parse_args(arguments)
    if a.command == "features":
        a.out.mkdir(parents=True, exist_ok=True)
        tower = FormulaTower(a.encoder, threads=1)
        for path in a.samples:
            shard = a.out / f"shard-{path.stem}.npz"
            if not shard.exists():
                print(f"{shard.name}: {write_features(path, tower, shard)} formulas", flush=True)
    elif a.command == "run":
        noise = NoiseConfig(chunk=160, full=0.5, no_draft=0.05)
        config = TrainConfig(
            steps=a.steps, rows=a.rows, lr=a.lr, warmup=100, ema=0.998, certainty=0.05, threads=a.threads, noise=noise
        )
        train(a.shards, a.out, config, a.seconds)
    else:
        model = load_decoder(a.checkpoint)
        export(model, a.out, None if a.float32 else calibrate(model, a.shards))


if __name__ == "__main__":
    main()

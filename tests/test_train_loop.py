"""The training loop on a tiny model and made-up shards: learns, resumes to the same weights, saves strictly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from derender.errors import InputError
from derender.train.dataset import NoiseConfig
from derender.train.features import write_shard
from derender.train.loop import ShardSet, TrainConfig, Trainer, learning_rate, load_decoder
from derender.train.sample import LineSample, RegionSample
from model_fixtures import tiny_decoder, tiny_vocab
from test_train_data import reading

NOISE = NoiseConfig(chunk=32, blocks=(4, 8), reach_columns=12.0)


@pytest.fixture()
def shards(tmp_path: Path) -> ShardSet:
    vocab = tiny_vocab()
    rng = np.random.default_rng(0)
    regions = []
    for _ in range(40):
        text = "".join(rng.choice(list("abcdefg "), 12)).strip() or "a"
        seen = text.replace("b", "d")  # the tower confuses b and d; the decoder cannot know, but it can learn the rest
        sample = RegionSample((LineSample(np.zeros((8, 8), np.uint8), (0, 0, 80, 8), text),), text, "made")
        regions.append((sample, [reading(vocab.encode(seen))]))
    write_shard(tmp_path / "shard-00000.npz", regions, vocab)
    return ShardSet(tmp_path, vocab)


def config(**changes: object) -> TrainConfig:
    base = TrainConfig(steps=12, rows=160, micro=80, warmup=2, lr=3e-3, threads=1, save_every=6, noise=NOISE)
    return TrainConfig(**{**base.__dict__, **changes})


def test_loss_falls(shards: ShardSet, tmp_path: Path) -> None:
    trainer = Trainer(tiny_decoder(), shards, config(steps=40), tmp_path / "run")
    trainer.run()
    rows = np.genfromtxt(tmp_path / "run" / "log.csv", delimiter=",", names=True)
    assert rows["masked"][-8:].mean() < 0.7 * rows["masked"][:4].mean()


def test_resumed_run_equals_an_unbroken_one(shards: ShardSet, tmp_path: Path) -> None:
    whole = Trainer(tiny_decoder(), shards, config(), tmp_path / "whole")
    whole.run()
    first = Trainer(tiny_decoder(), ShardSet(shards.folder, shards.vocab), config(), tmp_path / "parts")
    first.shards.refresh()
    for chunks in first._batches():
        if first.step == 6:
            break
        first.train_step(chunks)
    from derender.train.loop import save_checkpoint

    save_checkpoint(tmp_path / "parts" / "checkpoint.pt", first.model, first.ema, first.optimiser, first.step)
    second = Trainer(tiny_decoder(seed=5), ShardSet(shards.folder, shards.vocab), config(), tmp_path / "parts")
    second.run()
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_checkpoint_that_does_not_fit_is_refused(shards: ShardSet, tmp_path: Path) -> None:
    trainer = Trainer(tiny_decoder(), shards, config(steps=1), tmp_path / "run")
    trainer.run()
    path = tmp_path / "run" / "checkpoint.pt"
    assert load_decoder(path).c == trainer.model.c
    data = torch.load(path, weights_only=True)
    del data["ema"]["norm.weight"]
    torch.save(data, path)
    with pytest.raises(RuntimeError, match=r"norm\.weight"):
        load_decoder(path)


def test_no_shards_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="derender train data"):
        Trainer(tiny_decoder(), ShardSet(tmp_path, tiny_vocab()), config(), tmp_path / "run").run()


def test_learning_rate_warms_up_and_decays() -> None:
    c = TrainConfig(steps=1000, warmup=100, lr=1e-3, floor=0.05)
    assert learning_rate(0, c) == pytest.approx(1e-5) and learning_rate(99, c) == pytest.approx(1e-3)
    assert learning_rate(1000, c) == pytest.approx(5e-5)


def test_paper_objective_leaves_the_next_token_loss_out(shards: ShardSet, tmp_path: Path) -> None:
    """With objective=paper the step is the masked loss's alone: its gradient differs from the hybrid one."""
    shards.refresh()
    norms = []
    for objective in ("paper", "hybrid"):
        trainer = Trainer(tiny_decoder(), shards, config(objective=objective), tmp_path / objective)
        norms.append(trainer.train_step(next(trainer._batches()))["norm"])
    assert norms[0] != pytest.approx(norms[1], rel=1e-3)

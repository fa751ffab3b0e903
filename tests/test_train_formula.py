"""Training of the formula reader, small: batches, resuming, export, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from derender.formula.components import GLYPH, Pieces  # noqa: E402
from derender.formula.tower import FormulaTower  # noqa: E402
from derender.formula.vocabulary import encode_tokens  # noqa: E402
from derender.model.formula_encoder import FormulaEncoder, FormulaEncoderConfig  # noqa: E402
from derender.model.formula_export import export_encoder, load_encoder  # noqa: E402
from derender.train.formula_decoder import VOCAB, calibrate, load_features, train, train_config, write_features  # noqa: E402
from derender.train.formula_pieces import PieceSample, frequent_gaps, load_samples, save_samples  # noqa: E402
from derender.train.formula_reader import NO_GAP, ReaderTrainer, collate_pieces, losses  # noqa: E402

SYMBOLS = ["a", "b", "c", "d"]


def _sample(rng: np.random.Generator) -> PieceSample:
    """A base with a superscript, told apart by their boxes; each symbol is a stripe at a height of its own."""
    names = [SYMBOLS[int(rng.integers(4))] for _ in range(2)]
    glyph = np.zeros((2, 2, GLYPH, GLYPH), np.uint8)
    for i, name in enumerate(names):
        glyph[i, :, 4 + 7 * SYMBOLS.index(name) : 8 + 7 * SYMBOLS.index(name)] = 255
    box = np.array([[0, -0.5, 1, 0.5], [1.1, -1.0, 1.6, -0.4]], np.float32)
    pieces = Pieces(glyph, box, np.ones(2, np.float32), 1.0, (0.0, 0.0))
    ids = encode_tokens([names[0], "^", "{", names[1], "}"])
    assert ids
    return PieceSample(pieces, np.array([0, 3]), tuple(ids))


@pytest.fixture(scope="module")
def samples() -> list[PieceSample]:
    rng = np.random.default_rng(0)
    return [_sample(rng) for _ in range(64)]


@pytest.fixture(scope="module")
def trained(samples: list[PieceSample], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder trained for a minute's fraction, its export, and a shard of features."""
    out = tmp_path_factory.mktemp("formula")
    torch.set_num_threads(1)
    ReaderTrainer(samples, out, steps=60, pieces=90, lr=2e-3).run()
    export_encoder(*load_encoder(out / "checkpoint.pt"), out)
    (out / "shards").mkdir()
    save_samples(samples, out / "samples.npz")
    assert write_features(out / "samples.npz", FormulaTower(out, threads=1), out / "shards" / "shard-0.npz") == 64
    return out


def test_gaps_stand_before_each_head_and_behind_the_last(samples: list[PieceSample]) -> None:
    assert samples[0].gaps() == [(), tuple(encode_tokens(["^", "{"]) or []), tuple(encode_tokens(["}"]) or [])]
    assert len(frequent_gaps(samples, 10)) == 3


def test_a_batch_holds_truths_for_what_is_real_only(samples: list[PieceSample]) -> None:
    batch = collate_pieces(samples[:2], {(): 0})
    assert batch.symbol[0].tolist() == [NO_GAP, samples[0].ids[0], samples[0].ids[3]]
    assert batch.next[0].tolist() == [1, 2, 0]
    assert batch.gap.tolist() == [0, NO_GAP, NO_GAP] * 2


def test_a_sample_reads_the_same_alone_and_padded(samples: list[PieceSample]) -> None:
    torch.manual_seed(1)
    model = FormulaEncoder(FormulaEncoderConfig(width=64, layers=2, heads=2, hidden=64, tokens=9, gaps=3)).eval()
    short = collate_pieces(samples[:1], {})
    box = torch.cat([short.box, torch.full((1, 3, 4), 7.0)], 1)
    glyph = torch.cat([short.glyph, short.glyph[:, :1].expand(-1, 3, -1, -1, -1)], 1)
    ink, real = torch.zeros(1, 6), torch.tensor([[True] * 3 + [False] * 3])
    with torch.no_grad():
        alone, pair = model(short.glyph, short.box, short.ink, short.real)
        padded, _ = model(glyph, box, torch.cat([short.ink, ink[:, :3]], 1), real)
        following = model.next_logits(alone, pair, short.real)[0]
    assert torch.allclose(alone[0], padded[0, :3], atol=1e-5)
    assert following[1, 1] < -1e8 and following[0, 0] > -1e8  # no piece follows itself; an empty formula ends at once


def test_a_shifted_formula_has_the_same_pair_features(samples: list[PieceSample]) -> None:
    from derender.model.formula_encoder import pair_features

    box = torch.from_numpy(samples[0].pieces.box_N4)[None]
    assert torch.allclose(pair_features(box), pair_features(box + 3.0), atol=1e-5)


def test_it_learns_and_onnx_reads_what_torch_learned(trained: Path, samples: list[PieceSample]) -> None:
    tower = FormulaTower(trained, threads=1)
    read = [tower.encode(s.pieces)[1].draft_D.tolist() for s in samples[:16]]
    assert sum(r == list(s.ids) for r, s in zip(read, samples, strict=False)) >= 14
    model, gaps = load_encoder(trained / "checkpoint.pt")
    batch = collate_pieces(samples[:1], {tuple(g): i for i, g in enumerate(gaps)})
    with torch.no_grad():
        h, _ = model(batch.glyph, batch.box, batch.ink, batch.real)
        found = losses(model, batch)
    assert np.abs(tower.encode(samples[0].pieces)[0] - h[0, 1:].numpy()).max() < 0.02  # float16 weights
    assert found["next_right"] == 1.0


def test_a_stopped_run_goes_on_as_an_unbroken_one(samples: list[PieceSample], tmp_path: Path) -> None:
    ReaderTrainer(samples, tmp_path / "whole", steps=4, pieces=60).run()
    first = ReaderTrainer(samples, tmp_path / "two", steps=4, pieces=60)
    first.steps = 4
    first.run(seconds=1e-9)  # nothing but a checkpoint
    ReaderTrainer(samples, tmp_path / "two", steps=4, pieces=60).run()
    one, two = (torch.load(tmp_path / n / "checkpoint.pt", weights_only=True)["model"] for n in ("whole", "two"))
    assert all(torch.equal(one[k], two[k]) for k in one)


def test_samples_come_back_from_their_file(samples: list[PieceSample], tmp_path: Path) -> None:
    save_samples(samples[:3], tmp_path / "s.npz")
    for one, two in zip(samples, load_samples(tmp_path / "s.npz"), strict=False):
        assert one.ids == two.ids and (one.rank_N == two.rank_N).all()
        assert (one.pieces.glyph_N2SS == two.pieces.glyph_N2SS).all()


def test_features_are_regions_of_the_training_loop(trained: Path, samples: list[PieceSample]) -> None:
    region = next(load_features(trained / "shards" / "shard-0.npz"))
    assert region.target.tolist() == list(samples[0].ids)
    assert len(region.anchor) == len(region.target) + 1
    assert region.prefix.feature_PF.shape == (2, 256) and region.prefix.position_P.tolist() == [0, 3]


def test_the_decoder_trains_and_is_calibrated_on_features(trained: Path, tmp_path: Path) -> None:
    train(trained / "shards", tmp_path, train_config(2, 64, 1, "cpu"))
    from derender.train.loop import load_decoder

    model = load_decoder(tmp_path / "checkpoint.pt")
    assert len(model.core_ids) == len(VOCAB) - 2
    assert min(calibrate(model, trained / "shards", 8).values()) > 0

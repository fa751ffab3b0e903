"""The two stages of the curriculum: clusters that balance, and a hard set mined by the decoder's own doubt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from derender.decode.config import DecodeConfig
from derender.errors import InputError
from derender.model.runtime_torch import TorchRuntime
from derender.train.clusters import cluster
from derender.train.dataset import NoiseConfig, Region, load_shard, make_chunk, proportional
from derender.train.evaluate import held_regions, micro_cer, read_regions
from derender.train.loop import ShardSet, TrainConfig, Trainer
from derender.train.mine import HardSet, Mined, consistency, mine_shard, write_mined
from derender.train.objective import collate, sums_of, weights_of
from model_fixtures import tiny_decoder, tiny_prefix, tiny_vocab
from test_train_loop import NOISE, shards  # noqa: F401 (a fixture)


def test_consistency_is_the_mean_pairwise_similarity() -> None:
    # "abcd" against "abcx": one of four characters; "abcd" against "ab": two of four; "abcx" against "ab": two of four
    assert consistency(["abcd", "abcx", "ab"]) == pytest.approx((0.75 + 0.5 + 0.5) / 3)
    assert consistency(["same"] * 4) == 1.0


def test_mining_finds_doubt_and_is_repeatable(shards: ShardSet) -> None:  # noqa: F811
    path = next(shards.folder.glob("shard-*.npz"))
    model = tiny_decoder()
    with torch.no_grad():
        model.logit_scale.mul_(0.2)  # a flat distribution: never sure
    runtime = TorchRuntime(model, tiny_vocab())
    first, second = (mine_shard(path, runtime, tiny_vocab(), "block", draws=3) for _ in range(2))
    assert first == second and len(first) == 40
    assert min(m.consistency for m in first) < 0.9


def test_the_hard_set_survives_its_file_and_weighs_doubt(tmp_path: Path) -> None:
    write_mined(tmp_path / "hard.json", [Mined("a", 0, 1.0), Mined("a", 1, 0.6), Mined("b", 0, 0.97)])
    hard = HardSet.read(tmp_path / "hard.json", below=0.95, beta=2.0)
    assert hard.doubt("a", 0) is None and hard.doubt("b", 0) is None and hard.doubt("c", 9) is None
    assert hard.doubt("a", 1) == pytest.approx(0.4)
    assert hard.weight(hard.doubt("a", 1)) == pytest.approx(1.8) and hard.weight(None) == 1.0


@pytest.mark.parametrize("content", ["", "[1]", '{"a": "x"}'])
def test_a_file_that_is_no_hard_set_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "hard.json").write_text(content)
    with pytest.raises(InputError, match=r"hard\.json"):
        HardSet.read(tmp_path / "hard.json")


def test_stage_two_draws_hard_and_easy_two_to_one(shards: ShardSet) -> None:  # noqa: F811
    name = next(shards.folder.glob("shard-*.npz")).name
    hard = HardSet({name: [0.5] * 4 + [1.0] * 36})
    second = ShardSet(shards.folder, shards.vocab, hard=hard)
    second.refresh()
    chances = second.chances()
    assert chances[:4].sum() == pytest.approx(2 / 3) and chances[4:].sum() == pytest.approx(1 / 3)
    assert second._draw(0).weight == pytest.approx(1.5) and second._draw(9).weight == 1.0


def test_clusters_part_kinds_and_favour_the_rare_one() -> None:
    prefixes = [tiny_prefix("abc", seed=i, lines=1) for i in range(40)]
    for i, prefix in enumerate(prefixes):
        prefix.feature_PF[:] += 5.0 if i < 4 else 0.0
    found = cluster(prefixes, 2)
    assert len(set(found.of_N[:4])) == 1 and len(set(found.of_N[4:])) == 1 and found.of_N[0] != found.of_N[9]
    assert found.chance_N[0] == pytest.approx(3 * found.chance_N[9]) and found.chance_N.mean() == pytest.approx(1)


def test_balanced_training_runs_and_a_later_shard_does_not_disturb_it(shards: ShardSet, tmp_path: Path) -> None:  # noqa: F811
    config = TrainConfig(steps=2, rows=160, micro=80, threads=1, noise=NOISE, clusters=3, reload=1)
    Trainer(tiny_decoder(), shards, config, tmp_path / "run").run()
    assert len({r.chance for r in shards.regions}) > 1


def chunk(full: float) -> object:
    vocab = tiny_vocab()
    prefix = tiny_prefix("the quick brown fox jumps over")
    region = Region(prefix, prefix.draft_D, np.arange(len(prefix.draft_D) + 1))
    noise = NoiseConfig(full=full, blocks=(8,), wrong=0.0)
    return make_chunk(region, np.random.default_rng(1), vocab, tiny_decoder().core_ids.numpy(), noise)


def test_one_over_t_weighs_a_mask_by_its_blocks_time() -> None:
    """Against the sum written out by hand; where all is masked (t = 1) both weightings agree."""
    model, vocab = tiny_decoder(), tiny_vocab()
    for full in (0.0, 1.0):
        c = chunk(full)
        b = collate([c], model.core_index, vocab.mask_id)  # type: ignore[list-item]
        plain, inverse = (sums_of(model, b, vocab.mask_id, inverse_time=i) for i in (False, True))
        if full:
            assert inverse.masked.item() == pytest.approx(plain.masked.item(), rel=1e-6)
            continue
        by_hand = 0.0
        for row in range(b.truth.shape[1]):
            if b.stream[0, row] > 0 and b.truth[0, row] >= 0:
                only = b.truth.clone()
                only[:] = -1
                only[0, row] = b.truth[0, row]
                one = sums_of(model, b.__class__(**{**b.__dict__, "truth": only}), vocab.mask_id)
                by_hand += one.masked.item() / max(float(b.time[0, row]), 0.05)
        assert inverse.masked.item() == pytest.approx(by_hand, rel=1e-4)
        assert weights_of(b, True)[0] == float((b.stream > 0).sum()) > weights_of(b)[0]


def test_positions_by_place_run_evenly_over_the_draft() -> None:
    prefix = tiny_prefix("abcdefgh", lines=1)
    position = proportional(prefix)
    assert position[0] == -0.5 and position[-1] == len(prefix.draft_D) - 0.5
    assert np.allclose(np.diff(position), np.diff(position)[0])
    (region, *_) = [Region(prefix, prefix.draft_D, np.arange(9))]
    assert len(position) == len(region.prefix.position_P)


def test_the_shards_reading_is_scored_beside_the_decoders(shards: ShardSet) -> None:  # noqa: F811
    vocab = tiny_vocab()
    regions = held_regions(shards.folder, vocab, 10)
    ctc, ar = read_regions(TorchRuntime(tiny_decoder(noise=0.0), vocab), regions, [DecodeConfig(mode="ar")], vocab)
    expected = micro_cer((vocab.decode(r.target), vocab.decode(r.prefix.draft_D)) for r in regions)
    assert (ctc.name, ctc.cer) == ("ctc", expected) and expected > 0
    assert ar.name == "ar" and ar.regions == 10 and ar.tokens_per_forward <= 1
    with pytest.raises(InputError, match="held-out"):
        held_regions(shards.folder / "none", vocab, 10)


def test_shards_without_counted_positions_differ_in_positions_only(shards: ShardSet) -> None:  # noqa: F811
    path = next(shards.folder.glob("shard-*.npz"))
    a, b = (next(load_shard(path, tiny_vocab(), counted)) for counted in (True, False))
    assert not np.array_equal(a.prefix.position_P, b.prefix.position_P)
    assert np.array_equal(a.prefix.feature_PF, b.prefix.feature_PF) and np.array_equal(a.target, b.target)


def test_micro_cer_counts_characters_not_regions() -> None:
    assert micro_cer([("abcd", "abcd"), ("a b", "a  c")]) == pytest.approx(1 / 7)


def test_decoders_that_do_not_copy_start_elsewhere() -> None:
    from derender.model.config import DecoderConfig
    from derender.train.loop import new_decoder

    vocab = tiny_vocab()
    head = torch.randn(120, len(vocab.chars) + 1)
    small = DecoderConfig(layers=1)
    copying, not_copying = (new_decoder(small, vocab, head, copying=c) for c in (True, False))
    assert torch.allclose(copying.out, copying.draft_in.t()) and not torch.allclose(not_copying.out, copying.out)

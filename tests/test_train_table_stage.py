"""Stage II for tables: how alike two decoded tables are, what is mined, and that the hard set steers training."""

from __future__ import annotations

from pathlib import Path

import pytest

from derender.model.runtime_onnx import OnnxRuntime
from derender.table.tower import TABLE_WEIGHTS, TableTower
from derender.table.vocabulary import TableVocab
from derender.train.mine import HardSet, consistency
from derender.train.table_decoder import VOCAB, TableShards, write_features
from derender.train.table_mine import mine_tables, structure_similarity

TWO = "<fcel> <fcel> <nl> <fcel> <fcel> <nl>"


def test_tables_are_as_alike_as_their_structure() -> None:
    spanned = "<fcel> <lcel> <nl> <fcel> <fcel> <nl>"
    assert structure_similarity(TWO, TWO) == 1.0
    assert structure_similarity(TWO, TWO.replace("<fcel>", "<ecel>")) == 1.0  # contents do not count
    assert 0 < structure_similarity(TWO, spanned) < 1
    assert structure_similarity(TWO, spanned) == structure_similarity(spanned, TWO)
    assert structure_similarity(TWO, "") == 0.0
    assert structure_similarity("", "") == 1.0


def test_consistency_is_the_mean_over_all_pairs_by_the_given_measure() -> None:
    far = {frozenset("ab"): 0.5, frozenset("ac"): 0.2, frozenset("bc"): 0.2}
    assert consistency(["a", "b", "c"], lambda x, y: far[frozenset(x + y)]) == pytest.approx(0.3)


def test_mining_is_repeatable_and_its_hard_set_is_what_training_draws_more_often(tmp_path: Path) -> None:
    path = tmp_path / "shard-00101.npz"
    count = write_features(101, 12, TableTower(TABLE_WEIGHTS, threads=1), path)
    runtime = OnnxRuntime(TableVocab(), TABLE_WEIGHTS, threads=1)
    first, second = (mine_tables(path, runtime, draws=3) for _ in range(2))
    assert first == second
    assert [m.region for m in first] == list(range(count))
    assert all(0 <= m.consistency <= 1 for m in first)

    hard = HardSet({path.name: [0.4, *[1.0] * (count - 1)]}, below=0.98, beta=1.0)
    shards = TableShards(tmp_path, VOCAB, hard=hard)
    assert shards.refresh() == count
    assert shards.chances()[0] == pytest.approx(2 / 3)

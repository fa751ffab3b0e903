"""From logits to tokens: float32 confidences, and seeded sampling."""

from __future__ import annotations

import numpy as np
import pytest

from derender.decode.sampling import greedy, request_rng, sample
from derender.errors import ModelError


def test_greedy_confidence_is_a_stable_float32_softmax():
    logits = np.array([[1000.0, 999.0, -1000.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    reading = greedy(logits, entropy=True)
    assert reading.confidence_R.dtype == np.float32
    np.testing.assert_allclose(reading.confidence_R, [1 / (1 + np.exp(-1)), 1 / 3], rtol=1e-6)
    p = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(reading.entropy_R, [-p * np.log(p) - (1 - p) * np.log(1 - p), np.log(3)], rtol=1e-5)


def test_equal_logits_give_the_first_column():
    assert greedy(np.array([[1.0, 5.0, 5.0]], dtype=np.float32)).index_R.tolist() == [1]


def test_a_column_of_minus_infinity_is_never_chosen_and_has_no_entropy():
    logits = np.array([[0.0, -np.inf]], dtype=np.float32)
    assert greedy(logits, entropy=True).entropy_R.tolist() == [0.0]
    drawn = sample(np.repeat(logits, 500, axis=0), np.random.default_rng(0))
    assert set(drawn.index_R.tolist()) == {0}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_numbers_are_an_error(bad):
    with pytest.raises(ModelError):
        greedy(np.array([[0.0, bad]], dtype=np.float32))


def test_sampling_at_temperature_one_follows_the_distribution():
    p = np.array([0.5, 0.3, 0.2])
    drawn = sample(np.repeat(np.log(p)[None], 20_000, axis=0), np.random.default_rng(7))
    np.testing.assert_allclose(np.bincount(drawn.index_R) / 20_000, p, atol=0.015)
    np.testing.assert_allclose(drawn.confidence_R, p[drawn.index_R], rtol=1e-5)


def test_top_k_keeps_exactly_k_and_renormalises():
    logits = np.repeat(np.log([[0.4, 0.2, 0.2, 0.2]]), 2_000, axis=0)
    drawn = sample(logits, np.random.default_rng(1), top_k=2)
    assert set(drawn.index_R.tolist()) == {0, 1}
    assert set(np.round(drawn.confidence_R, 4).tolist()) == {np.float32(0.6667), np.float32(0.3333)}


def test_top_p_keeps_the_smallest_set_of_that_mass():
    logits = np.repeat(np.log([[0.5, 0.3, 0.15, 0.05]]), 2_000, axis=0)
    assert set(sample(logits, np.random.default_rng(1), top_p=0.75).index_R.tolist()) == {0, 1}
    assert set(sample(logits, np.random.default_rng(1), top_p=0.4).index_R.tolist()) == {0}


def test_low_temperature_approaches_greedy():
    logits = np.random.default_rng(3).normal(size=(200, 30)).astype(np.float32)
    drawn = sample(logits, np.random.default_rng(3), temperature=1e-3)
    assert (drawn.index_R == greedy(logits).index_R).mean() > 0.97


def test_a_request_draws_by_its_seed_and_id():
    draws = [request_rng(seed, name).random(4).tolist() for seed, name in [(1, "a"), (1, "a"), (1, "b"), (2, "a")]]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2] and draws[0] != draws[3]

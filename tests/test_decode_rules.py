"""Commit rules: what each commits, for any numbers, and how they are written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.decode.rules import (
    CommitRule,
    commit_entropy,
    commit_factor,
    commit_hierarchy,
    commit_threshold,
    schedule_counts,
)
from derender.errors import UsageError

RULES = ["threshold:0.95", "threshold:1", "schedule:cosine:8", "schedule:linear:3", "factor:1.0", "entropy:0.5"]
RULES += ["entropy:0", "hierarchy:0.9"]


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def masks(text: str) -> np.ndarray:
    return np.array([c == "m" for c in text])


@st.composite
def windows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    masked = draw(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
    n = len(masked)
    probability = st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.95, 0.97, 1.0]) | st.floats(0, 1, width=32)
    confidence = draw(st.lists(probability, min_size=n, max_size=n))
    entropy = draw(st.lists(st.floats(0, 8, width=32), min_size=n, max_size=n))
    return floats(*confidence), np.array(masked), floats(*entropy)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50, deadline=None)
@given(window=windows(), step=st.integers(0, 40))
def test_every_rule_commits_at_least_one_and_only_masked_positions(rule, window, step):
    confidence, masked, entropy = window
    commit = CommitRule.parse(rule).select(confidence, masked, entropy, step=step)
    assert commit.dtype == np.bool_ and commit.shape == masked.shape
    assert commit.any()
    assert not (commit & ~masked).any()


@pytest.mark.parametrize("rule", RULES)
def test_no_masked_position_is_an_error(rule):
    with pytest.raises(ValueError, match="at least one masked"):
        CommitRule.parse(rule).select(floats(0.5, 0.5), masks(".."), floats(0, 0))


@settings(deadline=None)
@given(block=st.integers(1, 64), steps=st.integers(1, 80), curve=st.sampled_from(["cosine", "linear"]))
def test_schedule_counts_sum_to_the_block_without_idle_steps(block, steps, curve):
    counts = schedule_counts(block, steps, curve)
    assert sum(counts) == block
    assert min(counts) >= 1
    assert len(counts) == min(block, steps)


def test_cosine_schedule_is_maskgits():
    # floor(32 cos(pi t / 16)) positions masked after step t: 31 29 26 22 17 12 6 0
    assert schedule_counts(32, 8, "cosine") == (1, 2, 3, 4, 5, 5, 6, 6)
    assert schedule_counts(32, 8, "linear") == (4,) * 8


def test_schedule_takes_the_most_confident_and_the_rest_after_its_end():
    rule, confidence = CommitRule.parse("schedule:linear:2"), floats(0.1, 0.9, 0.3, 0.8)
    assert rule.select(confidence, masks("mmmm"), step=0).tolist() == [False, True, False, True]
    assert rule.select(confidence, masks("m.m."), step=2, block=4).tolist() == [True, False, True, False]


def test_threshold_is_strict_and_falls_back_to_the_best():
    assert commit_threshold(floats(0.9, 0.95, 0.99), masks("mmm"), 0.95).tolist() == [False, False, True]
    assert commit_threshold(floats(0.2, 0.4, 0.3), masks("mmm"), 0.95).tolist() == [False, True, False]


def test_factor_follows_the_bound_of_fast_dllm():
    # f = 1: c1 >= 1/2, c2 >= 2/3, c3 >= 3/4, c4 >= 4/5
    assert commit_factor(floats(0.74, 0.5, 0.7, 0.8), masks("mmmm"), 1.0).tolist() == [True, False, False, True]
    assert commit_factor(floats(0.8, 0.8, 0.8, 0.8), masks("mmmm"), 1.0).tolist() == [True] * 4


def test_entropy_bounds_the_sum_without_the_largest():
    entropy = floats(0.3, 0.1, 5.0, 0.2)
    confidence = floats(0.5, 0.5, 0.5, 0.5)
    # sorted 0.1 0.2 0.3 5.0: sums before each 0, 0.1, 0.3, 0.6
    assert commit_entropy(confidence, masks("mmmm"), entropy, 0.35).tolist() == [True, True, False, True]
    assert commit_entropy(confidence, masks("mmmm"), entropy, 0.61).tolist() == [True] * 4


def test_hierarchy_adds_the_best_of_each_run():
    confidence = floats(0.1, 0.3, 0.99, 0.5, 0.4, 0.95, 0.2)
    assert commit_hierarchy(confidence, masks("mm.mm.m"), 0.9).tolist() == [
        False,
        True,
        False,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("rule", ["schedule:linear:4", "factor:0.5", "threshold:0.99"])
def test_ties_go_to_the_leftmost(rule):
    commit = CommitRule.parse(rule).select(floats(0.5, 0.5, 0.5, 0.5), masks(".mmm"), block=4)
    assert commit.tolist() == [False, True, False, False]


@pytest.mark.parametrize("rule", ["threshold:0.95", "schedule:cosine:8", "factor:1", "entropy:0.5", "hierarchy:0.9"])
def test_rules_are_written_as_they_are_read(rule):
    assert str(CommitRule.parse(rule)) == rule
    assert CommitRule.parse(str(CommitRule.parse(rule))) == CommitRule.parse(rule)


@pytest.mark.parametrize(
    "rule",
    ["", "best", "best:1", "threshold", "threshold:x", "threshold:1.5", "threshold:nan", "threshold:0.9:3", "factor:0"]
    + ["entropy:-1", "schedule:8", "schedule:cubic:8", "schedule:cosine:0", "schedule:cosine:2.5", "factor:inf"],
)
def test_nonsense_is_a_usage_error(rule):
    with pytest.raises(UsageError):
        CommitRule.parse(rule)

"""Metrics against hand-computed values."""

import math

import pytest

from derender.score.metrics import (
    ErrorCount,
    bleu4,
    cer,
    count_errors,
    exact,
    macro_cer,
    micro_cer,
    ned,
    word_scores,
)
from derender.score.normalise import drop_space, fold_space, join_block, page_text


def test_cer_counts_edits_against_the_truth() -> None:
    assert cer("kitten", "sitting") == pytest.approx(3 / 7)
    assert cer("abcdef", "a") == 5.0  # may exceed 1


def test_cer_of_an_empty_truth() -> None:
    assert cer("", "") == 0.0
    assert cer("x", "") == 1.0


def test_micro_weighs_by_length_and_macro_by_text() -> None:
    counts = [ErrorCount(1, 2), ErrorCount(0, 8)]
    assert micro_cer(counts) == pytest.approx(0.1)
    assert macro_cer(counts) == pytest.approx(0.25)


def test_ned_divides_by_the_longer_side() -> None:
    assert ned("abcd", "ab") == pytest.approx(0.5)
    assert ned("", "") == 0.0
    assert ned("", "abc") == 1.0


def test_count_errors_takes_tokens_as_units() -> None:
    assert count_errors([r"\alpha", "+"], [r"\beta", "+", "1"]) == ErrorCount(2, 3)


def test_exact() -> None:
    assert (exact("a", "a"), exact("a", "A")) == (1.0, 0.0)


def test_word_scores_count_words_as_multisets() -> None:
    s = word_scores("the the cat", "the cat sat down")
    assert s.precision == pytest.approx(2 / 3)
    assert s.recall == pytest.approx(2 / 4)
    assert s.f1 == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))


def test_word_scores_take_chinese_characters_one_by_one() -> None:
    assert word_scores("网络支x", "网络支付").recall == pytest.approx(3 / 4)


def test_bleu4_by_hand() -> None:
    # 1-grams 4/5; 2-grams (3+1)/(4+1); 3-grams (2+1)/(3+1); 4-grams (1+1)/(2+1); equal lengths: no brevity penalty
    expected = math.exp(sum(map(math.log, (4 / 5, 4 / 5, 3 / 4, 2 / 3))) / 4)
    assert bleu4("a b c d x", "a b c d e") == pytest.approx(expected)


def test_bleu4_brevity_penalty_and_ends() -> None:
    assert bleu4("a b", "a b c d") == pytest.approx(math.exp(1 - 4 / 2))
    assert bleu4("a b c d e", "a b c d e") == pytest.approx(1.0)
    assert bleu4("x y", "a b") == 0.0


def test_fold_space_composes_and_folds() -> None:
    assert fold_space("  e\u0301 \n\t b ") == "é b"
    assert drop_space("a b\nc") == "abc"


@pytest.mark.parametrize(
    ("kept", "joined"),
    [
        ("tight mea-\nsurements of", "tight measurements of"),
        ("the metal-\ninsulator", "the metal-insulator"),
        ("one line\nand two", "one line and two"),
        ("pages 1990-\n1995", "pages 1990-1995"),
        ("网络支付\n并无", "网络支付并无"),
        ("soft\u00ad\nhyphen", "soft hyphen"),
    ],
)
def test_join_block_makes_kept_and_joined_lines_equal(kept: str, joined: str) -> None:
    assert join_block(kept) == join_block(joined)


@pytest.mark.parametrize(
    ("bad", "truth"),
    [("mea- surements", "mea-\nsurements"), ("meas urements", "measurements"), ("a - b", "a b"), ("- item", "item")],
)
def test_join_block_does_not_forgive_real_errors(bad: str, truth: str) -> None:
    assert join_block(bad) != join_block(truth)


def test_page_text_drops_spaces_next_to_chinese_only() -> None:
    assert page_text("第 一 章 LaTeX 的 use of it") == "第一章LaTeX的use of it"

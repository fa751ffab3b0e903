"""The data engine: rendering knows its truth, pages give theirs, shards keep everything, degradation is seeded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.model.prefix import line_geometry
from derender.model.tower import LineReading
from derender.train.dataset import load_shard
from derender.train.degrade import Degradation, degrade
from derender.train.features import write_shard
from derender.train.pages import Line, clean, join, target_of
from derender.train.render import _target, wrap
from derender.train.sample import LineSample, RegionSample
from derender.train.text import Corpus, draw_text, random_words
from model_fixtures import tiny_vocab

WORDS = frozenset({"example", "self-made", "wellknown"})


def test_line_end_hyphens_follow_the_vocabulary() -> None:
    assert join("an exam-", "ple of", WORDS) == "an example of"
    assert join("a self-", "made man", WORDS) == "a self-made man"
    assert join("pages 12-", "15 show", WORDS) == "pages 12-15 show"
    assert join("漢", "字", WORDS) == "漢字"


def test_ligatures_open_and_hyphen_marks_become_hyphens() -> None:
    assert clean("e\ufb03cient  re\u00adsult\u00a0x") == "efficient re-sult x"


def test_a_line_that_ended_early_keeps_its_break() -> None:
    def line(text: str, y: float) -> Line:
        return Line(text, [(6.0 * i, y, 6.0 * i + 5, y + 10) for i in range(len(text))])

    lines = [line("a long first line of text", 0), line("short", 14), line("then another one follows", 28)]
    assert target_of(lines, WORDS) == "a long first line of text short\nthen another one follows"


@given(st.text(alphabet="abcdef ghi", min_size=1, max_size=200), st.integers(8, 40), st.floats(0, 1))
def test_wrapping_loses_no_letter(text: str, fits: int, hyphenate: float) -> None:
    lines = wrap(text, fits, np.random.default_rng(1), hyphenate, 0.0)
    if lines:
        assert _target(lines).replace(" ", "") == text.replace(" ", "")


def test_degradation_is_seeded_and_keeps_the_picture_readable() -> None:
    image = np.full((40, 300), 255, np.uint8)
    image[10:30, 20:280] = np.where(np.arange(260) % 10 < 4, 0, 255)  # strokes four pixels wide
    for seed in range(40):
        d = Degradation.draw(np.random.default_rng(seed), clean_share=0.0)
        a, b = (degrade(image, d, np.random.default_rng(seed)) for _ in range(2))
        assert np.array_equal(a, b)
        assert np.ptp(a.astype(int)) > 30


def test_random_words_cannot_be_guessed_but_are_seeded() -> None:
    words = ("one", "two", "three", "four")
    texts = [random_words(np.random.default_rng(s), words, 30) for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_drawn_text_has_about_the_length_asked_for() -> None:
    corpus = Corpus(("some words in a row " * 20,), ("漢字" * 50,), ("word", "other"))
    for seed in range(20):
        assert 10 < len(draw_text(np.random.default_rng(seed), corpus, 60, chinese=0.3)) < 200


def test_chinese_runs_over_short_paragraphs_and_keeps_latin_words_whole() -> None:
    corpus = Corpus(("unused",), ("漢字系統 文檔reboot手册。", "大家都會 插入圖片，"), ("word",))
    spaced = 0
    for seed in range(40):
        text = draw_text(np.random.default_rng(seed), corpus, 60, chinese=1.0)
        assert 50 <= len(text) <= 66
        text = text.replace("word", "")  # put in anywhere
        assert all(word in "reboot" for word in re.findall("[a-z]+", text))
        spaced += " " in text
    # Where the source's line ended is no space in Chinese, in four draws of five.
    assert 0 < spaced < 20


def reading(tokens: list[int]) -> LineReading:
    n = len(tokens)
    classes = np.repeat(np.array(tokens, np.int64), 2)
    classes[1::2] = 0
    rng = np.random.default_rng(n)
    return LineReading(
        rng.normal(size=(2 * n, 120)).astype(np.float32),
        classes,
        np.array(tokens, np.int64),
        np.full(n, 0.5, np.float32),
        np.arange(0, 2 * n, 2),
        np.tile(np.array(tokens, np.int64)[:, None], (1, 4)),
    )


def test_shards_keep_everything(tmp_path: Path) -> None:
    vocab = tiny_vocab()
    picture = np.zeros((10, 10), np.uint8)
    boxes = [(0.0, 0.0, 90.0, 10.0), (0.0, 12.0, 50.0, 22.0)]
    two = RegionSample(tuple(LineSample(picture, b, "") for b in boxes), "ab cd", "page")
    one = RegionSample((LineSample(picture, boxes[0], ""),), "efg", "font:line")
    lines = [reading(vocab.encode("ab")), reading(vocab.encode("cd")), reading(vocab.encode("efh"))]
    write_shard(tmp_path / "shard-00000.npz", [(two, lines[:2]), (one, lines[2:])], vocab)
    first, second = load_shard(tmp_path / "shard-00000.npz", vocab)
    assert vocab.decode(first.target.tolist()) == "ab cd" == vocab.decode(first.prefix.draft_D.tolist())
    assert vocab.decode(second.prefix.draft_D.tolist()) == "efh"
    assert first.anchor.tolist() == list(range(6))
    assert np.allclose(first.prefix.geometry_PG[first.prefix.line_P], line_geometry(boxes))
    assert first.prefix.feature_PF[1].astype(float) == pytest.approx(lines[0].columns_TF[:2].ravel(), abs=2e-3)

"""Prefix of a region: character-count positions, merged columns, CTC read-out, vocabulary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.model.prefix import column_positions, line_geometry, merge_columns
from derender.model.tower import line_tensor, read_ctc
from model_fixtures import tiny_prefix, tiny_vocab


def test_positions_count_characters() -> None:
    classes = np.array([0, 5, 5, 0, 5, 7, 0, 0])
    assert column_positions(classes).tolist() == [-0.5, 0, 0, 0.5, 1, 2, 2.5, 2.5]


def test_ctc_merges_repeats_and_drops_blanks() -> None:
    classes = np.array([[0, 1], [5, 1], [5, 2], [0, 1], [5, 3], [7, 1]])
    probs = np.array([[0.9, 0.1], [0.5, 0.1], [0.8, 0.1], [0.9, 0.1], [0.7, 0.1], [0.6, 0.1]], np.float32)
    draft, prob, at, top = read_ctc(classes, probs)
    assert draft.tolist() == [5, 5, 7] and at.tolist() == [2, 4, 5]
    assert np.allclose(prob, [0.8, 0.7, 0.6]) and top.tolist() == [[5, 2], [5, 3], [7, 1]]


def test_an_odd_column_is_paired_with_zeros() -> None:
    merged, position = merge_columns(np.ones((3, 4), np.float32), np.array([0, 1, 2], np.float32))
    assert merged.shape == (2, 8) and merged[1].tolist() == [1] * 4 + [0] * 4 and position.tolist() == [0.5, 2]


def test_a_space_joins_the_draft_of_two_lines() -> None:
    vocab = tiny_vocab()
    prefix = tiny_prefix("abcdefgh", lines=2)
    assert vocab.decode(prefix.draft_D.tolist()) == "abcd efgh"
    assert prefix.line_P.sum() == 2 and (np.diff(prefix.position_P) >= 0).all()


def test_geometry_shows_a_line_that_ends_early() -> None:
    g = line_geometry([(0, 0, 100, 10), (0, 12, 40, 22), (5, 24, 100, 34)])
    assert g[1, 1] == pytest.approx(6.0) and g[2, 0] == pytest.approx(0.5) and g[1, 3] == pytest.approx(0.2)


def test_masks_never_become_text() -> None:
    with pytest.raises(ValueError, match="masked"):
        tiny_vocab().decode([0])


@given(st.text(alphabet="abc 漢字-\n", max_size=20))
def test_vocabulary_round_trip(text: str) -> None:
    vocab = tiny_vocab()
    assert vocab.decode(vocab.encode(text)) == text


def test_line_tensor_pads_to_a_bucket_and_keeps_the_ratio() -> None:
    x, width = line_tensor(np.full((24, 50, 3), 255, np.uint8))
    assert x.shape == (3, 48, 128) and width == 100
    assert (x[:, :, :100] == 1).all() and (x[:, :, 100:] == 0).all()

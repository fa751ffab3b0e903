"""The aligner: anchors follow edits, depend on the past only, and can be taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from derender.model.align import Aligner, anchors

letters = st.lists(st.integers(1, 5), max_size=60)


def codes(text: str) -> list[int]:
    return [ord(c) for c in text]


def test_equal_texts_advance_one_by_one() -> None:
    text = codes("one two three")
    assert anchors(text, text) == list(range(len(text) + 1))


def test_recovers_after_a_missing_space() -> None:
    draft, target = "brownfox jumps", "brown fox jumps"
    a = anchors(codes(draft), codes(target), [ord(" ")])
    assert a[-1] == len(draft) and draft[a[target.index("jumps")]] == "j"


def test_recovers_after_a_mended_hyphen() -> None:
    draft, target = "an exam- ple of text", "an example of text"
    a = anchors(codes(draft), codes(target), [ord(" "), ord("-")])
    assert draft[a[target.index("of")]] == "o"


def test_substitution_does_not_shift() -> None:
    a = anchors(codes("tbe house"), codes("the house"))
    assert a == list(range(10))


@given(letters, letters, letters)
def test_anchor_depends_on_the_past_only(draft: list[int], past: list[int], future: list[int]) -> None:
    assert anchors(draft, past + future)[: len(past) + 1] == anchors(draft, past)


@given(letters, letters)
def test_anchor_stays_inside_the_draft(draft: list[int], target: list[int]) -> None:
    assert all(0 <= a <= len(draft) for a in anchors(draft, target))


@given(letters, letters, letters)
def test_restore_takes_pushes_back(draft: list[int], kept: list[int], dropped: list[int]) -> None:
    aligner = Aligner(draft)
    for token in kept:
        aligner.push(token)
    state = aligner.state()
    for token in dropped:
        aligner.push(token)
    aligner.restore(state)
    again = [aligner.push(token) for token in dropped]
    assert again == anchors(draft, kept + dropped)[len(kept) + 1 :]

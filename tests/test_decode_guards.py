"""Guards: loops end, honest repeats do not. Tokens are characters here, the hardest case (longest runs)."""

from __future__ import annotations

import uuid

import pytest

from derender.decode.guards import LengthGuard, RepetitionGuard

GUARD = RepetitionGuard()
SENTENCE = "the quick brown fox jumps over the lazy dog and "


def fired(text: str, expected: int, guard: RepetitionGuard = GUARD):
    """The first Stop while `text` is written token by token, as the engine asks."""
    tokens: list[int] = []
    for char in text:
        tokens.append(ord(char))
        stop = guard.check(tokens, expected)
        if stop:
            return stop
    return None


HONEST = {
    "dot leader": "Introduction " + "." * 150 + " 17",
    "spaced dot leader": "Introduction " + ". " * 100 + "17",
    "rule": "-" * 200,
    "table of contents": "".join(f"{n} Chapter {n * 7 % 13} {'.' * 90} {n * 11}\n" for n in range(1, 20)),
    "equal rows": "0.00 0.00 |" * 30,
    "uuid": " ".join(str(uuid.UUID(int=n * 0x1234567890ABCDEF1234567)) for n in range(1, 12)),
    "nil uuid": "00000000-0000-0000-0000-000000000000 " * 8,
    "hex": "deadbeef" * 30,
    "digits": "0" * 300,
    "number with repeats": "1.3333333333333333333333333333333333 142857142857142857142857142857",
    "refrain": ("la la la la, " * 6 + "and so we sing along.\n") * 4,
}


@pytest.mark.parametrize("expected_known", [True, False])
@pytest.mark.parametrize("name", HONEST)
def test_no_false_alarm(name, expected_known):
    text = HONEST[name]
    assert fired(text, len(text) if expected_known else 0) is None


def test_leaders_that_the_expected_length_undercounts_are_kept():
    text = "Contents\nIntroduction " + "." * 90 + " 17"
    assert fired(text, 40) is None


def test_true_repeats_as_long_as_expected_are_kept():
    assert fired(SENTENCE * 40, len(SENTENCE) * 40) is None


@pytest.mark.parametrize("expected", [0, 200])
@pytest.mark.parametrize("period", [".", "ab ", SENTENCE, SENTENCE.upper() + SENTENCE + "12345678901234567890"])
def test_a_loop_ends_and_the_text_before_it_is_kept(period, expected):
    before = "Once upon a time there was a model that read a page"
    stop = fired(before + period * 5000, expected)
    assert stop is not None
    assert stop.keep == len(before) + len(period), "the text before the loop, and the n-gram once"
    assert "repeats the same" in stop.reason


def test_a_loop_beyond_the_expected_length_ends_soon():
    tokens: list[int] = []
    for char in SENTENCE * 100:
        tokens.append(ord(char))
        if GUARD.check(tokens, 200):
            break
    assert len(tokens) <= 200 * 1.3 + 16 + GUARD.every


def test_the_longest_period_is_caught():
    period = "".join(chr(0x4E00 + n) for n in range(GUARD.max_period))
    assert fired(period * 20, 0) is not None


def test_length_guard_allows_the_cap_and_no_more():
    guard = LengthGuard(max_tokens=1000)
    assert guard.cap(0) == 1000 and guard.cap(10) == 84 and guard.cap(5000) == 1000
    assert guard.check(84, 10) is None
    stop = guard.check(85, 10)
    assert stop is not None and stop.keep == 84 and "token 84" in stop.reason

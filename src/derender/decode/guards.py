"""Guards that end a sequence as `partial`: a model that repeats itself, or one that writes more than the crop holds.

Both are pure functions of the tokens so far, so every decode mode stops at the same token. They look at structure only:
no penalty on repeated tokens (that damages identifiers and numbers), no list of forbidden strings. Neither can tell a
true repeat from a loop by its tokens, so both lean on `expected`, the rough number of tokens the picture holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from derender.errors import UsageError


@dataclass(frozen=True)
class Stop:
    """Why a sequence ends here. keep: how many of its tokens stay."""

    keep: int
    reason: str


@dataclass(frozen=True)
class RepetitionGuard:
    """Fires when the text ends in one n-gram repeated over and over.

    With `expected` known, nothing fires while the text is at most `slack` · expected + `margin` tokens long, so true
    repeats as long as the picture says are kept; beyond it a run of `known_repeats` n-grams and `known_run` tokens is a
    loop (`known_short_run` for n-grams of up to `short` tokens: dot leaders and rules, which `expected` undercounts).
    With `expected` unknown (0), a loop is `repeats` n-grams and `run` tokens: longer than any rule or leader across a
    page, and than forty equal rows of ten tokens.
    """

    max_period: int = 256
    run: int = 400
    repeats: int = 12
    known_run: int = 32
    known_repeats: int = 3
    short: int = 4
    known_short_run: int = 96
    slack: float = 1.3
    margin: int = 16
    every: int = 16
    """Looks only when the number of tokens is a multiple of this: cheap, and still the same in every mode."""

    def __post_init__(self) -> None:
        counts = (self.max_period, self.run, self.repeats, self.known_run, self.known_repeats, self.every)
        if min(counts) < 1 or min(self.known_repeats, self.repeats) < 2:
            raise UsageError("the repetition guard needs positive lengths and at least two repeats")

    def _needed(self, period: int, known: bool) -> int:
        if not known:
            return max(self.run, self.repeats * period)
        return max(self.known_short_run if period <= self.short else self.known_run, self.known_repeats * period)

    def check(self, tokens: Sequence[int], expected: int) -> Stop | None:
        """Stop, keeping the text before the loop and the n-gram once, or None."""
        n = len(tokens)
        known = expected > 0
        if n % self.every or (known and n <= expected * self.slack + self.margin):
            return None
        if n < self._needed(1, known) and n < self._needed(self.short + 1, known):
            return None
        longest = 0
        for period in self._candidates(tokens):
            run = period
            while run < n and tokens[n - 1 - run] == tokens[n - 1 - run + period]:
                run += 1
            if run <= longest:  # "....." is a run of ".", not of "..": the shortest period's allowance counts
                continue
            longest = run
            if run >= self._needed(period, known):
                start = n - run
                return Stop(
                    start + period,
                    f"stopped at token {n}: from token {start + 1} on the model repeats the same "
                    f"{period} token{'s' if period > 1 else ''}; kept once",
                )
        return None

    def _candidates(self, tokens: Sequence[int]) -> list[int]:
        """Periods, shortest first, with which the last few tokens are repeated: a vectorised filter before counting."""
        probe = 8
        tail = np.asarray(tokens[-(self.max_period + probe) :])
        if len(tail) <= probe:
            return []
        windows = np.lib.stride_tricks.sliding_window_view(tail, probe)[::-1]  # row p ends p tokens before the end
        return [int(p) for p in np.flatnonzero((windows[1:] == tail[-probe:]).all(axis=1)) + 1]


@dataclass(frozen=True)
class LengthGuard:
    """Fires when a text has more than 2 · expected + 64 tokens (where expected is known), or more than `max_tokens`."""

    max_tokens: int = 4096
    factor: float = 2.0
    margin: int = 64

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.factor < 1 or self.margin < 0:
            raise UsageError("the length guard needs max_tokens >= 1, factor >= 1 and margin >= 0")

    def cap(self, expected: int) -> int:
        """The most tokens a text may have, end-of-text not counted."""
        if expected <= 0:
            return self.max_tokens
        return min(self.max_tokens, int(self.factor * expected) + self.margin)

    def check(self, n: int, expected: int) -> Stop | None:
        """Stop, keeping `cap` tokens, once the n tokens are more than that."""
        cap = self.cap(expected)
        if n <= cap:
            return None
        why = "the limit" if cap == self.max_tokens else f"the limit for about {expected} expected"
        return Stop(cap, f"stopped at token {cap}: {why}, and the text had not ended")


class Guards:
    """Both guards for one sequence, cheap to ask after every token. cap: the most tokens its text may have."""

    def __init__(self, expected: int, max_tokens: int, repetition: bool = True) -> None:
        self._expected = expected
        self._length = LengthGuard(max_tokens)
        self._repetition = RepetitionGuard() if repetition else None
        self.cap = self._length.cap(expected)
        self._every = self._repetition.every if self._repetition else 0

    def check(self, tokens: Sequence[int]) -> Stop | None:
        n = len(tokens)
        if n > self.cap:
            return self._length.check(n, self._expected)
        if self._repetition is not None and n % self._every == 0:
            return self._repetition.check(tokens, self._expected)
        return None

"""Where in the draft the next token stands, given the tokens committed so far: a causal, banded edit alignment.

The draft is the tower's CTC reading. The decoder corrects it, so the n-th committed token is not always the n-th
drafted character (a missing space, a mended hyphen). Positions, draft characters and the distance bias all use the
aligned index ("anchor") instead of the token count, so that an early insertion does not shift everything after it.
The anchor is a function of draft and committed tokens only: every decode mode and training agree on it.

Method: the row of the Levenshtein table for the committed tokens against draft prefixes of length p-BAND..p+BAND; the
anchor is its minimum, ties going to the index nearest to one step ahead. After SYNC matches in a row at the anchor the
row is reset to |k - anchor|, which forgets old errors and makes the common case cheap. `soft` tokens (space, hyphen,
newline) cost less to put in or leave out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

BAND = 12
SYNC = 6
COST = 10
CHEAP = 6  # a space put in, a space or hyphen left out: what joining lines does all the time
_FRESH = [COST * abs(k - BAND) for k in range(2 * BAND + 1)]


class Aligner:
    """Feed committed tokens with `push`; `anchor` is the draft index expected for the next token."""

    __slots__ = ("draft", "soft", "anchor", "_low", "_row", "_run")

    def __init__(self, draft: Sequence[int], soft: Collection[int] = ()) -> None:
        self.draft = draft
        self.soft = frozenset(soft)
        self.anchor = 0
        self._low = -BAND
        self._row: list[int] | None = None  # None: synchronised, the row is |k - anchor|
        self._run = 0

    def state(self) -> tuple[int, int, list[int] | None, int]:
        """What `restore` needs to take back later pushes."""
        return (self.anchor, self._low, self._row, self._run)

    def restore(self, state: tuple[int, int, list[int] | None, int]) -> None:
        self.anchor, self._low, self._row, self._run = state

    def push(self, token: int) -> int:
        """Takes one committed token, returns the new anchor."""
        draft, anchor = self.draft, self.anchor
        n = len(draft)
        matched = anchor < n and draft[anchor] == token
        if self._row is None:
            if matched:
                self.anchor = anchor + 1
                return self.anchor
            self._low = anchor - BAND
            row = _FRESH
            self._run = 0
        else:
            row = self._row
        low, big, soft = self._low, 1 << 20, self.soft
        insert = CHEAP if token in soft else COST
        new = []
        left = big
        for i, up in enumerate(row):
            k = low + i  # draft prefix of length k
            drafted = draft[k - 1] if 0 < k <= n else None
            diagonal = big if i == 0 else row[i - 1] + (0 if drafted == token else COST)
            best = min(up + insert, left + (CHEAP if drafted in soft else COST), diagonal)
            if k < 0 or k > n:
                best = big
            new.append(best)
            left = best
        ahead = anchor + 1
        best_i = min(range(len(new)), key=lambda i: (new[i], abs(low + i - ahead)))
        self.anchor = low + best_i
        self._run = self._run + 1 if matched and self.anchor == anchor + 1 else 0
        if self._run >= SYNC:
            self._row, self._run = None, 0
        else:
            shift = self.anchor - BAND - low
            if shift > 0:
                new = new[shift:] + [new[-1] + COST * (1 + j) for j in range(shift)]
                self._low = low + shift
            self._row = new
        return self.anchor


def anchors(draft: Sequence[int], target: Sequence[int], soft: Collection[int] = ()) -> list[int]:
    """anchor before each token of `target` and after the last: len(target) + 1 values."""
    aligner = Aligner(draft, soft)
    out = [0]
    for token in target:
        out.append(aligner.push(token))
    return out

"""A runtime without a network: a small deterministic language on which every decode mode can be checked exactly.

Logits are a fixed function of what the cache really holds and of the window's visible tokens, so a wrong cache, a wrong
position or a forgotten truncation changes the text. The runtime refuses what the protocol forbids.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from derender.decode.protocol import RowLogits, Rows, RuntimeSpec

BOS, EOS, MASK = 0, 1, 2
FIRST, VOCAB = 3, 40
CANDIDATES = np.array([EOS, *range(FIRST, VOCAB)][::-1], dtype=np.int64)  # not sorted: columns are not token ids
NOISE = np.random.default_rng(0).random((997, len(CANDIDATES))).astype(np.float32)
COLUMN = {int(token): k for k, token in enumerate(CANDIDATES)}


def mix(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())


@dataclass(frozen=True)
class Prefix:
    """The text that the toy "sees". loop: appended without end.

    hard: share of positions that need their left neighbour.
    twist: share of positions where the next-token head prefers another token, after which it leaves the target.
    swap: share of positions where it writes another token and goes on with the target.
    expected: what the sequence says of its length (None = the truth).
    """

    target: tuple[int, ...]
    loop: tuple[int, ...] = ()
    hard: float = 0.3
    twist: float = 0.0
    swap: float = 0.0
    expected: int | None = None
    fails: bool = False
    seed: int = 0

    def at(self, p: int) -> int:
        if p < len(self.target):
            return self.target[p]
        return self.loop[(p - len(self.target)) % len(self.loop)] if self.loop else EOS

    def swapped(self, p: int) -> bool:
        return p < len(self.target) and share(self.swap, self.seed, "swap", p)

    def written(self, p: int) -> int:
        """What the next-token head writes at p as long as it keeps to the target."""
        token = self.at(p)
        return FIRST + (token - FIRST + 1) % (VOCAB - FIRST) if self.swapped(p) else token


def text(n: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(FIRST + mix(seed, p) % (VOCAB - FIRST) for p in range(n))


@dataclass
class ToySeq:
    prefix: Prefix
    cache: list[int] = field(default_factory=list)
    candidates_K: np.ndarray = field(default_factory=lambda: CANDIDATES)
    expected: int = 0
    released: bool = False

    @property
    def length(self) -> int:
        return len(self.cache)

    def ahead(self, pending: Sequence[int], count: int) -> list[int]:
        return []  # the toy language has no cheap reading


def share(limit: float, *parts: object) -> bool:
    return mix(*parts) % 1000 < limit * 1000


class ToyRuntime:
    def __init__(self, spec: RuntimeSpec | None = None, fail_forward_at: int = 0) -> None:
        self.spec = spec or RuntimeSpec(bos_id=BOS, eos_id=EOS, mask_id=MASK, block=8, max_window=64, name="toy")
        self.live: list[ToySeq] = []
        self.most_live = 0
        self.calls: list[list[Rows[ToySeq]]] = []
        self.prefills: list[int] = []
        self.fail_forward_at = fail_forward_at

    def prefill(self, prefixes: Sequence[Prefix]) -> list[ToySeq]:
        if any(prefix.fails for prefix in prefixes):
            raise RuntimeError("no cache left")
        self.prefills.append(len(prefixes))
        made = [ToySeq(p, expected=len(p.target) if p.expected is None else p.expected) for p in prefixes]
        self.live += made
        self.most_live = max(self.most_live, len(self.live))
        return made

    def forward(self, rows: Sequence[Rows[ToySeq]]) -> list[RowLogits]:
        self.calls.append(list(rows))
        if len(self.calls) == self.fail_forward_at:
            raise MemoryError("out of memory")
        assert len({id(part.seq) for part in rows}) == len(rows)
        return [self._one(part) for part in rows]

    def _one(self, part: Rows[ToySeq]) -> RowLogits:
        seq = part.seq
        assert not seq.released and (part.commit or part.window)
        assert len(part.window) <= self.spec.max_window
        assert MASK not in part.commit and EOS not in part.commit
        assert (seq.length == 0) == (list(part.commit[:1]) == [BOS]), "bos is the first commit row and only that"
        assert part.window_need is None or len(part.window_need) == len(part.window)
        next_rows = []
        for token in part.commit:
            seq.cache.append(int(token))
            next_rows.append(next_logits(seq.prefix, seq.cache))
        window = [window_logits(seq.prefix, seq.cache, part.window, w) for w in range(len(part.window))]
        for w, need in enumerate(part.window_need or ()):
            if not need:
                window[w] = np.full(len(CANDIDATES), np.nan, np.float32)  # "may hold anything"
        return RowLogits(np.array(next_rows) if part.want_next else None, np.array(window) if window else None)

    def truncate(self, seq: ToySeq, length: int) -> None:
        assert 0 < length < seq.length
        del seq.cache[length:]

    def release(self, seq: ToySeq) -> None:
        assert not seq.released
        seq.released = True
        self.live = [other for other in self.live if other is not seq]


def bump(token: int, height: float, *noise: object) -> np.ndarray:
    logits = NOISE[mix(*noise) % len(NOISE)].copy()
    logits[COLUMN[token]] += np.float32(height)
    return logits


def next_logits(prefix: Prefix, cache: list[int]) -> np.ndarray:
    """The next-token head: the target, another token at twisted places, and a random walk once off the target."""
    p = len(cache) - 1
    token = prefix.written(p)
    off = cache[1:][-3:] != [prefix.written(q) for q in range(max(0, p - 3), p)]
    if off or share(prefix.twist, prefix.seed, "twist", p):
        h = mix(prefix.seed, cache)
        token = prefix.written(p) if h % 3 == 0 else int(CANDIDATES[h % len(CANDIDATES)])
    return bump(token, 3 + mix(prefix.seed, cache) % 5, prefix.seed, cache)


def window_logits(prefix: Prefix, cache: list[int], window: Sequence[int], w: int) -> np.ndarray:
    """The diffusion head: sure at easy places; at hard ones unsure and wrong until the left neighbour is visible."""
    p = len(cache) - 1 + w
    visible = [(v, int(token)) for v, token in enumerate(window) if token != MASK]
    noise = (prefix.seed, cache[-4:], visible, w)
    if any(token not in (prefix.at(q), prefix.written(q)) for q, token in enumerate(cache[1:])) and prefix.twist == 0:
        return bump(FIRST, 9, *noise)  # a cache that holds anything but the target never recovers
    left_known = w == 0 or window[w - 1] != MASK
    if share(prefix.hard, prefix.seed, "hard", p) and p < len(prefix.target):
        if not left_known:
            return bump(FIRST + mix(noise) % (VOCAB - FIRST), 2, *noise)
        return bump(prefix.at(p), 6, *noise)
    return bump(prefix.at(p), 12, *noise)

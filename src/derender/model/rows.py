"""One region in decoding, as both runtimes see it: where its rows stand, what they hold, which tokens are candidates.

Keeps the aligner and the rows of the last forward, which are final only when the next forward begins (until then the
engine may truncate them). Holds no keys or values and runs no network.

Legend: R = C commit rows then W window rows, K candidates, X candidates outside the core vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.decode.protocol import Rows, RuntimeSpec
from derender.errors import ModelError
from derender.model.align import Aligner
from derender.model.config import DecoderConfig
from derender.model.prefix import RegionPrefix, draft_at
from derender.model.tokens import TokenIds

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


def compact_spec(config: DecoderConfig, vocab: TokenIds, name: str) -> RuntimeSpec:
    """The engine's facts about a compact decoder: causal commits, all four modes."""
    return RuntimeSpec(
        bos_id=vocab.bos_id,
        eos_id=vocab.eos_id,
        mask_id=vocab.mask_id,
        block=config.block,
        max_window=config.max_window,
        name=name,
        reading=True,
    )


@dataclass
class RowArrays:
    """Inputs of one sequence's rows. place_R: where the row's own token stands; center_R: the place it predicts."""

    ids: I64
    left_RK: I64
    draft: I64
    prob: F32
    window: npt.NDArray[np.int64]
    center: F32
    place: F32
    commits: int


@dataclass
class CompactSeq:
    """A region in decoding. use_draft=False hides the CTC reading (for the ablation); positions still use it."""

    prefix: RegionPrefix
    vocab: TokenIds
    core: I64
    use_draft: bool = True
    expected: int = 0
    candidates_K: I64 = field(init=False)
    extra_X: I64 = field(init=False)
    length: int = 0
    cache: Any = None
    """The runtime's own state."""

    def __post_init__(self) -> None:
        inside = np.zeros(len(self.vocab), bool)
        inside[self.core] = True
        self.extra_X = self.prefix.alternatives[~inside[self.prefix.alternatives]]
        self.candidates_K = np.concatenate([self.core, self.extra_X])
        self.expected = len(self.prefix.draft_D)
        self.aligner = Aligner(self.prefix.draft_D.tolist(), self.vocab.soft_ids)
        self._undo: list[tuple[int, int, list[int] | None, int]] = []
        self._tokens: list[int] = [self.vocab.mask_id, self.vocab.mask_id]  # committed ones behind two unknown

    def ahead(self, pending: Sequence[int], count: int) -> list[int]:
        """The CTC reading from the place where the text stands once `pending` is committed."""
        state = self.aligner.state()
        for token in pending:
            if token != self.vocab.bos_id:
                self.aligner.push(token)
        at = self.aligner.anchor
        self.aligner.restore(state)
        return self.prefix.draft_D[at : at + count].tolist()

    def settle(self) -> None:
        """The last forward's commit rows can no longer be truncated."""
        self._undo.clear()

    def place_rows(self, rows: Rows[CompactSeq]) -> RowArrays:
        """Pushes the commit tokens through the aligner and describes all rows."""
        places = []
        for token in rows.commit:
            self._undo.append(self.aligner.state())
            if token != self.vocab.bos_id:
                self.aligner.push(token)
            places.append(self.aligner.anchor - 1)
        self.length += len(rows.commit)
        before = self._tokens[-2:]
        self._tokens += rows.commit
        c, w = len(rows.commit), len(rows.window)
        window_place = self.aligner.anchor + np.arange(w)
        place = np.concatenate([np.asarray(places, np.int64), window_place])
        center = np.concatenate([np.asarray(places, np.int64) + 1, window_place])
        draft, prob = draft_at(self.prefix, center, self.vocab.eos_id, self.use_draft)
        whole = np.asarray([*before, *rows.commit, *rows.window], np.int64)
        return RowArrays(
            ids=whole[2:],
            left_RK=np.stack([whole[1:-1], whole[:-2]], 1),
            draft=draft,
            prob=prob,
            window=np.repeat(np.array([0, 1]), [c, w]),
            center=center.astype(np.float32),
            place=place.astype(np.float32),
            commits=c,
        )

    def drop(self, length: int) -> int:
        """Takes back commit rows of the last forward until `length` are left; returns how many were dropped.

        Raises ModelError when asked to go back further than one forward.
        """
        dropped = self.length - length
        if dropped < 0 or dropped > len(self._undo):
            raise ModelError(
                f"cannot truncate {dropped} rows: only the last forward's {len(self._undo)} can be taken back"
            )
        if dropped:
            self.aligner.restore(self._undo[-dropped])
            del self._undo[-dropped:], self._tokens[-dropped:]
        self.length = length
        return dropped


def row_visibility(arrays: Sequence[RowArrays], reach_text: float) -> npt.NDArray[np.bool_]:
    """(B, R, R) which rows see which rows of the same forward: commit rows causally, window rows all commit rows within
    reach and one another. Padding rows see themselves only."""
    longest = max(len(a.ids) for a in arrays)
    see = np.zeros((len(arrays), longest, longest), bool)
    see[:, np.arange(longest), np.arange(longest)] = True
    for b, a in enumerate(arrays):
        n, c = len(a.ids), a.commits
        near = a.center[:, None] - a.place[None, :c] <= reach_text
        see[b, :n, :c] = near
        see[b, :c, :c] &= np.tri(c, dtype=bool)
        see[b, c:n, c:n] = True
    return see


def pad_rows(arrays: Sequence[npt.NDArray[Any]], fill: float) -> npt.NDArray[Any]:
    """Stacks (R, ...) arrays, padded with `fill` to the longest."""
    longest = max(len(a) for a in arrays)
    out = np.full((len(arrays), longest, *arrays[0].shape[1:]), fill, arrays[0].dtype)
    for b, a in enumerate(arrays):
        out[b, : len(a)] = a
    return out

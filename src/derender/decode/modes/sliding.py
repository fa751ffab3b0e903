"""Mode `sliding` (ours): the window begins right after the committed text and slides on with every forward.

Each forward commits the window's confident prefix: the positions from its start that the rule picks, at least the
first. They are commit rows of the next forward, whose window starts fresh behind them, so there is no slow tail at the
end of a block. With `keep`, tokens that the rule picks further right stay visible in the next window and are final too;
then the rule's own "at least one" is progress enough and a doubtful first position may wait for its neighbours.

Shapes: W window positions, N masked rows of it, K candidate tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.modes.base import SequenceDecoder
from derender.decode.protocol import Logits, RowLogits, Rows, RuntimeSpec, S
from derender.errors import ModelError


def _window_of(logits: RowLogits, size: int) -> Logits:
    if logits.window_WK is None or len(logits.window_WK) != size:
        raise ModelError(f"the runtime gave no logits for a window of {size} rows")
    return logits.window_WK


class SlidingDecoder(SequenceDecoder[S]):
    """`keep=False`: every window is all masks."""

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        self._size = self.window_size(window_limit)
        return Rows(self.seq, commit=self.pending, window=[self.spec.mask_id] * self._size)

    def _digest(self, logits: RowLogits) -> None:
        self.cached += len(self.pending)
        reading = self.read(_window_of(logits, self._size), self._size, entropy=self._rule.needs_entropy)
        commit_W = self._rule.select(reading.confidence_R, np.ones(self._size, dtype=np.bool_), reading.entropy_R)
        picked = self._size if commit_W.all() else max(1, int(commit_W.argmin()))  # the run from the start
        before = len(self.tokens)
        columns, confidences = reading.index_R[:picked].tolist(), reading.confidence_R[:picked].tolist()
        for index_k, confidence in zip(columns, confidences, strict=True):
            if not self.accept(index_k, confidence):
                return
        self.pending = self.tokens[before:]


@dataclass(frozen=True)
class _Kept:
    """A token chosen right of the committed text: candidate column, confidence, and forward."""

    index_k: int
    confidence: float
    step: int


class KeepingDecoder(SequenceDecoder[S]):
    """`keep=True`: the window is what was chosen ahead of the text, and masks."""

    def __init__(self, seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> None:
        super().__init__(seq, spec, config, rng)
        self._window: list[_Kept | None] = []

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        last = self._window[-1] if self._window else None
        if last is None or last.index_k != self.eos_k:  # nothing right of a kept end-of-text is ever needed
            # What is kept stays even where the batch now allows less: it is decided, and its neighbours rely on it.
            kept = max((w + 1 for w, token in enumerate(self._window) if token), default=0)
            size = max(kept, self.window_size(window_limit))
            self._window = (self._window + [None] * size)[:size]
        ids = [int(self.seq.candidates_K[t.index_k]) if t else self.spec.mask_id for t in self._window]
        return Rows(self.seq, commit=self.pending, window=ids, window_need=[t is None for t in self._window])

    def _digest(self, logits: RowLogits) -> None:
        self.cached += len(self.pending)
        size = len(self._window)
        masked_W = np.array([t is None for t in self._window], dtype=np.bool_)
        at = np.flatnonzero(masked_W)
        reading = self.read(_window_of(logits, size)[at], len(at), entropy=self._rule.needs_entropy)
        confidence_W = np.ones(size, dtype=np.float32)
        confidence_W[at] = reading.confidence_R
        entropy_W = np.zeros(size, dtype=np.float32)
        if reading.entropy_R is not None:
            entropy_W[at] = reading.entropy_R
        commit_W = self._rule.select(confidence_W, masked_W, entropy_W)
        for row, w in enumerate(at):
            if commit_W[w]:
                index_k = int(reading.index_R[row])
                self._window[w] = _Kept(index_k, float(reading.confidence_R[row]), self.forwards)
                if index_k == self.eos_k:  # what was chosen right of it is not text
                    del self._window[w + 1 :]
                    break
        self._take_prefix()

    def _take_prefix(self) -> None:
        """Moves the decided tokens at the window's start into the text; they ride in the next forward."""
        before = len(self.tokens)
        taken = 0
        for token in self._window:
            if token is None:
                break
            if not self.accept(token.index_k, token.confidence, token.step):
                return
            taken += 1
        self.pending = self.tokens[before:]
        self._window = self._window[taken:]

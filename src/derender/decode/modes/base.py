"""What all decode modes share: the text so far, its end, its guards, and reading logits. Decides no rows itself.

Shapes: R rows, K candidate tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Literal

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.guards import Guards, Stop
from derender.decode.protocol import Logits, RowLogits, Rows, RuntimeSpec, S
from derender.decode.sampling import Reading, greedy, sample
from derender.errors import ModelError

Status = Literal["ok", "partial", "failed", "cancelled"]


class SequenceDecoder(ABC, Generic[S]):
    """One sequence: call `rows`, run them, hand the logits to `digest`, until `finished`.

    tokens, confidences, steps: the text so far without begin and end of text; steps[i] is the forward (from 1) that
    committed token i. cached: how many committed tokens (bos included) of the cache are part of the text; where the
    runtime's sequence is longer, the surplus was rejected and must be truncated before the next forward.
    """

    def __init__(self, seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> None:
        eos = np.flatnonzero(seq.candidates_K == spec.eos_id)
        also = np.flatnonzero(np.isin(seq.candidates_K, spec.also_end))
        if len(eos) != 1 or len(also) != len(spec.also_end) or (seq.candidates_K == spec.mask_id).any():
            raise ModelError("a sequence's candidate tokens must hold end-of-text once and never the mask")
        self.seq, self.spec, self.config, self.rng = seq, spec, config, rng
        self.eos_k = int(eos[0])
        self.ends_k = (self.eos_k, *(int(k) for k in also))
        self.tokens: list[int] = []
        self.confidences: list[float] = []
        self.steps: list[int] = []
        self.errors: list[str] = []
        self.status: Status = "ok"
        self.finished = False
        self.forwards = 0
        self.cached = 0
        self.pending: list[int] = [spec.bos_id]
        """Tokens of the text (or bos) that the next forward puts into the cache."""
        self._rule = config.commit_rule
        self._guards = Guards(seq.expected, config.max_tokens, config.repetition_guard)

    @abstractmethod
    def rows(self, window_limit: int | None = None) -> Rows[S]:
        """What this sequence wants of the next forward. window_limit: most window rows, where the mode can obey."""

    def digest(self, logits: RowLogits) -> None:
        """Takes the logits of the last `rows`: commits tokens, and may finish the sequence."""
        self.forwards += 1
        self._digest(logits)

    @abstractmethod
    def _digest(self, logits: RowLogits) -> None: ...

    def read(self, logits_RK: Logits | None, expected_rows: int, *, entropy: bool = False) -> Reading:
        """One token per row, greedy or sampled as configured. Raises ModelError on rows not asked for."""
        if logits_RK is None or logits_RK.shape != (expected_rows, len(self.seq.candidates_K)):
            shape = None if logits_RK is None else logits_RK.shape
            raise ModelError(f"the runtime gave logits of shape {shape} for {expected_rows} rows")
        if self.config.temperature == 0:
            if isinstance(logits_RK, np.ndarray):
                return greedy(logits_RK, entropy=entropy)
            return logits_RK.greedy(entropy=entropy)
        c = self.config
        return sample(
            np.asarray(logits_RK), self.rng, temperature=c.temperature, top_k=c.top_k, top_p=c.top_p, entropy=entropy
        )

    def accept(self, index_k: int, confidence: float, step: int | None = None) -> bool:
        """Appends candidate `index_k` to the text. False when the text ends here: end-of-text, or a guard fired."""
        if index_k in self.ends_k:
            self.finished = True
            return False
        self.tokens.append(int(self.seq.candidates_K[index_k]))
        self.confidences.append(float(confidence))
        self.steps.append(self.forwards if step is None else step)
        stop = self._guards.check(self.tokens)
        if stop is not None:
            self._stop(stop)
        return not self.finished

    def _stop(self, stop: Stop) -> None:
        self.finished, self.status = True, "partial"
        self.errors.append(stop.reason)
        for kept in (self.tokens, self.confidences, self.steps):
            del kept[stop.keep :]

    def window_size(self, limit: int | None, ahead: int = 0) -> int:
        """Window rows of sliding and exact: no longer than configured, allowed by the batch, or left to write.

        ahead: tokens between the text and the window (a draft). The length guard's cap bounds what is left.
        """
        written = len(self.tokens) + ahead
        left = self._guards.cap + 1 - written
        size = min(self.config.window, left)
        if self.config.fit and self.seq.expected:
            # A few rows more than expected: the guess is rough, and end-of-text needs one.
            size = min(size, max(8, self.seq.expected + 4 - written))
        return max(1, size if limit is None else min(size, limit))

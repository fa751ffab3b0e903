"""Modes `block` (the paper's algorithm, MinerU-Diffusion arXiv 2603.22458) and `full` (one block for the whole text).

Blocks of fixed size start at position 0 of the text. A block is denoised until no position left of its first
end-of-text is masked; then its tokens become commit rows in the next block's first forward, so that the commit costs no
forward of its own (`overlap=False` spends one, as the reference does). Windows do not shrink here: a block's size is
part of what the model predicts.

Shapes: W positions of the block, N masked rows of it, K candidate tokens.
"""

from __future__ import annotations

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.modes.base import SequenceDecoder
from derender.decode.protocol import RowLogits, Rows, RuntimeSpec, S
from derender.errors import ModelError


class BlockDecoder(SequenceDecoder[S]):
    def __init__(self, seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> None:
        super().__init__(seq, spec, config, rng)
        self.size = self._size()
        self._open_block()

    def _size(self) -> int:
        return self.config.block

    def _open_block(self) -> None:
        self._index_W = np.full(self.size, -1, dtype=np.intp)  # chosen column, -1 = masked
        self._confidence_W = np.zeros(self.size, dtype=np.float32)
        self._step_W = np.zeros(self.size, dtype=np.int64)
        self._steps_in_block = 0

    def _end(self) -> int:
        """First end-of-text of the block, or its size: what lies right of it is never needed."""
        ends = np.flatnonzero(np.isin(self._index_W, self.ends_k))
        return int(ends[0]) if len(ends) else self.size

    def _masked_W(self) -> np.ndarray:
        masked = self._index_W < 0
        masked[self._end() :] = False
        return masked

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        if not self.config.overlap and self.cached and self.pending:
            return Rows(self.seq, commit=self.pending)
        masked = self._index_W < 0
        ids = np.where(masked, self.spec.mask_id, self.seq.candidates_K[self._index_W])
        return Rows(self.seq, commit=self.pending, window=ids.tolist(), window_need=self._masked_W().tolist())

    def _digest(self, logits: RowLogits) -> None:
        commit_only = not self.config.overlap and self.cached > 0 and bool(self.pending)
        self.cached += len(self.pending)
        self.pending = []
        if commit_only:
            return
        self._denoise(logits)
        if not self._masked_W().any():
            self._close_block()

    def _denoise(self, logits: RowLogits) -> None:
        masked_W = self._masked_W()
        window_WK = logits.window_WK
        if window_WK is None or len(window_WK) != self.size:
            raise ModelError(f"the runtime gave no logits for a window of {self.size} rows")
        at = np.flatnonzero(masked_W)
        reading = self.read(window_WK[at], len(at), entropy=self._rule.needs_entropy)
        # The rule sees only the rows that count, spread over the block so that runs and neighbours are true.
        confidence_W = np.zeros(self.size, dtype=np.float32)
        confidence_W[at] = reading.confidence_R
        entropy_W = None
        if reading.entropy_R is not None:
            entropy_W = np.zeros(self.size, dtype=np.float32)
            entropy_W[at] = reading.entropy_R
        commit_W = self._rule.select(confidence_W, masked_W, entropy_W, step=self._steps_in_block, block=self.size)
        self._index_W[at[commit_W[at]]] = reading.index_R[commit_W[at]]
        self._confidence_W[commit_W] = confidence_W[commit_W]
        self._step_W[commit_W] = self.forwards
        self._steps_in_block += 1

    def _close_block(self) -> None:
        before = len(self.tokens)
        for w in range(min(self._end() + 1, self.size)):
            if not self.accept(int(self._index_W[w]), float(self._confidence_W[w]), int(self._step_W[w])):
                return
        self.pending = self.tokens[before:]
        self._open_block()


class FullDecoder(BlockDecoder[S]):
    """The expected text and its end as one block, rounded up to whole blocks; goes on block-wise if the text is longer.

    For the ablation only. Raises ModelError where the model's windows are shorter than that.
    """

    def _size(self) -> int:
        size = -(-(self.seq.expected + 1) // self.config.block) * self.config.block
        if size > self.spec.max_window:
            raise ModelError(
                f"mode full needs a window of {size} tokens and the model's longest is {self.spec.max_window}"
            )
        return size

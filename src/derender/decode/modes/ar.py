"""Mode `ar`: one token a forward from the next-token head. The baseline: same weights, runtime, cache and batching."""

from __future__ import annotations

from derender.decode.modes.base import SequenceDecoder
from derender.decode.protocol import RowLogits, Rows, S


class ArDecoder(SequenceDecoder[S]):
    """One commit row, no window."""

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        return Rows(self.seq, commit=self.pending, want_next=True)

    def _digest(self, logits: RowLogits) -> None:
        self.cached += 1
        reading = self.read(logits.next_CK, 1)
        if self.accept(int(reading.index_R[0]), float(reading.confidence_R[0])):
            self.pending = [self.tokens[-1]]

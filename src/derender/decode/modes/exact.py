"""Mode `exact` (ours): diffusion drafts, the next-token head of the next forward verifies. The text is that of `ar`.

A forward carries the known pending token, the draft behind it as tentative commit rows, and a window of masks behind
the draft. Row by row the next-token head says what it would have written: the agreeing prefix of the draft is kept, and
the head's own token at the first disagreement (or behind the whole draft) is free. Rejected rows are cut from the
cache. The window gives the next draft. Drafts only decide speed: every token is the next-token head's greedy choice
given the text before it, which is what `ar` writes (up to near-ties, where a kernel rounds differently with more rows).

Shapes: C commit rows, W window rows, K candidate tokens.
"""

from __future__ import annotations

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.modes.base import SequenceDecoder
from derender.decode.protocol import RowLogits, Rows, RuntimeSpec, S


class ExactDecoder(SequenceDecoder[S]):
    def __init__(self, seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> None:
        super().__init__(seq, spec, config, rng)
        self._draft: list[int] = []  # candidate columns behind `pending`, end-of-text never among them
        self._draft_ends = False  # the draft says that end-of-text follows it
        self._window_rows = 0

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        most = self.window_size(window_limit)
        if len(self._draft) > most:
            self._draft, self._draft_ends = self._draft[:most], False
        size = self.window_size(window_limit, ahead=len(self._draft))
        # No window where the draft already reaches the end: its rows would almost always be thrown away.
        self._window_rows = 0 if self._draft_ends else size
        commit = self.pending + [int(self.seq.candidates_K[k]) for k in self._draft]
        return Rows(self.seq, commit=commit, window=[self.spec.mask_id] * self._window_rows, want_next=True)

    def _digest(self, logits: RowLogits) -> None:
        known, draft = len(self.pending), self._draft
        reading = self.read(logits.next_CK, known + len(draft))
        agreed = 0
        while True:
            row = known - 1 + agreed
            index_k = int(reading.index_R[row])
            if not self.accept(index_k, float(reading.confidence_R[row])):
                return
            if agreed == len(draft) or index_k != draft[agreed]:
                break
            agreed += 1
        # Rows of the pending token and the agreeing draft are text; the head's own token is pending.
        self.cached += known + agreed
        self.pending = [self.tokens[-1]]
        self._next_draft(logits, draft[agreed:])

    def _next_draft(self, logits: RowLogits, rejected: list[int]) -> None:
        """The window's confident run, behind the token just written.

        Everything agreed: the window's first row stands where the head's token is, so the draft starts at its second.
        Rejected: if the wrong token was merely replaced, what followed it, and the window behind that, still stand.
        """
        ended, self._draft, self._draft_ends = self._draft_ends, [], False
        if rejected and not self.config.reuse_draft:
            return
        columns = rejected[1:]
        if self._window_rows:
            window = self.read(logits.window_WK, self._window_rows)
            skip = 0 if rejected else 1
            if skip and not self.config.reuse_draft and self._token(window.index_R[0]) != self.tokens[-1]:
                return
            for w in range(skip, self._window_rows):
                if window.confidence_R[w] <= np.float32(self.config.draft_threshold):
                    break
                if int(window.index_R[w]) == self.eos_k:
                    self._draft_ends = True
                    break
                columns.append(int(window.index_R[w]))
        else:
            self._draft_ends = ended and bool(rejected)
        self._draft = columns

    def _token(self, index_k: np.intp) -> int:
        return int(self.seq.candidates_K[index_k])


class ReadingDecoder(ExactDecoder[S]):
    """Drafts from the sequence's cheap reading instead of a window: one row a token, nothing is computed twice, so it
    pays in saturated batches too. The text is still that of `ar`."""

    def __init__(self, seq: S, spec: RuntimeSpec, config: DecodeConfig, rng: np.random.Generator) -> None:
        super().__init__(seq, spec, config, rng)
        self._columns = {int(token): k for k, token in enumerate(seq.candidates_K)}

    def rows(self, window_limit: int | None = None) -> Rows[S]:
        self._draft = []
        for token in self.seq.ahead(self.pending, self.window_size(window_limit)):
            column = self._columns.get(token)
            if column is None or column == self.eos_k:
                break
            self._draft.append(column)
        commit = self.pending + [int(self.seq.candidates_K[k]) for k in self._draft]
        return Rows(self.seq, commit=commit, window=(), want_next=True)

    def _next_draft(self, logits: RowLogits, rejected: list[int]) -> None:
        """The next draft is read off anew from where the text then stands."""

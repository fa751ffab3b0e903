"""Logits that stay on the device: the choice of each row is made there, and only it travels.

A row has 150,000 candidates; copying them all for every step would cost more than the step. Implements
decode.protocol.LogitRows. The mask, and ids without a token, are no candidates; confidence is still the chosen token's
probability among *all* ids, so a row where the model would rather keep the mask is a doubtful one. Where the mask is
the best of every row asked for, the block cannot be filled, and that is an error.

Legend: N rows of all sequences, W rows of one window, V vocabulary, K candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from derender.decode.sampling import Reading
from derender.errors import ModelError

CHUNK = 128  # rows whose logits exist at once: 80 MB in float32


class Candidates:
    """The ids that text may hold, on the host and as a mask on the device. known: ids that have a token; None: all."""

    def __init__(self, vocabulary: int, known: Sequence[int] | None, mask_id: int, device: torch.device) -> None:
        self.mask_id = mask_id
        ids = np.arange(vocabulary, dtype=np.int64) if known is None else np.unique(np.asarray(known, np.int64))
        self.ids_K: npt.NDArray[np.int64] = ids[(ids != mask_id) & (ids < vocabulary)]
        forbidden = torch.ones(vocabulary, dtype=torch.bool)
        forbidden[torch.from_numpy(self.ids_K)] = False
        self.forbidden_V = forbidden.to(device)

    def column(self, id_N: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Columns of candidate ids."""
        return np.searchsorted(self.ids_K, id_N)


class Head:
    """The output product and the choice for all rows of a forward, in chunks."""

    def __init__(self, lm_head: nn.Linear, hidden_ND: Tensor, candidates: Candidates) -> None:
        self.lm_head, self.hidden_ND, self.candidates = lm_head, hidden_ND, candidates
        index, confidence, stuck = [], [], []
        for part in hidden_ND.split(CHUNK):
            logits = lm_head(part).float()
            total = logits.logsumexp(-1)
            stuck.append(logits.argmax(-1) == candidates.mask_id)
            best, at = logits.masked_fill_(candidates.forbidden_V, -torch.inf).max(-1)
            index.append(at)
            confidence.append((best - total).exp())
        empty = hidden_ND.new_zeros(0)
        self.index_N = candidates.column(_cat(index, empty.long()).cpu().numpy())
        self.confidence_N = _cat(confidence, empty.float()).cpu().numpy()
        self.stuck_N = _cat(stuck, empty.bool()).cpu().numpy()

    def logits(self, at: npt.NDArray[np.intp]) -> Tensor:
        """(rows, V) float32 on the device, computed anew: they are too large to keep."""
        rows = torch.from_numpy(at.astype(np.int64)).to(self.hidden_ND.device)
        return self.lm_head(self.hidden_ND[rows]).float()


def _cat(parts: list[Tensor], empty: Tensor) -> Tensor:
    return torch.cat(parts) if parts else empty


@dataclass(frozen=True)
class DeviceLogits:
    """Rows of one window. at_W: each row's place in the head, -1 where its logits were not asked for."""

    head: Head
    at_W: npt.NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.at_W), len(self.head.candidates.ids_K))

    def __len__(self) -> int:
        return len(self.at_W)

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> DeviceLogits:
        return DeviceLogits(self.head, self.at_W[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        self._check()
        columns = torch.from_numpy(self.head.candidates.ids_K)
        return self.head.logits(self.at_W).cpu()[:, columns].numpy()

    def greedy(self, *, entropy: bool = False) -> Reading:
        """The best candidate of each row, and its probability. Raises ModelError for what is no number, and where no
        row has anything but the mask to say."""
        self._check()
        found = None
        if entropy and len(self):
            logp = self.head.logits(self.at_W).log_softmax(-1)
            found = -(logp.exp() * logp).nan_to_num().sum(-1).cpu().numpy()
        elif entropy:
            found = np.zeros(0, np.float32)
        return Reading(self.head.index_N[self.at_W], self.head.confidence_N[self.at_W], found)

    def _check(self) -> None:
        if not len(self):
            return
        if (self.at_W < 0).any():
            raise ModelError("logits were read that had not been asked for")
        if not np.isfinite(self.head.confidence_N[self.at_W]).all():
            raise ModelError("the model gave logits that are not numbers, so nothing can be decoded from them")
        if self.head.stuck_N[self.at_W].all():
            raise ModelError(
                f"a block cannot be filled: at all of its {len(self)} open places the model's best token is the mask"
            )


@dataclass(frozen=True)
class Unread:
    """Rows that were not computed: reading them raises the error that says why."""

    shape: tuple[int, ...]
    error: ModelError

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> Unread:
        return Unread((len(rows), self.shape[1]), self.error)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        raise self.error

    def greedy(self, *, entropy: bool = False) -> Reading:
        raise self.error

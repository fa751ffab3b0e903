"""The only thing the engine knows of a network: prefill sequences, forward rows, get logits.

A *sequence* is one request in decoding. Its cache holds, in order: the prefix (visual tokens and prompt), then the
committed tokens. A forward gets, for each sequence taking part, some *commit rows* followed by some *window rows*:

- commit rows are tokens appended to the cache by this very forward. They attend to the cache and, causally, to one
  another (`spec.commit_attention == "causal"`) or to one another in both directions ("block"). Each gives next-token
  logits: row i predicts the token that follows it (only meaningful for causal commits).
- window rows are the tokens being denoised, with mask ids where nothing is committed yet. They attend to the cache, the
  commit rows, and one another in both directions, and are not cached. Each gives logits for its *own* position.

Every sequence starts with one pending token, `spec.bos_id`, which the engine passes as its first commit row.
Positions, drafts and alignment are the runtime's business: it derives them from the committed tokens alone, so that
the same tokens give the same logits however they were decoded.

Shapes: C commit rows, W window rows, K candidate tokens of the sequence (a subset of the vocabulary).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from derender.decode.sampling import Reading


@dataclass(frozen=True)
class RuntimeSpec:
    """Facts about the model that the engine needs. valid_modes: which decode modes its training supports. reading: its
    sequences have an `ahead`, see Seq. also_end: further tokens that end a text as eos_id does, all candidates."""

    bos_id: int
    eos_id: int
    mask_id: int
    block: int
    max_window: int
    commit_attention: Literal["causal", "block"] = "causal"
    valid_modes: tuple[str, ...] = ("ar", "block", "sliding", "exact")
    name: str = ""
    reading: bool = False
    also_end: tuple[int, ...] = ()


class Seq(Protocol):
    """One sequence in decoding, made by `Runtime.prefill`.

    candidates_K: token ids that logits refer to (column k of a logits array is token candidates_K[k]); always holds
    eos_id, never mask_id. expected: rough guess of how many tokens the text has, for length guards (0 = unknown).
    length: number of committed tokens in the cache, bos included, prefix excluded.
    """

    candidates_K: npt.NDArray[np.int64]
    expected: int

    @property
    def length(self) -> int: ...

    def ahead(self, pending: Sequence[int], count: int) -> list[int]:
        """At most `count` tokens that a cheap reading (compact: CTC) expects after the committed tokens and `pending`;
        empty where there is none. Must depend on these tokens only. Needed where spec.reading is set."""
        ...


S = TypeVar("S", bound=Seq)
P_contra = TypeVar("P_contra", contravariant=True)


@dataclass
class Rows(Generic[S]):
    """One sequence's part of a forward. want_next asks for next-token logits of the commit rows.

    window_need: for each window row, whether its logits are needed (masked rows); None = all.
    """

    seq: S
    commit: Sequence[int] = ()
    window: Sequence[int] = ()
    want_next: bool = False
    window_need: Sequence[bool] | None = None


class LogitRows(Protocol):
    """Logits that stay on the device they were computed on: with 150,000 candidates a row, only the choice should
    travel. `greedy` is sampling.greedy done there; `__array__` brings all of them over, for sampling.

    shape: (rows, K). `greedy` raises ModelError where the model can choose nothing.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> LogitRows: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]: ...

    def greedy(self, *, entropy: bool = False) -> Reading: ...


Logits = npt.NDArray[np.float32] | LogitRows


@dataclass
class RowLogits:
    """next_CK: (C, K) float32 or None; window_WK: (W, K) float32 or None. Rows not needed may hold anything."""

    next_CK: Logits | None
    window_WK: Logits | None


class Runtime(Protocol[P_contra, S]):
    """P is what a request is prefilled from (model specific), S the sequence type."""

    spec: RuntimeSpec

    def prefill(self, prefixes: Sequence[P_contra]) -> list[S]:
        """Puts each prefix into a cache of its own and returns the sequences, in order."""
        ...

    def forward(self, rows: Sequence[Rows[S]]) -> list[RowLogits]:
        """Runs all rows in one batch, appends the commit rows to the caches, returns logits in order."""
        ...

    def truncate(self, seq: S, length: int) -> None:
        """Forgets the committed tokens after the first `length` (verification rejected them)."""
        ...

    def release(self, seq: S) -> None:
        """Frees the cache. The sequence must not be used again."""
        ...

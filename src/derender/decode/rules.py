"""Commit rules: which masked positions of a window become final after a forward. Pure functions of numbers.

Each rule takes the float32 confidence of every position and which positions are still masked, and says which to commit:
always at least one, never one that is not masked. Ties go to the leftmost position, so the same numbers give the same
text everywhere. Does not choose tokens (sampling.py) and knows nothing of sequences.

Shapes: W window positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from derender.errors import UsageError

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
RuleName = Literal["threshold", "schedule", "factor", "entropy", "hierarchy"]
Curve = Literal["cosine", "linear"]
MAX_STEPS = 1024


def _by_confidence(confidence_W: Floats, masked_W: Bools) -> npt.NDArray[np.intp]:
    """Masked positions, most confident first, leftmost first among equals."""
    masked = np.flatnonzero(masked_W)
    if not masked.size:
        raise ValueError("a commit rule needs at least one masked position")
    return cast("npt.NDArray[np.intp]", masked[np.argsort(-confidence_W[masked], kind="stable")])


def _only(positions: npt.NDArray[np.intp], width: int) -> Bools:
    commit_W = np.zeros(width, dtype=np.bool_)
    commit_W[positions] = True
    return commit_W


def commit_threshold(confidence_W: Floats, masked_W: Bools, tau: float) -> Bools:
    """Every masked position whose confidence is above tau; else the most confident one.

    Source: the dynamic low-confidence remasking of SDAR (arXiv 2510.06303) and MinerU-Diffusion (arXiv 2603.22458),
    called threshold decoding in Fast-dLLM (arXiv 2505.22618).
    """
    best = _by_confidence(confidence_W, masked_W)[0]
    commit_W = masked_W & (confidence_W > np.float32(tau))
    commit_W[best] = True
    return commit_W


@lru_cache(maxsize=256)
def schedule_counts(block: int, steps: int, curve: Curve = "cosine") -> tuple[int, ...]:
    """How many positions to commit at each step, so that the counts sum to `block` and none is 0.

    cosine: after step t of T, floor(block · cos(πt / 2T)) positions are still masked (MaskGIT, arXiv 2202.04200,
    equation of its section 3.3); linear: equal shares (LLaDA, arXiv 2502.09992). More steps than positions would leave
    steps with nothing to do, so T is at most `block`.
    """
    if block < 1 or steps < 1:
        raise ValueError("a schedule needs at least one position and one step")
    steps = min(steps, block)
    counts, left = [], block
    for t in range(1, steps + 1):
        ratio = math.cos(math.pi / 2 * t / steps) if curve == "cosine" else 1 - t / steps
        # One at least now, and one at least for each step still to come; the last step takes what is left.
        still = 0 if t == steps else max(min(math.floor(block * ratio + 1e-9), left - 1), steps - t)
        counts.append(left - still)
        left = still
    return tuple(counts)


def commit_schedule(confidence_W: Floats, masked_W: Bools, count: int) -> Bools:
    """The `count` (at least 1) most confident masked positions.

    Source: MaskGIT (arXiv 2202.04200); `count` comes from `schedule_counts`.
    """
    return _only(_by_confidence(confidence_W, masked_W)[: max(1, count)], len(masked_W))


def commit_factor(confidence_W: Floats, masked_W: Bools, factor: float) -> Bools:
    """The n most confident, n as large as c_n >= 1 - factor / (n + 1) allows (c_n: the n-th highest confidence).

    Source: factor-based parallel decoding of Fast-dLLM (arXiv 2505.22618), whose theorem bounds the error of
    committing n tokens at once by (n + 1)(1 - c_n).
    """
    order = _by_confidence(confidence_W, masked_W)
    n = np.arange(1, len(order) + 1, dtype=np.float32)
    # The bound rises with n while c_n falls: it holds for a first stretch and for nothing after.
    good = confidence_W[order] >= np.float32(1) - np.float32(factor) / (n + 1)
    return _only(order[: max(1, int(np.count_nonzero(np.logical_and.accumulate(good))))], len(masked_W))


def commit_entropy(confidence_W: Floats, masked_W: Bools, entropy_W: Floats, bound: float) -> Bools:
    """The largest set of lowest-entropy positions with (sum of entropies - largest entropy) <= bound, in nats.

    Source: EB-Sampler (arXiv 2505.24857): the sum less the maximum bounds the mutual information lost by sampling the
    set independently. Confidence plays no part: with a sampled token it is not a property of the position.
    """
    order = _by_confidence(-entropy_W, masked_W)
    entropy = np.maximum(entropy_W[order], np.float32(0))
    # Sorted upwards, so the maximum of the first n is the n-th: the bound is on the sum of those before it.
    lost = np.concatenate([np.zeros(1, np.float32), np.cumsum(entropy[:-1], dtype=np.float32)])
    return _only(order[: max(1, int(np.count_nonzero(lost <= np.float32(bound))))], len(masked_W))


def commit_hierarchy(confidence_W: Floats, masked_W: Bools, tau: float) -> Bools:
    """`commit_threshold`, plus the most confident position of every run of masked positions.

    Source: hierarchical decoding of dInfer (arXiv 2510.08666): commits far apart depend little on one another, and each
    one splits its run in two. (dInfer picks inside halves of a run; we take the run's best.)
    """
    commit_W = commit_threshold(confidence_W, masked_W, tau)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], masked_W, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        commit_W[start + int(np.argmax(confidence_W[start:stop]))] = True
    return commit_W


@dataclass(frozen=True)
class CommitRule:
    """A rule with its number: `threshold:0.95`, `schedule:cosine:8`, `factor:1.0`, `entropy:0.5`, `hierarchy:0.9`.

    value: τ (probability, 0-1), f (> 0) or the entropy bound (nats, >= 0). steps, curve: of `schedule` only.
    Raises UsageError on nonsense.
    """

    name: RuleName
    value: float = 0.0
    steps: int = 0
    curve: Curve = "cosine"

    def __post_init__(self) -> None:
        if self.name not in get_args(RuleName):
            raise UsageError(f"unknown commit rule {self.name!r}: use one of {', '.join(get_args(RuleName))}")
        if not math.isfinite(self.value):
            raise UsageError(f"commit rule {self.name}: {self.value} is not a finite number")
        if self.name in ("threshold", "hierarchy") and not 0 <= self.value <= 1:
            raise UsageError(f"commit rule {self.name}: the probability {self.value:g} is not between 0 and 1")
        if self.name == "factor" and self.value <= 0:
            raise UsageError(f"commit rule factor: {self.value:g} is not above 0")
        if self.name == "entropy" and self.value < 0:
            raise UsageError(f"commit rule entropy: {self.value:g} is below 0")
        if self.name == "schedule":
            if self.curve not in get_args(Curve):
                raise UsageError(f"commit rule schedule: unknown curve {self.curve!r}, use cosine or linear")
            if not 1 <= self.steps <= MAX_STEPS:
                raise UsageError(f"commit rule schedule: {self.steps} steps is not between 1 and {MAX_STEPS}")

    @classmethod
    def parse(cls, text: str) -> CommitRule:
        """Reads the written form. Raises UsageError."""
        name, *rest = text.strip().split(":")
        try:
            if name == "schedule":
                curve, steps = rest
                return cls("schedule", steps=int(steps), curve=cast(Curve, curve))
            (value,) = rest
            return cls(cast(RuleName, name), value=float(value))
        except ValueError as error:
            raise UsageError(
                f"cannot read the commit rule {text!r}: write it like threshold:0.95, schedule:cosine:8, factor:1.0, "
                "entropy:0.5 or hierarchy:0.9"
            ) from error

    def __str__(self) -> str:
        if self.name == "schedule":
            return f"schedule:{self.curve}:{self.steps}"
        return f"{self.name}:{self.value:g}"

    @property
    def needs_entropy(self) -> bool:
        return self.name == "entropy"

    def select(
        self, confidence_W: Floats, masked_W: Bools, entropy_W: Floats | None = None, *, step: int = 0, block: int = 0
    ) -> Bools:
        """Which positions to commit. step (from 0) and block: place in a block's schedule and the block's size."""
        if self.name == "threshold":
            return commit_threshold(confidence_W, masked_W, self.value)
        if self.name == "hierarchy":
            return commit_hierarchy(confidence_W, masked_W, self.value)
        if self.name == "factor":
            return commit_factor(confidence_W, masked_W, self.value)
        if self.name == "entropy":
            if entropy_W is None:
                raise ValueError("the entropy rule needs entropies")
            return commit_entropy(confidence_W, masked_W, entropy_W, self.value)
        counts = schedule_counts(block or len(masked_W), self.steps, self.curve)
        # Past the schedule's end (positions right of an early end-of-text can shift it) the rest goes at once.
        return commit_schedule(confidence_W, masked_W, counts[step] if step < len(counts) else len(masked_W))

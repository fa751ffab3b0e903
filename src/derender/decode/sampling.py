"""From logits to one token per row with its confidence: the greedy choice, or paper mode (seeded sampling).

Everything is float32 with a softmax shifted by the row's maximum. Does not decide which rows are committed (rules.py).

Shapes: R rows (window or commit rows), K candidate tokens of the sequence; index k is a column, not a token id.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.errors import ModelError

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Reading:
    """index_R: the chosen column of each row; confidence_R: its probability; entropy_R: nats, or None if not asked."""

    index_R: npt.NDArray[np.intp]
    confidence_R: Floats
    entropy_R: Floats | None


def _shifted(logits_RK: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.intp], Floats]:
    """The first highest column of each row, and the logits less it, so that exp cannot overflow."""
    logits = np.asarray(logits_RK, dtype=np.float32)
    index_R = logits.argmax(axis=1)  # the first NaN, where there is one
    top_R = logits[np.arange(len(index_R)), index_R]
    if not np.isfinite(top_R).all():
        raise ModelError("the model gave logits that are not numbers, so nothing can be decoded from them")
    return index_R, logits - top_R[:, None]


def _entropy(shifted_RK: Floats, exp_RK: Floats, total_R: Floats) -> Floats:
    # H = log Z - Σ e·s / Z; a logit of -inf has e = 0 and counts for nothing.
    finite = np.where(exp_RK > 0, shifted_RK, np.float32(0))
    entropy: Floats = np.log(total_R) - (exp_RK * finite).sum(axis=1, dtype=np.float32) / total_R
    return np.maximum(entropy, np.float32(0))


def greedy(logits_RK: npt.NDArray[np.floating], *, entropy: bool = False) -> Reading:
    """The most probable column of each row (the first among equals) and its probability. Raises ModelError on NaN."""
    index_R, shifted = _shifted(logits_RK)
    exp = np.exp(shifted) if entropy else np.exp(shifted, out=shifted)  # this is the engine's hottest line
    total = exp.sum(axis=1)
    return Reading(index_R, np.float32(1) / total, _entropy(shifted, exp, total) if entropy else None)


def sample(
    logits_RK: npt.NDArray[np.floating],
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    entropy: bool = False,
) -> Reading:
    """Draws one column per row; the confidence is the drawn column's probability in the distribution drawn from.

    Temperature first, then top-k (0 = all), then top-p (the smallest set of at least that mass), as the samplers of
    SDAR and MinerU-Diffusion do; their confidence is the sampled token's probability too. Takes R draws from `rng`.
    """
    shifted = _shifted(logits_RK)[1] / np.float32(temperature)
    exp = np.exp(shifted)
    entropy_R = _entropy(shifted, exp, exp.sum(axis=1, dtype=np.float32)) if entropy else None
    order = np.argsort(-shifted, axis=1, kind="stable")
    prob = np.take_along_axis(exp, order, axis=1)
    if top_k:
        prob[:, top_k:] = 0
    prob /= prob.sum(axis=1, keepdims=True, dtype=np.float32)
    if top_p < 1:
        before = np.cumsum(prob, axis=1) - prob
        prob[before >= np.float32(top_p)] = 0
        prob /= prob.sum(axis=1, keepdims=True, dtype=np.float32)
    # Inverse of the cumulative sum, in float64 so that rounding cannot draw a column of probability 0.
    heap = np.cumsum(prob, axis=1, dtype=np.float64)
    drawn = (heap <= rng.random((len(prob), 1)) * heap[:, -1:]).sum(axis=1, keepdims=True)
    index = np.take_along_axis(order, drawn, axis=1)[:, 0]
    return Reading(index, np.take_along_axis(prob, drawn, axis=1)[:, 0], entropy_R)


def request_rng(seed: int, request_id: object) -> np.random.Generator:
    """A generator of the request's own: its draws depend on seed and id, not on its neighbours in a batch."""
    digest = hashlib.blake2b(str(request_id).encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])

"""The path through a formula's pieces: from the encoder's opinions on each piece to a reading of the whole.

Greedy: from the start to the likeliest next piece not yet read, until the end; pieces left over are then put where they
cost least. What is read is a draft for the decoder, with a probability for each token, and a place in it for each
piece. Knows no network.

Legend: N pieces; index 0 of N + 1 entries is the start and, as a successor, the end; V tokens; D drafted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FormulaReading:
    """draft_D, prob_D: formula tokens and how sure each is; position_N: the draft index at which each piece stands."""

    draft_D: I64
    prob_D: F32
    position_N: F32


def walk(symbol_NV: F32, next_MM: F32) -> tuple[list[int], list[float]]:
    """The entries (1..N) in reading order, and the probability of each step, the last one to the end.

    symbol_NV: logits of the entries from 1 on; next_MM: logits of successors, M = N + 1. Pieces whose likeliest symbol
    is 0 are nothing of their own and stay out; all others are in.
    """
    real = [0, *(np.flatnonzero(symbol_NV.argmax(1) != 0) + 1)] if len(symbol_NV) else [0]
    logits = np.full_like(next_MM, -1e9)
    logits[:, real] = next_MM[:, real]
    log_MM = np.log(_softmax(logits) + 1e-12)
    path: list[int] = []
    left = set(real[1:])
    at = 0
    while left:
        at = max([0, *sorted(left)], key=lambda j: log_MM[at, j])
        if at == 0:
            break
        path.append(at)
        left.discard(at)
    while left:
        _insert(path, left, log_MM)
    stops = [0, *path, 0]
    return path, [float(np.exp(log_MM[a, b])) for a, b in zip(stops, stops[1:], strict=False)]


def _insert(path: list[int], left: set[int], log_MM: F32) -> None:
    """Puts the piece that fits best between two neighbours of the path there."""
    stops = np.asarray([0, *path, 0])
    a, b, x = stops[:-1, None], stops[1:, None], np.asarray(sorted(left))[None]
    gain_KX = log_MM[a, x] + log_MM[x, b] - log_MM[a, b]
    k, n = np.unravel_index(int(gain_KX.argmax()), gain_KX.shape)
    piece = int(x[0, n])
    path.insert(int(k), piece)
    left.discard(piece)


def read_path(
    symbol_NV: F32,
    next_MM: F32,
    gap_logits: Callable[[list[int]], F32],
    gaps: Sequence[Sequence[int]],
    box_N4: F32,
) -> FormulaReading:
    """The reading. gap_logits: from the stops 0, path.., 0 to (steps, G) logits of the gaps before each stop but the
    first; gaps: the tokens of each class."""
    path, sure = walk(symbol_NV, next_MM)
    gap_KG = _softmax(gap_logits([0, *path, 0]))
    draft: list[int] = []
    prob: list[float] = []
    position = np.full(len(symbol_NV), -1.0, np.float32)
    for k, entry in enumerate([*path, 0]):
        gap = int(gap_KG[k].argmax())
        draft += gaps[gap]
        prob += [sure[k] * float(gap_KG[k, gap])] * len(gaps[gap])
        if entry:
            symbol = _softmax(symbol_NV[entry - 1])
            position[entry - 1] = len(draft)
            draft.append(int(symbol.argmax()))
            prob.append(sure[k] * float(symbol.max()))
    _place_others(position, box_N4)
    return FormulaReading(np.asarray(draft, np.int64), np.asarray(prob, np.float32), position)


def _place_others(position_N: F32, box_N4: F32) -> None:
    """Pieces that are nothing of their own stand where the nearest piece stands that is something."""
    known, others = np.flatnonzero(position_N >= 0), np.flatnonzero(position_N < 0)
    if not len(known):
        position_N[others] = 0.0
        return
    middle = (box_N4[:, :2] + box_N4[:, 2:]) / 2
    far = np.abs(middle[others, None] - middle[None, known]).sum(-1)
    position_N[others] = position_N[known[far.argmin(1)]] if len(others) else 0.0


def _softmax(x: F32) -> F32:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True), np.float32)

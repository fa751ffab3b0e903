"""What the decoder is prefilled with for a text region: line tokens, merged columns, the draft.

Turns the tower's readings of a region's lines into flat arrays, the same for training and for both runtimes. Columns
are merged in pairs (the 2x patch merger of MinerU-Diffusion, in one dimension) and placed by *character count*: the
index, in the region's draft, of the character that CTC reads there, half a step more between characters. Does not
embed anything.

Shapes: P prefix entries (a line token, then the line's merged columns, line after line), F = 2 x 120 features,
G = 6 geometry values, D drafted characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.model.tokens import Vocab
from derender.model.tower import FEATURES, LineReading

MERGED = 2 * FEATURES
GEOMETRY = 6


@dataclass(frozen=True)
class RegionPrefix:
    """feature_PF: merged columns, zero for line tokens. geometry_PG: line geometry, zero for columns. line_P: whether
    an entry is a line token. position_P: character-count positions. draft_D, prob_D: the draft and its probabilities
    (a space joins two lines). alternatives: other classes the tower considered, for the candidate list."""

    feature_PF: npt.NDArray[np.float32]
    geometry_PG: npt.NDArray[np.float32]
    line_P: npt.NDArray[np.bool_]
    position_P: npt.NDArray[np.float32]
    draft_D: npt.NDArray[np.int64]
    prob_D: npt.NDArray[np.float32]
    alternatives: npt.NDArray[np.int64]


def column_positions(class_T: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Index of the character that CTC reads at each column; blanks stand half a step after the last character."""
    changed = np.empty(len(class_T), bool)
    if len(class_T):
        changed[0] = True
        changed[1:] = class_T[1:] != class_T[:-1]
    emits = changed & (class_T != 0)
    index = np.cumsum(emits) - 1
    return (index + np.where(class_T == 0, 0.5, 0.0)).astype(np.float32)


def merge_columns(
    columns_TF: npt.NDArray[np.float32], position_T: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Neighbouring columns side by side, (ceil(T/2), 240), and their mean positions; an odd last one is paired with
    zeros."""
    t = len(columns_TF)
    if t % 2:
        columns_TF = np.concatenate([columns_TF, np.zeros((1, columns_TF.shape[1]), columns_TF.dtype)])
        position_T = np.concatenate([position_T, position_T[-1:]])
    return columns_TF.reshape(-1, 2 * columns_TF.shape[1]), position_T.reshape(-1, 2).mean(1)


def line_geometry(boxes: Sequence[tuple[float, float, float, float]]) -> npt.NDArray[np.float32]:
    """(n, 6): where each line stands in its region, in units of the median line height, clipped to +-20: left inset,
    right gap, height ratio, gap to the line before, gap to the line after, width. The decoder sees it as line tokens
    and can tell a line that ended early from one that ran on."""
    b = np.asarray(boxes, np.float32).reshape(-1, 4)
    h = max(float(np.median(b[:, 3] - b[:, 1])), 1e-3)
    x0, x1 = b[:, 0].min(), b[:, 2].max()
    before = np.concatenate([[20 * h], b[1:, 1] - b[:-1, 3]])
    after = np.concatenate([b[1:, 1] - b[:-1, 3], [20 * h]])
    g = np.stack([b[:, 0] - x0, x1 - b[:, 2], b[:, 3] - b[:, 1], before, after, (b[:, 2] - b[:, 0]) / 4], 1) / h
    return np.clip(g, -20, 20).astype(np.float32)


def draft_at(
    prefix: RegionPrefix, index: npt.NDArray[np.int64], eos_id: int, use_draft: bool = True
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Drafted characters and their probabilities at draft indices: eos beyond the end, nothing (0) before the start or
    without a draft."""
    n = len(prefix.draft_D)
    if not use_draft:
        return np.zeros(len(index), np.int64), np.zeros(len(index), np.float32)
    inside = (index >= 0) & (index < n)
    safe = np.clip(index, 0, max(n - 1, 0))
    chars = np.where(inside, prefix.draft_D[safe], eos_id) if n else np.full(len(index), eos_id, np.int64)
    probs = np.where(inside, prefix.prob_D[safe], 0.0) if n else np.zeros(len(index))
    return np.where(index < 0, 0, chars).astype(np.int64), probs.astype(np.float32)


def build_prefix(lines: Sequence[LineReading], geometry_LG: npt.NDArray[np.float32], vocab: Vocab) -> RegionPrefix:
    """The prefix of a region. lines: readings in reading order; geometry_LG: of line_geometry."""
    features, geometries, is_line, positions = [], [], [], []
    draft: list[npt.NDArray[np.int64]] = []
    prob: list[npt.NDArray[np.float32]] = []
    base = 0
    for i, line in enumerate(lines):
        if i:
            draft.append(np.array([vocab.space_id], np.int64))
            prob.append(np.array([0.5], np.float32))
            base += 1
        merged_f, merged_p = merge_columns(line.columns_TF, column_positions(line.class_T) + base)
        n = len(merged_f)
        features += [np.zeros((1, MERGED), np.float32), merged_f]
        geometries += [geometry_LG[i : i + 1], np.zeros((n, GEOMETRY), np.float32)]
        is_line += [np.ones(1, bool), np.zeros(n, bool)]
        positions += [np.array([base - 0.5], np.float32), merged_p]
        draft.append(line.draft_M)
        prob.append(line.prob_M)
        base += len(line.draft_M)
    alternatives = np.unique(np.concatenate([line.top_MK.reshape(-1) for line in lines])) if lines else np.zeros(0)
    return RegionPrefix(
        np.concatenate(features).astype(np.float32) if features else np.zeros((0, MERGED), np.float32),
        np.concatenate(geometries).astype(np.float32) if geometries else np.zeros((0, GEOMETRY), np.float32),
        np.concatenate(is_line) if is_line else np.zeros(0, bool),
        np.concatenate(positions).astype(np.float32) if positions else np.zeros(0, np.float32),
        np.concatenate(draft) if draft else np.zeros(0, np.int64),
        np.concatenate(prob).astype(np.float32) if prob else np.zeros(0, np.float32),
        alternatives[alternatives != 0].astype(np.int64),
    )

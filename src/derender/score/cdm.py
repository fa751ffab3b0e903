"""CDM, character detection matching: formulas compared as they look (Wang et al., arXiv 2409.03643).

Both formulas are typeset with every token in a colour of its own (cdm_boxes.py), and tokens are matched:
1. one to one, at the least total cost: token (0 when equal, else 1) + 0.05 x position (mean difference of the boxes'
   four edges, as shares of the formula's size) + 0.15 x order (difference of the places in the source, as shares);
2. a pair counts if its tokens are equal and it moved with others: up to five times the translation and scale is taken
   that most of the pairs not yet accepted agree with, to within 7.2 points (20 pixels at 200 dpi).
CDM = 2 x pairs that count / (tokens of both), 0 when the prediction cannot be rendered.

Weights, threshold and rounds are those of the authors' program. The threshold is coarse: a subscript in place of a
superscript lies within it, which is why token edits are always given beside CDM. Different here: tokens are in the
canonical spelling (so \\le and \\leq are equal rather than nearly so, and \\log is one token), transformations are
tried exhaustively in place of at random, and boxes come from the PDF in place of a raster. Values are close to, not
those of, that program's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from derender.errors import MissingExtraError
from derender.score.cdm_boxes import Drawn, draw_formulas

POSITION, ORDER = 0.05, 0.15
TOLERANCE = 7.2
ROUNDS = 5
FEW = 2
"""With no more matched pairs than this there is nothing to agree with, and all are taken."""
MOST_TRIALS = 2000


@dataclass(frozen=True)
class Cdm:
    """f1 is CDM. matched: pairs that count; pred_tokens, truth_tokens: visible tokens; 0 of a side that TeX refused."""

    matched: int
    pred_tokens: int
    truth_tokens: int

    @property
    def f1(self) -> float:
        total = self.pred_tokens + self.truth_tokens
        return 2 * self.matched / total if total else 0.0

    @property
    def exact(self) -> bool:
        return self.f1 == 1.0


def cdm(pred: str, truth: str) -> Cdm | None:
    """CDM of one pair, see cdm_all."""
    return cdm_all([(pred, truth)])[0]


def cdm_all(pairs: Sequence[tuple[str, str]]) -> list[Cdm | None]:
    """CDM of (prediction, truth) pairs of LaTeX formulas; None where the truth itself cannot be rendered.

    All formulas go through TeX together, which is far quicker than one by one. Raises MissingExtraError without
    pdflatex or scipy.
    """
    drawn = draw_formulas([f for pair in pairs for f in pair])
    out: list[Cdm | None] = []
    for pred, truth in zip(drawn[::2], drawn[1::2], strict=True):
        if truth is None:
            out.append(None)
        elif pred is None:
            out.append(Cdm(0, 0, len(truth.boxes)))
        else:
            out.append(match(pred, truth))
    return out


def match(pred: Drawn, truth: Drawn) -> Cdm:
    """Matches the tokens of two rendered formulas."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("CDM needs scipy: pip install 'derender[score]'.") from error
    rows, columns = linear_sum_assignment(_costs(truth, pred))
    equal = np.array([truth.boxes[i].token == pred.boxes[j].token for i, j in zip(rows, columns, strict=True)])
    kept = moved_together(_centres(truth)[rows], _centres(pred)[columns])
    return Cdm(int(np.sum(equal & kept)), len(pred.boxes), len(truth.boxes))


def _costs(truth: Drawn, pred: Drawn) -> npt.NDArray[np.float64]:
    """(T, P) costs of matching each true token with each predicted one."""
    token = np.array([[float(t.token != p.token) for p in pred.boxes] for t in truth.boxes])
    edges_t, edges_p = _edges(truth), _edges(pred)
    position = np.abs(edges_t[:, None] - edges_p[None]).mean(axis=2)
    order_t, order_p = (np.arange(len(d.boxes)) / len(d.boxes) for d in (truth, pred))
    return token + POSITION * position + ORDER * np.abs(order_t[:, None] - order_p[None])


def _edges(drawn: Drawn) -> npt.NDArray[np.float64]:
    """(N, 4) boxes as shares of the formula's width and height."""
    return np.array([b.box for b in drawn.boxes]) / np.array([drawn.width, drawn.height] * 2)


def _centres(drawn: Drawn) -> npt.NDArray[np.float64]:
    """(N, 2) centres of the boxes in points."""
    return np.array([((b.box[0] + b.box[2]) / 2, (b.box[1] + b.box[3]) / 2) for b in drawn.boxes])


def moved_together(src: npt.NDArray[np.float64], dst: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """(N,) which of the N matched points (N, 2), in points, follow a translation and scale that others follow too."""
    kept = np.zeros(len(src), bool)
    if len(src) <= FEW:
        return ~kept
    for _ in range(ROUNDS):
        left = np.flatnonzero(~kept)
        if len(left) <= FEW:
            break
        inliers = _largest_consensus(src[left], dst[left])
        if not inliers.any():
            break
        kept[left[inliers]] = True
    return kept


def _largest_consensus(src: npt.NDArray[np.float64], dst: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Points within TOLERANCE of the best of the transformations that two of them give."""
    pairs = np.array(list(combinations(range(len(src)), 2)))
    if len(pairs) > MOST_TRIALS:
        pairs = pairs[np.random.default_rng(0).choice(len(pairs), MOST_TRIALS, replace=False)]
    a, b = pairs[:, 0], pairs[:, 1]
    middle_s, middle_d = (src[a] + src[b]) / 2, (dst[a] + dst[b]) / 2
    before, after = np.linalg.norm(src[a] - src[b], axis=1), np.linalg.norm(dst[a] - dst[b], axis=1)
    scale = after / np.maximum(before, 1e-9)
    predicted = middle_d[:, None] + scale[:, None, None] * (src[None] - middle_s[:, None])  # (pairs, points, 2)
    residual = np.linalg.norm(predicted - dst[None], axis=2)
    inside = residual <= TOLERANCE
    # among equally large ones the closest fit
    quality = inside.sum(axis=1) - np.where(inside, residual, 0.0).sum(axis=1) / (TOLERANCE * (len(src) + 1))
    best: npt.NDArray[np.bool_] = inside[int(np.argmax(quality))]
    return best

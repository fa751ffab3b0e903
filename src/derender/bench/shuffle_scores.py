"""What a reading of a shuffled page is worth, and how sure that is: BLEU, precision, recall, edit, with intervals.

Pages are the units that the bootstrap (Efron 1979) draws: for an interval the pages are drawn again with replacement,
and for a difference of two readers or of two fractions the same pages count on both sides. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.score.metrics import bleu4, ned, word_scores
from derender.score.normalise import page_text

METRICS = ("bleu", "precision", "recall", "edit")
HIGHER_IS_BETTER = {"bleu": True, "precision": True, "recall": True, "edit": False}
DRAWS = 2000


@dataclass(frozen=True)
class PageScore:
    """One page at one fraction by one reader; all values are shares, edit is lower for a better reading."""

    reader: str
    page: str
    fraction: float
    bleu: float
    precision: float
    recall: float
    edit: float


@dataclass(frozen=True)
class Interval:
    """A mean over pages with the ends of its 95% interval."""

    mean: float
    low: float
    high: float


def score_page(reader: str, page: str, fraction: float, pred: str, truth: str) -> PageScore:
    """BLEU-4, precision and recall of words, and normalised edit distance, of both texts by score.normalise.page_text.

    Line breaks count as spaces; a hyphen between letters is not scored.
    """
    p, t = page_text(pred), page_text(truth)
    found = word_scores(p, t)
    return PageScore(reader, page, fraction, bleu4(p, t), found.precision, found.recall, ned(p, t))


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """Mean and 95% percentile interval of the mean. Raises ValueError for no values."""
    if not values:
        raise ValueError("an interval needs at least one value")
    x = np.asarray(values, np.float64)
    means = x[np.random.default_rng(seed).integers(0, len(x), (DRAWS, len(x)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(x.mean()), float(low), float(high))


@dataclass(frozen=True)
class Curve:
    """A reader's interval of one metric at each fraction, and how much worse it gets from the first to the last."""

    reader: str
    metric: str
    points: tuple[tuple[float, Interval], ...]
    loss: Interval


def curves(scores: Sequence[PageScore]) -> list[Curve]:
    """One curve for each reader and metric. loss: paired by page, positive = worse at the last fraction."""
    out = []
    for reader in dict.fromkeys(s.reader for s in scores):
        for metric in METRICS:
            table = by_page(scores, reader, metric)
            fractions = sorted({f for _, f in table})
            points = [(f, interval([v for (_, g), v in sorted(table.items()) if g == f])) for f in fractions]
            out.append(Curve(reader, metric, tuple(points), interval(losses(scores, reader, metric))))
    return out


def by_page(scores: Sequence[PageScore], reader: str, metric: str) -> dict[tuple[str, float], float]:
    """Value of (page, fraction)."""
    return {(s.page, s.fraction): float(getattr(s, metric)) for s in scores if s.reader == reader}


def losses(scores: Sequence[PageScore], reader: str, metric: str) -> list[float]:
    """For each page, in order of names, how much worse the reading is at the last fraction than at the first."""
    table = by_page(scores, reader, metric)
    fractions = sorted({f for _, f in table})
    sign = 1.0 if HIGHER_IS_BETTER[metric] else -1.0
    pages = sorted({page for page, _ in table})
    return [sign * (table[page, fractions[0]] - table[page, fractions[-1]]) for page in pages]


def compare_losses(
    scores: Sequence[PageScore], metric: str, reference: str, keep: Callable[[str], bool] = lambda _name: True
) -> list[tuple[str, Interval]]:
    """(reader, its loss minus the reference's), paired by page; above 0 = it loses more than the reference."""
    base: npt.NDArray[np.float64] = np.asarray(losses(scores, reference, metric))
    out = []
    for reader in dict.fromkeys(s.reader for s in scores):
        if reader != reference and keep(reader):
            out.append((reader, interval(list(np.asarray(losses(scores, reader, metric)) - base))))
    return out

"""Text metrics: character error rate, normalised edit distance, exact match, BLEU-4, precision and recall of words.

Edit distances are rapidfuzz's Levenshtein over Unicode code points. Nothing is normalised here: the caller applies
one function of normalise.py to both sides. All values are shares (0.05 is 5%), not percentages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from derender.score.normalise import words


@dataclass(frozen=True)
class ErrorCount:
    """`edits` insertions, deletions and substitutions against a truth of `length` characters (or tokens)."""

    edits: int
    length: int

    @property
    def rate(self) -> float:
        """edits / length, may exceed 1; with an empty truth 0 when nothing was written, else 1."""
        if self.length == 0:
            return 1.0 if self.edits else 0.0
        return self.edits / self.length


@dataclass(frozen=True)
class PrecisionRecall:
    """Shares of predicted words found in the truth, and of the truth's words found in the prediction."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def count_errors(pred: Sequence[Hashable], truth: Sequence[Hashable]) -> ErrorCount:
    """Levenshtein distance of two strings or two token sequences, with the truth's length."""
    return ErrorCount(Levenshtein.distance(pred, truth), len(truth))


def cer(pred: str, truth: str) -> float:
    """Character error rate of one text: edits / characters of the truth."""
    return count_errors(pred, truth).rate


def micro_cer(counts: Sequence[ErrorCount]) -> float:
    """All edits over all characters: long texts weigh more."""
    return ErrorCount(sum(c.edits for c in counts), sum(c.length for c in counts)).rate


def macro_cer(counts: Sequence[ErrorCount]) -> float:
    """Mean of the texts' own rates: each text weighs the same. 0 for no texts."""
    return sum(c.rate for c in counts) / len(counts) if counts else 0.0


def ned(pred: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Normalised edit distance: edits / length of the longer side, 0-1; 0 when both are empty."""
    longest = max(len(pred), len(truth))
    return Levenshtein.distance(pred, truth) / longest if longest else 0.0


def exact(pred: str, truth: str) -> float:
    """1.0 when equal, else 0.0."""
    return float(pred == truth)


def word_scores(pred: str, truth: str) -> PrecisionRecall:
    """Words (normalise.words) as multisets: order does not count. A side without words scores 1 for its ratio."""
    p, t = Counter(words(pred)), Counter(words(truth))
    common = sum((p & t).values())
    return PrecisionRecall(common / p.total() if p else 1.0, common / t.total() if t else 1.0)


def bleu4(pred: str, truth: str) -> float:
    """BLEU-4 of one text against one reference, 0-1 (Papineni et al. 2002), words as in normalise.words.

    Precisions of orders 2-4 are smoothed by adding one to both counts (Lin and Och 2004), so that one missing 4-gram
    does not make a short text 0; orders for which the prediction is too short to have any n-gram are left out.
    """
    p, t = words(pred), words(truth)
    if not p or not t:
        return float(p == t)
    logs: list[float] = []
    for n in range(1, 5):
        grams_p = Counter(tuple(p[i : i + n]) for i in range(len(p) - n + 1))
        if not grams_p:
            break
        grams_t = Counter(tuple(t[i : i + n]) for i in range(len(t) - n + 1))
        hits, total = sum((grams_p & grams_t).values()), grams_p.total()
        if n > 1:
            hits, total = hits + 1, total + 1
        if hits == 0:
            return 0.0
        logs.append(math.log(hits / total))
    brevity = min(1.0, math.exp(1 - len(t) / len(p)))
    return brevity * math.exp(sum(logs) / len(logs))

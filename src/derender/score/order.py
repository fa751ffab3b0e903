"""Reading order: edit distance between the order of the truth's units and the order in which a prediction has them.

A unit is a line (or a block) of ground-truth text. It is looked for in the predicted text as a whole, so the measure
does not depend on how a system cuts its blocks. Text errors do not count as order errors: a unit that is not found
is left out of the order distance and reported by `found`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from derender.score.metrics import ErrorCount
from derender.score.normalise import HYPHENS, page_text

MIN_CHARS = 12
"""Shorter units ("Table 1", "the") are found in many places and would show an order that is not there."""


@dataclass(frozen=True)
class OrderScore:
    """edit: 0 (same order) to 1; found: share of the units that were found; text: edits in the units, order ignored."""

    edit: float
    found: float
    text: ErrorCount


def order_edit(pred: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """Levenshtein distance of two sequences of unit names, divided by the longer length; 0 for none."""
    longest = max(len(pred), len(truth))
    return Levenshtein.distance(pred, truth) / longest if longest else 0.0


def reading_order(pred: str, units: Sequence[str], min_ratio: float = 70.0, min_chars: int = MIN_CHARS) -> OrderScore:
    """Order score of the predicted text against the truth's units in reading order.

    Both sides are normalised by page_text. Each unit of at least min_chars characters that the truth has once is
    aligned to the stretch of `pred` that it is most similar to (rapidfuzz partial_ratio_alignment, 0-100); from
    min_ratio on it counts as found, at the start of that stretch. With fewer than two units found, edit is 0 if all
    units were found, else 1. Units that are not found count with all their characters as text edits.
    """
    text = page_text(pred)
    # a line-end hyphen has gone from `pred` with its line break, and would count as an error here
    names = [page_text(u).rstrip(HYPHENS) for u in units]
    whole = page_text("\n".join(units))
    names = [u for u in names if len(u) >= min_chars and whole.count(u) <= 1 and names.count(u) == 1]
    places: list[tuple[int, int]] = []
    edits = 0
    for index, unit in enumerate(names):
        exact = text.find(unit)  # partial_ratio's own search is a heuristic for needles above 64 characters
        if exact >= 0:
            places.append((exact, index))
            continue
        hit = fuzz.partial_ratio_alignment(unit, text, score_cutoff=min_ratio) if len(text) >= len(unit) else None
        if hit is None:
            edits += len(unit)
            continue
        places.append((hit.dest_start, index))
        edits += _local_edits(unit, text, hit.dest_start, hit.dest_end)
    count = ErrorCount(edits, sum(map(len, names)))
    found = len(places) / len(names) if names else 1.0
    if len(places) < 2:
        return OrderScore(0.0 if found == 1.0 else 1.0, found, count)
    return OrderScore(order_edit([i for _, i in sorted(places)], [i for _, i in places]), found, count)


def _local_edits(unit: str, text: str, start: int, end: int) -> int:
    """Fewest edits between the unit and a stretch of text around [start, end): the ends may be a few places off."""
    slack = range(-3, 4)
    stretches = {text[max(0, start + a) : max(0, end + b)] for a in slack for b in slack}
    return min(Levenshtein.distance(unit, s, score_cutoff=len(unit)) for s in stretches)

"""Where in a block, or in what one forward commits, the errors are: artefacts at borders show as a rise there.

Errors are the edits between folded hypothesis and folded truth, each charged to the token it falls on; a missing
character is charged to the token before which it is missing (after the text's end, to its last token).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rapidfuzz.distance import Levenshtein

from derender.bench.measure import Outcome
from derender.bench.types import Case, Unit
from derender.model.tokens import Vocab


@dataclass
class PositionTable:
    """tokens and errors by position (from 0). unplaced: errors of texts that have no token at all."""

    tokens: Counter[int] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    unplaced: int = 0

    @property
    def total(self) -> int:
        return sum(self.errors.values()) + self.unplaced

    def bins(self, size: int) -> list[tuple[str, int, int]]:
        """(label, tokens, errors): the first position, quarters of what is between, the last position."""
        inner = list(range(1, size - 1))
        quarters = [inner[len(inner) * q // 4 : len(inner) * (q + 1) // 4] for q in range(4)] if inner else []
        parts = [[0], *(q for q in quarters if q), *([[size - 1]] if size > 1 else [])]
        return [
            (
                f"{p[0]}" if len(p) == 1 else f"{p[0]}–{p[-1]}",
                sum(self.tokens[i] for i in p),
                sum(self.errors[i] for i in p),
            )
            for p in parts
        ]


def token_positions(case: Case, steps: Sequence[int]) -> list[int]:
    """Each token's position: in its block (block, and ar as if it had blocks), or in its forward's run (the others)."""
    if case.config.mode in ("block", "ar", "full"):
        return [i % case.config.block for i in range(len(steps))]
    out: list[int] = []
    for i, step in enumerate(steps):
        out.append(out[-1] + 1 if i and steps[i - 1] == step else 0)
    return out


def error_places(hypothesis: str, truth: str, fold: Callable[[str], str]) -> list[int]:
    """For each edit between the folded texts, the index in the raw hypothesis that it falls on; -1 without any."""
    folded = fold(hypothesis)
    raw_at = _raw_places(folded, hypothesis)
    last = len(hypothesis) - 1
    places = []
    for edit in Levenshtein.editops(folded, fold(truth)):
        place = raw_at[edit.src_pos] if edit.src_pos < len(raw_at) else last
        places.append(min(place, last))
    return places


def _raw_places(folded: str, raw: str) -> list[int]:
    """Index in `raw` of each character of `folded`; one that folding made stands where the next kept one does."""
    places = [-1] * len(folded)
    for op in Levenshtein.opcodes(folded, raw):
        for k in range(op.src_end - op.src_start):
            places[op.src_start + k] = min(op.dest_start + k, max(op.dest_start, op.dest_end - 1))
    return places


def position_table(case: Case, outcome: Outcome, units: Sequence[Unit], vocab: Vocab) -> PositionTable:
    """Over all units decoded whole that are one sample each: a document's errors are mostly its layout's."""
    table = PositionTable()
    for unit in units:
        if len(unit.samples) != 1 or unit.samples[0] not in outcome.tokens:
            continue
        tokens, steps = outcome.tokens[unit.samples[0]], outcome.steps[unit.samples[0]]
        positions = token_positions(case, steps)
        pieces = [vocab.piece(t) for t in tokens]
        owner = [i for i, piece in enumerate(pieces) for _ in piece]
        table.tokens.update(positions)
        for place in error_places("".join(pieces), unit.truth, unit.fold):
            if place < 0:
                table.unplaced += 1
            else:
                table.errors[positions[owner[place]]] += 1
    return table

"""What a region still holds where decoding stopped early: the rest of its bare CTC reading.

A guard ends a text that loops (a leader of dots is enough), and the decoder itself may end a text too soon (behind a
fraction that it cannot read as a line); what stands behind would be lost: lines that the tower did read. Finds where
the text stands by the aligner that the decoder uses. Does not decode; whoever takes the rest says so (`REST`).
"""

from __future__ import annotations

from collections.abc import Sequence

from derender.model.align import Aligner
from derender.model.prefix import RegionPrefix
from derender.model.tokens import TokenIds

REST = "the rest is the bare CTC reading"
ENDED_EARLY = f"the text ended before what the tower read did; {REST}"
LEAST = 3
"""So many characters that stand behind a text's own end were left out. No more than two do on 1,024 held-out regions,
where the decoder drops a speck or a mark that is none."""


def rest_of_reading(
    prefix: RegionPrefix, tokens: Sequence[int], vocab: TokenIds, most: int, stopped: bool
) -> tuple[list[int], list[float]]:
    """Ids of the CTC reading that follow `tokens`, the text so far, and their probabilities; no more than `most`.
    stopped: a guard ended the text; behind an end of its own fewer than LEAST are none."""
    aligner = Aligner(prefix.draft_D.tolist(), vocab.soft_ids)
    for token in tokens:
        aligner.push(token)
    rest = slice(aligner.anchor, aligner.anchor + max(0, most))
    ids = prefix.draft_D[rest].tolist()
    return (ids, prefix.prob_D[rest].tolist()) if stopped or len(ids) >= LEAST else ([], [])

"""The tokens of the table decoder: OTSL's six tags, numbered by position; weights depend on the order.

Which lines stand in a cell is not among the tokens: it follows from the draft (reading.py). Does not know HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derender.assemble.otsl import ECEL, FCEL, LCEL, NL, UCEL, XCEL

MASK, EOS = 0, 1
TABLE_TOKENS: tuple[str, ...] = ("<mask>", "<eos>", FCEL, ECEL, LCEL, UCEL, XCEL, NL)
_IDS = {token: i for i, token in enumerate(TABLE_TOKENS)}


def encode_tags(tags: Sequence[str]) -> list[int]:
    """Numbers of OTSL tags, without an end mark; KeyError for any other string."""
    return [_IDS[tag] for tag in tags]


@dataclass(frozen=True)
class TableVocab:
    """The numbers as the decoder's engine knows them: the begin mark stands behind the list."""

    @property
    def mask_id(self) -> int:
        return MASK

    @property
    def eos_id(self) -> int:
        return EOS

    @property
    def bos_id(self) -> int:
        return len(TABLE_TOKENS)

    @property
    def soft_ids(self) -> tuple[int, ...]:
        """No tag is put in or left out more often than others (the aligner's cheap edits)."""
        return ()

    def __len__(self) -> int:
        return len(TABLE_TOKENS) + 1

    def piece(self, token_id: int) -> str:
        """The tag; nothing for marks. Raises ValueError for the mask: an unfilled place has no tag."""
        if token_id == MASK:
            raise ValueError("a masked position has no tag")
        return TABLE_TOKENS[token_id] if EOS < token_id < len(TABLE_TOKENS) else ""

"""The vocabulary of derender-compact: the tower's CTC classes plus a few special tokens.

A token is one character. Ids below `len(charset)` are the tower's classes, so that its class vectors serve as token
vectors: class 0 is CTC's blank and is reused as the mask, the last class is the space. Does no pre-tokenisation and
knows nothing of other checkpoints' tokenizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

MASK = 0
N_SPECIAL = 8  # room for later tokens without renumbering


class TokenIds(Protocol):
    """What a compact decoder's runtimes need to know of a vocabulary: text's (Vocab) or formulas'
    (formula.vocabulary.FormulaVocab)."""

    @property
    def mask_id(self) -> int: ...

    @property
    def bos_id(self) -> int: ...

    @property
    def eos_id(self) -> int: ...

    @property
    def soft_ids(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Vocab:
    """`chars`: the tower's characters, class 1 first, the space last."""

    chars: tuple[str, ...]

    @property
    def mask_id(self) -> int:
        return MASK

    @property
    def bos_id(self) -> int:
        return len(self.chars) + 1

    @property
    def eos_id(self) -> int:
        return len(self.chars) + 2

    @property
    def newline_id(self) -> int:
        return len(self.chars) + 3

    @property
    def space_id(self) -> int:
        return len(self.chars)

    @property
    def soft_ids(self) -> tuple[int, int, int]:
        """Space, hyphen and newline: what joining lines puts in and leaves out (the aligner's cheap edits)."""
        return (self.space_id, self._ids["-"], self.newline_id)

    def __len__(self) -> int:
        return len(self.chars) + 1 + N_SPECIAL

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids = {c: i + 1 for i, c in enumerate(self.chars)}
        ids["\n"] = self.newline_id
        return ids

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Raises KeyError naming the first character that is not in the vocabulary."""
        return [self._ids[c] for c in text]

    def can_encode(self, text: str) -> bool:
        return all(c in self._ids for c in text)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids; specials other than the newline are dropped, the mask is an error.

        Raises ValueError when a mask is among the ids: an unfilled position must never reach a text.
        """
        return "".join(map(self.piece, ids))

    def piece(self, token_id: int) -> str:
        if token_id == MASK:
            raise ValueError("a masked position has no text")
        if token_id <= len(self.chars):
            return self.chars[token_id - 1]
        return "\n" if token_id == self.newline_id else ""


def vocab_from_charset(characters: Sequence[str]) -> Vocab:
    """From the `character` list of a PP-OCR recognition model (blank and space not listed)."""
    return Vocab((*characters, " "))


def core_ids(vocab: Vocab) -> list[int]:
    """Ids of the core vocabulary, always among a region's candidates: specials, Latin with accents, Greek, the common
    punctuation, signs and operators. Everything else is a candidate where the tower considers it."""

    def common(char: str) -> bool:
        o = ord(char)
        return (
            o < 0x180
            or 0x391 <= o <= 0x3C9
            or 0x2010 <= o <= 0x2030
            or 0x2070 <= o <= 0x208E
            or char in "€£¥™′″←→↔⇒×−±≤≥≠≈∞∑∏√∫∂∇∈∉⊂∪∩∧∨∀∃∝∼·…℃ℝ"
        )

    return [vocab.eos_id, vocab.newline_id, *(i + 1 for i, c in enumerate(vocab.chars) if common(c))]

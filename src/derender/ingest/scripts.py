"""Sub- and superscripts in lines of native words, by size and baseline alone: x and a small raised 2 are x².

Unicode's raised and lowered characters where they exist for all of it, otherwise ^{..} or _{..}. A piece is a script
when it is clearly smaller than the line, clearly off its baseline, and stands right behind a letter, a digit or a
closing bracket. So small capitals, drop capitals, footnote numbers before their note, ordinals (2nd), numbers in
brackets and the name of LaTeX stay as they are. Knows no pictures: what is read from pixels has no scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derender.ingest.types import Piece

_SMALLER = (0.3, 0.87)  # sizes of scripts, as shares of the line's
_RAISED, _LOWERED = 0.18, -0.08  # baselines of scripts, in sizes of the line
_LONGEST = 12  # characters of one script; a raised remark is no script
NEAR = 0.17
"""Widest gap between a script and what it belongs to, in sizes of the line; a space is at least a fifth."""
_UP = dict(
    zip(
        "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθχ",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵡ",
        strict=True,
    )
) | {c: c for c in ",*∗†‡§¶′″°ºª"}
_DOWN = dict(zip("0123456789+-−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True)) | {
    ",": ","
}


@dataclass(frozen=True)
class Base:
    """Size and baseline of most of a line."""

    size: float
    line: float

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Base | None:
        """None where nothing is known."""
        weight: dict[float, int] = {}
        for piece in pieces:
            weight[round(piece[1], 1)] = weight.get(round(piece[1], 1), 0) + len(piece[0])
        if not weight:
            return None
        size = max(weight, key=lambda s: (weight[s], s))
        full = sorted(p[2] for p in pieces if abs(p[1] - size) <= 0.1 * size for _ in p[0])
        return cls(size, full[len(full) // 2]) if size > 0 else None

    def side(self, piece: Piece) -> int:
        """1 for a superscript, -1 for a subscript, 0 for neither, by geometry."""
        text, size, line = piece
        if not _SMALLER[0] * self.size <= size <= _SMALLER[1] * self.size or len(text) > _LONGEST:
            return 0
        rise = (self.line - line) / self.size
        if abs(rise) > 1.2:
            return 0
        return 1 if rise >= _RAISED else -1 if rise <= _LOWERED else 0


def marked(pieces: Sequence[Piece], base: Base, before: str) -> str:
    """The text of a word's pieces with scripts marked. before: the text that stands right before the word without a
    gap, "" where there is none."""
    out = ""
    for i, piece in enumerate(pieces):
        side, ahead = base.side(piece), (before + out)[-1:]
        if side > 0 and piece[0].isupper() and i + 1 < len(pieces) and pieces[i + 1][0][:1].isupper():
            side = 0  # the raised A of LaTeX's name
        out += _script(piece[0], side, ahead) if side and (ahead.isalnum() or ahead in _CLOSING) and ahead else piece[0]
    return out


_CLOSING = frozenset(")]}|’'′∂∇∆∞∫∑∏") | frozenset(_UP.values()) | frozenset(_DOWN.values())


def _script(text: str, side: int, ahead: str) -> str:
    trailing = ""
    while text and text[-1] in ".,;:" and len(text) > 1:  # small print's own punctuation ends the sentence
        text, trailing = text[:-1], text[-1] + trailing
    if text[:1] == "[" or (side > 0 and ahead.isdigit() and len(text) > 1 and text.isalpha() and text.isascii()):
        return text + trailing  # a reference; 2nd, 5th, 1er
    table = _UP if side > 0 else _DOWN
    if all(c in table for c in text):
        return "".join(table[c] for c in text) + trailing
    return f"{'^' if side > 0 else '_'}{{{text}}}{trailing}"

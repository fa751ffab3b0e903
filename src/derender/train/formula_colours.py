"""Whose ink is it: sources in which every symbol has a colour that names its token, at no change of their layout.

A whatsit before each symbol sets the fill colour; TeX's spacing rules pass over it. Red stays 0, so that the red
channel of the rendered page is the grey picture of the formula in black, and green and blue carry the symbol's index.
Written for the sources of formula_grammar.py (scripts in braces, subscript first, no macros). Does not render.

Legend: H, W the picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from derender.score.latex_tokens import canonical_tokens

NOBODY = 255  # in an owner map: paper, or ink that cannot be told
MOST = 156  # symbols beyond this index have no colour of their own
_BASE, _GREEN, _BLUE = 12, 20, 18
_PIECE = re.compile(r"\\begin\s*\{array\}\s*\{[^{}]*\}|\\(?:begin|end)\s*\{[a-zA-Z]+\*?\}|\\[a-zA-Z]+|\\.|'+|\S")
_FACES = frozenset(r"\mathrm \mathbf \mathit \mathcal \mathsf \mathtt \mathfrak \mathbb \mathscr \boldsymbol".split())
UNINKED = _FACES - {r"\boldsymbol"} | frozenset(
    r"{ } ^ _ & \\ \binom \overset \underset \atop \pmod \substack \beginenvarray \endenvarray \beginenvaligned"
    r" \endenvaligned".split()
)
_SPACES = frozenset(r"\, \; \: \! \quad \qquad \limits".split())
_ACCENTS = frozenset(r"\hat \tilde \bar \vec \dot \ddot \check \overline \widehat \widetilde".split())
_AFTER = frozenset({r"\frac", r"\underline", r"\underbrace"})  # TeX ships their own ink after the first argument
_LARGE = frozenset(r"\sum \prod \coprod \bigcup \bigcap \bigoplus \bigotimes \bigwedge \bigvee".split())
_SIDES = {
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": (r"\{", r"\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": (r"\|", r"\|"),
    "cases": (r"\{", ""),
}
_JOINED = frozenset({"ff", "fi", "fl"})  # ligatures, which a whatsit would take apart


class _Unmatched(Exception):
    """Source and targets do not go together one by one."""


def coloured(latex: str, targets: Sequence[str]) -> str | None:
    """Source with a colour for each symbol among `targets`, the target tokens of `latex`; None where the source's
    symbols cannot be matched with them one by one."""
    try:
        return _Painter(_PIECE.findall(latex), targets).run()
    except _Unmatched:
        return None


class _Painter:
    """Walks source and targets once, side by side."""

    def __init__(self, pieces: Sequence[str], targets: Sequence[str]) -> None:
        self.pieces, self.targets = list(pieces), targets
        self.at = 0

    def run(self) -> str:
        out: list[str] = []
        ends: list[str] = []  # for each open group, the colour to set before it closes
        above: dict[int, str] = {}  # the same by the place of a group's brace: upper limits are drawn before their sign
        after = ""
        option = ""
        k, n = 0, len(self.pieces)
        while k < n:
            piece = self.pieces[k]
            following = self.pieces[k + 1] if k + 1 < n else ""
            group = self.group(k + 1) if following == "{" else []
            if piece == "{":
                ends.append(above.pop(k, after))
                after = ""
                out.append(piece)
            elif piece == "}":
                out += [ends.pop() if ends else "", piece]
            elif piece in _SPACES or piece in UNINKED - _FACES:
                out.append(piece)
            elif piece.startswith((r"\begin", r"\end")):
                out += [self.side(piece), piece]
            elif piece in (r"\left", r"\right"):
                out += ["" if following == "." else self.take(following), piece, following]
                k += 1
            elif piece[0] == "'":
                out += ["^", "{", *(self.take(r"\prime") + r" \prime" for _ in piece), "}"]  # what TeX does with it
            elif piece == "[" and out and out[-1] == r"\sqrt":
                self.take(piece)
                option = out[-2]
                out.append(piece)
            elif piece == "]" and option:
                self.take(piece)
                out += [option, piece]  # the root's index is drawn before the root
                option = ""
            elif piece in _FACES:
                name = canonical_tokens(f"{piece}{{{''.join(group)}}}")
                if len(name) == 1:  # an upright operator's name is one token
                    out += [self.take(name[0]), piece, "{", *group, "}"]
                    k += len(group) + 2
                else:
                    out.append(piece)
            elif piece in _ACCENTS and len(group) == 1:
                # the accent is set by the slant of a lone symbol: nothing may stand in its group
                out.append(self.take(_canonical(piece)))
                self.take(_canonical(group[0]))
                out += [piece, "{", group[0], "}"]
                k += 3
            elif piece in _AFTER:
                after = self.take(piece)
                out.append(piece)
            else:
                colour = self.take(_canonical(piece))
                if piece in _LARGE:
                    above[self.upper_limit(k)] = colour
                joined = out and out[-1] + piece in _JOINED
                out += [piece] if joined else [colour, piece]
            k += 1
        return " ".join(p for p in out if p)

    def take(self, symbol: str) -> str:
        """The colour of the next symbol among the targets, which must be this one."""
        while self.at < len(self.targets) and self.targets[self.at] in UNINKED:
            self.at += 1
        if self.at >= min(len(self.targets), MOST) or self.targets[self.at] != symbol:
            raise _Unmatched
        green, blue = self.at % _BASE * _GREEN, self.at // _BASE * _BLUE
        self.at += 1
        colour = f"0 {green / 255:.4f} {blue / 255:.4f}"
        return rf"\pdfliteral page{{{colour} rg {colour} RG}}"  # thin rules are strokes

    def side(self, piece: str) -> str:
        """The colour of a matrix's delimiter; nothing for environments without one."""
        begins = piece.startswith(r"\begin")
        left, right = _SIDES.get(piece[piece.index("{") + 1 : piece.index("}")], ("", ""))
        delimiter = left if begins else right
        return self.take(delimiter) if delimiter else ""

    def upper_limit(self, at: int) -> int:
        """Place of the brace that opens the superscript of the piece at `at`; -1 where it has none."""
        k = at + 1
        if self.pieces[k : k + 2] == ["_", "{"]:
            k += len(self.group(k + 1)) + 3
        return k + 1 if self.pieces[k : k + 2] == ["^", "{"] else -1

    def group(self, at: int) -> list[str]:
        """The pieces inside the braces that open at `at`."""
        depth = 0
        for i in range(at, len(self.pieces)):
            depth += {"{": 1, "}": -1}.get(self.pieces[i], 0)
            if depth == 0:
                return list(self.pieces[at + 1 : i])
        return []


@lru_cache(maxsize=4096)
def _canonical(symbol: str) -> str:
    return (canonical_tokens(symbol) or [symbol])[0]


def owners(rgb_HW3: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(H, W) index of the target token that each pixel's ink belongs to, NOBODY where there is none."""
    paper = rgb_HW3[..., 0].astype(np.float32)
    ink = 255 - paper
    safe = np.maximum(ink, 1) / 255
    green, blue = ((rgb_HW3[..., c].astype(np.float32) - paper) / safe for c in (1, 2))
    index = np.rint(blue / _BLUE) * _BASE + np.rint(green / _GREEN)
    # where two colours meet, a pixel may name a third: pale pixels are nobody's
    known = (ink >= 48) & (np.abs(green - np.rint(green / _GREEN) * _GREEN) < 8) & (index >= 0) & (index < MOST)
    return np.where(known, index, NOBODY).astype(np.uint8)

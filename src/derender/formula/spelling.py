"""The target spelling of a formula: one picture, one list of tokens; and LaTeX source back from such a list.

target_tokens is the scores' canonical form (score/latex_tokens.py) in which every matrix is an array between plain
delimiters, because "pmatrix" and "\\left( array \\right)" draw the same. spell writes source that TeX accepts and that
has the same target tokens. What the form drops cannot come back: spacing, sizes of delimiters (other than around
arrays), column alignment, and which relation aligned rows are aligned at (the first one is taken).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from derender.score.latex_tokens import canonical_tokens

_MATRICES = {
    "matrix": ("", ""),
    "smallmatrix": ("", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": (r"\{", r"\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": (r"\|", r"\|"),
    "cases": (r"\{", ""),
}
_NAME_AT_END = re.compile(r"(?<!\\)(?:\\\\)*\\[a-zA-Z]+$")
_BEGIN, _END = r"\beginenvarray", r"\endenvarray"
_OPENING = frozenset({"(", "[", r"\{", "|", r"\|", r"\langle", r"\lfloor", r"\lceil"})
_CLOSING = frozenset({")", "]", r"\}", "|", r"\|", r"\rangle", r"\rfloor", r"\rceil"})
_RELATIONS = frozenset(r"= < > \leq \geq \neq \equiv \sim \simeq \approx \propto \rightarrow \in \subset".split())
_INFIX = frozenset({r"\atop", r"\brace", r"\brack"})
_WIDE = {r"\bar": r"\overline", r"\hat": r"\widehat", r"\tilde": r"\widetilde", r"\mathbf": r"\boldsymbol"}


def target_tokens(latex: str) -> list[str]:
    """The tokens that a reader should write for the picture of `latex`. Never raises."""
    out: list[str] = []
    for token in canonical_tokens(latex):
        kind, _, name = token[1:].partition("env")
        if kind in ("begin", "end") and name in _MATRICES:
            before, after = _MATRICES[name]
            out += [before, _BEGIN] if kind == "begin" else [_END, after]
        else:
            out.append(token)
    return [t for t in out if t]


def spell(tokens: Sequence[str]) -> str:
    """LaTeX source (for mathematics mode, needs amsmath and amssymb) of target tokens; does not check them."""
    pieces = _Speller(list(tokens)).run()
    out = ""
    for piece in pieces:
        # a letter or star right after a command's name would be taken for a part of it
        glued = _NAME_AT_END.search(out) is not None and (piece[:1].isalpha() or piece[:1] == "*")
        out += (" " if glued else "") + piece
    return out


class _Speller:
    """Walks the tokens once; a group's end is found by counting braces."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def run(self) -> list[str]:
        return self.part(0, len(self.tokens))

    def part(self, at: int, end: int) -> list[str]:
        out: list[str] = []
        sized: list[bool] = []
        while at < end:
            token = self.tokens[at]
            following = self.tokens[at + 1] if at + 1 < end else ""
            if token in _INFIX and following == "{":
                middle = self.close(at + 1, end)
                last = self.close(middle + 1, end) if self.at(middle + 1, end) == "{" else middle
                out += ["{", *self.part(at + 2, middle), token, *self.part(middle + 2, last), "}"]
                at = last + 1
                continue
            if token in _WIDE and following == "{":
                inner = self.tokens[at + 2 : self.close(at + 1, end)]
                wide = any(t[0] == "\\" for t in inner) if token == r"\mathbf" else len(inner) > 1
                out.append(_WIDE[token] if wide else token)
            elif token == _BEGIN:
                if out and out[-1] in _OPENING and not (len(out) > 1 and out[-2] in (r"\right", r"\left")):
                    out.insert(len(out) - 1, r"\left")
                    sized.append(True)
                else:
                    sized.append(False)
                out.append(rf"\begin{{array}}{{{'c' * self.columns(at, end)}}}")
            elif token == _END:
                out.append(r"\end{array}")
                if sized and sized.pop():
                    if following in _CLOSING:
                        out += [r"\right", following]
                        at += 1
                    else:
                        out.append(r"\right.")
            elif token.startswith((r"\beginenv", r"\endenv")):
                kind, _, name = token[1:].partition("env")
                out.append(rf"\{kind}{{{name}}}")
                if kind == "begin":
                    out.append("{}")
            elif token == r"\\":
                # braces keep a bracket that follows from being taken for the row's extra space
                out += [token, "{}"] if following in ("[", "*") else [token]
            else:
                out.append(token)
            at += 1
        return self.aligned(out)

    def at(self, index: int, end: int) -> str:
        return self.tokens[index] if index < end else ""

    def close(self, at: int, end: int) -> int:
        """Index of the brace that closes the one at `at`, or `end`."""
        depth = 0
        for i in range(at, end):
            depth += {"{": 1, "}": -1}.get(self.tokens[i], 0)
            if depth == 0:
                return i
        return end

    def columns(self, at: int, end: int) -> int:
        """The most cells in a row of the array that begins at `at`."""
        depth, cells, most = 0, 1, 1
        for token in self.tokens[at:end]:
            depth += {_BEGIN: 1, _END: -1}.get(token, 0)
            if depth == 0:
                break
            if depth == 1:
                cells = 1 if token == r"\\" else cells + (token == "&")
                most = max(most, cells)
        return most

    @staticmethod
    def aligned(pieces: list[str]) -> list[str]:
        """Puts & before the first relation of each row of aligned; the target form drops it again."""
        out: list[str] = []
        inside, depth, waiting = 0, 0, False
        for piece in pieces:
            if piece == r"\begin{aligned}":
                inside, depth, waiting = inside + 1, 0, True
            elif piece == r"\end{aligned}":
                inside -= 1
                waiting = False
            depth += (piece == "{" or piece.startswith(r"\begin{array}")) - (piece in ("}", r"\end{array}"))
            if piece == r"\\" and depth == 0:
                waiting = inside > 0
            elif waiting and depth == 0 and piece in _RELATIONS:
                out.append("&")
                waiting = False
            out.append(piece)
        return out

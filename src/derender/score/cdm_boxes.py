"""Boxes of a formula's tokens, for CDM: every token is typeset in a colour of its own, and found again by it.

Colours are set with pdfTeX's own colour stack, which needs no package and, being no material of its own, changes no
spacing. The boxes are those of the PDF's objects with that fill colour, so no raster and no threshold is involved.
Tokens are those of formula.spelling.target_tokens (one spelling for everything that looks the same); a fraction's bar
and a root's sign are tokens, a function's name is one; braces, scripts, fonts and rows have no box. Needs pdflatex;
compares nothing.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from derender.errors import MissingExtraError
from derender.formula.spelling import spell, target_tokens
from derender.formula.tex import tex_present, tex_ready, typeset

Box = tuple[float, float, float, float]
PACKAGES = "Debian: texlive-latex-extra, texlive-fonts-recommended, preview-latex-style, lmodern"
NO_TEX = f"CDM renders formulas with TeX, but pdflatex is not installed ({PACKAGES})."
HALF_TEX = f"CDM renders formulas with TeX, but pdflatex lacks packages or fonts that it needs ({PACKAGES})."
BATCH = 100
SECONDS = 20.0
"""Longest run of TeX, plus half a second a formula; a batch that takes longer is halved."""
FONT = "computer modern"
_STRUCTURE = frozenset({"{", "}", "^", "_", "&", r"\\", r"\overset", r"\underset", r"\substack", r"\atop"})
_FONTS = frozenset(
    r"\mathrm \mathbf \mathit \mathcal \mathsf \mathtt \mathfrak \mathbb \mathscr \textsc \textsf \texttt \emph".split()
)
_WHOLE = frozenset({r"\not"})
"""Commands that are one sign with their argument."""
_INVISIBLE = frozenset({r"\phantom", r"\hphantom", r"\vphantom"})
_PUSH, _POP = r"\pdfcolorstack0 push{0 g 0 G}", r"\pdfcolorstack0 pop{}"
_FORBIDDEN = re.compile(
    r"\\(?:def|gdef|edef|xdef|let|futurelet|newcommand|renewcommand|providecommand|input|include|openin|openout|read"
    r"|write|catcode|csname|special|usepackage|immediate|loop|expandafter|pdf[a-z]+|afterassignment|aftergroup"
    r"|everymath|everydisplay|everypar|output|shipout|globaldefs|global)(?![a-zA-Z])"
    r"|\\(?:begin|end)\s*\{(?:document|preview)\}|\^\^"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{(equation|displaymath|math)\*?\}")
_OUTER = (("$$", "$$"), (r"\[", r"\]"), (r"\(", r"\)"), ("$", "$"))
_INNER = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")
_ROWS = re.compile(r"\\(begin|end)\s*\{(align|eqnarray|gather|multline|flalign|split)\*?\}")
_LABEL = re.compile(r"\\(?:label|tag)\*?\s*\{[^{}]*\}|\\(?:nonumber|notag)(?![a-zA-Z])")


@dataclass(frozen=True)
class TokenBox:
    """A visible token and the hull of its marks, in points from the top left of the formula."""

    token: str
    box: Box


@dataclass(frozen=True)
class Drawn:
    """A formula as set: boxes in the order of its source; width and height in points."""

    boxes: tuple[TokenBox, ...]
    width: float
    height: float


def require_tex() -> None:
    """Raises MissingExtraError when formulas cannot be typeset here."""
    if not tex_ready():
        raise MissingExtraError(HALF_TEX if tex_present() else NO_TEX)


def draw_formulas(formulas: Sequence[str]) -> list[Drawn | None]:
    """Boxes of each LaTeX formula; None for one that TeX does not accept as it stands, or that has no visible token.

    Formulas are mathematics, with or without dollar signs or a display environment around; amsmath, amssymb and
    mathrsfs are loaded. Definitions, file access and the like are not accepted. Raises MissingExtraError without
    pdflatex and its packages.
    """
    require_tex()
    plain = [_plain(f) for f in formulas]
    accepted = [bool(p.strip()) and ok for p, ok in zip(plain, _compile(plain), strict=True)]
    out: list[Drawn | None] = [None] * len(formulas)
    coloured = {i: _colour(target_tokens(formulas[i])) for i, ok in enumerate(accepted) if ok}
    for i, page in _pages({i: source for i, (source, _) in coloured.items()}).items():
        out[i] = _boxes(page, coloured[i][1])
    return out


def _plain(latex: str) -> str:
    """One line of source for mathematics mode; "" where it holds what a formula must not."""
    text = re.sub(r"(?<!\\)%[^\n]*", "", latex)
    if _FORBIDDEN.search(text):
        return ""
    text = _LABEL.sub("", _ENVIRONMENT.sub(" ", text)).strip()
    for opening, closing in _OUTER:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening + closing):
            text = text[len(opening) : -len(closing)].strip()
    text = _INNER.sub(r"\\(\1\\)", text)  # mathematics in a piece of text; elsewhere TeX refuses it, as it should
    if re.search(r"(?<!\\)\$", text):
        return ""
    # environments that stand for themselves become those that may stand inside a formula
    return " ".join(_ROWS.sub(lambda m: rf"\{m.group(1)}{{aligned}}", text).split())


def _compile(sources: Sequence[str]) -> list[bool]:
    good = [False] * len(sources)
    for part in _parts([i for i, s in enumerate(sources) if s.strip()], sources):
        for i, ok in zip(part.members, part.good, strict=True):
            good[i] = ok
    return good


@dataclass(frozen=True)
class _Part:
    members: list[int]
    good: tuple[bool, ...]
    pdf: bytes


def _parts(members: list[int], sources: Any) -> list[_Part]:
    """Typesets in batches; a batch that TeX gives up on is halved until the formula that stops it is alone."""
    out: list[_Part] = []
    queue = [members[i : i + BATCH] for i in range(0, len(members), BATCH)]
    while queue:
        part = queue.pop(0)
        batch = typeset([sources[i] for i in part], FONT, SECONDS + len(part) / 2)
        if batch is not None:
            out.append(_Part(part, batch.good, batch.pdf))
        elif len(part) > 1:
            queue += [part[: len(part) // 2], part[len(part) // 2 :]]
    return out


@dataclass(frozen=True)
class _Marks:
    """One page's coloured objects: (colour number, box), and the page's size in points."""

    marks: list[tuple[int, Box]]
    width: float
    height: float


def _pages(sources: dict[int, str]) -> dict[int, _Marks]:
    import pypdfium2 as pdfium

    out: dict[int, _Marks] = {}
    for part in _parts(list(sources), sources):
        document = pdfium.PdfDocument(part.pdf)
        try:
            for i, ok, number in zip(part.members, part.good, range(len(document)), strict=True):
                if ok:
                    page = document[number]
                    out[i] = _marks(page)
                    page.close()
        finally:
            document.close()
    return out


def _marks(page: Any) -> _Marks:
    import pypdfium2.raw as raw

    width, height = page.get_size()
    found = []
    rgba = [ctypes.c_uint() for _ in range(4)]
    edges = [ctypes.c_float() for _ in range(4)]
    for index in range(raw.FPDFPage_CountObjects(page)):
        item = raw.FPDFPage_GetObject(page, index)
        if not raw.FPDFPageObj_GetFillColor(item, *rgba):
            continue
        number = (rgba[0].value << 16) + (rgba[1].value << 8) + rgba[2].value
        if number and raw.FPDFPageObj_GetBounds(item, *edges):
            left, bottom, right, top = (e.value for e in edges)
            if right > left and top > bottom:
                found.append((number, (left, height - top, right, height - bottom)))
    return _Marks(found, width, height)


def _boxes(page: _Marks, labels: Sequence[str]) -> Drawn | None:
    hulls: dict[int, Box] = {}
    for number, b in page.marks:
        h = hulls.get(number)
        hulls[number] = b if h is None else (min(h[0], b[0]), min(h[1], b[1]), max(h[2], b[2]), max(h[3], b[3]))
    boxes = tuple(TokenBox(token, hulls[number]) for number, token in enumerate(labels, 1) if number in hulls)
    return Drawn(boxes, page.width, page.height) if boxes else None


def _colour(tokens: Sequence[str]) -> tuple[str, list[str]]:
    """Source with a colour before every visible token, and the tokens of colours 1, 2, ..."""
    painter = _Painter(list(tokens))
    return spell(painter.part(0, len(tokens))), painter.labels


class _Painter:
    """Each group pushes a colour and pops it at its end, so that what is drawn after a group (the bar of a fraction, an
    operator below its upper limit) has the colour that was set before it."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.labels: list[str] = []

    def set(self, token: str) -> str:
        self.labels.append(token)
        n = len(self.labels)
        r, g, b = (f"{((n >> s) & 255) / 255:.4f}" for s in (16, 8, 0))
        return rf"\pdfcolorstack0 set{{{r} {g} {b} rg {r} {g} {b} RG}}"

    def group(self, at: int, end: int) -> list[str]:
        return ["{", _PUSH, *self.part(at, end), _POP, "}"]

    def part(self, at: int, end: int) -> list[str]:
        out: list[str] = []
        while at < end:
            token = self.tokens[at]
            opens = self.tokens[at + 1 : at + 2]
            if token == "{":
                close = self.close(at, end)
                out += self.group(at + 1, close)
            elif token in _INVISIBLE or token in _WHOLE:
                close = self.close(at + 1, end) if opens == ["{"] else at
                body = self.tokens[at + 1 : close + 1]
                out += [*([self.set(token + "".join(body))] if token in _WHOLE else []), token, *body]
            elif token == r"\sqrt" and opens == ["["]:
                close = self.bracket(at + 1, end)
                out += [self.set(token), token, "[", *self.group(at + 2, close), "]"]
            else:
                close = at
                plain = token in _STRUCTURE or token in _FONTS or token.startswith((r"\beginenv", r"\endenv"))
                out += [token] if plain else [self.set(token), token]
            at = close + 1
        return out

    def close(self, at: int, end: int) -> int:
        depth = 0
        for i in range(at, end):
            depth += {"{": 1, "}": -1}.get(self.tokens[i], 0)
            if depth == 0:
                return i
        return end

    def bracket(self, at: int, end: int) -> int:
        depth = 0
        for i in range(at + 1, end):
            depth += {"{": 1, "}": -1}.get(self.tokens[i], 0)
            if depth == 0 and self.tokens[i] == "]":
                return i
        return end

"""Whether LaTeX of a formula can be used: braces and environments balance, it parses, and it compiles.

Parsing is pylatexenc's; compiling is done only on request and only where pdflatex is installed with its packages.
Says nothing about whether the formula is the one in the picture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECE = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}|\\(left|right)(?![a-zA-Z])|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True)
class FormulaCheck:
    """ok: usable; reason: one sentence when not; compiled: None where TeX was not asked for or is not installed."""

    ok: bool
    reason: str = ""
    compiled: bool | None = None


def check_latex(latex: str, compile_it: bool = False) -> FormulaCheck:
    """Checks the source of one formula without dollar signs."""
    if not latex.strip():
        return FormulaCheck(False, "The formula is empty.")
    reason = _balance(latex) or _parse(latex)
    if reason:
        return FormulaCheck(False, reason)
    if not compile_it:
        return FormulaCheck(True)
    from derender.formula.tex import compiles, tex_ready

    if not tex_ready():
        return FormulaCheck(True)
    if compiles(latex):
        return FormulaCheck(True, compiled=True)
    return FormulaCheck(False, "TeX does not compile the formula.", compiled=False)


def _balance(latex: str) -> str:
    """The first opening or closing that has no partner, as a sentence; empty when all have one."""
    open_: list[str] = []
    for match in _PIECE.finditer(latex):
        edge, name, side = match.group(1), match.group(2), match.group(3)
        text = match.group()
        if text == "{" or edge == "begin" or side == "left":
            open_.append("{" if text == "{" else name if edge else "left")
        elif text == "}" or edge == "end" or side == "right":
            wanted = "{" if text == "}" else name if edge else "left"
            if not open_ or open_.pop() != wanted:
                return f"{text} has no partner."
    return "" if not open_ else f"{open_[-1]} is never closed."


def _parse(latex: str) -> str:
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerParseError

    try:
        LatexWalker(f"${latex}$", tolerant_parsing=False).get_latex_nodes()
    except LatexWalkerParseError as error:
        return f"It does not parse: {str(error).splitlines()[0]}"
    return ""

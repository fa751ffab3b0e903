"""A formula's LaTeX as MathML, which browsers show without a script or a network; and its number.

Conversion is latex2mathml's. LaTeX that it cannot convert is shown as its source.
"""

from __future__ import annotations

import re
from html import escape
from typing import Literal

_NUMBER = re.compile(r"\s\(([0-9A-Z]{1,3}(?:\.\d{1,3})*[a-z]?)\)$")
_UNKNOWN = {r"\arg": r"\operatorname{arg}", r"\P": r"\unicode{182}"}  # to latex2mathml
_TAG = re.compile(r"\\tag\*?\s*\{([^{}]*)\}")


def formula_number(text: str) -> str | None:
    """The number at the end of a formula's text, as in "a = b (3.1)"; None without one."""
    found = _NUMBER.search(" " + text)
    return found.group(1) if found else None


def formula_mathml(latex: str, number: str | None = None) -> str:
    """MathML of a display formula, the LaTeX as its alternative text, and the number behind it."""
    tag = _TAG.search(latex)
    if tag:
        number, latex = tag.group(1), _TAG.sub("", latex)
    return mathml(latex, "block") + (f' <span class="number">({escape(number)})</span>' if number else "")


def mathml(latex: str, display: Literal["block", "inline"] = "inline") -> str:
    """MathML of LaTeX without dollar signs, or its source where it cannot be converted."""
    from latex2mathml.converter import convert

    source = latex
    for name, known in _UNKNOWN.items():
        source = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _m, known=known: known, source)  # type: ignore[misc]
    try:
        shown = convert(source, display=display)
    except Exception:  # the library raises many kinds, and no formula may stop a document
        return f'<code class="latex">{escape(latex)}</code>'
    return str(shown).replace("<math ", f'<math alttext="{escape(latex)}" ', 1)

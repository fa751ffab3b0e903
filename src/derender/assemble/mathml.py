"""A formula's LaTeX as MathML, which browsers show without a script or a network; and its number.

Conversion is latex2mathml's. What it writes is not safe as it stands (the markup in \\text{<script>} stays markup), so
its elements are escaped here, and only harmless attributes stay. LaTeX that it cannot convert is shown as its source.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Literal
from xml.etree.ElementTree import Element, tostring

_NUMBER = re.compile(r"\s\(([0-9A-Z]{1,3}(?:\.\d{1,3})*[a-z]?)\)$")
_UNKNOWN = {r"\arg": r"\operatorname{arg}", r"\P": r"\unicode{182}"}  # to latex2mathml
_LONGEST = 10_000  # characters: half a second of conversion; no formula on a page is longer
_ATTRIBUTES = frozenset(
    "accent accentunder alttext columnalign columnlines columnspacing depth display displaystyle fence form frame"
    " height linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize movablelimits notation"
    " rowlines rowspacing rspace scriptlevel separator stretchy symmetric voffset width xmlns".split()
)
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
    from latex2mathml.converter import convert_to_element

    code = f'<code class="latex">{escape(latex)}</code>'
    if len(latex) > _LONGEST:
        return code
    source = latex
    for name, known in _UNKNOWN.items():
        source = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _m, known=known: known, source)  # type: ignore[misc]
    try:
        return _safe(convert_to_element(source, display=display), latex)
    except Exception:  # the library raises many kinds, and no formula may stop a document
        return code


def _safe(math: Element, latex: str) -> str:
    """The elements as text, the LaTeX as their alternative."""
    for element in math.iter():
        # The library means its texts to be written as they are: references for signs, beside the document's own text.
        element.text, element.tail = unescape(element.text or ""), unescape(element.tail or "")
        for name in [name for name in element.attrib if name not in _ATTRIBUTES]:
            del element.attrib[name]
    math.attrib = {"alttext": latex, **math.attrib}
    return tostring(math, encoding="unicode")

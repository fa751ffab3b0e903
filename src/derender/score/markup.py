"""Plain text of Markdown, HTML and LaTeX sources, so that text scores count words and not markup.

Markdown is parsed by markdown-it-py (which rich already needs), HTML by the standard library. Formulas become their
characters: commands with a well-known sign become that sign, the rest of the markup goes. Does not render anything.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_SIGNS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ",
    "Psi": "Ψ", "Omega": "Ω", "times": "×", "cdot": "·", "pm": "±", "mp": "∓", "leq": "≤", "le": "≤", "geq": "≥",
    "ge": "≥", "neq": "≠", "approx": "≈", "sim": "∼", "equiv": "≡", "infty": "∞", "partial": "∂", "nabla": "∇",
    "sum": "∑", "prod": "∏", "int": "∫", "in": "∈", "subset": "⊂", "cup": "∪", "cap": "∩", "to": "→",
    "rightarrow": "→", "leftarrow": "←", "Rightarrow": "⇒", "forall": "∀", "exists": "∃", "ldots": "...",
    "dots": "...", "cdots": "...", "circ": "°", "degree": "°", "langle": "⟨", "rangle": "⟩", "ell": "ℓ", "prime": "'",
    "log": "log", "ln": "ln", "exp": "exp", "sin": "sin", "cos": "cos", "tan": "tan", "max": "max", "min": "min",
    "lim": "lim", "sqrt": "√", "dagger": "†", "textbackslash": "\\", "S": "§", "ss": "ß", "aa": "å", "o": "ø",
}  # fmt: skip
_MATH = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\d$])", re.S)
_TAG = re.compile(r"<[a-zA-Z/!][^>]*>")
_BULLET = re.compile(r"^[ \t]*[•▪◦‣∙●○■□·*–-][ \t]+", re.M)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?")
_DROP_ARG = re.compile(
    r"\\(?:documentclass|usepackage|label|ref|eqref|cite[a-z]*|bibliography(?:style)?|includegraphics|vspace|hspace|"
    r"pagestyle|setlength|input|begin|end)\*?\s*(?:\[[^\]]*\]\s*)*(?:\{[^{}]*\})*"
)
_COLUMNS = re.compile(r"\\begin\{(tabular[x*]?|array)\}(?:\[[^\]]*\])?(?:\{[^{}]*\})+")
_COMMAND = re.compile(r"\\([a-zA-Z]+)\*?(?:\[[^\]]*\])?[ \t]*")
_ESCAPE = re.compile(r"\\([^a-zA-Z\s])")
_BLOCK_TAGS = frozenset("p div table tr br li ul ol h1 h2 h3 h4 h5 h6 caption thead tbody figure figcaption".split())


class _Text(HTMLParser):
    """Collects text; a block element or row starts a line, a cell a space."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append("\n" if tag in _BLOCK_TAGS else " " if tag in ("td", "th") else "")

    def handle_endtag(self, tag: str) -> None:
        self.handle_starttag(tag, [])

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def html_to_text(source: str) -> str:
    """Text of an HTML fragment; rows and blocks end in line breaks, cells are set apart by spaces."""
    parser = _Text()
    parser.feed(source)
    parser.close()
    return "".join(parser.parts)


def latex_to_text(source: str) -> str:
    """Characters of a formula or a LaTeX body: known commands as signs, other commands and braces dropped."""
    text = _COMMENT.sub("", source)
    text = _DROP_ARG.sub(" ", _COLUMNS.sub(" ", text))
    text = text.replace(r"\\", "\n").replace("~", " ").replace("---", "—").replace("--", "–")
    text = text.replace("``", "“").replace("''", "”")
    text = _ESCAPE.sub(lambda m: m.group(1) if m.group(1) in "%$#&_{}" else " ", text.replace(" & ", " "))
    text = _COMMAND.sub(lambda m: _SIGNS.get(m.group(1), ""), text)
    return re.sub(r"[{}^_$]", "", text)


def tex_document_to_text(source: str) -> str:
    """Body text of a LaTeX document (between \\begin{document} and \\end{document} when present)."""
    match = re.search(r"\\begin\{document\}(.*?)\\end\{document\}", source, re.S)
    return latex_to_text(match.group(1) if match else source)


def strip_bullets(text: str) -> str:
    """Bullet signs at line starts removed; numbers of numbered lists stay, since the page shows them."""
    return _BULLET.sub("", text)


def markdown_to_text(source: str) -> str:
    """Text of Markdown with tables, raw HTML and $formulas$: pictures and link targets go, list numbers stay."""
    from markdown_it import MarkdownIt

    formulas: list[str] = []

    def hide(match: re.Match[str]) -> str:
        formulas.append(latex_to_text(next(g for g in match.groups() if g is not None)))
        return f"\ue000{len(formulas) - 1}\ue001"  # private-use signs: Markdown leaves them alone

    out: list[str] = []
    numbers: list[int | None] = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(_MATH.sub(hide, source)):
        if token.type in ("ordered_list_open", "bullet_list_open"):
            numbers.append(int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None)
        elif token.type in ("ordered_list_close", "bullet_list_close"):
            numbers.pop()
        elif token.type == "list_item_open" and numbers[-1] is not None:
            out.append(f"{numbers[-1]}{token.markup or '.'} ")
            numbers[-1] += 1
        elif token.type == "inline":
            out.append(_inline(token))
        elif token.type in ("code_block", "fence"):
            out.append(token.content)
        elif token.type == "html_block":
            out.append(html_to_text(token.content) + "\n")
        elif token.type in ("td_close", "th_close"):
            out.append(" ")
        elif token.type in ("paragraph_close", "heading_close", "tr_close"):
            out.append("\n")
    text = re.sub("\ue000(\\d+)\ue001", lambda m: formulas[int(m.group(1))], "".join(out))
    return strip_bullets(text)


def _inline(token: object) -> str:
    out: list[str] = []
    for child in getattr(token, "children", None) or []:
        if child.type in ("text", "code_inline"):
            out.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            out.append("\n")
        elif child.type == "html_inline" and child.content.lower().startswith("<br"):
            out.append("\n")
        elif child.type == "html_inline" and not _TAG.fullmatch(child.content):
            out.append(html.unescape(child.content))
    return "".join(out)

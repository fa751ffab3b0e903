"""LaTeX mathematics as a list of tokens in one canonical spelling: many sources that look the same give one list.

Removed: dollar signs and display environments, labels and tags, spacing (\\, \\quad ~ \\hspace{..}), style switches
(\\displaystyle, \\limits), \\left and \\right and the \\big family (their delimiters stay, "\\left." vanishes), array
column letters and alignment marks of aligned/eqnarray. Rewritten: synonyms (\\le, \\leq), {a \\over b} to
\\frac{a}{b}, {\\bf x} to \\mathbf{x}, x' to x^{\\prime}, every argument and script in braces, redundant braces gone,
subscript before superscript. Does not expand macros, and does not know that two different formulas mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\S", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_LENGTH = re.compile(r"\\(hspace|vspace|hskip|vskip|kern|mkern|mskip|raisebox)\*?\s*(\{[^{}]*\}|-?[\d.]+\s*[a-z]{2})")
_LABEL = re.compile(r"\\(label|tag|tag\*)\s*\{[^{}]*\}")
_ROW_GAP = re.compile(r"(\\\\)\s*\[[^\]\[]*(?:pt|em|ex|mm|cm|in)\]")
_COLUMNS = re.compile(r"(\\begin\s*\{(?:array|tabular)\})\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}")
_ENV = re.compile(r"\\(begin|end)\s*\{([a-zA-Z]+)\*?\}")

_DROP = frozenset(
    r"""\, \; \: \! \  \> \quad \qquad \thinspace \medspace \thickspace \negthinspace \enspace \space \displaystyle
    \textstyle \scriptstyle \scriptscriptstyle \limits \nolimits \nonumber \notag \left \right \middle \big \Big \bigg
    \Bigg \bigl \Bigl \biggl \Biggl \bigr \Bigr \biggr \Biggr \bigm \Bigm \strut \mathstrut \relax \noindent \/ \mathord
    \mathop \mathrel \mathbin \mathopen \mathclose \mathpunct \mathinner \hfill \null \protect \normalsize \small
    \boldmath ~ $ \[ \] \( \) \allowbreak \nobreak""".split()
    + ["\\ ", "\\\n", "\\\t"]
)
_SAME = {
    r"\le": r"\leq", r"\ge": r"\geq", r"\ne": r"\neq", r"\to": r"\rightarrow", r"\gets": r"\leftarrow",
    r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\vert": "|", r"\lvert": "|",
    r"\rvert": "|", r"\Vert": r"\|", r"\lVert": r"\|", r"\rVert": r"\|", r"\mid": "|", r"\parallel": r"\|",
    r"\land": r"\wedge", r"\lor": r"\vee", r"\lnot": r"\neg", r"\owns": r"\ni", r"\iff": r"\Longleftrightarrow",
    r"\dots": r"\ldots", r"\dotsc": r"\ldots", r"\dotsb": r"\cdots", r"\dotsm": r"\cdots", r"\dfrac": r"\frac",
    r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom", r"\sp": "^", r"\sb": "_",
    r"\colon": ":", r"\ast": "*", r"\lt": "<", r"\gt": ">", r"\cr": r"\\", r"\newline": r"\\",
    r"\text": r"\mathrm", r"\mbox": r"\mathrm", r"\hbox": r"\mathrm", r"\textrm": r"\mathrm", r"\bm": r"\mathbf",
    r"\operatorname": r"\mathrm", r"\boldsymbol": r"\mathbf", r"\pmb": r"\mathbf", r"\textbf": r"\mathbf",
    r"\textit": r"\mathit", r"\widehat": r"\hat", r"\widetilde": r"\tilde", r"\overline": r"\bar",
    r"\tabularnewline": r"\\", r"\hslash": r"\hbar", r"\varnothing": r"\emptyset", r"\slash": "/",
    r"\backslash": r"\setminus", r"\dag": r"\dagger",
}  # fmt: skip
_SWITCH = {
    r"\rm": r"\mathrm", r"\bf": r"\mathbf", r"\it": r"\mathit", r"\cal": r"\mathcal", r"\sf": r"\mathsf",
    r"\tt": r"\mathtt", r"\frak": r"\mathfrak", r"\mit": r"\mathit", r"\Bbb": r"\mathbb", r"\bold": r"\mathbf",
}  # fmt: skip
_INFIX = {r"\over": r"\frac", r"\choose": r"\binom", r"\atop": r"\atop", r"\brace": r"\brace", r"\brack": r"\brack"}
_TWO = frozenset({r"\frac", r"\binom", r"\stackrel", r"\overset", r"\underset"})
_ONE = frozenset(
    r"""\mathrm \mathbf \mathit \mathcal \mathsf \mathtt \mathfrak \mathbb \mathscr \hat \tilde \bar \vec \dot \ddot
    \dddot \check \breve \acute \grave \mathring \underline \overbrace \underbrace \overrightarrow \overleftarrow \sqrt
    \pmod \boxed \not \phantom \hphantom \vphantom \substack \textsc \textsf \texttt \emph""".split()
)
_ALIGNED = frozenset("aligned align split eqnarray gathered gather multline alignedat flalign".split())
_WRAPPERS = frozenset({"equation", "displaymath", "math"})
_OPERATORS = frozenset(
    """arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim liminf limsup ln log max
    min sec sin sinh sup tan tanh""".split()
)


def canonical_tokens(latex: str) -> list[str]:
    """The canonical tokens of one formula. Never raises: unbalanced braces are closed or dropped."""
    text = _COMMENT.sub("", latex)
    for pattern in (_LENGTH, _LABEL):
        text = pattern.sub(" ", text)
    text = _ROW_GAP.sub(r"\1", text)
    text = _COLUMNS.sub(r"\1", text)
    text = _ENV.sub(_environment, text)
    tokens = _TOKEN.findall(text)
    return _Parser(tokens).run()


def canonical_latex(latex: str) -> str:
    """The canonical tokens joined by single spaces: to look at, not for TeX (environments are single tokens)."""
    return " ".join(canonical_tokens(latex))


def _environment(match: re.Match[str]) -> str:
    edge, name = match.group(1), match.group(2)
    if name in _WRAPPERS:
        return " "
    return f" \\{edge}env{'aligned' if name in _ALIGNED else name} "


def _font(command: str, inner: list[str]) -> list[str]:
    """command{inner}; an upright operator name is the operator."""
    if command == r"\mathrm" and "".join(inner) in _OPERATORS:
        return ["\\" + "".join(inner)]
    return [command, "{", *inner, "}"]


def _closes(token: str) -> bool:
    return token == "" or token.startswith(r"\endenv")


class _Parser:
    """Recursive descent over the raw tokens; each method returns canonical tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = [_SAME.get(t.rstrip("*") if len(t) > 2 else t, t) for t in self._clean(tokens)]
        self.at = 0
        self.aligned = 0

    @staticmethod
    def _clean(tokens: Sequence[str]) -> list[str]:
        out: list[str] = []
        for token in tokens:
            if token == "." and out and out[-1] in (r"\left", r"\right"):
                continue
            out.append(token)
        return [t for t in out if t not in _DROP]

    def run(self) -> list[str]:
        out: list[str] = []
        while self.at < len(self.tokens):
            out += self.sequence()
            self.at += 1  # a closing brace without an opening one is dropped
        # a row end before \\end{..}, or at the very end, starts no row
        return [t for t, after in zip(out, [*out[1:], ""][: len(out)], strict=True) if t != r"\\" or not _closes(after)]

    def sequence(self, stop: str = "}") -> list[str]:
        """Everything up to `stop` (not consumed) with \\over and font switches resolved."""
        out: list[str] = []
        while self.at < len(self.tokens) and self.tokens[self.at] not in (stop, "}"):
            token = self.tokens[self.at]
            if token in _SWITCH:
                self.at += 1
                rest = self.sequence(stop)
                return out + (_font(_SWITCH[token], rest) if rest else [])
            if token in _INFIX:
                self.at += 1
                return [_INFIX[token], "{", *out, "}", "{", *self.sequence(stop), "}"]
            out += self.scripted()
        return out

    def scripted(self) -> list[str]:
        """One atom with its scripts, subscript first."""
        base = [] if self.tokens[self.at] in ("^", "_", "'") else self.atom()
        sub: list[str] = []
        sup: list[str] = []
        while self.at < len(self.tokens) and self.tokens[self.at] in ("^", "_", "'"):
            mark = self.tokens[self.at]
            self.at += 1
            if mark == "'":
                sup.append(r"\prime")
            elif mark == "_":
                sub += self.argument()
            else:
                sup += self.argument()
        return base + (["_", "{", *sub, "}"] if sub else []) + (["^", "{", *sup, "}"] if sup else [])

    def argument(self) -> list[str]:
        """One argument without braces of its own: the contents of a group, or one atom."""
        if self.at >= len(self.tokens) or self.tokens[self.at] == "}":
            return []
        return self.group() if self.tokens[self.at] == "{" else self.atom()

    def group(self) -> list[str]:
        self.at += 1
        out = self.sequence()
        self.at += 1  # the closing brace, or past the end when it is missing
        return out

    def atom(self) -> list[str]:
        token = self.tokens[self.at]
        if token == "{":
            return self.group()
        self.at += 1
        if token in (r"\beginenvaligned", r"\endenvaligned"):
            self.aligned += 1 if token.startswith(r"\begin") else -1
            return [token]
        if token == "&" and self.aligned > 0:
            return []
        if token in _TWO:
            first, second = self.argument(), self.argument()
            if token == r"\stackrel":
                token = r"\overset"
            return [token, "{", *first, "}", "{", *second, "}"]
        if token in _ONE:
            option = self.option() if token == r"\sqrt" else []
            inner = self.argument()
            return _font(token, inner) if not option else [token, *option, "{", *inner, "}"]
        return [token]

    def option(self) -> list[str]:
        """[n] of \\sqrt[n]{x}."""
        if self.at >= len(self.tokens) or self.tokens[self.at] != "[":
            return []
        self.at += 1
        inner = self.sequence("]")
        self.at += 1
        return ["[", *inner, "]"]

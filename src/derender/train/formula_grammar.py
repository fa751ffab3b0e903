"""Formulas written by a grammar: LaTeX source of the kinds of displays that papers and textbooks hold.

Sizes are drawn first, so that short formulas are the most frequent and long ones exist. Meaning is not sought: a
formula must look like one. Draws nothing (formula_render.py) and reads no source of others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
_LATIN = tuple("abcdefghijklmnopqrstuvwxyz")
_CAPITAL = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_GREEK = tuple(
    r"""\alpha \beta \gamma \delta \epsilon \varepsilon \zeta \eta \theta \vartheta \kappa \lambda \mu \nu \xi \pi \rho
    \sigma \tau \phi \varphi \chi \psi \omega \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi \Omega""".split()
)
_CONSTANT = tuple(r"\infty \partial \nabla \hbar \ell \emptyset \ldots \cdots \prime \dagger \Re \Im".split())
_BINARY = ("+", "-", "+", "-", *r"\cdot \times \pm \mp \otimes \oplus \wedge \cap \cup \circ / *".split())
_RELATION = (
    *("=",) * 12,
    *r"< > \leq \geq \neq \equiv \sim \simeq \approx \propto \ll \gg \in \notin \subset \subseteq \rightarrow".split(),
    *r"\Rightarrow \mapsto \Leftrightarrow \longrightarrow \leftrightarrow \cong \perp".split(),
)
_LARGE = tuple(r"\sum \prod \int \oint \bigcup \bigcap \bigoplus \iint".split())
_FUNCTION = tuple(r"\sin \cos \tan \exp \log \ln \det \max \min \sup \inf \dim \ker \sinh \cosh \tanh \arg".split())
_ACCENT = tuple(r"\hat \tilde \bar \vec \dot \ddot \check \overline \widehat \widetilde".split())
_FACE = tuple(r"\mathbf \mathcal \mathbb \mathrm \mathfrak \mathsf \boldsymbol".split())
_WORD = tuple("if otherwise for all and or where eff max min phys tot ext int mod const Tr Re Im on".split())
_UNIT = tuple("m s kg K J W Hz eV mol Pa cm mm km N T".split())
_ELEMENT = tuple("H O C N S Na Cl Ca Fe K Mg P Cu Ag Zn".split())
_LOWER_GREEK = tuple(r"\alpha \beta \gamma \delta \mu \nu \rho \sigma \lambda \kappa".split())
_IDIOMS = (
    r"\frac { \partial X } { \partial X }", r"\frac { d X } { d X }", r"\partial _ { X } S",
    r"\frac { 1 } { X }",
    r"\frac { 1 } { 2 }", r"\frac { X } { 2 }", r"e ^ { - E }", r"e ^ { i E }", r"d ^ { X } x", r"d X", r"| X \rangle",
    r"\langle X | S | X \rangle", r"\langle S \rangle", r"\sqrt { - X }", r"\sqrt { 1 - S }", r"X ( X )",
    r"S ( X , X )",
    r"f ( E )", r"[ S , S ]", r"\{ S , S \}", r"X = 1 , \ldots , X", r"X = 1 , 2 , \ldots", r"( E ) ^ { 2 }",
    r"\left( E \right) ^ { - 1 }", r"S S S", r"X ^ { 2 } + X ^ { 2 }", r"\mathrm { T r } S", r"\mathrm { T r } ( E )",
    r"\int d ^ { 4 } x E", r"\int _ { 0 } ^ { \infty } E \, d X", r"\sum _ { X = 0 } ^ { \infty } E", r"X \in X",
    r"\delta _ { X X }", r"\epsilon _ { X X X }", r"- i S", r"2 \pi X", r"4 \pi ^ { 2 }", r"\nabla _ { X } S",
    r"| E | ^ { 2 }", r"X ' ( X )", r"S \cdot S", r"S \wedge S", r"\lim _ { X \to \infty } E", r"X - X _ { 0 }",
    r"( 2 X + 1 )",
    r"X ^ { \dagger } X", r"X ^ { * } X", r"\bar { X } X", r"\tilde { X } _ { X }", r"\hat { X } ^ { X }",
    r"\dot { X } ^ { 2 }",
)  # fmt: skip
_PAIR = (
    ("(", ")"),
    ("(", ")"),
    ("(", ")"),
    ("[", "]"),
    (r"\{", r"\}"),
    ("|", "|"),
    (r"\|", r"\|"),
    (r"\langle", r"\rangle"),
)


def draw_formula(rng: Rng) -> str:
    """LaTeX source of one formula without dollar signs; 2 to about 200 canonical tokens."""
    size = int(min(40, 1 + rng.gamma(1.6, 5.0)))
    kind = rng.random()
    if kind < 0.05:
        return _chemistry(rng)
    if kind < 0.09:
        return _quantity(rng)
    if kind < 0.14:
        return _aligned(rng, size)
    if kind < 0.18:
        return _cases(rng, size)
    text = _chain(rng, size)
    return text + _pick(rng, (",", ".", "")) if rng.random() < 0.3 else text


def _pick(rng: Rng, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _chain(rng: Rng, size: int) -> str:
    """Expressions joined by relations."""
    sides = int(rng.choice([1, 2, 3], p=[0.25, 0.6, 0.15])) if size > 2 else 1
    parts = [_expression(rng, max(1, size // sides))]
    for _ in range(sides - 1):
        parts += [_pick(rng, _RELATION), _expression(rng, max(1, size // sides))]
    return " ".join(parts)


def _expression(rng: Rng, size: int) -> str:
    """Terms joined by operators, or by nothing."""
    out: list[str] = []
    left = size
    while left > 0:
        share = int(rng.integers(1, left + 1))
        if out and rng.random() < 0.55:
            out.append(_pick(rng, _BINARY))
        elif not out and rng.random() < 0.08:
            out.append("-")
        out.append(_term(rng, share))
        left -= share
    return " ".join(out)


def _term(rng: Rng, size: int) -> str:
    if size < 2:
        return _symbol(rng) if rng.random() < 0.7 else _scripted(rng, 1)
    makers: tuple[Callable[[Rng, int], str], ...] = (
        _fraction, _fraction, _scripted, _scripted, _scripted, _bracket, _bracket, _large, _large, _root, _function,
        _marked, _called, _idiom, _idiom, _idiom, _idiom,
    )  # fmt: skip
    if size > 5 and rng.random() < 0.06:
        return _matrix(rng, size)
    return makers[int(rng.integers(len(makers)))](rng, size)


def _symbol(rng: Rng) -> str:
    draw = rng.random()
    if draw < 0.38:
        return _pick(rng, _LATIN)
    if draw < 0.55:
        return _pick(rng, _CAPITAL)
    if draw < 0.75:
        return _pick(rng, _GREEK)
    if draw < 0.88:
        return _number(rng)
    if draw < 0.92:
        return _pick(rng, _CONSTANT)
    if draw < 0.96:
        return f"{_pick(rng, _FACE)}{{{_pick(rng, _CAPITAL)}}}"
    return f"{_pick(rng, _ACCENT)}{{{_pick(rng, (*_LATIN, *_CAPITAL, *_GREEK))}}}"


def _number(rng: Rng) -> str:
    if rng.random() < 0.75:
        return str(int(rng.integers(10)))
    whole = str(int(rng.integers(10, 2000)))
    return whole if rng.random() < 0.6 else f"{whole}.{int(rng.integers(100))}"


def _scripted(rng: Rng, size: int) -> str:
    base = _symbol(rng)
    while base in (r"\prime", r"\dagger"):
        base = _symbol(rng)
    sub, sup = (True, False) if rng.random() < 0.45 else (False, True) if rng.random() < 0.6 else (True, True)
    primes = "'" * int(rng.integers(1, 3)) if rng.random() < 0.08 else ""
    inner = max(1, size // 2)
    if sub:
        word = rf"\mathrm{{{_pick(rng, _WORD)}}}"
        base += f"_{{{word if rng.random() < 0.1 else _script(rng, min(inner, 4))}}}"
    if primes:
        base += primes
    elif sup:
        base += f"^{{{_script(rng, min(inner, 5))}}}"
    return base


def _script(rng: Rng, size: int) -> str:
    """An expression, or a few indices of one kind, with or without commas."""
    if rng.random() < 0.65:
        return _expression(rng, size)
    kind = ("ijklmnpqrs", "abcdefgh", "ABCMN", _LOWER_GREEK, "0123456789", "xyzt")[int(rng.integers(6))]
    comma = " , " if rng.random() < 0.15 else " "
    return comma.join(kind[int(rng.integers(len(kind)))] for _ in range(int(rng.integers(1, 5))))


def _idiom(rng: Rng, size: int) -> str:
    """What physics and analysis write all the time; capitals stand for parts to be drawn."""
    template = _pick(rng, _IDIOMS)
    parts = {
        "X": lambda: _symbol(rng),
        "S": lambda: _scripted(rng, 1),
        "E": lambda: _expression(rng, max(1, size // 3)),
    }
    return " ".join(parts[word]() if word in parts else word for word in template.split())


def _fraction(rng: Rng, size: int) -> str:
    above = int(rng.integers(1, size)) if size > 1 else 1
    return rf"\frac{{{_expression(rng, above)}}}{{{_expression(rng, max(1, size - above))}}}"


def _root(rng: Rng, size: int) -> str:
    order = f"[{int(rng.integers(3, 10))}]" if rng.random() < 0.2 else ""
    return rf"\sqrt{order}{{{_expression(rng, size)}}}"


def _bracket(rng: Rng, size: int) -> str:
    left, right = _PAIR[int(rng.integers(len(_PAIR)))]
    inner = _expression(rng, size - 1)
    text = rf"\left{left} {inner} \right{right}" if rng.random() < 0.6 else f"{left} {inner} {right}"
    return text + (f"^{{{_symbol(rng)}}}" if rng.random() < 0.25 else "")


def _large(rng: Rng, size: int) -> str:
    sign = _pick(rng, _LARGE)
    low = f"{_pick(rng, _LATIN)}={_symbol(rng)}" if rng.random() < 0.6 else _symbol(rng)
    limits = f"_{{{low}}}" if rng.random() < 0.75 else ""
    limits += f"^{{{_expression(rng, 1)}}}" if limits and rng.random() < 0.7 else ""
    end = rf" \, d{_pick(rng, _LATIN)}" if "int" in sign and rng.random() < 0.8 else ""
    return f"{sign}{limits} {_expression(rng, size - 1)}{end}"


def _function(rng: Rng, size: int) -> str:
    name = r"\lim_{x \to " + _symbol(rng) + "}" if rng.random() < 0.1 else _pick(rng, _FUNCTION)
    return f"{name} {_bracket(rng, size)}" if rng.random() < 0.5 else f"{name} {_expression(rng, size - 1)}"


def _marked(rng: Rng, size: int) -> str:
    mark = _pick(rng, (r"\overline", r"\underline", r"\overrightarrow", r"\widehat", r"\overbrace", r"\underbrace"))
    return f"{mark}{{{_expression(rng, min(size, 4))}}}"


def _called(rng: Rng, size: int) -> str:
    count = int(rng.integers(1, 4))
    arguments = ", ".join(_expression(rng, max(1, size // (count + 1))) for _ in range(count))
    return f"{_scripted(rng, 1)} ({arguments})"


def _matrix(rng: Rng, size: int) -> str:
    rows, cols = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    cell = max(1, min(3, size // (rows * cols)))
    body = r" \\ ".join(" & ".join(_expression(rng, cell) for _ in range(cols)) for _ in range(rows))
    name = _pick(rng, ("matrix", "pmatrix", "pmatrix", "bmatrix", "vmatrix", "Vmatrix", "Bmatrix"))
    return rf"\begin{{{name}}} {body} \end{{{name}}}"


def _aligned(rng: Rng, size: int) -> str:
    rows = int(rng.integers(2, 4))
    lines = [f"{_symbol(rng)} &= {_expression(rng, max(1, size // rows))}" for _ in range(rows)]
    return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


def _cases(rng: Rng, size: int) -> str:
    rows = int(rng.integers(2, 4))
    lines = [
        rf"{_expression(rng, max(1, size // (2 * rows)))} & \mathrm{{{_pick(rng, _WORD)}}} {_chain(rng, 3)}"
        for _ in range(rows)
    ]
    return rf"{_scripted(rng, 1)} = \begin{{cases}} " + r" \\ ".join(lines) + r" \end{cases}"


def _chemistry(rng: Rng) -> str:
    def molecule() -> str:
        atoms = [_pick(rng, _ELEMENT) for _ in range(int(rng.integers(1, 4)))]
        return "".join(
            rf"\mathrm{{{a}}}" + (f"_{{{int(rng.integers(2, 12))}}}" if rng.random() < 0.6 else "") for a in atoms
        ) + (f"^{{{_pick(rng, ('+', '-', '2+', '2-', '3+'))}}}" if rng.random() < 0.25 else "")

    sides = [" + ".join(molecule() for _ in range(int(rng.integers(1, 4)))) for _ in range(2)]
    return _pick(rng, (r" \rightarrow ", r" \rightleftharpoons ", " = ")).join(sides)


def _quantity(rng: Rng) -> str:
    power = rf" \times 10^{{{int(rng.integers(-20, 20))}}}" if rng.random() < 0.5 else ""
    units = r" \, ".join(
        rf"\mathrm{{{_pick(rng, _UNIT)}}}"
        + (f"^{{{int(rng.choice([-3, -2, -1, 2, 3]))}}}" if rng.random() < 0.5 else "")
        for _ in range(int(rng.integers(1, 4)))
    )
    return rf"{_scripted(rng, 1)} = {_number(rng)}{power} \, {units}"

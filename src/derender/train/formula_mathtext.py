"""Pictures of formulas by matplotlib's mathtext: another typesetter than TeX, with other fonts and spacing.

Whose ink it is comes from the parser: it is told where in the source each construct begins, and every character and
rule that the construct makes is marked with that place. This taps matplotlib's private classes, so it is for training
only and may break with a new matplotlib. Knows no matrices, primes, braces above or below; such formulas are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.train.formula_colours import MOST, NOBODY

MATHTEXT_FONTS = ("cm", "dejavusans", "dejavuserif", "stix")
_MARKED = ("symbol", "accent", "function", "operatorname", "frac", "dfrac", "sqrt", "overline")
_REFUSED = frozenset(
    r"\prime \atop \pmod \boxed \not \substack \binom \underline \overbrace \underbrace \overrightarrow \overleftarrow"
    r" \overset \underset \mathtt \breve \acute \grave \mathring \dddot \\ &".split()
)
_ACCENTS = frozenset(r"\hat \tilde \bar \vec \dot \ddot \check".split())
_WIDE = {r"\hat": r"\widehat", r"\tilde": r"\widetilde", r"\bar": r"\overline"}
_POINTS, _MARGIN, _PALE = 12.0, 4.0, 48


def draw_mathtext(
    tokens: Sequence[str], font: str, dpi: int, display: bool = True
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]] | None:
    """(H, W) grey picture and owners as in FormulaPicture; None where mathtext cannot set the formula. display:
    fractions of full size."""
    written = _source(list(tokens), display)
    if written is None:
        return None
    source, starts = written
    try:
        box = _parser().parse(source, _fontset(font), _POINTS, float(dpi))
    except (ValueError, KeyError, RuntimeError, AttributeError):
        return None
    return _draw(box, starts, dpi)


def _source(tokens: list[str], display: bool) -> tuple[str, dict[int, int]] | None:
    """The formula between dollar signs, and which token begins at each place behind the first of them."""
    if len(tokens) > MOST or any(t in _REFUSED or t.startswith((r"\beginenv", r"\endenv")) for t in tokens):
        return None
    text, starts, depth = "", {}, 0
    for i, token in enumerate(tokens):
        depth += {"{": 1, "}": -1}.get(token, 0)
        # a lone symbol under an accent has the accent's number, as with TeX (formula_colours.py)
        lone = i > 1 and tokens[i - 2] in _ACCENTS and tokens[i - 1 : i + 2 : 2] == ["{", "}"]
        starts[len(text)] = i - 2 if lone else i
        written = token
        if token in _WIDE and tokens[i + 1 : i + 2] == ["{"] and tokens[i + 3] != "}":
            written = _WIDE[token]
        elif token == r"\frac" and display and depth == 0:
            written = r"\dfrac"
        # an accent over a command needs no space, and a name must not run into a letter
        text += written + (" " if written[-1].isalpha() and written[0] == "\\" else "")
    return f"${text}$", starts


@lru_cache(maxsize=1)
def _parser() -> Any:
    from matplotlib import _mathtext

    def marking(method: Callable[..., Any]) -> Callable[..., Any]:
        with_place = len(inspect.signature(method).parameters) == 4

        def action(self: Any, s: str, loc: int, toks: Any) -> Any:
            made = method(self, s, loc, toks) if with_place else method(self, toks)
            for node in _leaves(made):
                if not hasattr(node, "place"):
                    node.place = loc
            return made

        return action

    actions = {name: marking(getattr(_mathtext.Parser, name)) for name in _MARKED}
    return type("_MarkingParser", (_mathtext.Parser,), actions)()


def _leaves(made: Any) -> Iterator[Any]:
    from matplotlib import _mathtext

    if isinstance(made, _mathtext.Char | _mathtext.Rule):
        yield made
    elif not isinstance(made, str):
        for part in getattr(made, "children", made if isinstance(made, list) else ()):
            yield from _leaves(part)


def _fontset(font: str) -> Any:
    from matplotlib import mathtext
    from matplotlib.font_manager import FontProperties
    from matplotlib.ft2font import LoadFlags

    parser: Any = mathtext.MathTextParser
    kind = parser._font_type_mapping[font]
    return kind(FontProperties(size=_POINTS, math_fontfamily=font), LoadFlags.NO_HINTING)


def _draw(box: Any, starts: dict[int, int], dpi: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]] | None:
    from matplotlib import _mathtext

    glyphs: list[tuple[float, float, Any, int]] = []
    rules: list[tuple[float, float, float, float, int]] = []
    for node in _leaves(box):
        node.render = _recording(node, starts.get(getattr(node, "place", -1), NOBODY), glyphs, rules)
    _mathtext.ship(box, (0.0, 0.0))
    if not glyphs:
        return None
    margin = _MARGIN * dpi / 72
    left = min([x + g.metrics.xmin for x, _, g, _ in glyphs] + [r[0] for r in rules]) - margin
    top = min([y - g.metrics.ymax for _, y, g, _ in glyphs] + [r[1] for r in rules]) - margin
    right = max([x + g.metrics.xmax for x, _, g, _ in glyphs] + [r[0] + r[2] for r in rules]) + margin
    bottom = max([y - g.metrics.ymin for _, y, g, _ in glyphs] + [r[1] + r[3] for r in rules]) + margin
    size = (int(np.ceil(bottom - top)), int(np.ceil(right - left)))
    ink_HW, owner_HW = np.zeros(size, np.uint8), np.full(size, NOBODY, np.uint8)

    def add(layer_HW: npt.NDArray[np.uint8], owner: int) -> None:
        owner_HW[(layer_HW > ink_HW) & (layer_HW >= _PALE)] = owner
        np.maximum(ink_HW, layer_HW, out=ink_HW)

    for x, y, g, owner in glyphs:
        layer_HW = np.zeros(size, np.uint8)
        at = (int(x - left), int(y - top - g.metrics.iceberg))
        g.font.draw_glyph_to_bitmap(layer_HW, *at, g.glyph, antialiased=True)
        add(layer_HW, owner)
    for x, y, w, h, owner in rules:
        layer_HW = np.zeros(size, np.uint8)
        row, column = int(y - top), int(x - left)
        layer_HW[row : row + max(1, round(h)), column : column + max(1, round(w))] = 255
        add(layer_HW, owner)
    return (255 - ink_HW).astype(np.uint8), owner_HW


def _recording(node: Any, owner: int, glyphs: list[Any], rules: list[Any]) -> Callable[..., None]:
    """A render method that notes what the node's own one draws."""
    plain = node.render

    def render(output: Any, *place: float) -> None:
        before = len(output.glyphs), len(output.rects)
        plain(output, *place)
        glyphs.extend((*g, owner) for g in output.glyphs[before[0] :])
        rules.extend((*r, owner) for r in output.rects[before[1] :])

    return render

"""Sub- and superscripts in native words, from sizes and baselines, and on a page that TeX set."""

from __future__ import annotations

import pytest

from derender.formula.tex import tex_ready
from derender.ingest.lines import words_to_lines
from derender.ingest.scripts import Base, marked
from derender.ingest.types import Piece, Word

BASE = Base(10.0, 100.0)
UP, DOWN = (7.0, 96.0), (7.0, 101.5)  # size and baseline


def _read(*pieces: str, before: str = "") -> str:
    """Pieces as "^2", "_i" or plain."""
    place = {"^": UP, "_": DOWN}
    made: list[Piece] = [(p[1:], *place[p[0]]) if p[0] in place else (p, 10.0, 100.0) for p in pieces]
    return marked(made, BASE, before)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("x", "^2"), "x²"),
        (("a", "_n+1", "."), "aₙ₊₁."),
        (("10", "^−3"), "10⁻³"),
        (("θ", "_ij", "^k"), "θᵢⱼᵏ"),
        (("H", "_2", "O"), "H₂O"),
        (("m", "_eff"), "m_{eff}"),  # there is no lowered f
        (("e", "^iπ"), "e^{iπ}"),
        (("f", "(x)", "^2"), "f(x)²"),
        (("2", "^nd"), "2nd"),
        (("note", "^3,4"), "note³,⁴"),
        (("a", "_2,"), "a₂,"),
        (("force", "^[2]"), "force[2]"),
        (("L", "^A", "TEX"), "LATEX"),
        (("x", "^a remark set above"), "xa remark set above"),
    ],
)
def test_scripts_are_marked(pieces: tuple[str, ...], text: str) -> None:
    assert _read(*pieces) == text


def test_what_stands_behind_nothing_is_no_script() -> None:
    assert _read("^1", "See") == "1See"
    assert _read("^2", before="x") == "²"
    assert _read("^2", before="x ") == "2"


@pytest.mark.parametrize(
    "piece", [("MALL", 7.5, 100.0), ("2", 9.5, 96.0), ("2", 2.0, 96.0), ("2", 7.0, 80.0), ("X", 30.0, 110.0)]
)
def test_small_capitals_drop_capitals_and_far_things_are_no_scripts(piece: Piece) -> None:
    assert BASE.side(piece) == 0


def test_the_base_is_what_most_characters_have() -> None:
    assert Base.of([("T", 30.0, 120.0), ("here was", 10.0, 100.0), ("2", 7.0, 96.0)]) == BASE
    assert Base.of([]) is None


def _word(text: str, x: float, order: int, size: float = 10.0, base: float = 100.0) -> Word:
    box = (x, base - 0.8 * size, x + 0.5 * size * len(text), base + 0.2 * size)
    return Word(text, box, order, size, pieces=((text, size, base),))


def test_a_script_that_is_a_word_of_its_own_joins_what_it_belongs_to() -> None:
    words = [
        _word("Let", 0, 0),
        _word("x", 20, 1),
        _word("k", 25.5, 2, *UP),
        _word("ij", 25.5, 3, *DOWN),
        _word(",", 34, 4),
        _word("be", 42, 5),
    ]
    assert [line.text for line in words_to_lines(words)] == ["Let xᵏᵢⱼ, be"]


def test_words_without_pieces_are_as_before() -> None:
    words = [Word("x", (0, 92, 5, 102), 0, 10.0), Word("2", (5.2, 88, 9, 96), 1, 7.0)]
    assert [line.text for line in words_to_lines(words)] == ["x2"]


@pytest.mark.skipif(not tex_ready(), reason="pdflatex is not installed with its packages and fonts")
def test_a_line_by_tex() -> None:
    import pypdfium2

    from derender.formula.tex import typeset
    from derender.ingest.pdfwords import extract_words

    batch = typeset(
        [r"\text{Let $x_i$, $a_{n+1}$ and $\alpha^2$ be $\leq 10^{-3}$\,m$^2$, H$_2$O $\neq$ C.}"], "computer modern"
    )
    assert batch is not None
    page = pypdfium2.PdfDocument(batch.pdf)[0]
    (line,) = words_to_lines(extract_words(page))
    assert line.text == "Let xᵢ, aₙ₊₁ and α² be ≤ 10⁻³ m², H₂O ≠ C."

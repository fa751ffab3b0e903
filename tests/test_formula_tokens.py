"""Formula tokens: one picture has one spelling, the spelling is LaTeX again, and the check finds what is broken.

Tests that typeset are skipped where pdflatex or one of its packages is not installed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from derender.formula import FORMULA_TOKENS, check_latex, decode_ids, encode_tokens, spell, target_tokens
from derender.formula.tex import MATH_FONTS, compiles, tex_ready, typeset
from derender.formula.vocabulary import EOS
from derender.train.formula_grammar import draw_formula
from derender.train.formula_render import HELD_OUT_FONTS, draw_pictures, held_out, load_pictures, save_pictures

needs_tex = pytest.mark.skipif(not tex_ready(), reason="pdflatex is not installed with its packages and fonts")


@pytest.fixture(scope="module")
def sources() -> list[str]:
    rng = np.random.default_rng(11)
    return [draw_formula(rng) for _ in range(400)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"x^2_i", r"x_{i}^{2}"),
        (r"{a \over b}", r"\frac{a}{b}"),
        (r"\left( x \right)", "(x)"),
        (r"a \, b \quad c", "abc"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", r"\left(\begin{array}{cc} a & b \\ c & d \end{array}\right)"),
        (r"\begin{cases} a \\ b \end{cases}", r"\left\{ \begin{array}{l} a \\ b \end{array} \right."),
        (r"\begin{align} a &= b \end{align}", r"\begin{aligned} a = b \end{aligned}"),
        (r"\text{if}", r"\mathrm{if}"),
        (r"{\bf v}", r"\mathbf{v}"),
    ],
)
def test_spellings_of_one_picture_have_the_same_tokens(one: str, other: str) -> None:
    assert target_tokens(one) == target_tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("x_2", "x^2"), ("ab", "ba"), (r"\frac{a}{b}", r"\frac{b}{a}"), ("(x)", "[x]"), (r"\phi", r"\varphi")],
)
def test_other_pictures_have_other_tokens(one: str, other: str) -> None:
    assert target_tokens(one) != target_tokens(other)


def test_spelled_tokens_have_the_same_tokens(sources: list[str]) -> None:
    tokens = [target_tokens(s) for s in sources]
    assert [target_tokens(spell(t)) for t in tokens] == tokens


@pytest.mark.parametrize(
    "source",
    [r"\emptyset * b", r"\alpha b", r"a \\ [b]", r"{n \atop k}", r"\begin{aligned} a &= b \\ [c] &= d \end{aligned}"],
)
def test_spelling_keeps_neighbours_apart(source: str) -> None:
    assert target_tokens(spell(target_tokens(source))) == target_tokens(source)


def test_delimiters_around_arrays_grow() -> None:
    wanted = r"\left(\begin{array}{cc}a&b\end{array}\right)"
    assert spell(target_tokens(r"\begin{pmatrix} a & b \end{pmatrix}")) == wanted


def test_vocabulary_has_each_token_once() -> None:
    assert len(set(FORMULA_TOKENS)) == len(FORMULA_TOKENS)


def test_grammar_stays_inside_the_vocabulary_and_comes_back(sources: list[str]) -> None:
    for source in sources:
        tokens = target_tokens(source)
        ids = encode_tokens(tokens)
        assert ids is not None
        assert decode_ids([*ids, EOS, 5]) == tokens


@pytest.mark.parametrize("tokens", [["<mask>"], ["a", r"\lrcorner"]])
def test_tokens_outside_the_vocabulary_have_no_numbers(tokens: list[str]) -> None:
    assert encode_tokens(tokens) is None


def test_numbers_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(IndexError, match="no formula token"):
        decode_ids([len(FORMULA_TOKENS)])


@pytest.mark.parametrize(
    "broken",
    ["", "  ", "{a", "a}", r"\frac{a", r"\left( a", r"\begin{array}{c} a", r"{\begin{array}{c} a } \end{array}"],
)
def test_check_refuses_what_does_not_balance(broken: str) -> None:
    pytest.importorskip("pylatexenc")
    result = check_latex(broken)
    assert not result.ok
    assert result.reason


def test_check_accepts_what_the_grammar_writes(sources: list[str]) -> None:
    pytest.importorskip("pylatexenc")
    assert [s for s in sources if not check_latex(spell(target_tokens(s))).ok] == []


def test_escaped_braces_and_arrows_are_no_openings() -> None:
    pytest.importorskip("pylatexenc")
    assert check_latex(r"\{ a \rightarrow b \leftarrow c").ok


@needs_tex
def test_check_compiles_on_request() -> None:
    pytest.importorskip("pylatexenc")
    assert check_latex(r"x_{a}_{b}").ok
    assert check_latex(r"x_{a}_{b}", compile_it=True).compiled is False
    assert check_latex(r"x_{a}", compile_it=True).compiled is True


@needs_tex
def test_spelled_grammar_compiles(sources: list[str]) -> None:
    batch = typeset([spell(target_tokens(s)) for s in sources], "computer modern")
    assert batch is not None
    assert all(batch.good)


@needs_tex
def test_only_the_broken_formula_of_a_batch_is_bad() -> None:
    batch = typeset(["a", r"\nosuchcommand b", "c"], "computer modern")
    assert batch is not None
    assert batch.good == (True, False, True)


@needs_tex
def test_tex_reads_no_file_outside_its_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret.tex"
    secret.write_text("x")
    assert not compiles(rf"\input{{{secret}}}")


@needs_tex
def test_fonts_draw_the_same_formula_differently() -> None:
    pages = {font: typeset(["x+y"], font) for font in MATH_FONTS}
    assert all(page is not None and page.good == (True,) for page in pages.values())
    assert len({page.pdf for page in pages.values() if page}) == len(MATH_FONTS)


@needs_tex
def test_pictures_of_a_shard_come_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("shard") / "a.npz"
    pictures = list(draw_pictures(np.random.default_rng(0), 12))
    save_pictures(pictures, path)
    back = load_pictures(path)
    assert [(p.ids, p.font, p.dpi) for p in back] == [(p.ids, p.font, p.dpi) for p in pictures]
    assert all((a.grey_HW == b.grey_HW).all() for a, b in zip(back, pictures, strict=True))


@needs_tex
def test_held_out_formulas_and_fonts_never_train() -> None:
    train = list(draw_pictures(np.random.default_rng(5), 60))
    held = list(draw_pictures(np.random.default_rng(5), 20, held=True))
    assert not any(held_out(p.ids) for p in train)
    assert all(held_out(p.ids) for p in held)
    assert not {p.font for p in train} & set(HELD_OUT_FONTS)

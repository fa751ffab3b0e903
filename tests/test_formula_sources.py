"""Formulas out of other people's TeX, and pictures by mathtext."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from derender.formula.spelling import target_tokens
from derender.formula.vocabulary import encode_tokens
from derender.train.formula_colours import NOBODY
from derender.train.formula_pieces import PieceSample, draw_sample
from derender.train.formula_render import DPI, FormulaPicture
from derender.train.formula_sources import collect, formulas_in, loosened, usable

DOCUMENT = r"""
Energy is $E = m c^2 + a_{i}$ % not $this = one + here$
\begin{equation} \int_0^1 x\,dx = \frac12 \label{e} \end{equation}
\begin{verbatim} $f_i = code^2$ \end{verbatim}
\begin{align*} a &= b_1 \\ c &= d_2 \end{align*}
\[ \mymacro{x} + y^2 = z \] and \(\alpha_i + \beta_i\), $$p = q^{n+1}$$
"""
DOCSTRING = '''
def f(a_b):
    """Returns `x_1 + \\\\alpha^2` and :math:`\\\\sum_{i=1}^n i`, not `f(a_b)` nor `some_name`.

    .. math::
       :label: e

       \\\\frac{a}{b} = c
    """
'''


def test_formulas_of_a_document_are_found() -> None:
    found = [usable(f) for f in formulas_in(DOCUMENT, latex=True)]
    assert found == [
        "E=mc^{2}+a_{i}",
        r"\int_{0}^{1}xdx=\frac{1}{2}",
        r"\begin{aligned}{}a&=b_{1}\\c&=d_{2}\end{aligned}",
        None,  # a macro that nobody knows
        r"\alpha_{i}+\beta_{i}",
        "p=q^{n+1}",
    ]


def test_formulas_of_docstrings_are_found_and_code_is_not() -> None:
    found = [usable(f) for f in formulas_in(DOCSTRING, latex=False)]
    assert [f for f in found if f] == [r"\frac{a}{b}=c", r"x_{1}+\alpha^{2}", r"\sum_{i=1}^{n}i"]


@pytest.mark.parametrize("source", ["x", r"\left(\foo", r"\foo x_{1}^{2}", "return_{value}+1", "x_{1}" * 60, ""])
def test_what_is_not_for_training_is_dropped(source: str) -> None:
    assert usable(source) is None


def test_files_are_read_packed_or_not_and_each_formula_once(tmp_path: Path) -> None:
    (tmp_path / "a.tex").write_text(DOCUMENT)
    (tmp_path / "b.tex.gz").write_bytes(gzip.compress(DOCUMENT.encode()))
    (tmp_path / "c.tex.gz").write_text("not packed")
    (tmp_path / "d.py").write_text(DOCSTRING)
    assert len(collect([tmp_path])) == 5 + 3


def test_spacing_changes_no_token() -> None:
    rng = np.random.default_rng(0)
    source = r"f(x),g(y)=\frac{a}{b}\left(\begin{array}{cc}a&b\end{array}\right)\mathrm{if}x_{i}=2,\sqrt[3]{n}"
    loose = {loosened(rng, source) for _ in range(50)}
    assert len(loose) > 10 and any(r"\quad" in s for s in loose)
    assert all(target_tokens(s) == target_tokens(source) for s in loose)


def _mathtext(latex: str, font: str = "cm") -> tuple[list[str], np.ndarray, np.ndarray] | None:
    pytest.importorskip("matplotlib")
    from derender.train.formula_mathtext import draw_mathtext

    tokens = target_tokens(latex)
    drawn = draw_mathtext(tokens, font, 150)
    return None if drawn is None else (tokens, *drawn)


def test_mathtext_says_whose_ink_it_is() -> None:
    drawn = _mathtext(r"\frac{a}{\sqrt[3]{b}}+\sum_{i=1}^{n}\overline{cd}\sin\alpha")
    assert drawn is not None
    tokens, grey, owner = drawn
    seen = {tokens[k]: np.argwhere(owner == k).mean(0) for k in np.unique(owner) if k != NOBODY}
    assert set(seen) == {t for t in tokens if t not in "{}_^[]"}
    assert seen["a"][0] < seen[r"\frac"][0] < seen["b"][0]  # rows run down
    assert seen["n"][0] < seen[r"\sum"][0] < seen["1"][0]
    assert seen[r"\bar"][0] < seen["c"][0] and seen["c"][1] < seen["d"][1]
    assert grey.dtype == np.uint8 and (grey[owner != NOBODY] < 210).all()


@pytest.mark.parametrize("latex", [r"x'", r"\begin{pmatrix} a \\ b \end{pmatrix}", r"\underbrace{ab}_{c}", r"\frac{a"])
def test_what_mathtext_cannot_set_is_refused(latex: str) -> None:
    assert _mathtext(latex) is None


def test_a_picture_by_mathtext_is_a_sample() -> None:
    drawn = _mathtext(r"\ddot{x}+\hat{y}_{i}=z^{2}", "stix")
    assert drawn is not None
    tokens, grey, owner = drawn
    picture = FormulaPicture(grey, owner, tuple(encode_tokens(tokens) or ()), "mathtext stix", DPI[0])
    sample: PieceSample = draw_sample(picture, np.random.default_rng(0), clean_share=1.0)
    heads = [tokens[int(sample.rank_N[k])] for k in sample.path()]
    assert heads == [t for t in tokens if t not in "{}_^"]

"""CDM on hand-made formulas, and what it says without TeX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from derender.errors import MissingExtraError
from derender.formula.tex import tex_ready
from derender.score.cdm import Cdm, cdm_all, match, moved_together
from derender.score.cdm_boxes import Drawn, TokenBox, draw_formulas
from derender.score.cdm_rows import add_cdm
from derender.score.types import Row, Sample, ScoreReport

needs_tex = pytest.mark.skipif(not tex_ready(), reason="pdflatex is not installed with its packages and fonts")
pytest.importorskip("scipy")

MATRIX = r"\left(\begin{array}{ll}a&b\\c&d\end{array}\right)"
CASES = {
    "identical": (r"\frac{x^{2}+1}{\sqrt{y}}", r"\frac{x^{2}+1}{\sqrt{y}}", 1.0),
    # x 2 + y = 1: five of six on both sides
    "one symbol wrong": ("x^2+z=1", "x^2+y=1", 5 / 6),
    # + = c stay; a and b are equal tokens, but moved in opposite directions
    "order swapped": ("b+a=c", "a+b=c", 3 / 5),
    # 6.6 points lower: within the published tolerance of 20 pixels at 200 dpi
    "subscript for superscript": ("x_2+y", "x^2+y", 1.0),
    "another spelling": (r"\dfrac{a}{b} \le \mathop{\rm lim} \bigl( c \bigr)", r"{a \over b}\leq\lim(c)", 1.0),
    "matrix as array": (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", MATRIX, 1.0),
    "matrix transposed": (r"\begin{pmatrix}a&c\\b&d\end{pmatrix}", MATRIX, 4 / 6),
    # one of one, of six
    "only the beginning": ("x", "x^2+y=1", 2 / 7),
    "limits swapped": (r"\sum^{i=1}_n x", r"\sum_{i=1}^n x", 5 / 6),
    "unrenderable": (r"\frac{a}{b", r"\frac{a}{b}", 0.0),
    "unknown command": (r"\nosuchcommand a", "a", 0.0),
    "empty": ("", "a", 0.0),
    "display environment and label": (r"\begin{equation}a=b\label{e}\end{equation}", "$$a=b$$", 1.0),
    "aligned rows": (r"\begin{align*}a&=b\\c&=d\tag{1}\end{align*}", r"\begin{aligned}a&=b\\c&=d\end{aligned}", 1.0),
    "mathematics in text": (r"x\quad\hbox{for $y>0$}", r"x\quad\text{for }y>0", 1.0),
    "definitions are not carried out": (r"\def\b{a}\b", "a", 0.0),
    "files are not read": (r"\input{article.cls}", "a", 0.0),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Cdm | None]:
    return dict(zip(CASES, cdm_all([(pred, truth) for pred, truth, _ in CASES.values()]), strict=True))


@needs_tex
@pytest.mark.parametrize("name", CASES)
def test_cdm_by_hand(results: dict[str, Cdm | None], name: str) -> None:
    result = results[name]
    assert result is not None
    assert result.f1 == pytest.approx(CASES[name][2])
    assert result.exact == (CASES[name][2] == 1.0)


@needs_tex
def test_a_truth_that_cannot_be_rendered_has_no_score() -> None:
    assert cdm_all([("a", r"\frac{a")]) == [None]


@needs_tex
def test_boxes_lie_where_the_tokens_are() -> None:
    (drawn,) = draw_formulas([r"\frac{a}{b}+\sum_{i}^{n}\sqrt[3]{x}"])
    assert drawn is not None
    box = {b.token: b.box for b in drawn.boxes}
    assert set(box) == {r"\frac", "a", "b", "+", r"\sum", "i", "n", r"\sqrt", "3", "x"}
    assert box["a"][3] < box[r"\frac"][1] < box[r"\frac"][3] < box["b"][1]  # y runs down
    assert box["n"][3] < box[r"\sum"][1] and box[r"\sum"][3] < box["i"][1]
    assert box[r"\sqrt"][0] < box["x"][0] and box["x"][2] < box[r"\sqrt"][2]
    assert all(0 <= b[0] < b[2] <= drawn.width and 0 <= b[1] < b[3] <= drawn.height for b in box.values())


@needs_tex
def test_a_formula_that_stops_tex_does_not_take_the_others_along() -> None:
    drawn = draw_formulas(["a", r"\hbox to 99999999pt{\vbox{", "b"])
    assert [d is not None for d in drawn] == [True, False, True]


def _drawn(*tokens: tuple[str, float]) -> Drawn:
    return Drawn(tuple(TokenBox(t, (x, 0.0, x + 5, 10.0)) for t, x in tokens), 100.0, 10.0)


def test_matching_takes_the_nearest_of_equal_tokens() -> None:
    assert match(_drawn(("x", 0), ("x", 40), ("y", 80)), _drawn(("x", 0), ("x", 40), ("y", 80))) == Cdm(3, 3, 3)
    assert match(_drawn(("x", 40), ("y", 80)), _drawn(("x", 0), ("x", 40), ("y", 80))) == Cdm(2, 2, 3)


def test_points_that_follow_no_common_movement_are_dropped() -> None:
    src = np.array([[0.0, 0], [20, 0], [40, 0], [60, 0], [80, 0]])
    assert moved_together(src, src + 30).all()
    assert moved_together(src, 1.5 * src).all()
    away = src.copy()
    away[2] += 50
    assert moved_together(src, away).tolist() == [True, True, False, True, True]


def test_rows_of_a_report_keep_their_group_and_renew_the_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ScoreReport("r", "set")
    report.rows = [Row("formula", "a", "edit", 0.5, "g"), Row("formula", "b", "edit", 0.0)]
    report.samples = [Sample("formula", "a", "x", "y", 0.5), Sample("formula", "b", "x", "x", 0.0)]
    monkeypatch.setattr("derender.score.cdm_rows.cdm_all", lambda pairs: [Cdm(1, 2, 2), None])
    monkeypatch.setattr("derender.score.cdm_rows.require_tex", lambda: None)
    add_cdm(report)
    assert report.total("formula", "cdm") == report.total("formula", "cdm.g") == 0.5
    assert report.total("formula", "cdm_exact") == 0.0
    assert [(s.file, s.reason) for s in report.skipped] == [("b", "TeX does not accept the true formula: no CDM")]


def test_a_pdflatex_without_packages_is_not_taken_for_one_that_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = tmp_path / "pdflatex"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not tex_ready()
    with pytest.raises(MissingExtraError, match="lacks packages or fonts"):
        draw_formulas(["a"])


def test_without_tex_one_sentence_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="pdflatex is not installed"):
        draw_formulas(["a"])
    with pytest.raises(MissingExtraError, match="pdflatex is not installed"):
        add_cdm(ScoreReport("r", "set"))

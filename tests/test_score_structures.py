"""TEDS, formulas, reading order and PageIoU against hand-computed values."""

import numpy as np
import pytest

from derender.score.formula import contains_formula, formula_score
from derender.score.latex_tokens import canonical_latex
from derender.score.order import order_edit, reading_order
from derender.score.pageiou import coverage_HW, page_iou
from derender.score.teds import teds, teds_s

pytest.importorskip("lxml")
pytest.importorskip("apted")
TABLE = "<table><tr><td>ab</td><td>cd</td></tr><tr><td>ef</td><td>gh</td></tr></table>"


def test_teds_of_equal_tables_is_one() -> None:
    assert teds(TABLE, TABLE) == 1.0


def test_teds_changed_cell_costs_its_normalised_edit_distance() -> None:
    # one of two characters differs: 0.5 of one node, six nodes below the table
    assert teds(TABLE.replace("cd", "cx"), TABLE) == pytest.approx(1 - 0.5 / 6)
    assert teds_s(TABLE.replace("cd", "cx"), TABLE) == 1.0


def test_teds_missing_row_costs_its_nodes() -> None:
    # tr and two td inserted, of six
    assert teds("<table><tr><td>ab</td><td>cd</td></tr></table>", TABLE) == pytest.approx(1 - 3 / 6)


def test_teds_wrong_span_costs_a_whole_node() -> None:
    pred = TABLE.replace("<td>ab</td>", '<td colspan="2">ab</td>')
    assert teds(pred, TABLE) == pytest.approx(1 - 1 / 6)
    assert teds_s(pred, TABLE) == pytest.approx(1 - 1 / 6)


def test_teds_published_form_counts_inline_tags_as_tokens_and_nodes() -> None:
    # <b>ab</b> is four tokens of which two are missing: 2/4 of a node; the truth has 7 elements below <table>
    truth = TABLE.replace(">ab<", "><b>ab</b><")
    assert teds(TABLE, truth, normalise=False) == pytest.approx(1 - 0.5 / 7)
    assert teds(TABLE, truth) == 1.0


def test_teds_published_form_counts_sections_and_headings() -> None:
    truth = "<table><thead><tr><td>a</td></tr></thead><tbody><tr><td>b</td></tr></tbody></table>"
    pred = "<table><tr><th>a</th></tr><tr><td>b</td></tr></table>"
    # insert thead and tbody, rename th to td: 3 of 6 nodes
    assert teds(pred, truth, normalise=False) == pytest.approx(1 - 3 / 6)
    assert teds(pred, truth) == 1.0


def test_teds_of_the_published_example() -> None:
    # the one pair that PubTabNet's own program is shown with (ibm-aur-nlp/PubTabNet, src/demo.ipynb): 0.97817650186...
    row = "<tr><td>{}</td><td>{}</td></tr>"
    tail = [
        ("MACS [23]", "Uses both a control library and local statistics to minimize bias"),
        ("SICER [14]", "Designed for detecting diffusely enriched regions; for example, histone modification"),
        ("PeakSeq [24]", "Corrects for reference genome mappability and local statistics"),
        ("SISSRs [25]", "High resolution, precise identification of binding-site location"),
        ("F-seq [26]", "Uses kernel density estimation"),
    ]
    head = row.format("<b>Name of algorithm</b>", "<b>Notable features</b>")
    body = "".join(row.format(*cells) for cells in tail)
    truth = f"<html><body><table><thead>{head}</thead><tbody>{body}</tbody></table></body></html>"
    pred = truth.replace("algorithm", "algori").replace("Notable features", "Notablefeatures")
    pred = pred.replace("SICER [14]", "SICER [15]").replace("PeakSeq", "PeakSEQ")
    assert teds(pred, truth, normalise=False) == pytest.approx(0.9781765018607124, abs=1e-12)
    assert teds_s(pred, truth, normalise=False) == 1.0


def test_teds_of_no_table() -> None:
    assert teds("just words", TABLE) == 0.0
    with pytest.raises(ValueError, match="no <table>"):
        teds(TABLE, "words")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x^2_i", "x_{i}^{{2}}"),
        (r"{a \over b}", r"\frac a b"),
        (r"\left( x \right)", "(x)"),
        (r"\left. x \right|_0", r"x|_{0}"),
        (r"a\,b\quad c\ d~e", "a b c d e"),
        (r"{\cal G}", r"\mathcal G"),
        (r"{\bf x y}", r"\mathbf{x y}"),
        ("f'", r"f^{\prime}"),
        ("f''^2", r"f^{\prime\prime 2}"),
        (r"$$ x \le y \label{eq:1} $$", r"x \leq y"),
        (r"\begin{equation} x \end{equation}", "x"),
        (r"\begin{array}{cc} a & b \\[2pt] c & d \end{array}", r"\begin{array}{lr}a&b\\c&d\\\end{array}"),
        (r"\begin{eqnarray*} a &=& b \end{eqnarray*}", r"\begin{aligned} a &= b \end{aligned}"),
        (r"\mathop{\rm lim}_{x \to 0}", r"\lim\limits_{x\rightarrow 0}"),
        (r"\sqrt [3] x", r"\sqrt[3]{x}"),
        (r"\bigl[ x \bigr]", "[x]"),
    ],
)
def test_formulas_that_look_alike_have_the_same_tokens(one: str, other: str) -> None:
    assert canonical_latex(one) == canonical_latex(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("x_2", "x^2"), (r"\frac{a}{b}", r"\frac{b}{a}"), ("ab", "a_b"), (r"\{x\}", "x"), ("x^{ab}", "x^ab")],
)
def test_formulas_that_look_different_differ(one: str, other: str) -> None:
    assert canonical_latex(one) != canonical_latex(other)


@pytest.mark.parametrize("broken", ["a}b{c", r"\frac{a", "x^", r"\sqrt[3", "{", "}", "", r"\left"])
def test_broken_latex_still_gives_tokens(broken: str) -> None:
    assert isinstance(canonical_latex(broken), str)


def test_formula_score_by_hand() -> None:
    # x ^ { 2 } + 1 against x ^ { 3 } + 1: one substitution in seven tokens
    s = formula_score("x^2+1", "x^3+1")
    assert (s.edit, s.error_rate, s.exact, s.tokens) == (pytest.approx(1 / 7), pytest.approx(1 / 7), False, 7)
    assert formula_score(r"x^{2} + 1\,", "x^2+1").exact


def test_contains_formula() -> None:
    assert contains_formula(r"so that a^{2} + b^{2}=c^2 holds", "a^2+b^2=c^{2}")
    assert not contains_formula("a^2+b^2=d^2", "a^2+b^2=c^2")


def test_order_edit_by_hand() -> None:
    assert order_edit([0, 1, 2, 3], [0, 1, 2, 3]) == 0.0
    assert order_edit([1, 0, 2, 3], [0, 1, 2, 3]) == pytest.approx(2 / 4)
    assert order_edit([], []) == 0.0


UNITS = ["The first paragraph says this.", "A second one follows it here.", "Lastly we come to a close."]


def test_reading_order_of_the_right_order_with_text_errors() -> None:
    s = reading_order("The frst paragraph says this. A second one follows it here.\nLastly we come to a close.", UNITS)
    assert (s.edit, s.found) == (0.0, 1.0)
    assert (s.text.edits, s.text.length) == (1, sum(map(len, UNITS)))


def test_reading_order_of_swapped_paragraphs() -> None:
    s = reading_order("\n".join([UNITS[1], UNITS[0], UNITS[2]]), UNITS)
    assert (s.edit, s.found, s.text.edits) == (pytest.approx(2 / 3), 1.0, 0)


def test_reading_order_leaves_missing_units_to_found() -> None:
    s = reading_order("\n".join([UNITS[0], UNITS[2]]), UNITS)
    assert (s.edit, s.found) == (0.0, pytest.approx(2 / 3))
    assert s.text.edits == len(UNITS[1])
    assert reading_order("", UNITS).edit == 1.0


def test_page_iou_by_hand() -> None:
    left, whole = (0.0, 0.0, 0.5, 1.0), (0.0, 0.0, 1.0, 1.0)
    assert page_iou([left], [whole]) == pytest.approx(0.5)
    assert page_iou([whole], [whole]) == 1.0
    assert page_iou([whole, whole], [whole]) == pytest.approx(0.5)  # a doubled box is punished
    assert page_iou([], [whole]) == 0.0
    assert page_iou([], []) == 1.0


def test_page_iou_on_ink_only() -> None:
    ink_HW = np.zeros((10, 10), bool)
    ink_HW[:, :5] = True
    assert page_iou([(0.0, 0.0, 0.5, 1.0)], [(0.0, 0.0, 1.0, 1.0)], ink_HW) == 1.0


def test_coverage_clips_to_the_page() -> None:
    assert coverage_HW([(-1.0, 0.5, 0.5, 2.0)], 4, 4).sum() == 4

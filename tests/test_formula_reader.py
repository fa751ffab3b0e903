"""Formulas from picture to LaTeX with the shipped weights, and the parts in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import derender
from derender.assemble.mathml import formula_mathml, formula_number, mathml
from derender.decode.config import MODES, DecodeConfig
from derender.decode.engine import DecodeResult
from derender.document import Page, Region, RegionType
from derender.formula.path import FormulaReading
from derender.formula.spelling import target_tokens
from derender.layout.crops import numbered_formula, region_request
from derender.layout.types import LayoutRegion, TextLineBox
from derender.page import PageWork
from derender.pipeline import fill_region
from derender.recognise.compact import CompactRecogniser
from derender.recognise.formulas import FormulaReader, grey
from derender.recognise.types import Request, Result, TokenOut
from derender.score.metrics import ned

PICTURES = sorted((Path(__file__).parent / "data" / "formulas").glob("*.png"))


def _picture(name: str) -> np.ndarray:
    path = next(p for p in PICTURES if p.stem == name)
    return np.asarray(Image.open(path).convert("RGB"))


def test_typeset_formulas_are_read() -> None:
    """Most to the letter, and all nearly: a bound for the weights, not a promise for each picture."""
    exact, edits = 0, []
    for path in PICTURES:
        result = derender.read(path, task="formula")
        assert result.latex is not None and result.tokens and (result.confidence or 0) > 0.5
        read, truth = target_tokens(result.latex), target_tokens(path.with_suffix(".tex").read_text())
        exact += read == truth
        edits.append(ned(read, truth))
    assert exact >= 3 and sum(edits) / len(edits) < 0.06


def test_exact_writes_what_ar_writes_in_fewer_forwards() -> None:
    images = [np.asarray(Image.open(p).convert("RGB")) for p in PICTURES]
    images += [np.ascontiguousarray(i[: i.shape[0] * 2 // 3]) for i in images]  # cut through: something to be unsure of
    ar, exact = (FormulaReader(DecodeConfig(mode=m), threads=1).read(images) for m in ("ar", "exact"))  # type: ignore[arg-type]
    assert [r.target for r in exact] == [r.target for r in ar]
    assert 3 * sum(r.stats.forwards for r in exact) < sum(r.stats.forwards for r in ar)


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"full"}))
def test_every_mode_reads_a_plain_formula(mode: str) -> None:
    (read,) = FormulaReader(DecodeConfig(mode=mode), threads=1).read([_picture("integral")])  # type: ignore[arg-type]
    assert read.latex is not None and r"\int_{0}^{\infty}" in read.latex


def test_formulas_read_together_are_those_read_alone() -> None:
    reader = FormulaReader(DecodeConfig(), threads=1)
    images = [np.asarray(Image.open(p).convert("RGB")) for p in PICTURES]
    assert [r.target for r in reader.read(images)] == [reader.read([i])[0].target for i in images]


def test_an_empty_crop_has_no_latex() -> None:
    result = derender.read(np.full((40, 90, 3), 255, np.uint8), task="formula")
    assert (result.status, result.latex, result.text) == ("ok", None, "")


def test_a_picture_of_too_many_pieces_says_what_it_left_out() -> None:
    dots = np.full((300, 300, 3), 255, np.uint8)
    for y in range(10, 290, 20):
        for x in range(10, 290, 20):
            dots[y : y + 9, x : x + 9] = 0
    (read,) = FormulaReader(DecodeConfig(), threads=1).read([dots])
    assert read.status == "partial" and "196 pieces" in read.errors[0]


class _OneAnswer:
    """An engine that writes \\endenvaligned, alone, whatever the picture."""

    def __init__(self, reader: FormulaReader) -> None:
        self.tokens = [reader.vocab.bos_id - 1]

    def run(self, requests: list, config_of: object) -> list:  # type: ignore[type-arg]
        n = len(self.tokens)
        return [DecodeResult(i, self.tokens, [0.9] * n, [1] * n) for i, _ in requests]


def test_where_what_is_decoded_does_not_balance_the_encoder_reads() -> None:
    reader = FormulaReader(DecodeConfig(), threads=1)
    reader.engine = _OneAnswer(reader)  # type: ignore[assignment]
    (read,) = reader.read([_picture("sum")])
    assert read.latex is not None and read.latex.startswith(r"\sum") and read.status == "partial"
    assert "no LaTeX" in read.errors[0] and "encoder's reading" in read.errors[0]


def test_braces_that_do_not_balance_are_mended_and_the_result_says_so() -> None:
    from derender.formula.vocabulary import encode_tokens

    reader = FormulaReader(DecodeConfig(), threads=1)
    engine = _OneAnswer(reader)
    engine.tokens = encode_tokens([*"F_{a}=", r"\frac", *"{1}{2}x}^{b"]) or []
    reader.engine = engine  # type: ignore[assignment]
    (read,) = reader.read([_picture("sum")])
    assert read.latex == r"F_{a}=\frac{1}{2}x^{b}" and read.status == "partial"
    assert "braces" in read.errors[0]


def test_latex_that_cannot_be_used_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FormulaReader(DecodeConfig(), threads=1)
    reader.engine = _OneAnswer(reader)  # type: ignore[assignment]
    prefix, reading, pieces = reader.tower.read(grey(_picture("sum")))
    broken = FormulaReading(np.asarray([reader.vocab.bos_id - 1]), reading.prob_D[:1], reading.position_N)
    monkeypatch.setattr(reader.tower, "read", lambda _picture: (prefix, broken, pieces))
    (read,) = reader.read([_picture("sum")])
    assert read.latex is None and read.status == "partial"
    assert "cannot be used" in read.errors[0] and "picture" in read.errors[0]


def test_the_number_is_read_as_text_and_not_as_a_part_of_the_formula() -> None:
    formula = _picture("indices")
    height, width = formula.shape[:2]
    page = np.full((height + 40, width + 400, 3), 255, np.uint8)
    page[20 : 20 + height, 20 : 20 + width] = formula
    number = _text("(12)")
    x, y = width + 300, 20 + (height - number.shape[0]) // 2
    page[y : y + number.shape[0], x : x + number.shape[1]] = number
    line = _line(20, 20, 20 + width, 20 + height)
    inner = _line(x, y, x + number.shape[1], y + number.shape[0])
    region = LayoutRegion(RegionType.FORMULA, line.box, (line,), inner_lines=(inner,))
    request = numbered_formula(page, region, region_request(page, region, "1:0", "formula"))
    (result,) = CompactRecogniser(threads=1).recognise([request])
    assert result.latex is not None and "12" not in result.latex and result.latex.startswith("R_{")
    assert formula_number(result.text) == "12"


def _text(text: str) -> np.ndarray:
    from PIL import ImageDraw, ImageFont

    image = Image.new("RGB", (90, 40), "white")
    ImageDraw.Draw(image).text((8, 4), text, font=ImageFont.load_default(26), fill="black")
    return np.asarray(image)


def _line(x0: float, y0: float, x1: float, y1: float) -> TextLineBox:
    return TextLineBox(((x0, y0), (x1, y0), (x1, y1), (x0, y1)), (x0, y0, x1, y1))


def test_a_formula_with_words_of_its_own_keeps_them_beside_its_latex() -> None:
    region = Region(
        id="r", type=RegionType.FORMULA, order=0, box=(0, 0, 1, 1), box_1000=(0, 0, 1, 1), text="E = mc2 (3)"
    )
    result = Result("1:0", latex="E=mc^{2}", tokens=[TokenOut("E", 0.9, 1)])
    from derender.config import ParseOptions

    fill_region(region, result, PageWork(Page(number=1, width=1, height=1, dpi=72)), ParseOptions())
    assert (region.text, region.latex, region.source) == ("E = mc2 (3)", "E=mc^{2}", "ocr")


def test_a_table_and_a_formula_come_out_of_one_recogniser() -> None:
    requests = [Request("a", _picture("sum"), "formula"), Request("b", _text("(7)"), "text")]
    found = {r.id: r for r in CompactRecogniser(threads=1).recognise(requests)}
    assert found["a"].latex and found["b"].latex is None and "7" in found["b"].text


def test_mathml_shows_the_formula_and_its_number() -> None:
    shown = formula_mathml(r"\frac{a}{b} \tag{4}")
    assert shown.startswith('<math alttext="\\frac{a}{b}') and "<mfrac>" in shown and shown.endswith("(4)</span>")
    assert "<mfrac>" in formula_mathml(r"\frac{a}{b}", "2") and "(2)" in formula_mathml("a", "2")


@pytest.mark.parametrize("latex", [r"\arg z", r"\P"])
def test_names_that_the_converter_lacks_are_known(latex: str) -> None:
    assert latex.split()[0] not in mathml(latex).split("</", 1)[0].split(">", 1)[1]


def test_latex_that_cannot_be_converted_is_shown_as_its_source() -> None:
    assert mathml(r"\frac") == r'<code class="latex">\frac</code>'

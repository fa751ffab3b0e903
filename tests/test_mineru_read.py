"""MinerU-Diffusion as a reader: answers to results, layout to regions, and both commands end to end on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest

pytest.importorskip("transformers")
from typer.testing import CliRunner

from derender import cli_options
from derender.cli import app
from derender.config import ParseOptions
from derender.decode.config import DecodeConfig
from derender.document import RegionType
from derender.errors import ModelError, ServerError, UsageError
from derender.mineru.answers import fill
from derender.mineru.checkpoint import DEVICES, DTYPES
from derender.mineru.images import quarter_turns
from derender.mineru.layout import Block, ModelLayout, parse_layout, turned_quad
from derender.mineru.options import ModelOptions
from derender.mineru.recognise import MineruRecogniser
from derender.pipeline import Pipeline
from derender.recognise.types import TASKS, Request, Result
from mineru_tiny import make_reference, write_checkpoint

ANSWER = (
    "<|box_start|>100 50 900 120<|box_end|><|ref_start|>title<|ref_end|><|rotate_up|>\n"
    "<|box_start|>100 150 480 600<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>\n"
    "<|box_start|>520 150 900 400<|box_end|><|ref_start|>table<|ref_end|><|rotate_up|>\n"
    "<|box_start|>520 450 900 520<|box_end|><|ref_start|>equation<|ref_end|><|rotate_up|>\n"
    "<|box_start|>940 100 980 800<|box_end|><|ref_start|>aside_text<|ref_end|><|rotate_left|>\n"
    "<|box_start|>520 540 900 700<|box_end|><|ref_start|>image<|ref_end|><|rotate_up|>"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("models") / "tiny", make_reference())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with ink in the places that ANSWER names."""
    image = PIL.Image.new("RGB", (600, 800), "white")
    draw = PIL.ImageDraw.Draw(image)
    for x0, y0, x1, y1 in ((100, 50, 900, 120), (520, 150, 900, 400), (520, 450, 900, 520), (940, 100, 980, 800)):
        draw.rectangle((x0 * 0.6 + 4, y0 * 0.8 + 4, x1 * 0.6 - 4, y1 * 0.8 - 4), fill="black")
    for n in range(9):
        draw.rectangle((65, 125 + 40 * n, 280, 145 + 40 * n), fill="black")
    path = tmp_path_factory.mktemp("pages") / "page.png"
    image.save(path)
    return path


def test_layout_answers_are_read_in_order_and_what_is_wrong_is_said() -> None:
    blocks, problems = parse_layout(ANSWER)
    assert [b.kind for b in blocks] == ["title", "text", "table", "equation", "aside_text", "image"]
    assert blocks[0] == Block("title", (100, 50, 900, 120)) and blocks[4].turns == 3
    assert problems == []
    again, problems = parse_layout(ANSWER + "\n" + ANSWER)
    assert again == blocks and "repeats itself 6 times" in problems[0]
    swapped = "<|box_start|>900 120 100 50<|box_end|><|ref_start|>title<|ref_end|>"
    flat = "<|box_start|>5 5 5 90<|box_end|><|ref_start|>text<|ref_end|>"
    wild = "<|box_start|>5 5 1005 90<|box_end|><|ref_start|>text<|ref_end|>"
    blocks, problems = parse_layout(f"{swapped}{flat}{wild} and <|box_start|>1 2 3")
    assert blocks == [Block("title", (100, 50, 900, 120))]
    assert "2 regions" in problems[0] and "cannot be understood" in problems[1]
    inner = "<|box_start|>10 10 90 40<|box_end|><|ref_start|>equation<|ref_end|>"
    outer = "<|box_start|>0 0 100 100<|box_end|><|ref_start|>equation_block<|ref_end|>"
    assert [b.kind for b in parse_layout(outer + inner)[0]] == ["equation"]
    assert [b.kind for b in parse_layout(outer)[0]] == ["equation_block"]


@pytest.mark.parametrize("turns", range(4))
def test_a_turned_region_is_turned_back(turns: int) -> None:
    """rotate_right: the text's top points right, so its crop is turned counter-clockwise once."""
    assert quarter_turns((turned_quad((0, 0, 40, 60), turns),)) == turns


class Says:
    """A recogniser that answers as it is told; remembers what it was asked."""

    name = "says"

    def __init__(self, layout: str = ANSWER, **answers: str) -> None:
        self.answers = {"layout": layout, "text": "Some words.", **answers}
        self.asked: list[Request] = []

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
        for request in requests:
            self.asked.append(request)
            yield fill(Result(request.id), self.answers[request.task], request.task)


def test_a_page_is_laid_out_and_read_by_the_model(page: Path) -> None:
    reader = Says(table="<fcel>a<fcel>b<nl><fcel>c<lcel><nl>", formula="\\[ x^2 \\]")
    pipeline = Pipeline(ParseOptions(mode="ocr", model=ModelOptions("any")), reader)
    (found,) = pipeline.parse(page).pages
    kinds = [r.type for r in found.regions]
    assert kinds == [
        RegionType.TITLE,
        RegionType.TEXT,
        RegionType.TABLE,
        RegionType.FORMULA,
        RegionType.HEADER,
        RegionType.FIGURE,
    ]
    assert found.status == "ok" and found.coverage == 1
    assert not any("model" in warning for warning in found.warnings)
    title, text, table, formula, aside, figure = found.regions
    assert title.box_1000 == (100, 50, 900, 120)
    assert len(text.lines) == 9 and text.text == "Some words."
    assert [(c.row, c.col, c.colspan, c.text) for c in table.cells] == [(0, 0, 1, "a"), (0, 1, 1, "b"), (1, 0, 2, "c")]
    assert table.html and "colspan" in table.html
    assert formula.latex == "x^2"
    assert figure.source == "none" and figure.text == ""
    assert [r.task for r in reader.asked] == ["layout", "text", "text", "table", "formula", "text"]
    crop = reader.asked[5]
    assert crop.lines is not None and quarter_turns(crop.lines) == 3, "the stamp's crop is turned back"


def test_a_layout_without_regions_loses_no_text(page: Path) -> None:
    reader = Says(layout="no idea")
    (found,) = Pipeline(ParseOptions(mode="ocr", model=ModelOptions("any")), reader).parse(page).pages
    assert [r.text for r in found.regions] == ["Some words."]
    assert any("named no region" in w for w in found.warnings) and any("no idea" in w for w in found.warnings)


def test_ink_outside_of_all_regions_is_reported(page: Path) -> None:
    reader = Says(layout=ANSWER.splitlines()[0])
    (found,) = Pipeline(ParseOptions(mode="ocr", model=ModelOptions("any")), reader).parse(page).pages
    assert found.coverage is not None and found.coverage < 0.5
    assert any("ink lies outside" in w for w in found.warnings)


def test_a_page_that_cannot_be_laid_out_fails_and_a_lost_server_ends_the_run(page: Path) -> None:
    class Fails(Says):
        def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
            for request in requests:
                yield Result(request.id, status="failed", errors=["out of paper"])

    class Gone(Says):
        def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
            raise ServerError("nobody there")

    options = ParseOptions(mode="ocr", model=ModelOptions("any"))
    document = Pipeline(options, Fails()).parse(page)
    assert document.status == "failed" and "out of paper" in document.errors[0]
    with pytest.raises(ServerError, match="nobody there"):
        Pipeline(options, Gone()).parse(page)
    with pytest.raises(ModelError):
        ModelLayout(Fails()).analyse(np.zeros((50, 50, 3), np.uint8), 1.0)


def test_answers_become_results_and_masks_never_text() -> None:
    assert fill(Result("a"), " Two words <|im_end|> junk", "text").text == "Two words"
    masked = fill(Result("a"), "Two <|MASK|> words", "text")
    assert masked.status == "failed" and masked.text == "" and "mask" in masked.errors[0]
    mended = fill(Result("a"), "<fcel>a<fcel>b<nl><fcel>c<nl>", "table")
    assert mended.status == "partial" and "mended" in mended.errors[0] and len(mended.cells) == 4
    html = fill(Result("a"), "<table><tr><td>x</td></tr></table>", "table")
    assert [c.text for c in html.cells] == ["x"] and html.status == "ok"
    plain = fill(Result("a"), "just words", "table")
    assert plain.status == "partial" and plain.text == "just words"


def test_a_blank_crop_is_empty_and_the_model_is_not_asked(folder: Path) -> None:
    reader = MineruRecogniser(folder, DecodeConfig(mode="block", max_tokens=32), device="cpu")
    (found,) = reader.recognise([Request("r", np.full((40, 200, 3), 255, np.uint8))])
    assert (found.status, found.text, found.stats.forwards) == ("ok", "", 0)
    assert reader.name == "tiny (cpu, float32)"
    with pytest.raises(UsageError, match="cannot decode in mode exact: use one of block"):
        MineruRecogniser(folder, DecodeConfig(mode="exact"), device="cpu")


def test_crops_of_all_tasks_in_one_call_equal_single_calls(folder: Path) -> None:
    reader = MineruRecogniser(folder, DecodeConfig(mode="block", rule="threshold:0.6", max_tokens=40), device="cpu")
    requests = []
    for n, task in enumerate(TASKS[:3]):
        image = np.full((40 + 30 * n, 200, 3), 255, np.uint8)
        image[10:30, 20 + 9 * n : 120] = 0
        requests.append(Request(task, image, task))
    together = {r.id: r for r in reader.recognise(requests)}
    for request in requests:
        (alone,) = reader.recognise([request])
        assert [t.text for t in alone.tokens] == [t.text for t in together[request.id].tokens]
        assert alone.text == together[request.id].text and alone.stats.tokens > 0
        assert "MASK" not in alone.text


def test_parse_and_read_with_a_folder(folder: Path, page: Path, tmp_path: Path) -> None:
    run = CliRunner()
    options = ["--model", str(folder), "--device", "cpu", "--threshold", "0"]
    done = run.invoke(app, ["parse", str(page), "-o", str(tmp_path), "--format", "json", "--quiet", *options])
    assert done.exit_code in (0, 3), done.output
    document = json.loads((tmp_path / "page" / "page.json").read_text())
    assert document["meta"]["model"] == "tiny (cpu, float32)" and document["meta"]["decode"]["mode"] == "block"
    assert document["meta"]["settings"]["model"] == f"{folder} Layout Detection:"
    assert any("layout" in w for w in document["pages"][0]["warnings"]), "a random model knows no layout"
    assert "<|MASK|>" not in json.dumps(document)
    done = run.invoke(app, ["read", str(page), "--format", "json", *options])
    assert done.exit_code in (0, 3) and json.loads(done.stdout)["decode"]["forwards"] > 0


def test_choices_and_defaults_of_the_help_are_those_of_the_code() -> None:
    assert {c.value for c in cli_options.DeviceChoice} == set(DEVICES)
    assert {c.value for c in cli_options.DTypeChoice} == set(DTYPES)
    model = ModelOptions("any")
    for option, default in (
        (cli_options.Concurrency, f"{model.concurrency}"),
        (cli_options.Timeout, f"{model.timeout:g}"),
        (cli_options.LayoutPrompt, model.layout_prompt),
    ):
        assert option.__metadata__[0].help.endswith(f"[default: {default}]")
    assert model.retries == 3, "the help of --timeout says so in words"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "cpu"], "are for --model, and none is given"),
        (["--base-url", "http://x"], "add --engine openai"),
        (["--engine", "openai"], "needs --base-url"),
        (["--engine", "openai", "--base-url", "ftp://x"], "must begin with http"),
        (["--engine", "openai", "--base-url", "http://x", "--device", "cpu"], "a server has its own device"),
        (["--engine", "openai", "--base-url", "http://x", "--threshold", "0.9"], "decodes in its own way"),
        (["--model", "FOLDER", "--decode", "sliding"], "cannot decode in mode sliding"),
    ],
)
def test_options_without_effect_are_refused(folder: Path, page: Path, options: list[str], said: str) -> None:
    options = [str(folder) if o == "FOLDER" else o for o in options]
    done = CliRunner().invoke(app, ["read", str(page), *options])
    assert done.exit_code == 2 and said in done.stderr


def test_a_model_that_is_not_here_is_one_sentence(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERENDER_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for command in (["parse", str(page), "-o", str(tmp_path / "out")], ["read", str(page)]):
        done = CliRunner().invoke(app, [*command, "--model", "nobody/nothing"])
        assert done.exit_code == 1
        assert "nobody/nothing is not on this machine: derender models download nobody/nothing" in done.stderr

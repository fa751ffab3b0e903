"""Evaluation set, readers, checks, markup and reports, on a small set made here."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont
from rich.console import Console

from derender.document import Document, Page, Region, RegionType
from derender.errors import InputError, UsageError
from derender.score.checks import run_check, tables
from derender.score.evalset import Check, CropItem, PageItem, load_evalset, load_image
from derender.score.html_report import diff_html, write_html
from derender.score.markup import latex_to_text, markdown_to_text, tex_document_to_text
from derender.score.pairs import score_pairs
from derender.score.peers import PeerResult, bench_peers, peak_memory_mb, print_peers
from derender.score.readers import make_reader
from derender.score.readers_tesseract import blocks_from_tsv
from derender.score.report import print_report, read_json, write_json
from derender.score.run import score_evalset
from derender.score.types import Block, CropTask, Image, PageReading, Reading, Row, summarise

PARAGRAPHS = ["The first paragraph is about ships.", "The second one is about harbours and the sea."]


def _picture(path: Path, lines: Sequence[str]) -> None:
    font = ImageFont.load_default(28)
    image = Pil.new("RGB", (760, 40 + 44 * len(lines)), "white")
    for i, line in enumerate(lines):
        ImageDraw.Draw(image).text((20, 20 + 44 * i), line, "black", font)
    image.save(path)


@pytest.fixture
def evalset(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    rows = []

    def add(
        task: str, name: str, gt: str, truth: str, kind: str, lang: str = "en", lines: Sequence[str] = ("x",)
    ) -> None:
        (root / task).mkdir(parents=True, exist_ok=True)
        _picture(root / task / name, lines)
        (root / task / gt).write_text(truth, "utf-8")
        rows.append({"task": task, "file": f"{task}/{name}", "gt": f"{task}/{gt}", "lang": lang, "kind": kind})

    add("text", "uw3_1.png", "uw3_1.txt", "Hello world\n", "line", lines=["Hello world"])
    add("text", "receipt_1.png", "receipt_1.txt", "TOTAL 12.50", "line", lines=["Total 12.50"])
    add("text", "block_1.png", "block_1.txt", "two mea-\nsurements", "block", lines=["two mea-", "surements"])
    add("formula", "f_1.png", "f_1.tex", "x^{2}", "display", "-")
    add("table", "t_1.png", "t_1.html", "<table><tr><td>a</td></tr></table>", "small", "-")
    blocks = {
        "kind": "blocks",
        "image_size": [760, 128],
        "blocks": [
            {"type": "figure", "bbox": [0, 0, 10, 10], "text": ""},
            {"type": "paragraph", "bbox": [0, 0, 760, 64], "text": PARAGRAPHS[0]},
            {"type": "paragraph", "bbox": [0, 64, 760, 128], "text": PARAGRAPHS[1]},
            {"type": "line", "bbox": [0, 0, 1, 1], "text": "- 7 -"},
        ],
    }
    add("pages", "p_1.png", "p_1.json", json.dumps(blocks), "page", lines=PARAGRAPHS)
    add("pages", "m_1.png", "m_1.md", "# Ships\n\n" + PARAGRAPHS[0], "page", lines=["Ships", PARAGRAPHS[0]])
    add("pages", "l_1.png", "l_1.tex", r"\begin{document}\lipsum[1]\end{document}", "page")
    tests = {
        "kind": "tests",
        "tests": [{"id": "a", "type": "present", "text": "ships"}, {"id": "b", "type": "absent", "text": "7"}],
    }
    add("pages", "bench_1.png", "bench_1.json", json.dumps(tests), "page", lines=PARAGRAPHS)
    (root / "manifest.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return root


class Scripted:
    """A reader that answers from a list, to see what the scorer makes of it."""

    name = "scripted"

    def __init__(self, crops: Sequence[str] = (), reading: Reading | None = None) -> None:
        self.crops, self.reading = list(crops), reading or Reading()
        self.asked: list[str] = []

    def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
        self.asked.append(task)
        return [self.crops.pop(0) for _ in images]

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        return self.reading


def test_evalset_loads_typed_items(evalset: Path) -> None:
    items = load_evalset(evalset)
    assert [(i.task, i.group) for i in items[:3]] == [("text", "uw3"), ("text", "receipt"), ("text", "block")]
    assert isinstance(items[0], CropItem) and items[0].truth == "Hello world"
    page = next(i for i in items if i.file == "pages/p_1.png")
    assert isinstance(page, PageItem)
    assert [b.body for b in page.blocks] == [False, True, True, False]
    assert page.blocks[1].box == (0.0, 0.0, 1.0, 0.5)


def test_evalset_errors_are_sentences(tmp_path: Path, evalset: Path) -> None:
    with pytest.raises(InputError, match="no manifest.jsonl"):
        load_evalset(tmp_path / "nowhere")
    with pytest.raises(InputError, match="Unknown task 'words'"):
        load_evalset(evalset, ["words"])
    (evalset / "text" / "uw3_1.txt").unlink()
    with pytest.raises(InputError, match="line 1 cannot be used"):
        load_evalset(evalset)


def test_text_rates_are_micro_and_groups_have_their_own_rules(evalset: Path) -> None:
    reader = Scripted(["Hello  world", "Total 12.5O", "two measurements"])
    report = score_evalset(evalset, ["text"], reader)
    assert reader.asked == ["line", "line", "block"]
    assert report.total("text", "cer.uw3") == 0.0  # white space is folded
    assert report.total("text", "cer.receipt") == pytest.approx(1 / 11)  # case does not count, the letter O does
    assert report.total("text", "cer.block") == 0.0  # joined or kept lines are equal
    assert report.total("text", "cer") == pytest.approx(1 / (11 + 11 + 16))
    assert report.total("text", "exact") == pytest.approx(2 / 3)


def test_formula_and_table_crops(evalset: Path) -> None:
    report = score_evalset(evalset, ["formula", "table"], Scripted(["x^2", "<table><tr><td>b</td></tr></table>"]))
    assert report.total("formula", "exact") == 1.0
    assert report.total("table", "teds") == pytest.approx(1 - 1 / 2)
    assert report.total("table", "teds_s") == 1.0


def test_pages_with_swapped_blocks(evalset: Path) -> None:
    reading = Reading((PageReading(tuple(Block(t) for t in reversed(PARAGRAPHS))),))
    report = score_evalset(evalset, ["pages"], Scripted(reading=reading))
    values = {r.metric: r.value for r in report.rows if r.file == "pages/p_1.png"}
    assert (values["order_edit"], values["order_found"], values["line_cer"]) == (1.0, 1.0, 0.0)
    assert values["word_recall"] == 1.0
    assert values["text_edit"] > 0.5
    assert report.total("pages", "checks") == 1.0
    assert [(s.file, s.reason[:16]) for s in report.skipped] == [("pages/l_1.png", "the LaTeX source")]


def test_typed_blocks_that_the_truth_leaves_out_are_left_out(evalset: Path) -> None:
    blocks = (*(Block(t, type="text") for t in PARAGRAPHS), Block("E = mc^2", type="formula"))
    report = score_evalset(evalset, ["pages"], Scripted(reading=Reading((PageReading(blocks),))))
    assert next(r.value for r in report.rows if r.file == "pages/p_1.png" and r.metric == "text_edit") == 0.0


def test_a_reader_that_fails_is_scored_as_empty_and_listed(evalset: Path) -> None:
    class Failing(Scripted):
        def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
            raise InputError("no model.")

    report = score_evalset(evalset, ["text"], Failing(), limit=1)
    assert report.total("text", "cer") == 1.0
    assert report.skipped[0].reason == "failed: no model."
    console = Console(record=True, width=200)
    print_peers([PeerResult("mine", report)], console)
    assert f"mine: {len(report.skipped)} files could not be read and count as empty" in console.export_text()


def test_limit_counts_by_group(evalset: Path) -> None:
    assert len(score_evalset(evalset, ["text"], Scripted(["", "", ""]), limit=1).samples) == 3


def test_summarise_weighs() -> None:
    totals = summarise([Row("t", "a", "m", 1.0, "g", 1.0), Row("t", "b", "m", 0.0, "", 3.0)])
    assert [(t.metric, t.value, t.n) for t in totals] == [("m", 0.25, 2), ("m.g", 1.0, 1)]


def test_report_json_round_trip_html_and_tables(evalset: Path, tmp_path: Path) -> None:
    report = score_evalset(evalset, ["text"], Scripted(["Hello world", "T0TAL <12>", "two"]))
    write_json(report, tmp_path / "out" / "s.json")
    assert read_json(tmp_path / "out" / "s.json") == report
    data = json.loads((tmp_path / "out" / "s.json").read_text("utf-8"))
    assert {"task", "file", "metric", "value"} <= set(data["rows"][0])
    assert set(data["totals"][0]) == {"task", "metric", "value", "n"}
    write_html(report, tmp_path / "s.html", evalset)
    page = (tmp_path / "s.html").read_text("utf-8")
    assert page.count("data:image/png") == 3 and "&lt;" in page
    worst = page.split("Worst first")[1]
    assert worst.index("block_1") < worst.index("uw3_1")
    console = Console(record=True, width=160)
    print_report(report, console, files=True)
    assert "cer.receipt" in console.export_text()


def test_diff_html_colours_both_sides() -> None:
    assert diff_html("a<c", "abc") == ("a<del>&lt;</del>c", "a<ins>b</ins>c")


def test_load_image_lays_transparency_over_white(tmp_path: Path) -> None:
    Pil.new("RGBA", (4, 3), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert np.array_equal(load_image(tmp_path / "a.png"), np.full((3, 4, 3), 255, np.uint8))
    (tmp_path / "b.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match="b.png cannot be read"):
        load_image(tmp_path / "b.png")


def test_markdown_to_text() -> None:
    source = "# A *b*\n\n1. one\n2. two\n\n- x [link](http://y) ![p](q.png)\n\n| c | d |\n|---|---|\n| 1 | 2 |\n\n"
    source += "$\\alpha_1$ &amp; <b>z</b>"
    assert markdown_to_text(source).split() == "A b 1. one 2. two x link c d 1 2 α1 & z".split()
    assert markdown_to_text("costs $5 and $6").strip() == "costs $5 and $6"
    assert markdown_to_text("<table><tr><td>p</td><td>q</td></tr></table>").split() == ["p", "q"]


def test_latex_to_text() -> None:
    assert latex_to_text(r"\frac{\alpha}{b} \leq 50\% % note") == "αb ≤50% "
    assert tex_document_to_text(r"pre\begin{document}\section{One} a~b\end{document}").split() == ["One", "a", "b"]


PIPE = "| Year | Costs |\n|---|---|\n| 1990 | 1,136 |\n| 1991 | 680 |"
SPAN = "<table><tr><th colspan=2>Top</th></tr><tr><td>a</td><td>b</td></tr></table>"


def _check(kind: str, page: str, **spec: object) -> bool:
    return run_check(Check("i", kind, 1, spec), page).passed


def test_presence_checks() -> None:
    assert _check("present", "Hello **big** world", text="big world")
    assert not _check("present", "hello", text="Hello")
    assert _check("present", "hello", text="Hello", case_sensitive=False)
    assert _check("present", "the quick brawn fox", text="quick brown", max_diffs=1)
    assert not _check("present", "the quick brawn fox", text="quick brown")
    assert _check("absent", "Page 1 of text", text="2") and not _check("absent", "Page 1 of text", text="1")
    assert _check("absent", "1 " + "words " * 10, text="1", last_n=20)
    assert not _check("present", "", text="a")


def test_order_checks() -> None:
    assert _check("order", "alpha then beta", before="alpha", after="beta")
    assert not _check("order", "beta then alpha", before="alpha", after="beta")
    assert _check("order", "beta, alpha, beta", before="alpha", after="beta")
    assert not _check("order", "alpha", before="alpha", after="beta")


def test_table_checks() -> None:
    assert _check("table", PIPE, cell="680", up="1,136", left="1991")
    assert _check("table", PIPE, cell="680", top_heading="Costs", left_heading="1991")
    assert not _check("table", PIPE, cell="680", up="Costs")
    assert not _check("table", PIPE, cell="681", left="1990")
    assert not _check("table", "680", cell="680")
    assert _check("table", SPAN, cell="b", up="Top")
    assert list(tables(SPAN)) == [[["Top", "Top"], ["a", "b"]]]


def test_math_checks() -> None:
    assert _check("math", r"so $$\int_a^b f(x)\,dx = F$$", math=r"\int_{a}^{b} f(x) d x=F")
    assert not _check("math", r"\int_a^b f", math=r"\int_a^b f")  # not marked as a formula
    with pytest.raises(ValueError, match="Unknown type"):
        _check("colour", "")


def test_tesseract_tsv_gives_paragraphs() -> None:
    head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
    rows = ["1 1 0 0 0 0 0 0 200 100 -1 ", "3 1 1 1 0 0 20 10 100 40 -1 ", "5 1 1 1 1 1 20 10 9 9 96 Hello"]
    rows += ["5 1 1 1 1 2 40 10 9 9 96 big", "5 1 1 1 2 1 20 30 9 9 96 world", "5 1 2 1 1 1 20 60 9 9 96  "]
    tsv = "\n".join([head, *("\t".join(r.split(" ", 11)) for r in rows)])
    assert blocks_from_tsv(tsv) == (Block("Hello big\nworld", (0.1, 0.1, 0.6, 0.5)),)
    assert blocks_from_tsv(head) == ()


def test_pairs_of_folders(tmp_path: Path) -> None:
    for side, text in (("p", "abcx"), ("t", "abcd")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.txt").write_text(text)
    (tmp_path / "t" / "b.md").write_text("# Title")
    report = score_pairs(tmp_path / "p", tmp_path / "t")
    assert report.total("text", "cer") == 0.25
    assert report.total("pages", "text_edit") == 1.0
    assert [s.file for s in report.skipped] == ["b.md"]
    with pytest.raises(InputError, match="two files or two folders"):
        score_pairs(tmp_path / "p", tmp_path / "t" / "a.txt")


def test_pairs_of_own_json(tmp_path: Path) -> None:
    def document(order: tuple[int, int]) -> Document:
        boxes = ((0.0, 0.0, 50.0, 100.0), (50.0, 0.0, 100.0, 100.0))
        regions = [
            Region(id=str(i), type=RegionType.TEXT, order=order[i], box=boxes[i], text=PARAGRAPHS[i]) for i in (0, 1)
        ]
        return Document(name="d", pages=[Page(number=1, width=100, height=100, dpi=72, regions=regions)])

    (tmp_path / "p.json").write_text(document((1, 0)).to_json())
    (tmp_path / "t.json").write_text(document((0, 1)).to_json())
    report = score_pairs(tmp_path / "p.json", tmp_path / "t.json")
    assert (report.total("pages", "page_iou"), report.total("pages", "order_edit")) == (1.0, 1.0)


def test_unknown_reader() -> None:
    with pytest.raises(UsageError, match="Unknown reader 'abbyy'"):
        make_reader("abbyy")


def test_readers_and_metrics_load_without_heavy_imports() -> None:
    code = "import sys, derender.score.run, derender.score.readers, derender.score.cli_score as c;"
    code += "print([m for m in ('rapidocr', 'cv2', 'onnxruntime', 'lxml', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_command_line(tmp_path: Path) -> None:
    import typer
    from typer.testing import CliRunner

    from derender.score.cli_score import score

    app = typer.Typer()
    app.command()(score)
    for side in ("p", "t"):
        (tmp_path / f"{side}.txt").write_text("same words")
    command = [str(tmp_path / "p.txt"), str(tmp_path / "t.txt"), "--json", str(tmp_path / "o.json")]
    result = CliRunner().invoke(app, [*command, "--html", str(tmp_path / "o.html")])
    assert result.exit_code == 0, result.output
    assert "cer" in result.output
    assert read_json(tmp_path / "o.json").total("text", "exact") == 1.0
    assert (tmp_path / "o.html").is_file()
    assert isinstance(CliRunner().invoke(app, []).exception, UsageError)


def test_peak_memory_is_plausible() -> None:
    before = peak_memory_mb()
    held = np.ones(40_000_000, np.uint8)
    assert 10 < before < peak_memory_mb() + 1 and held.sum() == 40_000_000
    assert peak_memory_mb() > 50


def test_peers_report_a_missing_reader_in_words(evalset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    results = bench_peers(evalset, ["text"], ["tesseract"])
    assert results[0].report is None and "tesseract is not installed" in results[0].error
    console = Console(record=True)
    print_peers(results, console)
    assert "not installed" in console.export_text()


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="the program tesseract is not installed")
def test_tesseract_reads(evalset: Path) -> None:
    report = score_evalset(evalset, ["text", "pages"], make_reader("tesseract"))
    assert report.total("text", "cer.uw3") == 0.0
    assert report.total("pages", "order_edit") == 0.0
    assert report.pages == 3


@pytest.mark.timeout(400)  # two engines are loaded in a process of their own
def test_rapidocr_reads_lines_and_blocks_by_separate_objects(evalset: Path) -> None:
    pytest.importorskip("rapidocr")
    results = bench_peers(evalset, ["text"], ["rapidocr"])
    report = results[0].report
    assert report is not None, results[0].error
    assert report.total("text", "cer.uw3") < 0.2
    assert report.total("text", "cer.block") < 0.1  # both lines: the detector is still on after lines without it
    assert results[0].peak_mb > 50

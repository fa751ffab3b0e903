"""Pairs of files and folders: what each ending is measured by, pictures, tables and formulas of our own JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from derender.document import Document, Page, Region, RegionType
from derender.errors import InputError, MissingExtraError, UsageError
from derender.score.html_report import write_html
from derender.score.pairs import score_pairs
from derender.score.report import read_json, write_json

ONE = "<table><tr><td>ab</td><td>cd</td></tr></table>"
TWO = "<table><tr><td>left</td><td>right</td></tr></table>"


def _region(kind: RegionType, number: int, **fields: str) -> Region:
    return Region(id=str(number), type=kind, order=number, box=(10, 10.0 * number, 60, 10.0 * number + 10), **fields)  # type: ignore[arg-type]


def _document(tables: list[str], formula: str, text: str = "Some words") -> Document:
    regions = [_region(RegionType.TEXT, 0, text=text)]
    regions += [_region(RegionType.TABLE, 1 + i, html=t) for i, t in enumerate(tables)]
    regions.append(_region(RegionType.FORMULA, 5, latex=formula))
    second = Page(number=2, width=100, height=200, dpi=72, regions=[_region(RegionType.TEXT, 0, text="Last page")])
    return Document(name="d", pages=[Page(number=1, width=100, height=200, dpi=72, regions=regions), second])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    pred, truth = tmp_path / "p", tmp_path / "t"
    for side in (pred, truth):
        side.mkdir()
    (pred / "d.json").write_text(_document([TWO, ONE], "x^2").to_json())
    (truth / "d.json").write_text(_document([ONE, TWO], "x^3").to_json())
    return pred, truth


def test_each_ending_has_its_own_measures(tmp_path: Path) -> None:
    contents = {".txt": "abcx", ".tex": "x^2", ".html": ONE, ".md": "# Some *words*"}
    for side in ("p", "t"):
        (tmp_path / side).mkdir()
        for suffix, text in contents.items():
            (tmp_path / side / f"a{suffix}").write_text(text)
    report = score_pairs(tmp_path / "p", tmp_path / "t")
    assert {(t.task, t.metric): t.value for t in report.totals} == {
        ("table", "teds"): 1.0,
        ("table", "teds_s"): 1.0,
        ("pages", "text_edit"): 0.0,
        ("pages", "word_precision"): 1.0,
        ("pages", "word_recall"): 1.0,
        ("pages", "bleu4"): pytest.approx(1.0),
        ("formula", "edit"): 0.0,
        ("formula", "exact"): 1.0,
        ("text", "cer"): 0.0,
        ("text", "ned"): 0.0,
        ("text", "exact"): 1.0,
    }


def test_tables_and_formulas_of_documents_are_matched_by_content(folders: tuple[Path, Path]) -> None:
    report = score_pairs(*folders)
    values = {(r.file, r.metric): r.value for r in report.rows}
    assert values["d.json#page=1#table-1", "teds"] == values["d.json#page=1#table-2", "teds"] == 1.0
    assert values["d.json#page=1#formula-1", "edit"] == pytest.approx(1 / 5)
    assert values["d.json#page=2", "text_edit"] == 0.0


def test_a_lost_page_table_or_formula_scores_as_empty(folders: tuple[Path, Path]) -> None:
    pred, truth = folders
    document = _document([], "x")
    (pred / "d.json").write_text(document.model_copy(update={"pages": []}).to_json())
    report = score_pairs(pred, truth)
    assert (report.total("table", "teds"), report.total("formula", "edit")) == (0.0, 1.0)
    assert (report.total("pages", "text_edit"), report.total("pages", "page_iou")) == (1.0, 0.0)


def test_samples_know_page_and_place_and_the_picture_beside_the_truth(folders: tuple[Path, Path]) -> None:
    pages = [Image.new("RGB", (100, 200), colour) for colour in ("white", "gray")]
    pages[0].save(folders[1] / "d.pdf", save_all=True, append_images=pages[1:])
    samples = {s.file: s for s in score_pairs(*folders).samples}
    table = samples["d.json#page=1#table-2"]
    assert (table.image, table.page, table.box) == ("d.pdf", 1, (0.1, 0.1, 0.6, 0.15))
    assert (samples["d.json#page=2"].page, samples["d.json#page=2"].box) == (2, None)


def test_the_html_report_shows_pictures_from_another_folder(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    Image.new("RGB", (100, 200), "white").save(tmp_path / "scans/d.png")
    report = score_pairs(*folders, images=tmp_path / "scans")
    write_html(report, tmp_path / "r.html", tmp_path / "scans")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert text.count("data:image/png") == 4  # page 1, two tables, a formula; the picture has no page 2
    assert "<del>2</del>" in text and "<ins>3</ins>" in text
    assert "<tr><td>d.json#page=1#formula-1<td class=n>20.00<td class=n>0.00</tr>" in text  # the table of all files


def test_a_report_with_places_survives_its_json(folders: tuple[Path, Path], tmp_path: Path) -> None:
    report = score_pairs(*folders)
    write_json(report, tmp_path / "r.json")
    assert read_json(tmp_path / "r.json") == report


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.json", b"{}", "a.json is not a document"),
        ("a.txt", b"\xff\xfe", "a.txt cannot be read as UTF-8"),
        ("a.html", b"no table", "a.html: The ground truth has no <table>"),
    ],
)
def test_files_that_are_not_what_they_say_are_named(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    for side in ("p", "t"):
        (tmp_path / side).mkdir()
        (tmp_path / side / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        score_pairs(tmp_path / "p", tmp_path / "t")


def test_command_line_refuses_what_does_not_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from derender.score.cli_score import score

    app = typer.Typer()
    app.command()(score)
    result = CliRunner().invoke(app, ["--evalset", str(tmp_path), "--images", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    result = CliRunner().invoke(app, ["--evalset", str(tmp_path), "--reader", "tesseract", "--decode", "ar"])
    assert isinstance(result.exception, UsageError) and "--decode" in str(result.exception)
    for side in ("p", "t"):
        (tmp_path / f"{side}.tex").write_text("a")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(app, [str(tmp_path / "p.tex"), str(tmp_path / "t.tex"), "--cdm"])
    assert isinstance(result.exception, MissingExtraError) and "pdflatex is not installed" in str(result.exception)

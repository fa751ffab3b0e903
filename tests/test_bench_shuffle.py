"""Semantic Shuffle: words are permuted, lines and their places stay, and figures follow from the readings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from derender.bench.cli import app
from derender.bench.shuffle import ShuffleOptions, ShuffleReport, picture, run_shuffle
from derender.bench.shuffle_report import write_shuffle
from derender.bench.shuffle_scores import PageScore, compare_losses, curves, interval, losses, score_page
from derender.bench.shuffle_sheet import Piece, Sheet, Slot, break_lines, compose, shuffle
from derender.bench.shuffle_source import DPI, MARGIN_MM, built_in_prose, pdf_sheets, prose_of_file, prose_sheets
from derender.errors import InputError, MissingExtraError, UsageError
from derender.ingest.source import open_source
from derender.ingest.types import ReadOptions
from derender.score.types import Block, CropTask, PageReading, Reading

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/groundwater.pdf"
MACHINE = {"processor": "test", "threads": 1, "python": "3"}


def _pieces(words: str) -> list[Piece]:
    return [Piece(w, np.zeros((4, 10 * len(w)), np.uint8), 4, 10.0 * len(w)) for w in words.split()]


def _texts(pieces: list[Piece]) -> list[str]:
    return [p.text for p in pieces]


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return next(prose_sheets(built_in_prose(), 1, 120, 0))


def test_shuffle_moves_only_the_share_and_loses_nothing() -> None:
    words = _pieces(" ".join(f"w{i}" for i in range(50)))
    assert _texts(shuffle(words, 0.0, np.random.default_rng(1))) == _texts(words)
    some = _texts(shuffle(words, 0.2, np.random.default_rng(1)))
    whole = _texts(shuffle(words, 1.0, np.random.default_rng(1)))
    assert sorted(some) == sorted(whole) == sorted(_texts(words))
    assert 2 <= sum(a != b for a, b in zip(some, _texts(words), strict=True)) <= 10
    assert sum(a != b for a, b in zip(whole, _texts(words), strict=True)) > 40


def test_shuffle_of_a_larger_share_moves_the_same_words_and_more() -> None:
    words = _pieces(" ".join(f"w{i}" for i in range(200)))
    moved = []
    for fraction in (0.2, 0.6):
        out = _texts(shuffle(words, fraction, np.random.default_rng(3)))
        moved.append({i for i, (a, b) in enumerate(zip(out, _texts(words), strict=True)) if a != b})
    # a permutation may leave a word where it was, which is then no difference
    assert len(moved[0] - moved[1]) <= 3 and len(moved[1]) > 2 * len(moved[0])


def test_shuffle_refuses_other_fractions() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        shuffle([], 1.5, np.random.default_rng(0))


def test_lines_are_broken_at_the_least_total_badness() -> None:
    # widths 30, 30, 40 and 20, 60 with spaces of 10 fill lines of 120 and 90 exactly
    slots = [Slot(0, 120, 0), Slot(0, 90, 0)]
    assert break_lines([30, 30, 40, 20, 60], slots, 10.0) == [3, 2]


def test_every_line_gets_a_word_even_when_words_are_far_too_long() -> None:
    assert break_lines([500.0, 500.0, 500.0], [Slot(0, 50, 0)] * 3, 10.0) == [1, 1, 1]
    assert sum(break_lines([500.0] * 7, [Slot(0, 50, 0)] * 3, 10.0)) == 7
    with pytest.raises(ValueError, match="2 words cannot fill 3 lines"):
        break_lines([1.0, 1.0], [Slot(0, 50, 0)] * 3, 10.0)


def test_a_composed_page_keeps_words_lines_and_margins(sheet: Sheet) -> None:
    plain, text = compose(sheet, 0.0, 5)
    mixed, other = compose(sheet, 1.0, 5)
    assert text.replace("\n", " ").split() == [w.text for w in sheet.words[0]]
    assert Counter(other.split()) == Counter(text.split()) and other.split() != text.split()
    assert plain.shape == mixed.shape and other.count("\n") == text.count("\n")
    margin = round(0.8 * MARGIN_MM * DPI / 25.4)
    assert (plain[:, :margin] == 255).all() and (mixed[:, :margin] == 255).all() and (mixed[:, -margin:] == 255).all()
    # the same ink, elsewhere
    assert np.sum(mixed < 128) == pytest.approx(np.sum(plain < 128), rel=0.01)
    rows = [(page < 128).any(axis=1) for page in (plain, mixed)]
    assert np.mean(rows[0] == rows[1]) > 0.97


def test_equal_seeds_give_equal_pages(sheet: Sheet) -> None:
    one, two, three = (compose(sheet, 0.4, seed) for seed in (1, 1, 2))
    assert np.array_equal(one[0], two[0]) and one[1] == two[1] != three[1]


def test_a_pdf_page_set_again_unshuffled_is_the_page() -> None:
    sheet = next(pdf_sheets(EXAMPLE, "2"))
    page, text = compose(sheet, 0.0, 0)
    with open_source(EXAMPLE, options=ReadOptions(dpi=DPI)) as source:
        original = source.page(2).image[..., 0]
    ink, mine = (np.asarray(Image.fromarray(p).reduce(8)) < 200 for p in (original, page))
    assert np.sum(ink & mine) / np.sum(ink | mine) > 0.75  # justified spaces may end a pixel or two elsewhere
    assert "Many groundwater modelers typically rely on Graphical User Interfaces (GUIs) for their" in text


def test_a_pdf_page_keeps_its_headings_and_permutes_its_words() -> None:
    sheet = next(pdf_sheets(EXAMPLE, "2"))
    _, text = compose(sheet, 0.0, 0)
    _, mixed = compose(sheet, 1.0, 0)
    assert "Statement of Need" in mixed.splitlines()
    assert Counter(mixed.split()) == Counter(text.split())
    assert mixed != text


def test_sources_without_words_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text(" \n\n ")
    with pytest.raises(InputError, match="holds no text"):
        prose_of_file(tmp_path / "e.txt")
    with pytest.raises(InputError, match="too short for a page of 50 words"):
        next(prose_sheets(["two words"], 1, 50, 0))
    Image.new("RGB", (600, 800), "white").save(tmp_path / "blank.pdf")
    with pytest.raises(InputError, match="no page with 20 words"):
        next(pdf_sheets(tmp_path / "blank.pdf"))
    Image.new("RGB", (60, 80), "white").save(tmp_path / "p.png")
    with pytest.raises(InputError, match="p.png is no PDF"):
        next(pdf_sheets(tmp_path / "p.png"))


def test_pictures_have_the_resolution_and_the_same_grain_for_a_seed(sheet: Sheet) -> None:
    options = ShuffleOptions(dpi=75, noise=0.1)
    page = compose(sheet, 0.0, 0)[0]
    a, b = picture(page, DPI, options, 4), picture(page, DPI, options, 4)
    assert a.shape == (round(page.shape[0] / 4), round(page.shape[1] / 4)) and np.array_equal(a, b)
    assert not np.array_equal(a, picture(page, DPI, options, 5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"modes": ("fast",)},
        {"fractions": (0.5,)},
        {"fractions": (0.5, 0.1)},
        {"fractions": (0.0, 1.2)},
        {"dpi": 10.0},
        {"peers": ("abbyy",)},
    ],
)
def test_options_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ShuffleOptions(**wrong)  # type: ignore[arg-type]


def test_page_scores_by_hand() -> None:
    s = score_page("r", "p", 0.0, "one two\nthree four", "one two three four")
    assert (s.bleu, s.precision, s.recall, s.edit) == (pytest.approx(1.0), 1.0, 1.0, 0.0)
    s = score_page("r", "p", 0.0, "one two", "one two three four")
    assert (s.precision, s.recall, s.edit) == (1.0, 0.5, pytest.approx(11 / 18))


def _scores() -> list[PageScore]:
    """Reader a loses 0.10 of BLEU on page 1 and 0.20 on page 2; b loses 0.05 more on both."""
    values = {("a", "1"): (0.9, 0.8), ("a", "2"): (1.0, 0.8), ("b", "1"): (0.9, 0.75), ("b", "2"): (0.9, 0.65)}
    return [
        PageScore(reader, page, f, v, v, v, 1 - v)
        for (reader, page), pair in values.items()
        for f, v in zip((0.0, 1.0), pair, strict=True)
    ]


def test_losses_are_positive_when_a_reading_gets_worse() -> None:
    assert losses(_scores(), "a", "bleu") == pytest.approx([0.1, 0.2])
    assert losses(_scores(), "a", "edit") == pytest.approx([0.1, 0.2])


def test_differences_are_paired_by_page() -> None:
    ((reader, i),) = compare_losses(_scores(), "bleu", "a")
    assert reader == "b"
    assert (i.mean, i.low, i.high) == (pytest.approx(0.05), pytest.approx(0.05), pytest.approx(0.05))


def test_interval_covers_the_mean_and_is_narrow_for_equal_values() -> None:
    wide, none = interval([0.0, 1.0] * 20), interval([0.3] * 5)
    assert wide.low < wide.mean == 0.5 < wide.high
    assert wide.high - wide.low == pytest.approx(2 * 1.96 * 0.5 / 40**0.5, rel=0.15)  # the normal approximation
    assert (none.low, none.high) == (pytest.approx(0.3), pytest.approx(0.3))
    with pytest.raises(ValueError, match="at least one value"):
        interval([])


def test_curves_have_a_point_for_each_fraction() -> None:
    found = {(c.reader, c.metric): c for c in curves(_scores())}
    assert [(f, round(i.mean, 6)) for f, i in found["a", "bleu"].points] == [(0.0, 0.95), (1.0, 0.8)]
    assert found["b", "edit"].loss.mean == pytest.approx(0.2)


def test_report_files(tmp_path: Path) -> None:
    report = ShuffleReport(ShuffleOptions(fractions=(0.0, 1.0)), "made up", _scores(), ["1", "2"], 100, ["a note"])
    write_shuffle(report, MACHINE, {"sha256": {"x.onnx": "0" * 64}}, tmp_path / "new")
    data = json.loads((tmp_path / "new/shuffle.json").read_text("utf-8"))
    assert len(data["scores"]) == 8 and data["options"]["fractions"] == [0.0, 1.0]
    text = (tmp_path / "new/shuffle.md").read_text("utf-8")
    assert "| b | 90.00 (90.00 to 90.00) | 70.00 (65.00 to 75.00) | 20.00 (15.00 to 25.00) |" in text
    assert "- a note" in text
    with Image.open(tmp_path / "new/shuffle.png") as image:
        assert image.width > 800 and len(image.convert("RGB").getcolors(1 << 20) or []) > 20


def test_a_missing_program_is_named_and_left_out(sheet: Sheet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = ShuffleOptions(modes=(), no_draft=(), peers=("tesseract",), fractions=(0.0, 1.0))
    with pytest.raises(InputError, match="no reader could be run: .*tesseract is not installed"):
        run_shuffle([sheet], options, "test")


class _Peer:
    """Reads the first picture, then fails as it is told to."""

    name = "rapidocr"

    def __init__(self, failure: Exception) -> None:
        self.failure, self.seen = failure, 0

    def read_crops(self, images: Sequence[Any], task: CropTask, lang: str = "") -> list[str]:
        raise AssertionError("pages are read, not crops")

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        self.seen += 1
        if self.seen > 1:
            raise self.failure
        return Reading((PageReading((Block("one line"), Block("and another"))),))


@pytest.mark.parametrize(
    ("failure", "scores", "note"),
    [
        (UsageError("it broke."), [("rapidocr", 0.0), ("rapidocr", 1.0)], "failed on page 1 at 100%, counted as empty"),
        (MissingExtraError("no data."), [], "rapidocr was left out: no data."),
    ],
)
def test_a_program_that_fails_does_not_take_the_run_along(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch, failure: Exception, scores: list[tuple[str, float]], note: str
) -> None:
    monkeypatch.setattr("derender.score.readers.make_reader", lambda _name: _Peer(failure))
    options = ShuffleOptions(modes=(), no_draft=(), peers=("rapidocr",), fractions=(0.0, 1.0))
    if not scores:
        with pytest.raises(InputError, match=note):
            run_shuffle([sheet], options, "test")
        return
    report = run_shuffle([sheet], options, "test")
    assert [(s.reader, s.fraction) for s in report.scores] == scores
    assert report.scores[0].precision > 0 and report.scores[1].recall == 0.0
    assert note in report.notes[0]


def test_the_command_reads_a_page_in_two_modes(tmp_path: Path) -> None:
    command = ["shuffle", "-o", str(tmp_path / "out"), "--count", "1", "--words", "30", "--fractions", "0,1", "-q"]
    command += ["--modes", "ar,exact", "--no-draft", "", "--peers", "", "--threads", "1", "--dpi", "150"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    data = json.loads((tmp_path / "out/shuffle.json").read_text("utf-8"))
    by_reader = {r: [s for s in data["scores"] if s["reader"] == r] for r in ("ar", "exact")}
    assert [s["edit"] for s in by_reader["ar"]] == [s["edit"] for s in by_reader["exact"]]
    assert all(s["recall"] > 0.8 for s in by_reader["ar"])


def test_pages_are_only_for_pdfs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["shuffle", "-o", str(tmp_path), "--pages", "1"])
    assert isinstance(result.exception, UsageError)

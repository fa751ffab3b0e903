"""An interrupted document is taken up again at the page where it stopped, and nothing else is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_helpers import text_pdf
from derender import cli
from derender.config import ParseOptions
from derender.document import Page, Region, RegionType, load
from derender.ingest.pdf import PdfSource
from derender.parts import PageParts
from derender.pipeline import Pipeline

PAGES = 5


@pytest.fixture(scope="module")
def pipelines() -> dict[str, Pipeline]:
    """One pipeline for all tests: models are loaded once."""
    return {}


class _Run:
    """`derender parse book.pdf --mode text` in a folder; `opened` are the pages that were loaded to be read, and
    `stop_at` the one at which Ctrl-C is pressed."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch, pipelines: dict[str, Pipeline]) -> None:
        self.tmp, self.opened, self.stop_at = tmp, list[int](), 0
        (tmp / "book.pdf").write_bytes(text_pdf(*[f"Sentence {n} of the book" for n in range(1, PAGES + 1)]))
        monkeypatch.chdir(tmp)

        def make(options: ParseOptions) -> Pipeline:
            pipelines.setdefault("one", Pipeline(options)).options = options
            return pipelines["one"]

        def prepare(pipeline: Pipeline, source: PdfSource, number: int):  # type: ignore[no-untyped-def]
            if number == self.stop_at:
                raise KeyboardInterrupt
            self.opened.append(number)
            return original(pipeline, source, number)

        original = Pipeline.prepare
        monkeypatch.setattr(cli, "make_pipeline", make)
        monkeypatch.setattr(Pipeline, "prepare", prepare)

    def __call__(self, *more: str, stop_at: int = 0) -> int:
        self.opened.clear()
        self.stop_at = stop_at
        arguments = ["parse", "book.pdf", "--mode", "text", "--format", "md,json", *more]
        return CliRunner().invoke(cli.app, arguments).exit_code

    def files(self) -> set[str]:
        return {p.relative_to(self.tmp / "out").as_posix() for p in (self.tmp / "out").rglob("*") if p.is_file()}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipelines: dict[str, Pipeline]) -> Iterator[_Run]:
    yield _Run(tmp_path, monkeypatch, pipelines)


def test_a_resumed_document_reads_only_the_missing_pages_and_is_the_same(run: _Run) -> None:
    assert run() == 0
    whole = load(run.tmp / "out" / "book" / "book.json")
    (run.tmp / "out" / "book" / "book.json").unlink()
    assert run(stop_at=4) == 130 and run.opened == [1, 2, 3]
    assert run("--resume") == 0 and run.opened == [4, 5]
    resumed = load(run.tmp / "out" / "book" / "book.json")
    assert resumed.meta["pages_resumed"] == 3

    def content(pages: list[Page]) -> list[Page]:
        return [page.model_copy(update={"seconds": {}}) for page in pages]

    assert content(resumed.pages) == content(whole.pages) and len(whole.pages) == PAGES
    assert run.files() == {"book/book.md", "book/book.json"}


def test_without_resume_an_interrupted_document_is_read_anew(run: _Run) -> None:
    assert run(stop_at=3) == 130
    assert run() == 0 and run.opened == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("change", ["settings", "file"])
def test_pages_of_other_settings_or_another_file_are_not_taken(run: _Run, change: str) -> None:
    assert run(stop_at=3) == 130
    if change == "file":
        (run.tmp / "book.pdf").write_bytes(text_pdf(*["Another text"] * PAGES))
    assert run("--resume", *(["--dpi", "90"] if change == "settings" else [])) == 0
    assert run.opened == [1, 2, 3, 4, 5]


def test_a_second_interruption_keeps_the_pages_of_both_runs(run: _Run) -> None:
    assert run(stop_at=2) == 130
    assert run("--resume", stop_at=4) == 130 and run.opened == [2, 3]
    assert run("--resume") == 0 and run.opened == [4, 5]


def test_a_damaged_part_counts_as_missing_and_a_text_that_no_file_holds_is_kept(tmp_path: Path) -> None:
    parts = PageParts(tmp_path / "d", {"size": 1}, {"mode": "ocr"})
    for number in (1, 2):
        region = Region(id="r", type=RegionType.TEXT, order=0, box=(0, 0, 1, 1), text="a\ud800b\x00")
        parts.add(Page(number=number, width=10, height=10, dpi=72, regions=[region]))
    (tmp_path / "d" / ".pages" / "000002.json").write_text('{"number": 2')
    assert list(PageParts(tmp_path / "d", {"size": 1}, {"mode": "ocr"}).load()) == [1]
    parts.remove()
    assert list(tmp_path.iterdir()) == []

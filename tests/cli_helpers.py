"""For the tests of the command line: a small PDF, a runner, and a pipeline whose documents the inputs dictate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
from typer.testing import CliRunner

from derender import cli
from derender.config import ParseOptions
from derender.document import Document, Page, Region, RegionType
from derender.errors import InputError, ModelError, UsageError


def text_pdf(*pages: str) -> bytes:
    """A PDF with one line of Helvetica on each page."""
    bodies = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 40 140 Td ({text}) Tj ET".encode("ascii")
        bodies.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        kids.append(len(bodies) + 1)
        bodies.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(bodies)
        )
    bodies[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % k for k in kids), len(kids))
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1)
    return (
        out
        + head
        + table
        + b"trailer << /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF\n"
        % (
            len(bodies) + 1,
            len(out),
        )
    )


class _Opened:
    def __init__(self, name: str, words: list[str]) -> None:
        self.name, self.words, self.closed = name, words, False

    def __enter__(self) -> _Opened:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True


class DictatedPipeline:
    """Stands in for Pipeline: the input's first word says what happens, its second how many pages there are."""

    def __init__(self, options: ParseOptions) -> None:
        self.options = options
        self.opened: list[_Opened] = []
        self.interrupt_picture = False

    def open(self, source: str | Path | bytes, name: str | None = None) -> _Opened:
        if not isinstance(source, bytes):
            if not Path(source).is_file():
                raise InputError(f"{source} does not exist.")
            source = Path(source).read_bytes()
        self.opened.append(_Opened(name or "document", source.decode().split()))
        return self.opened[-1]

    def parse_source(
        self,
        source: _Opened,
        *,
        on_page: Callable[[Page, int, int], None] | None = None,
        known: Mapping[int, Page] | None = None,
    ) -> Document:
        order, count = source.words[0], int(source.words[1]) if len(source.words) > 1 else 1
        raised = {
            "usage": UsageError("pages 9 were asked for, but the document has pages 1 to 1."),
            "bug": ZeroDivisionError("division by zero"),
            "model": ModelError("the weights are missing."),
            "interrupt": KeyboardInterrupt(),
        }
        if order in raised:
            raise raised[order]
        pages = []
        for number in range(1, count + 1):
            text = Region(
                id=f"p{number}r1", type=RegionType.TEXT, order=0, box=(10, 10, 90, 20), text=f"{source.name} {number}"
            )
            text.source = "ocr"
            figure = Region(id=f"p{number}r2", type=RegionType.FIGURE, order=1, box=(10, 30, 90, 60))
            pages.append(Page(number=number, width=100, height=100, dpi=72, regions=[text, figure]))
            if order == "slow":
                time.sleep(0.4)
            if on_page:
                on_page(pages[-1], number, count)
        document = Document(name=source.name, pages=pages, page_count=count)
        if order in ("partial", "failed"):
            document.status = order  # type: ignore[assignment]
            document.errors = [f"page {page.number}: it is broken" for page in pages]
        if order == "warned":
            for page in pages:
                page.warnings = ["the page is large"]
        return document

    def picture(self, source: _Opened, page: Page) -> np.ndarray:
        assert not source.closed
        if self.interrupt_picture:
            raise KeyboardInterrupt
        return np.zeros((100, 100, 3), np.uint8)


class Derender:
    """Runs the command line in this process, in the folder `tmp`; `pipelines` are those that it made."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tmp, self.pipelines = tmp, list[DictatedPipeline]()
        self.interrupt_picture = False
        monkeypatch.chdir(tmp)
        monkeypatch.setattr(cli, "make_pipeline", self._make)

    def _make(self, options: ParseOptions) -> DictatedPipeline:
        self.pipelines.append(DictatedPipeline(options))
        self.pipelines[-1].interrupt_picture = self.interrupt_picture
        return self.pipelines[-1]

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        result = CliRunner().invoke(cli.app, list(arguments), input=stdin)
        return result.exit_code, result.stdout, result.stderr

    def file(self, name: str, order: str) -> str:
        path = self.tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(order)
        return name

    def outputs(self) -> set[str]:
        return {path.relative_to(self.tmp / "out").as_posix() for path in (self.tmp / "out").rglob("*")}

"""Reads a list of inputs and writes what comes out: one bad input is reported and the next one is read.

Knows files, standard input and output, and --resume; does not parse arguments (cli.py) and shows nothing itself
(cli_report.py). Missing weights or extras end the batch at once: every other input would fail for the same reason.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derender.assemble.files import (
    FORMATS,
    Format,
    is_finished,
    output_files,
    safe_name,
    source_meta,
    unique_name,
    write_outputs,
)
from derender.assemble.structure import clean_text
from derender.cli_report import Reporter
from derender.document import Document, Page
from derender.errors import DerenderError, InputError, MissingExtraError, ModelError, PageError, UsageError
from derender.ingest.inputs import InputFile
from derender.parts import PageParts

if TYPE_CHECKING:
    import numpy as np

    from derender.config import ParseOptions
    from derender.ingest.page import Source
    from derender.pipeline import Pipeline

PRINTABLE: tuple[Format, ...] = ("md", "json", "html", "content-list")


@dataclass(frozen=True)
class BatchOptions:
    """What to do with each document. out None: print the one format on standard output."""

    out: Path | None
    formats: tuple[Format, ...]
    resume: bool = False
    keep_paratext: bool = False
    page_markers: bool = False

    def __post_init__(self) -> None:
        if self.out is None and (len(self.formats) != 1 or self.formats[0] not in PRINTABLE):
            raise UsageError(f"--stdout prints one format: give one of {', '.join(PRINTABLE)} with --format")
        if self.out is None and self.resume:
            raise UsageError("--resume needs files of an earlier run, and --stdout writes none")
        if self.resume and "json" not in self.formats:
            raise UsageError("--resume needs json among the formats: it tells finished documents by it")
        if "xlsx" in self.formats:
            from derender.assemble.sheets import require_xlsx

            require_xlsx()  # before hours of work, not after
        if self.page_markers and "md" not in self.formats:
            raise UsageError("--page-markers marks pages in Markdown: add md to --format")
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise UsageError(f"{self.out} is a file: --out needs a folder")


def parse_formats(text: str) -> tuple[Format, ...]:
    """Formats of "md,json", without repeats. Raises UsageError for an unknown one, or when there is none."""
    names = dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        raise UsageError(f"unknown format '{unknown[0] if unknown else text}': use {', '.join(FORMATS)}")
    return tuple(fmt for fmt in FORMATS if fmt in names)


def settings_of(options: ParseOptions, batch: BatchOptions) -> dict[str, Any]:
    """What --resume compares: all that changes the output. The password and what only changes speed are left out."""
    decode = options.decode
    settings = {
        "mode": options.mode,
        "pages": options.pages,
        "dpi": options.dpi,
        "tokens": options.tokens,
        "join_tables": options.join_tables,
        "decode": f"{decode.mode} {decode.rule} {decode.block} {decode.window} trace={decode.trace}",
        "keep_paratext": batch.keep_paratext,
        "page_markers": batch.page_markers,
    }
    if options.model is not None:
        settings["model"] = options.model.settings
    return settings


def run_batch(inputs: Sequence[InputFile], pipeline: Pipeline, batch: BatchOptions, report: Reporter) -> int:
    """Reads all inputs in order; returns the exit code. Raises ModelError, MissingExtraError and KeyboardInterrupt."""
    if sum(file.path is None for file in inputs) > 1:
        raise UsageError("standard input can be read only once: give - once")
    taken: set[str] = set()
    settings = settings_of(pipeline.options, batch)
    for file in inputs:
        name = unique_name(file.name, taken)
        taken.add(name)
        report.begin(name)
        try:
            _one(file, name, len(inputs) > 1, pipeline, batch, settings, report)
        except (ModelError, MissingExtraError, BrokenPipeError):
            raise
        except DerenderError as error:
            # Messages about the file itself name it already; those about options and pages do not.
            report.failed(error, prefix="" if isinstance(error, InputError) else f"{name}: ")
        except OSError as error:
            report.failed(error, prefix=f"{name} could not be written: ")
        except Exception as error:  # a fault of derender or a library must not cost the other inputs
            report.failed(error, prefix=f"{name}: internal error, {type(error).__name__}: ")
    return report.tally.exit_code


def _one(
    file: InputFile,
    name: str,
    several: bool,
    pipeline: Pipeline,
    batch: BatchOptions,
    settings: dict[str, Any],
    report: Reporter,
) -> None:
    data = read_stdin() if file.path is None else None
    meta = _source_meta(file.path, data) if batch.out is not None else None
    if batch.out is not None and batch.resume and _finished(batch, batch.out, name, meta, settings):
        report.skipped(name)
        return
    source = file.path if file.path is not None else data
    assert source is not None
    parts = None
    if batch.out is not None and "json" in batch.formats:  # without JSON nothing can be resumed
        parts = PageParts(batch.out / safe_name(name), meta, settings)
    known = parts.load() if parts is not None and batch.resume else {}
    if parts is not None and not known:
        parts.remove()
    try:
        _read(source, name, several, pipeline, batch, settings, report, meta, parts, known)
    except (OSError, KeyboardInterrupt):
        raise  # the pages stay: --resume goes on from them
    except Exception:
        if parts is not None:
            parts.remove()
        raise
    if parts is not None:
        parts.remove()


def _read(
    source: Path | bytes,
    name: str,
    several: bool,
    pipeline: Pipeline,
    batch: BatchOptions,
    settings: dict[str, Any],
    report: Reporter,
    meta: dict[str, str | int] | None,
    parts: PageParts | None,
    known: dict[int, Page],
) -> None:
    """Reads one input and writes what comes out; pages go into `parts` as they are finished."""

    def on_page(page: Page, done: int, total: int) -> None:
        if parts is not None and total > 1:
            parts.add(page)
        report.page(page, done, total)

    with pipeline.open(source, name) as opened:
        document = pipeline.parse_source(opened, on_page=on_page, known=known)
        if document.status == "failed":
            count = len(document.pages)
            what = f"none of its {count} pages could" if count > 1 else "its only page could not"
            report.failed(InputError(f"{name}: {what} be read."), document)
            return
        document.meta["settings"] = settings
        if batch.out is None:
            _print(document, several, batch)
            report.finished(document, None)
            return
        document.meta["source"] = meta
        pictures = PagePictures(pipeline, opened, document)
        write_outputs(
            document, batch.out, batch.formats, pictures, name, batch.keep_paratext, page_markers=batch.page_markers
        )
    report.finished(document, batch.out / name)


class PagePictures:
    """Page number -> its picture (write_outputs' page_images); None for a page that cannot be rendered, which the
    document's errors name already."""

    def __init__(self, pipeline: Pipeline, source: Source, document: Document) -> None:
        self.pipeline, self.source = pipeline, source
        self.pages = {page.number: page for page in document.pages}

    def __call__(self, number: int) -> np.ndarray | None:
        try:
            return self.pipeline.picture(self.source, self.pages[number])
        except PageError:
            return None


def read_stdin() -> bytes:
    if sys.stdin.isatty():
        raise UsageError("standard input is the keyboard: pipe a file into derender, or name one instead of -")
    return sys.stdin.buffer.read()


def _source_meta(path: Path | None, data: bytes | None) -> dict[str, str | int] | None:
    """Size and digest of the input; None when it cannot be read, which opening it will explain better."""
    if data is None:
        assert path is not None
        try:
            data = path.read_bytes()
        except OSError:
            return None
    return source_meta(data)


def _finished(
    batch: BatchOptions, out: Path, name: str, meta: dict[str, str | int] | None, settings: dict[str, Any]
) -> bool:
    """Whether an earlier run made all this of the same bytes with the same settings."""
    if meta is None or not is_finished(out, name, meta, batch.formats):
        return False
    (path,) = output_files(out, name, ["json"])
    return bool(json.loads(path.read_bytes())["meta"].get("settings") == settings)


def _print(document: Document, several: bool, batch: BatchOptions) -> None:
    """One document on standard output. Several: JSON one line each, other formats a blank line between."""
    document = clean_text(document)
    (fmt,) = batch.formats
    if fmt == "md":
        text = document.to_markdown(keep_paratext=batch.keep_paratext, page_markers=batch.page_markers)
    elif fmt == "html":
        text = document.to_html(keep_paratext=batch.keep_paratext)
    elif fmt == "json":
        text = document.to_json(indent=None if several else 1)
    else:
        text = json.dumps(document.to_content_list(), ensure_ascii=False, indent=None if several else 1)
    text = text.rstrip("\n") + ("\n\n" if several and fmt in ("md", "html") else "\n")
    # Bytes, because a console's own encoding may lack characters of the document.
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.buffer.flush()


@contextmanager
def quiet_libraries(verbose: int) -> Iterator[None]:
    """Without -v, log records below ERROR and Python warnings of the libraries are dropped while the context lasts."""
    if verbose:
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

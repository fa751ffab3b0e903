"""What a worker does: look into documents, read units of pages, and write finished documents. One engine per worker.

Plain Python, called by Ray or by a test; run.py decides who does what. Answers are small: pages go to the store, never
through Ray. A worker keeps no state that another could miss, only models and copies of remote files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from derender import __version__
from derender.assemble.files import Format, safe_name, source_meta, write_outputs
from derender.assemble.structure import structure
from derender.cli_batch import PagePictures
from derender.config import ParseOptions
from derender.document import Document, Page
from derender.errors import DerenderError, InputError
from derender.ingest.page import Source
from derender.ingest.source import parse_pages
from derender.page import PageWork
from derender.pipeline import Pipeline, failed_page, fill_region, settle_document, settle_page
from derender.recognise.types import Request, Result
from derender.scale.plan import DocumentInput, file_system
from derender.scale.store import Done, Problem, Store

_KEPT_FILES = 16


@dataclass(frozen=True)
class Job:
    """What is the same for every unit of a run. settings: all that changes the output, as text."""

    out: str
    options: ParseOptions
    formats: tuple[Format, ...]
    settings: str
    keep_paratext: bool = False
    page_markers: bool = False


@dataclass(frozen=True)
class Probed:
    """What is in a document: pages to read, and those of them that an earlier run has read. error: why nothing is."""

    numbers: tuple[int, ...] = ()
    done: frozenset[int] = frozenset()
    error: str | None = None


@dataclass(frozen=True)
class Piece:
    """A range of pages with the document it is of: a PageRange as a worker needs it."""

    document: DocumentInput
    first: int
    last: int


@dataclass
class _Sheet:
    """Pages of one piece in the making."""

    piece: Piece
    open: dict[int, PageWork]
    done: dict[int, Page]

    def settle(self, work: PageWork) -> None:
        self.open.pop(work.page.number, None)
        self.done[work.page.number] = settle_page(work.page)


class Worker:
    """Reads for one run. Not thread-safe."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.out)
        self.pipeline = Pipeline(job.options)
        self._files: OrderedDict[str, Path] = OrderedDict()
        self._folder = tempfile.TemporaryDirectory(prefix="derender-")

    def ready(self) -> int:
        """The process's number, once it can work."""
        return os.getpid()

    def probe(self, documents: Sequence[DocumentInput]) -> list[Probed]:
        """Page numbers of each document, and which of them are there already."""
        return [self._probe(document) for document in documents]

    def _probe(self, document: DocumentInput) -> Probed:
        try:
            with self._open(document) as source:
                numbers = parse_pages(self.job.options.pages or "1-", source.page_count)
        except DerenderError as error:
            return Probed(error=str(error))
        done = self.store.pages_done(document.key(self.job.settings))
        return Probed(tuple(numbers), frozenset(done & set(numbers)))

    def read(self, pieces: Sequence[Piece]) -> int:
        """Reads the pages and keeps them, each piece one part of the store; returns how many pages failed. Requests of
        all pages go through the engine as one stream.
        """
        sheets = [_Sheet(piece, {}, {}) for piece in pieces]
        with ExitStack() as opened:
            for result in self._recognise(sheets, opened):
                sheet_id, _, request_id = result.id.partition("/")
                number, index = (int(part) for part in request_id.split(":"))
                work = sheets[int(sheet_id)].open[number]
                fill_region(work.page.regions[index], replace(result, id=request_id), work, self.job.options)
                work.waiting.discard(request_id)
                if not work.waiting:
                    sheets[int(sheet_id)].settle(work)
        failed = 0
        for sheet in sheets:
            pages = [sheet.done[n] for n in range(sheet.piece.first, sheet.piece.last + 1)]
            failed += sum(page.status == "failed" for page in pages)
            self.store.add_pages(sheet.piece.document.key(self.job.settings), pages)
        return failed

    def finish(self, document: DocumentInput, numbers: Sequence[int]) -> Done | None:
        """Puts the pages together, writes the document's files, and marks it as finished. None: some of its pages are
        not there. A document without a single readable page writes nothing and is not marked."""
        job, key = self.job, document.key(self.job.settings)
        pages = self.store.load_pages(key)
        if any(n not in pages for n in numbers):
            return None
        with self._open(document) as source:
            whole = Document(
                name=document.name,
                pages=[pages[n] for n in numbers],
                page_count=source.page_count,
                warnings=list(source.warnings),
            )
            whole = settle_document(structure(whole, job.options.join_tables))
            whole.meta = {
                "version": __version__,
                "mode": job.options.mode,
                "decode": {"mode": job.options.decode.mode, "rule": job.options.decode.rule},
                "source": {"uri": document.uri, **source_meta(self._local(document).read_bytes())},
            }
            problems = list_problems(document, whole)
            done = Done(document.uri, document.name, len(whole.pages), whole.status, len(problems))
            if whole.status != "failed":
                self._write(whole, source)
        self.store.note(key, problems)
        if whole.status == "failed":
            self.store.drop_pages(key)
        else:
            self.store.mark(key, done)
        return done

    def _write(self, document: Document, source: Source) -> None:
        job, pictures = self.job, PagePictures(self.pipeline, source, document)
        name = safe_name(document.name)
        with ExitStack() as stack:
            folder = (
                self.store.root
                if self.store.local
                else stack.enter_context(tempfile.TemporaryDirectory(prefix="derender-"))
            )
            write_outputs(document, folder, job.formats, pictures, name, job.keep_paratext, job.page_markers)
            if not self.store.local:
                self.store.upload(Path(folder) / name, name, last=f"{name}.json")

    def _recognise(self, sheets: list[_Sheet], opened: ExitStack) -> Iterator[Result]:
        """As Pipeline: the weights are loaded only when there is something to read."""
        requests = self._requests(sheets, opened)
        first = next(requests, None)
        if first is None:
            return

        def all_requests() -> Iterator[Request]:
            yield first
            yield from requests

        yield from self.pipeline.recogniser.recognise(all_requests())

    def _requests(self, sheets: list[_Sheet], opened: ExitStack) -> Iterator[Request]:
        for place, sheet in enumerate(sheets):
            numbers = range(sheet.piece.first, sheet.piece.last + 1)
            try:
                source = opened.enter_context(self._open(sheet.piece.document))
            except DerenderError as error:  # it could be opened when it was looked into
                for number in numbers:
                    sheet.settle(PageWork(failed_page(number, error)))
                continue
            for number in numbers:
                work, requests = self.pipeline.prepare(source, number)
                sheet.open[number] = work
                if not requests:
                    sheet.settle(work)
                for request in requests:
                    yield replace(request, id=f"{place}/{request.id}")

    def _open(self, document: DocumentInput) -> Source:
        if document.size < 0:
            raise InputError(f"{document.uri} does not exist.")
        return self.pipeline.open(self._local(document), document.name)

    def _local(self, document: DocumentInput) -> Path:
        """The file itself when it is local, else a copy; the latest few copies are kept. Raises InputError."""
        fs, path = file_system(document.uri)
        if "file" in fs.protocol:
            return Path(path)
        if document.uri in self._files:
            self._files.move_to_end(document.uri)
            return self._files[document.uri]
        copy = Path(self._folder.name) / f"{document.key('')}{Path(path).suffix}"
        try:
            with fs.open(path, "rb") as remote, copy.open("wb") as local:
                shutil.copyfileobj(remote, local, 1 << 20)
        except OSError as error:
            copy.unlink(missing_ok=True)
            raise InputError(f"{document.uri} cannot be read: {error}.") from error
        self._files[document.uri] = copy
        while len(self._files) > _KEPT_FILES:
            self._files.popitem(last=False)[1].unlink(missing_ok=True)
        return copy


def list_problems(document: DocumentInput, whole: Document) -> list[Problem]:
    """A row for each error of a page or region; one for the whole document when no page could be read."""
    rows = []
    if whole.status == "failed":
        error = "none of its pages could be read"
        rows.append(Problem(document.uri, document.name, None, None, "failed", error))
    for page in whole.pages:
        rows += [Problem(document.uri, document.name, page.number, None, page.status, e) for e in page.errors]
        for region in page.regions:
            place = region.order + 1
            rows += [Problem(document.uri, document.name, page.number, place, region.status, e) for e in region.errors]
    return rows

"""The main loop: pages in, document out.

    read a page -> turn it upright -> lay it out -> choose a source per region -> read regions -> assemble

Streams: pages are rendered when the recogniser asks for more regions, and a page's picture is dropped as soon as its
crops are made, so memory does not grow with the number of pages. One bad page or region becomes an error entry. Does
not write files (derender.assemble) and does not know the command line.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from derender import __version__
from derender.assemble.files import source_meta
from derender.assemble.structure import structure
from derender.config import ParseOptions
from derender.document import Document, Page, Region, RegionType, Token
from derender.errors import DerenderError, PageError, ServerError
from derender.ingest.page import Source
from derender.ingest.source import open_source, parse_pages
from derender.ingest.types import ReadOptions
from derender.page import PageWork, place_cells, prepare_page
from derender.recognise.doubt import is_words, not_understood
from derender.recognise.structure import SharedStructure
from derender.recognise.types import Image, Recogniser, Request, Result

OnPage = Callable[[Page, int, int], None]
FLOWING = frozenset({RegionType.TEXT, RegionType.TITLE, RegionType.LIST, RegionType.REFERENCE, RegionType.CAPTION})
"""Kinds whose whole content is their lines' text."""


@dataclass
class _Statistics:
    """What decoding a document cost."""

    tokens: int = 0
    forwards: int = 0
    seconds: float = 0.0
    regions: int = 0


@dataclass
class _Run:
    """One document in the making: pages being read, in order, and those done."""

    source: Source
    numbers: list[int]
    on_page: OnPage | None
    open: dict[int, PageWork] = field(default_factory=dict)
    done: dict[int, Page] = field(default_factory=dict)
    statistics: _Statistics = field(default_factory=_Statistics)

    def finish(self, work: PageWork) -> None:
        self.open.pop(work.page.number, None)
        self.done[work.page.number] = settle_page(work.page)
        if self.on_page:
            self.on_page(self.done[work.page.number], len(self.done), len(self.numbers))


class Pipeline:
    """Reads documents one after the other; models are loaded when first needed and kept. Not thread-safe."""

    def __init__(
        self,
        options: ParseOptions | None = None,
        recogniser: Recogniser | None = None,
        analyser: Any = None,
        tables: SharedStructure | None = None,
    ) -> None:
        self.options = options or ParseOptions()
        self.tables = tables or SharedStructure(self.options.decode, self.options.threads)
        self._recogniser = recogniser
        self._analyser = analyser

    @property
    def recogniser(self) -> Recogniser:
        o = self.options
        if self._recogniser is None and o.model is not None:
            from derender.mineru.make import make_recogniser

            self._recogniser = make_recogniser(o.model, o.decode, o.batch)
        elif self._recogniser is None:
            from derender.recognise.compact import CompactRecogniser

            self._recogniser = CompactRecogniser(o.decode, threads=o.threads, max_batch=o.batch, structure=self.tables)
        return self._recogniser

    @property
    def analyser(self) -> Any:
        if self._analyser is None and self.options.model is not None:
            from derender.mineru.layout import ModelLayout

            self._analyser = ModelLayout(self.recogniser)
        elif self._analyser is None:
            from derender.layout.analyse import LayoutAnalyser
            from derender.layout.types import LayoutOptions

            self._analyser = LayoutAnalyser(LayoutOptions(threads=self.options.threads))
        return self._analyser

    def parse(self, source: str | Path | bytes, *, name: str | None = None, on_page: OnPage | None = None) -> Document:
        """Reads a file or its bytes. Raises InputError (PasswordError) when there is nothing to read at all."""
        with self.open(source, name) as opened:
            document = self.parse_source(opened, on_page=on_page)
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        document.meta["source"] = source_meta(data)
        return document

    def open(self, source: str | Path | bytes, name: str | None = None) -> Source:
        """The opened file, rendered as the options say."""
        options = ReadOptions(dpi=self.options.dpi)
        return open_source(source, name=name, password=self.options.password, options=options)

    def parse_source(
        self, source: Source, *, on_page: OnPage | None = None, known: Mapping[int, Page] | None = None
    ) -> Document:
        """Reads an open document. Failed pages are in it as pages with errors; the document then says `partial`, or
        `failed` when every page failed. known: pages by number, as on_page gave them in an earlier run with the same
        options; they are taken as they are and not read again (nor counted in the statistics of decoding)."""
        began = time.perf_counter()
        numbers = parse_pages(self.options.pages or "1-", source.page_count)
        run = _Run(source, numbers, on_page)
        run.done = {n: known[n] for n in numbers if n in known} if known else {}
        resumed = len(run.done)
        for result in self._recognise(run):
            self._take(run, result)
        pages = [run.done[n] for n in numbers]
        document = Document(name=source.name, pages=pages, page_count=source.page_count, warnings=list(source.warnings))
        document = settle_document(structure(document, self.options.join_tables))
        document.meta = self._meta(run, time.perf_counter() - began)
        if resumed:
            document.meta["pages_resumed"] = resumed
        return document

    def picture(self, source: Source, page: Page) -> Image:
        """(H, W, 3) uint8 picture of a page in the file's own frame. Raises PageError."""
        opened = source.page(page.number)
        try:
            return opened.image
        finally:
            opened.release()

    def prepare(self, source: Source, number: int) -> tuple[PageWork, list[Request]]:
        """A page laid out, and what is left to read of it; a page that cannot be read has errors and no requests."""
        try:
            opened = source.page(number)
        except PageError as error:
            return PageWork(failed_page(number, error)), []
        try:
            return prepare_page(opened, self.options, self.analyser, self.tables)
        except ServerError:
            raise  # no other page would fare better
        except (DerenderError, ValueError, MemoryError) as error:
            return PageWork(failed_page(number, error, opened.width_pt, opened.height_pt, opened.dpi)), []
        finally:
            opened.release()

    def _recognise(self, run: _Run) -> Iterator[Result]:
        """Results of all regions that need reading. The recogniser, and with it its weights, is only called when
        there is such a region."""
        requests = self._requests(run)
        first = next(requests, None)
        if first is None:
            return

        def all_requests() -> Iterator[Request]:
            yield first
            yield from requests

        yield from self.recogniser.recognise(all_requests())

    def _requests(self, run: _Run) -> Iterator[Request]:
        """Prepares page after page and passes on what must be read in them."""
        for number in run.numbers:
            if number in run.done:
                continue
            work, requests = self.prepare(run.source, number)
            run.open[number] = work
            if not requests:
                run.finish(work)
            yield from requests

    def _take(self, run: _Run, result: Result) -> None:
        """Puts a result into its region; the last one of a page finishes the page."""
        number, index = (int(part) for part in result.id.split(":"))
        work = run.open[number]
        region = work.page.regions[index]
        fill_region(region, result, work, self.options)
        work.waiting.discard(result.id)
        s = run.statistics
        s.tokens += result.stats.tokens
        s.forwards += result.stats.forwards
        s.seconds += result.stats.seconds
        s.regions += 1
        if not work.waiting:
            run.finish(work)

    def _meta(self, run: _Run, seconds: float) -> dict[str, Any]:
        s, decode = run.statistics, self.options.decode
        sources = Counter(r.source for p in run.done.values() for r in p.regions)
        return {
            "version": __version__,
            "mode": self.options.mode,
            "model": getattr(self._recogniser, "name", type(self._recogniser).__name__) if s.regions else None,
            "decode": {
                "mode": decode.mode,
                "rule": decode.rule,
                "regions": s.regions,
                "tokens": s.tokens,
                "forwards": s.forwards,
                "tokens_per_forward": round(s.tokens / s.forwards, 3) if s.forwards else None,
                "seconds": round(s.seconds, 4),
            },
            "regions_by_source": dict(sources),
            "seconds": round(seconds, 3),
        }


def fill_region(region: Region, result: Result, work: PageWork, options: ParseOptions) -> None:
    """Writes a reading into its region: text, line texts, confidence, errors and, if asked for, tokens and trace."""
    confidence = result.confidence
    if region.type is RegionType.FORMULA and is_words(result):
        confidence = result.text_confidence
        region.type = RegionType.TEXT
        result = replace(result, latex=None, tokens=[], trace=None, status="ok", errors=[])
    region.text = result.text or region.text  # a formula with words of its own keeps them beside its LaTeX
    region.latex, region.html = result.latex, result.html
    if result.id in work.to_page:
        region.cells = place_cells(result.cells, work.to_page[result.id])
    region.source = "ocr"
    region.confidence = None if confidence is None else round(confidence, 4)
    region.status = result.status
    region.errors += result.errors
    unread = (
        region.type in FLOWING and result.status != "failed" and not_understood(result, [x.box for x in region.lines])
    )
    if unread:
        region.text, region.status, region.errors = "", "failed", [unread]
    if len(result.line_texts) == len(region.lines):
        region.lines = [
            line.model_copy(update={"text": text}) for line, text in zip(region.lines, result.line_texts, strict=True)
        ]
    if options.tokens:
        region.tokens = [Token(text=t.text, confidence=round(t.confidence, 4), step=t.step) for t in result.tokens]
    if result.trace is not None:
        region.trace = result.trace


def failed_page(number: int, error: BaseException, width: float = 0.0, height: float = 0.0, dpi: float = 0.0) -> Page:
    """A page of which nothing could be read."""
    text = str(error) or type(error).__name__
    return Page(number=number, width=width, height=height, dpi=dpi, errors=[text], status="failed")


def settle_page(page: Page) -> Page:
    """The page's status from its regions': partial when any of them is not ok."""
    if page.status == "ok" and any(r.status != "ok" for r in page.regions):
        page.status = "partial"
    return page


def settle_document(document: Document) -> Document:
    """The document's status and errors from its pages'."""
    for page in document.pages:
        document.errors += [
            e if f"page {page.number}" in e.lower() else f"page {page.number}: {e}" for e in page.errors
        ]
        for region in page.regions:
            document.errors += [f"page {page.number}, region {region.order + 1}: {e}" for e in region.errors]
    if document.pages and all(p.status == "failed" for p in document.pages):
        document.status = "failed"
    elif any(p.status != "ok" for p in document.pages):
        document.status = "partial"
    return document

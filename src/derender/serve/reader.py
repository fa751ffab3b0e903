"""Reads one document for the service: opened and rendered in a worker, laid out here, its regions in the shared engine.

Blocking; called from the dispatcher's threads. Does not queue and does not know HTTP.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from derender.assemble.files import safe_name, source_meta
from derender.decode.config import DecodeConfig
from derender.document import Page
from derender.errors import InputError, PageError, UsageError
from derender.ingest.source import parse_pages
from derender.pipeline import OnPage, Pipeline
from derender.recognise.structure import SharedStructure
from derender.recognise.types import Image, Request, Result
from derender.serve.engine_host import ClientRecogniser, EngineHost
from derender.serve.limits import ServeSettings
from derender.serve.options import ParseParameters
from derender.serve.outcome import Outcome, cut_pictures
from derender.serve.problems import KilledError, TooLargeError
from derender.serve.remote import RemoteSource, WorkerPool


class LockedAnalyser:
    """One LayoutAnalyser for all documents, used by one at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._analyser: Any = None
        self._lock = threading.Lock()

    def analyse(self, image: Image, px_per_pt: float, words: Sequence[Any] = ()) -> Any:
        with self._lock:
            if self._analyser is None:
                from derender.layout.analyse import LayoutAnalyser
                from derender.layout.types import LayoutOptions

                self._analyser = LayoutAnalyser(LayoutOptions(threads=self._threads))
            return self._analyser.analyse(image, px_per_pt, words)


class DocumentReader:
    """Everything a document passes through, made once for the service."""

    def __init__(self, settings: ServeSettings, host: EngineHost, pool: WorkerPool) -> None:
        self.settings, self.host, self.pool = settings, host, pool
        self.analyser = LockedAnalyser(settings.threads)
        self.tables = SharedStructure(DecodeConfig(), settings.threads)

    def open(self, data: bytes, name: str, wanted: ParseParameters) -> RemoteSource:
        """Raises InputError and its kinds."""
        if not data:
            raise InputError(f"{name} is empty.")
        return RemoteSource(
            self.pool,
            self.settings,
            data,
            clean_name(name),
            dpi=wanted.dpi,
            password=wanted.password,
            words=wanted.mode != "ocr",
        )

    def read(
        self,
        data: bytes,
        name: str,
        wanted: ParseParameters,
        check: Callable[[], None],
        on_page: OnPage | None = None,
        last_page: int | None = None,
    ) -> Outcome:
        """Reads a document. Raises InputError, UsageError, CancelledError; a document with some bad pages is returned,
        its status says so.

        check: called often; raises what should end the reading. last_page: the last page to read, taken for the
        document's last where it lies behind that; not together with wanted.pages that have an end.
        """
        options = wanted.parse_options(self.settings)
        client = uuid.uuid4().hex

        def page_done(page: Page, done: int, count: int) -> None:
            check()
            if on_page:
                on_page(page, done, count)

        with self.open(data, name, wanted) as source:
            check()
            numbers = parse_pages(wanted.pages or "1-", source.page_count)
            if last_page is not None and last_page < source.page_count:
                numbers = [n for n in numbers if n <= last_page]
                options = replace(options, pages=",".join(map(str, numbers)))
            asked = len(numbers)
            if asked > self.settings.max_pages:
                raise TooLargeError(
                    f"{asked} pages were asked for, more than the {self.settings.max_pages} allowed: choose with pages"
                )
            recogniser = ClientRecogniser(self.host, client, options.decode, check, 2 * self.settings.batch)
            pipeline = Pipeline(options, recogniser, self.analyser, self.tables)
            document = pipeline.parse_source(source, on_page=page_done)
            if document.status == "failed":
                failed = KilledError if "exceed its memory or time" in " ".join(document.errors) else InputError
                raise failed(f"none of the pages could be read: {document.errors[0]}")
            document.meta["source"] = source_meta(data)

            def picture(number: int) -> Image | None:
                check()
                try:
                    return pipeline.picture(source, document.pages[[p.number for p in document.pages].index(number)])
                except (PageError, KilledError):
                    return None

            return cut_pictures(document, picture)

    def picture(self, data: bytes, name: str) -> Image:
        """(H, W, 3) uint8 RGB of a picture file's first page. Raises InputError, also for a PDF."""
        with self.open(data, name, ParseParameters(mode="ocr")) as source:
            if source.kind != "image":
                from derender.serve.problems import UnsupportedError

                raise UnsupportedError("a picture is needed here (PNG, JPEG, TIFF, WebP, BMP, GIF), not a PDF")
            return source.page(1).image

    def read_crop(self, request: Request, wanted: ParseParameters, check: Callable[[], None]) -> Result:
        """Reads one crop in the shared batch."""
        decode = wanted.decode_config(self.settings)
        recogniser = ClientRecogniser(self.host, uuid.uuid4().hex, decode, check)
        (result,) = recogniser.recognise([request])
        return result


def clean_name(name: str) -> str:
    """A client's file name as a document's name: no folders, no suffix, no odd characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    stem = last.rsplit(".", 1)[0] or last
    return safe_name(stem)


def check_parameters(wanted: ParseParameters, settings: ServeSettings) -> None:
    """Raises UsageError where options do not fit together, before anything is queued."""
    wanted.parse_options(settings)
    if wanted.mode == "text" and (wanted.tokens or wanted.trace):
        raise UsageError("tokens and trace come from reading pictures, which mode text never does")

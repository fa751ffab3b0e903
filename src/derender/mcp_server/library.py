"""The documents that agents have open: read once, kept by content and options, the longest unused dropped first.

One document is read at a time, in whichever thread asks: models and PDFium are not thread-safe. Kept are readings, not
files: a picture is made from the file again, and only if it is still the same. Knows no protocol.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from derender.assemble.files import safe_name
from derender.assemble.structure import clean_text
from derender.config import ParseOptions
from derender.document import Document, Page
from derender.errors import DerenderError, InputError, PageError
from derender.ingest.source import parse_pages
from derender.mcp_server.access import Roots
from derender.pipeline import Pipeline
from derender.recognise.types import Image

OnPage = Callable[[int, int], None]
"""Pages done, pages wanted. May raise, which ends the reading."""


@dataclass(frozen=True)
class Opened:
    """A document that was read. digest: of the file's bytes when it was."""

    handle: str
    document: Document
    path: Path
    digest: str
    options: ParseOptions
    markdown: str


class Library:
    """options: what agents cannot choose (threads, ...). keep: documents kept. max_pages: read by one call."""

    def __init__(
        self,
        roots: Roots,
        options: ParseOptions | None = None,
        keep: int = 8,
        max_pages: int = 50,
        recogniser: Any = None,
    ) -> None:
        self.roots, self.keep, self.max_pages = roots, keep, max_pages
        self._options = options or ParseOptions()
        self._pipeline = Pipeline(self._options, recogniser)
        self._kept: OrderedDict[str, Opened] = OrderedDict()
        self._lock = threading.Lock()  # of _kept; never held for long, as `get` is called where nothing may wait
        self._reading = threading.Lock()  # of _pipeline

    def parse(
        self,
        path: str,
        mode: Any = "auto",
        pages: str | None = None,
        password: str | None = None,
        on_page: OnPage | None = None,
    ) -> Opened:
        """Reads a document, or finds it among those kept. Raises InputError, UsageError."""
        options = replace(self._options, mode=mode, pages=pages or None, password=password)
        real, data = self.roots.read(path)
        digest = hashlib.sha256(data).hexdigest()
        handle = _handle(real, digest, options)
        kept = self._find(handle)
        if kept is None:
            with self._reading:
                kept = self._find(handle)  # another call may have read it meanwhile
                if kept is None:
                    document = clean_text(self._read(real, data, options, on_page))
                    markdown = document.to_markdown(page_markers=True)
                    kept = Opened(handle, document, real, digest, options, markdown)
        with self._lock:
            # The newest path: copies of a file are one document, and the older copy may be gone.
            self._kept[handle] = kept = replace(kept, path=real)
            self._kept.move_to_end(handle)
            while len(self._kept) > self.keep:
                self._kept.popitem(last=False)
        return kept

    def _find(self, handle: str) -> Opened | None:
        with self._lock:
            if handle in self._kept:
                self._kept.move_to_end(handle)
            return self._kept.get(handle)

    def _read(self, real: Path, data: bytes, options: ParseOptions, on_page: OnPage | None) -> Document:
        self._pipeline.options = options
        with self._pipeline.open(data, real.stem) as source:
            asked = len(parse_pages(options.pages or "1-", source.page_count))
            if asked > self.max_pages:
                raise InputError(
                    f"the document has {source.page_count} pages, and {asked} were asked for, more than the "
                    f"{self.max_pages} of one call: choose with pages, such as 1-{self.max_pages}"
                )

            def done(page: Page, number: int, count: int) -> None:
                if on_page is not None:
                    on_page(number, count)

            document = self._pipeline.parse_source(source, on_page=done)
        if document.status == "failed":
            raise InputError(f"none of the pages could be read: {document.errors[0]}")
        return document

    def get(self, handle: str) -> Opened:
        """Raises InputError when it is not among those kept."""
        kept = self._find(handle)
        if kept is None:
            raise InputError(f"there is no open document {handle!r} (any more): call parse_document again")
        return kept

    def picture(self, opened: Opened, page: Page) -> Image:
        """(H, W, 3) uint8 RGB of a page as a viewer shows it. Raises InputError, also when the file has changed."""
        real, data = self.roots.read(str(opened.path))
        if hashlib.sha256(data).hexdigest() != opened.digest:
            raise InputError(f"{real.name} has changed since it was read: call parse_document again")
        with self._reading:
            self._pipeline.options = opened.options
            try:
                with self._pipeline.open(data, real.stem) as source:
                    return self._pipeline.picture(source, page)
            except PageError as error:
                raise InputError(str(error)) from error


class Stopped(DerenderError):
    """The client took the call back while pages were being read."""


def _handle(path: Path, digest: str, options: ParseOptions) -> str:
    """Short enough for a model to copy, and the same for the same content and options. The password is part of it: who
    does not know it does not get the document by its handle."""
    asked = f"{digest} {options.mode} {options.pages} {options.dpi} {options.password}"
    return f"{safe_name(path.stem)[:24]}-{hashlib.sha256(asked.encode()).hexdigest()[:10]}"

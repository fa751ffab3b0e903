"""A read document in pieces for retrieval, each with text and where it stands; what both loaders are made from.

Pieces are chunks (assemble/chunks.py), pages, or the whole document. Knows no framework, and does not embed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from derender.assemble.chunks import MAX_TOKENS, to_chunks
from derender.assemble.structure import clean_text
from derender.config import ParseOptions
from derender.document import PARATEXT, Document, Page, Region
from derender.errors import InputError, UsageError
from derender.ingest.inputs import expand_inputs
from derender.pipeline import Pipeline

By = Literal["chunk", "page", "document"]
OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Piece:
    """id: the same each time the same file is cut the same way, and no other file's.

    metadata: source (path), name, status, page (first; also of chunks), pages, page_count, headings, and places: for
    each region page, region id, box in points. Plain values only, so that every store takes it as JSON.
    """

    id: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Loading:
    """What to read and how to cut it. Raises UsageError on nonsense.

    paths: files or folders; recursive: folders in them too. by: chunk, page or document. max_tokens: of a chunk.
    on_error: raise for a file that cannot be read, or skip it; failed(path, error) is called for each one skipped.
    """

    paths: tuple[str | Path, ...]
    by: By = "chunk"
    max_tokens: int = MAX_TOKENS
    recursive: bool = False
    on_error: OnError = "raise"
    failed: Callable[[Path, InputError], None] | None = None

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise UsageError(f"by must be one of {', '.join(get_args(By))}, not {self.by!r}")
        if self.on_error not in get_args(OnError):
            raise UsageError(f"on_error must be one of {', '.join(get_args(OnError))}, not {self.on_error!r}")
        if self.max_tokens < 1:
            raise UsageError("max_tokens must be at least 1")


def as_paths(paths: str | Path | Iterable[str | Path]) -> tuple[str | Path, ...]:
    return (paths,) if isinstance(paths, (str, Path)) else tuple(paths)


def load_pieces(loading: Loading, options: ParseOptions, pipeline: Pipeline | None = None) -> Iterator[Piece]:
    """Reads one document after the other, each when its first piece is asked for. Models are loaded once. Raises
    InputError."""
    pipeline = pipeline or Pipeline(options)
    for file in expand_inputs(loading.paths, loading.recursive):
        if file.path is None:
            raise UsageError("a loader reads files, not standard input")
        try:
            document = pipeline.parse(file.path)
            if document.status == "failed":
                raise InputError(f"none of the pages of {file.path} could be read: {document.errors[0]}")
        except InputError as error:
            if loading.on_error == "raise":
                raise
            if loading.failed is not None:
                loading.failed(file.path, error)
            continue
        yield from cut(document, str(file.path), loading.by, loading.max_tokens)


def cut(document: Document, source: str, by: By = "chunk", max_tokens: int = MAX_TOKENS) -> Iterator[Piece]:
    """The pieces of one read document. Empty pages are pieces too, so that pages can be counted."""
    document = clean_text(document)
    # A store takes a piece with a known id for a newer one, and folders hold many a report.pdf.
    place = hashlib.sha256(str(Path(source).resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    id = f"{document.name}-{place}"
    common = {
        "source": source,
        "name": document.name,
        "page_count": document.page_count,
        "status": document.status,
    }
    if by == "chunk":
        for number, chunk in enumerate(to_chunks(document, max_tokens), 1):
            places = [{"page": page, "region": region, "box": list(box)} for page, region, box in chunk.places]
            yield _piece(f"{id}-c{number}", chunk.text, common, list(chunk.headings), places)
    elif by == "page":
        for page in document.pages:
            alone = document.model_copy(update={"pages": [page]})
            metadata = {**common, "status": page.status}
            yield _piece(f"{id}-p{page.number}", alone.to_markdown(), metadata, [], _places([page]), page)
    else:
        yield _piece(id, document.to_markdown(), common, [], _places(document.pages))


def _piece(
    id: str,
    text: str,
    common: dict[str, Any],
    headings: list[str],
    places: list[dict[str, Any]],
    page: Page | None = None,
) -> Piece:
    pages = [page.number] if page else sorted({place["page"] for place in places})
    first = {"page": pages[0]} if pages else {}
    return Piece(id, text, {**common, **first, "pages": pages, "headings": headings, "places": places})


def _places(pages: Iterable[Page]) -> list[dict[str, Any]]:
    return [
        {"page": page.number, "region": region.id, "box": list(region.box)}
        for page in pages
        for region in sorted(page.regions, key=_order)
        if region.type not in PARATEXT
    ]


def _order(region: Region) -> int:
    return region.order

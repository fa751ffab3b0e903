"""Opens a document by content: PDF or picture, from a path or from bytes. Also the parser of `--pages`.

Does not walk folders (inputs.py) and does not render (pdf.py, image.py). Not thread-safe, see page.py.
"""

from __future__ import annotations

from pathlib import Path

from derender.errors import InputError, UsageError
from derender.ingest.page import Source
from derender.ingest.types import ReadOptions

_HEAD = 2048
"""Bytes looked at to tell a PDF: readers accept the %PDF- mark anywhere in about the first kilobyte."""


def open_source(
    source: str | Path | bytes,
    *,
    name: str | None = None,
    password: str | None = None,
    options: ReadOptions | None = None,
) -> Source:
    """Opens a PDF or a picture (PNG, JPEG, TIFF, WebP, BMP, GIF), told apart by content, never by suffix.

    name: for messages and output files; by default the path's stem, or "document" for bytes. password: for encrypted
    PDFs. Raises PasswordError, or InputError when the file is missing, empty, of another kind, damaged, or without
    pages.
    """
    options = options or ReadOptions()
    if isinstance(source, bytes):
        label, head, size = name or "document", source[:_HEAD], len(source)
    else:
        source = Path(source)
        label = name or source.stem
        head, size = _peek(source)
    shown = label if isinstance(source, bytes) else source.name
    if size == 0:
        raise InputError(f"{shown} is empty.")
    if b"%PDF-" in head:
        from derender.ingest.pdf import PdfSource

        return PdfSource(source, label, shown, password, options)
    from derender.ingest.image import ImageSource

    return ImageSource(source, label, shown, options)


def _peek(path: Path) -> tuple[bytes, int]:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder that holds no documents (folders inside it count only with -r).")
        with path.open("rb") as file:
            return file.read(_HEAD), path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def page_ranges(text: str) -> list[tuple[int, int | None]]:
    """(first, last) of each part of "1-3,7", "5-" (to the end: last is None) or "-2" (from the first), as given.

    Numbers count from 1. Raises UsageError for anything else. Lists no pages, however wide the ranges are.
    """
    ranges: list[tuple[int, int | None]] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not (first or last) or not all(_is_number(end) for end in (first, last)):
            raise UsageError(f"'{text}' is not a list of pages such as 1-3,7.")
        low = int(first) if first else 1
        high = (int(last) if last else None) if dash else low
        if low < 1:
            raise UsageError(f"pages {part.strip()} were asked for, but pages count from 1.")
        if high is not None and high < low:
            raise UsageError(f"the range of pages {part.strip()} runs backwards.")
        ranges.append((low, high))
    return ranges


def parse_pages(text: str, page_count: int) -> list[int]:
    """Page numbers of what page_ranges takes, in the order given, without repeats.

    Raises UsageError as it does, and for pages that the document does not have.
    """
    pages: dict[int, None] = {}
    for low, end in page_ranges(text):
        high = page_count if end is None else end
        if low > page_count or high > page_count:
            asked = f"{low}" if low == high else f"{low}-{'' if end is None else end}"
            raise UsageError(f"pages {asked} were asked for, but the document has pages 1 to {page_count}.")
        pages.update(dict.fromkeys(range(low, high + 1)))
    return list(pages)


def _is_number(text: str) -> bool:
    return text == "" or (text.isascii() and text.isdigit() and len(text) <= 9)

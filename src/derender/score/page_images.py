"""Pictures of a document's pages, for readers that take pictures only (the peers).

Deliberately apart from derender.read: a peer must not gain or lose by our own way of loading. Damaged files raise
InputError; there is no cap on size here, since evaluation pages are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from derender.errors import InputError
from derender.score.types import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".pdf")


def find_picture(folder: Path, stem: str) -> str:
    """Name, relative to `folder`, of a picture or PDF with this stem (a relative path without suffix); "" for none."""
    for suffix in SUFFIXES:
        for name in (stem + suffix, stem + suffix.upper()):
            if (folder / name).is_file():
                return name
    return ""


def page_images(path: Path, dpi: int) -> Iterator[Image]:
    """(H, W, 3) RGB uint8 of each page: PDFs rendered at `dpi` with their /Rotate flag, images as they are."""
    if path.suffix.lower() == ".pdf":
        yield from _pdf_pages(path, dpi)
        return
    from PIL import Image as Pil
    from PIL import ImageOps, ImageSequence

    try:
        with Pil.open(path) as raw:
            for frame in ImageSequence.Iterator(raw):
                yield np.asarray(ImageOps.exif_transpose(frame).convert("RGB"))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read as an image: {error}.") from error


def _pdf_pages(path: Path, dpi: int) -> Iterator[Image]:
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        raise InputError(f"{path.name} cannot be read as a PDF: {error}.") from error
    try:
        for page in document:
            yield np.asarray(page.render(scale=dpi / 72).to_pil().convert("RGB"))
    finally:
        document.close()

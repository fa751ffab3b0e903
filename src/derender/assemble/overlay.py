"""NAME_layout.pdf: each page's picture with its regions drawn over it: a colour per type, reading order and type as
label.

Pages are written to the file one by one and forgotten, so memory does not grow with their number; that is why this is a
small PDF writer of its own (the libraries at hand keep all pages until they save). Boxes and labels are vector
graphics.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from derender.assemble.blocks import in_order
from derender.document import Box, Document, Page, RegionType

if TYPE_CHECKING:
    from derender.assemble.figures import PageImages

COLOURS: dict[RegionType, tuple[float, float, float]] = {
    RegionType.TITLE: (0.80, 0.10, 0.10),
    RegionType.TEXT: (0.10, 0.35, 0.80),
    RegionType.LIST: (0.00, 0.50, 0.55),
    RegionType.TABLE: (0.75, 0.40, 0.00),
    RegionType.FORMULA: (0.55, 0.15, 0.65),
    RegionType.FIGURE: (0.05, 0.50, 0.15),
    RegionType.CAPTION: (0.40, 0.50, 0.00),
    RegionType.FOOTNOTE: (0.45, 0.30, 0.20),
    RegionType.REFERENCE: (0.20, 0.20, 0.50),
    RegionType.HEADER: (0.45, 0.45, 0.45),
    RegionType.FOOTER: (0.45, 0.45, 0.45),
    RegionType.PAGE_NUMBER: (0.45, 0.45, 0.45),
}
_MAX_SIDE = 1600  # pixels: enough to read small print under the boxes
_MAX_POINTS = 14_400.0  # what PDF viewers accept as a page's side


def write_overlay(doc: Document, page_images: PageImages, path: str | os.PathLike[str]) -> None:
    """Writes the layout PDF of all pages of `doc`. page_images as in figures.py; a page without picture stays white."""
    write_overlay_pages(((page, page_images(page.number)) for page in doc.pages), path)


def write_overlay_pages(
    pages: Iterable[tuple[Page, npt.NDArray[np.uint8] | None]], path: str | os.PathLike[str]
) -> None:
    """The same from a lazy iterable of (page, (H, W, 3) RGB picture in the viewer's frame or None)."""
    with Path(path).open("wb") as file:
        pdf = _PdfStream(file)
        for page, image in pages:
            pdf.add_page(page.width, page.height, _jpeg(image) if image is not None else None, _drawing(page))
        pdf.close()


def _jpeg(image: npt.NDArray[np.uint8]) -> tuple[bytes, int, int]:
    """(JPEG data, width, height), made smaller when a side is longer than needed."""
    from PIL import Image

    picture = Image.fromarray(image).convert("RGB")
    picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=75)
    return buffer.getvalue(), picture.width, picture.height


def _drawing(page: Page) -> bytes:
    """PDF operators that draw the regions; PDF's y axis points up."""
    size = max(6.0, min(page.width, page.height) / 90)
    boxes, labels = [], []
    for region in in_order(page):
        red, green, blue = COLOURS[region.type]
        x0, y0, x1, y1 = _clip(region.box, page)
        colour = f"{red:.2f} {green:.2f} {blue:.2f}"
        boxes.append(f"{colour} rg {colour} RG {x0:.2f} {page.height - y1:.2f} {x1 - x0:.2f} {y1 - y0:.2f} re B")
        failed = "" if region.status == "ok" else f" {region.status}"
        text = f"{region.order} {region.type}{failed}"
        width = 0.56 * size * len(text) + 3  # Helvetica's digits and lower-case letters are at most this wide
        x = min(x0, max(0.0, page.width - width))
        top = y0 if y0 < size * 1.3 else y0 - size * 1.25  # above the box when there is room, so as not to hide text
        y = page.height - top - size * 1.25
        labels.append(
            f"{colour} rg {x:.2f} {y:.2f} {width:.2f} {size * 1.25:.2f} re f "
            f"BT /F 1 Tf 1 1 1 rg {size:.2f} 0 0 {size:.2f} {x + 1.5:.2f} {y + size * 0.3:.2f} Tm ({text}) Tj ET"
        )
    return "\n".join(["q /G gs 1 w", *boxes, "Q", "q", *labels, "Q"]).encode("latin-1", "replace")


def _clip(box: Box, page: Page) -> Box:
    x0, x1 = (min(max(x, 0.0), page.width) for x in (box[0], box[2]))
    y0, y1 = (min(max(y, 0.0), page.height) for y in (box[1], box[3]))
    return x0, y0, x1, y1


class _PdfStream:
    """Writes a PDF object by object. Keeps one file offset an object and nothing else."""

    _PAGES, _FONT, _STATE = 1, 2, 3

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offsets: dict[int, int] = {}
        self._next = 4
        self._kids: list[int] = []
        file.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")

    def add_page(self, width: float, height: float, jpeg: tuple[bytes, int, int] | None, drawing: bytes) -> None:
        """One page of the given size in points; `drawing` in points, the picture fills the page."""
        scale = min(1.0, _MAX_POINTS / max(width, height, 1.0))
        content = f"q {scale:.6f} 0 0 {scale:.6f} 0 0 cm\n".encode()
        resources = f"/Font << /F {self._FONT} 0 R >> /ExtGState << /G {self._STATE} 0 R >>"
        if jpeg is not None:
            data, pixels_x, pixels_y = jpeg
            picture = self._stream(
                f"/Type /XObject /Subtype /Image /Width {pixels_x} /Height {pixels_y} "
                "/ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode",
                data,
            )
            resources += f" /XObject << /P {picture} 0 R >>"
            content += f"q {width:.2f} 0 0 {height:.2f} 0 0 cm /P Do Q\n".encode()
        stream = self._stream("", content + drawing + b"\nQ")
        self._kids.append(
            self._object(
                f"<< /Type /Page /Parent {self._PAGES} 0 R /MediaBox [0 0 {width * scale:.2f} {height * scale:.2f}] "
                f"/Resources << {resources} >> /Contents {stream} 0 R >>".encode()
            )
        )

    def close(self) -> None:
        """Writes what comes last: the page list, the shared objects and the cross-reference table."""
        kids = " ".join(f"{kid} 0 R" for kid in self._kids)
        self._object(f"<< /Type /Pages /Count {len(self._kids)} /Kids [{kids}] >>".encode(), self._PAGES)
        self._object(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>", self._FONT)
        self._object(b"<< /Type /ExtGState /ca 0.12 /CA 0.9 >>", self._STATE)
        catalog = self._object(f"<< /Type /Catalog /Pages {self._PAGES} 0 R >>".encode())
        start = self._file.tell()
        rows = "".join(f"{self._offsets[number]:010d} 00000 n \n" for number in range(1, self._next))
        self._file.write(f"xref\n0 {self._next}\n0000000000 65535 f \n{rows}".encode())
        self._file.write(f"trailer << /Size {self._next} /Root {catalog} 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())

    def _stream(self, entries: str, data: bytes) -> int:
        return self._object(f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream")

    def _object(self, body: bytes, number: int | None = None) -> int:
        if number is None:
            number, self._next = self._next, self._next + 1
        self._offsets[number] = self._file.tell()
        self._file.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
        return number

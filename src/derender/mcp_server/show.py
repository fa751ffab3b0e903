"""What agents get to see of a document: text in bounded pieces with a way to go on, facts as JSON, pictures of bounded
size. Knows neither the protocol nor files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from derender.assemble.blocks import Block, in_order
from derender.assemble.figures import crop_region
from derender.assemble.markdown import block_markdown
from derender.document import Document, Page, Region
from derender.errors import InputError, UsageError
from derender.recognise.types import Image

LIMIT, MOST = 20_000, 100_000
"""Characters of one answer: by default, and at most."""
MAX_SIDE = 1568
"""Pixels: language models scale larger pictures down themselves."""
MAX_PNG_BYTES = 600_000


@dataclass(frozen=True)
class Piece:
    """A part of a text. next_offset: where to go on, None at the end."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        end = self.offset + len(self.text)
        return end if end < self.total else None

    def facts(self) -> dict[str, Any]:
        return {"offset": self.offset, "characters": self.total, "next_offset": self.next_offset}


def piece(text: str, offset: int = 0, limit: int = LIMIT) -> Piece:
    """At most `limit` characters, ended at a paragraph or line where one ends in the second half. Raises UsageError."""
    if offset < 0 or limit < 1 or (offset and offset >= len(text)):
        raise UsageError(f"offset must lie between 0 and {max(0, len(text) - 1)}, and limit be at least 1")
    end = offset + min(limit, MOST)
    if end < len(text):
        for mark in ("\n\n", "\n", " "):
            found = text.rfind(mark, offset + (end - offset) // 2, end)
            if found > offset:
                end = found + len(mark)
                break
    return Piece(text[offset:end], offset, len(text))


def document_facts(handle: str, document: Document) -> dict[str, Any]:
    numbers = [page.number for page in document.pages]
    facts = {
        "document": handle,
        "status": document.status,
        "page_count": document.page_count,
        "pages_read": _ranges(numbers),
        "warnings": document.warnings[:10],
        "errors": document.errors[:10],
    }
    return {key: value for key, value in facts.items() if value not in ([], None)}


def _ranges(numbers: list[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def find_page(document: Document, number: int) -> Page:
    """Raises InputError."""
    for page in document.pages:
        if page.number == number:
            return page
    raise InputError(f"page {number} was not read; those read are {_ranges([p.number for p in document.pages])}")


def find_region(page: Page, id: str) -> Region:
    """Raises InputError."""
    for region in page.regions:
        if region.id == id:
            return region
    known = ", ".join(region.id for region in in_order(page)[:40]) or "none"
    raise InputError(f"page {page.number} has no region {id!r}; it has {known}")


def region_facts(page: Page, region: Region) -> dict[str, Any]:
    """box: x0, y0, x1, y1 in points from the page's top-left corner."""
    facts = {
        "page": page.number,
        "region": region.id,
        "type": str(region.type),
        "box": [round(v, 1) for v in region.box],
        "source": region.source,
        "confidence": region.confidence,
        "status": region.status,
        "errors": region.errors,
        "continues": region.continues,
    }
    return {key: value for key, value in facts.items() if value not in ([], None)}


def page_facts(page: Page) -> dict[str, Any]:
    facts = {
        "page": page.number,
        "width": page.width,
        "height": page.height,
        "unit": "pt, origin top-left",
        "content_rotation": page.content_rotation or None,
        "status": page.status,
        "warnings": page.warnings,
        "errors": page.errors,
    }
    return {key: value for key, value in facts.items() if value not in ([], None)}


def region_markdown(page: Page, region: Region) -> str:
    """This region alone, also where its paragraph begins or goes on elsewhere."""
    return "\n\n".join(block_markdown(Block(page, region, region.text, [(page, region)])))


def page_markdown(document: Document, page: Page) -> str:
    return document.model_copy(update={"pages": [page]}).to_markdown(keep_paratext=True)


def start_of(region: Region, most: int = 80) -> str:
    text = " ".join((region.text or region.latex or " ".join(cell.text for cell in region.cells)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def region_picture(image: Image, page: Page, region: Region | None) -> Image:
    """The region's part of the page's picture, or all of it, content upright. Raises InputError where that is empty."""
    if region is None:
        return np.ascontiguousarray(np.rot90(image, k=-(page.content_rotation // 90)))
    crop = crop_region(image, region, page)
    if crop is None:
        raise InputError(f"region {region.id} has no area on the page")
    return crop


def encode(image: Image) -> tuple[bytes, str]:
    """(bytes, "png" or "jpeg"), scaled down to MAX_SIDE; PNG where it is small enough, for letters suffer in JPEG."""
    from PIL import Image as Pil

    picture = Pil.fromarray(image)
    picture.thumbnail((MAX_SIDE, MAX_SIDE), Pil.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    if buffer.tell() <= MAX_PNG_BYTES:
        return buffer.getvalue(), "png"
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue(), "jpeg"

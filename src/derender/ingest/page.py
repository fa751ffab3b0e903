"""The two things a caller holds: Source (an opened document) and PageInput (one of its pages), and the choice of dpi.

The concrete kinds are in pdf.py and image.py. Nothing here is thread-safe: PDFium is not, so use one Source in one
thread at a time, and no two sources of PDFs in two threads of a process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Literal

from derender.errors import PageError
from derender.ingest.types import Box, Image, ReadOptions, Word

MIN_SIDE_PX = 4
"""A page whose shorter side would be thinner than this after capping cannot be read and is an error."""


class PageInput(ABC):
    """One page: its size in points, its picture (rendered on first use, kept until release) and its native words.

    number counts from 1. width_pt and height_pt are those of the displayed page. dpi is the resolution of `image`.
    """

    def __init__(self, number: int, width_pt: float, height_pt: float, dpi: float) -> None:
        self.number = number
        self.width_pt = width_pt
        self.height_pt = height_pt
        self.dpi = dpi
        self.warnings: list[str] = []
        self._image: Image | None = None

    @property
    def px_per_pt(self) -> float:
        """Pixels of `image` per point, the same in both directions."""
        return self.dpi / 72.0

    @property
    def image(self) -> Image:
        """(H, W, 3) uint8 RGB, cached until release(). Raises PageError when the page cannot be rendered."""
        if self._image is None:
            self._image = self._render()
        return self._image

    @abstractmethod
    def _render(self) -> Image: ...

    @abstractmethod
    def words(self) -> list[Word]:
        """The page's native words in the file's order; empty for pictures. Raises PageError."""

    @abstractmethod
    def images(self) -> list[Box]:
        """Boxes of embedded raster pictures in points, clipped to the page; the whole page for a picture file."""

    def release(self) -> None:
        """Drops the picture and everything the page holds open; a later use opens it again."""
        self._image = None


class Source(ABC):
    """An opened document; a context manager. Pages are loaded one by one and hold memory only until released.

    name is the stem for output files, kind "pdf" or "image", page_count counts the pages in the file, also broken ones.
    """

    kind: Literal["pdf", "image"]

    def __init__(self, name: str, page_count: int) -> None:
        self.name = name
        self.page_count = page_count
        self.warnings: list[str] = []

    def page(self, number: int) -> PageInput:
        """Page `number`, counted from 1. Raises PageError when there is none or it cannot be loaded."""
        if not 1 <= number <= self.page_count:
            raise PageError(f"{self.name} has no page {number}: it has {self.page_count}.")
        return self._load(number)

    @abstractmethod
    def _load(self, number: int) -> PageInput: ...

    @abstractmethod
    def close(self) -> None:
        """Closes the file. Pages of this source cannot be used afterwards."""

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def plan_dpi(width_pt: float, height_pt: float, options: ReadOptions) -> tuple[float, str | None]:
    """The dpi to render a page of this size at, and a warning when it is lower than asked for.

    Raises PageError for sizes that no dpi can make legible (not finite, zero, or thinner than a few pixels when
    capped).
    """
    if not (math.isfinite(width_pt) and math.isfinite(height_pt)) or min(width_pt, height_pt) <= 0:
        raise PageError(f"the page has no usable size ({width_pt:g} x {height_pt:g} points).")
    longer, shorter = max(width_pt, height_pt) / 72, min(width_pt, height_pt) / 72
    wanted = max(options.dpi, min(options.small_page_px / longer, options.dpi * options.max_raise))
    dpi = min(wanted, options.max_side / longer, math.sqrt(options.max_pixels / (longer * shorter)))
    if dpi * shorter < MIN_SIDE_PX:
        raise PageError(f"the page measures {width_pt:g} x {height_pt:g} points, which cannot be rendered legibly.")
    if dpi < options.dpi * 0.999:
        size = f"{width_pt:g} x {height_pt:g} points"
        return dpi, f"rendered at {dpi:.0f} dpi instead of {options.dpi:g} because the page is large ({size})"
    return dpi, None

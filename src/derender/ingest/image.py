"""Picture files as documents: PNG, JPEG (also MPO), TIFF with all its pages, WebP, BMP, GIF (first frame).

Opens lazily: only the header is read until a page's `image` is asked for. How pixels become RGB is in pixels.py.
A truncated picture gives what could be decoded, with a warning; the missing part stays grey or black. A picture that is
too large to decode within the memory limit is an error, except JPEG, which can be decoded at a reduced size.
"""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from derender.errors import InputError, PageError
from derender.ingest.page import PageInput, Source
from derender.ingest.types import Box, Image, ReadOptions, Word

if TYPE_CHECKING:
    from PIL import Image as PilModule

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF")
MAX_DECODED_BYTES = 400_000_000
"""A picture that needs more memory than this once decoded is refused (or, for JPEG, decoded smaller)."""
MAX_PROGRESSIVE_PIXELS = 60_000_000
"""libjpeg keeps the coefficients of a progressive JPEG in full size whatever the output's scale."""
MAX_JPEG_PIXELS = 600_000_000
DEFAULT_DPI = 150.0
SANE_DPI = (71.5, 600.5)
_BYTES_PER_PIXEL = {"1": 1, "L": 1, "P": 1, "LA": 4, "PA": 4, "I;16": 2, "I;16B": 2, "I": 4, "F": 4}


class ImageSource(Source):
    """An opened picture file; only TIFF has more than one page."""

    kind = "image"

    def __init__(self, source: Path | bytes, name: str, shown: str, options: ReadOptions) -> None:
        self._options = options
        self._shown = shown
        self._file: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        try:
            self._pil = _open(self._file, shown)
            super().__init__(name, 1)
            self.page_count = self._count_frames()
        except BaseException:
            self._file.close()
            raise

    def _count_frames(self) -> int:
        if self._pil.format != "TIFF":
            return 1
        try:
            return max(1, int(getattr(self._pil, "n_frames", 1)))
        except Exception as error:  # Pillow raises many kinds here for a broken chain of directories
            self.warnings.append(f"only the first page can be read: the list of pages is damaged ({error})")
            return 1

    def _load(self, number: int) -> PageInput:
        return ImagePage(self, number, self._options)

    def frame(self, number: int) -> PilModule.Image:
        """The opened, not yet decoded Pillow image of page `number`; opened anew, as decoding uses it up."""
        if self._pil is None:
            self._file.seek(0)
            self._pil = _open(self._file, self._shown)
        image = self._pil
        if self.page_count > 1:
            try:
                image.seek(number - 1)
            except Exception as error:
                raise PageError(f"page {number} is damaged and cannot be loaded ({error}).") from error
        return image

    def drop(self) -> None:
        """Forgets the decoded pixels that Pillow keeps."""
        self._pil = None  # type: ignore[assignment]

    def close(self) -> None:
        self.drop()
        self._file.close()


def _open(file: BinaryIO, shown: str) -> PilModule.Image:
    from PIL import Image as Pil
    from PIL import JpegImagePlugin

    try:
        with warnings.catch_warnings():
            # The limits are our own (check_size): Pillow's warning would only repeat them.
            warnings.simplefilter("ignore", Pil.DecompressionBombWarning)
            warnings.filterwarnings("ignore", module="PIL")
            return Pil.open(file, formats=FORMATS)
    except Pil.DecompressionBombError:
        file.seek(0)
        if file.read(2) == b"\xff\xd8":
            file.seek(0)
            try:
                # Pillow refuses before a smaller scale can be chosen; the plugin itself allows it.
                return JpegImagePlugin.JpegImageFile(file)
            except Exception as inner:
                raise InputError(f"{shown} is damaged and cannot be read as a picture ({inner}).") from inner
        raise InputError(f"{shown} is too large a picture to decode safely.") from None
    except Pil.UnidentifiedImageError as error:
        raise InputError(f"{shown} is neither a PDF nor a picture that can be read ({_known()}).") from error
    except Exception as error:  # broken headers surface as SyntaxError, OSError, struct.error, ValueError ...
        raise InputError(f"{shown} is damaged and cannot be read as a picture ({error}).") from error


def _known() -> str:
    return "PNG, JPEG, TIFF, WebP, BMP, GIF"


class ImagePage(PageInput):
    """One picture. width_pt follows from the resolution in its metadata when that is sane (72-600 dpi), else 150
    dpi."""

    def __init__(self, source: ImageSource, number: int, options: ReadOptions) -> None:
        from derender.ingest.pixels import orientation, turns_sideways

        self._source = source
        self._options = options
        image = source.frame(number)
        width, height = image.size
        dpi_x, dpi_y = stored_dpi(image)
        # Pillow reports a TIFF's size with its orientation tag already applied, and that of other formats without.
        if image.format != "TIFF" and turns_sideways(orientation(image)):
            width, height, dpi_x, dpi_y = height, width, dpi_y, dpi_x
        dpi = max(dpi_x, dpi_y)
        # Fax pages have pixels that are not square: the coarser direction is enlarged, so that one dpi holds for both.
        full = max(1, round(width * dpi / dpi_x)), max(1, round(height * dpi / dpi_y))
        scale = min(1.0, options.max_side / max(full), math.sqrt(options.max_pixels / (full[0] * full[1])))
        self._size = max(1, round(full[0] * scale)), max(1, round(full[1] * scale))
        check_size(image, f"page {number} of {source.name}")
        super().__init__(number, full[0] * 72 / dpi, full[1] * 72 / dpi, dpi * scale)
        if scale < 1:
            self.warnings.append(
                f"read at {self.dpi:.0f} dpi instead of {dpi:.0f} because the picture is large "
                f"({width} x {height} pixels)"
            )

    def _render(self) -> Image:
        from derender.ingest.pixels import decode

        image = self._source.frame(self.number)
        try:
            pixels, complete = decode(image, self._size)
        except Exception as error:
            raise PageError(f"page {self.number} of {self._source.name} cannot be decoded: {error}") from error
        finally:
            self._source.drop()
        if not complete:
            text = "the picture is truncated: what could be decoded was read, the rest is missing"
            if text not in self.warnings:
                self.warnings.append(text)
        return pixels

    def words(self) -> list[Word]:
        return []

    def images(self) -> list[Box]:
        return [(0.0, 0.0, self.width_pt, self.height_pt)]


def check_size(image: PilModule.Image, shown: str) -> None:
    """Raises PageError when decoding `image` would take more memory than the limits above allow."""
    pixels = image.size[0] * image.size[1]
    too_large = PageError(
        f"{shown} is too large a picture to decode safely ({image.size[0]} x {image.size[1]} pixels)."
    )
    if image.format in ("JPEG", "MPO"):
        progressive = bool(image.info.get("progressive") or image.info.get("progression"))
        if pixels > (MAX_PROGRESSIVE_PIXELS if progressive else MAX_JPEG_PIXELS):
            raise too_large
    elif pixels * _BYTES_PER_PIXEL.get(image.mode, 4) > MAX_DECODED_BYTES:
        raise too_large


def stored_dpi(image: PilModule.Image) -> tuple[float, float]:
    """Horizontal and vertical dpi from the metadata; (150, 150) where they are missing or not sane."""
    try:
        x, y = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return DEFAULT_DPI, DEFAULT_DPI
    low, high = SANE_DPI
    if not (low <= x <= high and low <= y <= high) or max(x, y) > 2.2 * min(x, y):
        return DEFAULT_DPI, DEFAULT_DPI
    if max(x, y) < 1.05 * min(x, y):
        return max(x, y), max(x, y)
    return x, y

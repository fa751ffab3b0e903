"""PDF pages by PDFium: opening with password, sizes, rendering with form fields, embedded pictures.

Words are taken in pdfwords.py. PDFium is not thread-safe: one thread at a time in a process. A page's native handles
live from its first use to release(), so memory does not grow with the number of pages.
"""

from __future__ import annotations

import logging
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from derender.errors import InputError, PageError, PasswordError
from derender.ingest.page import PageInput, Source, plan_dpi
from derender.ingest.types import Box, Image, ReadOptions, Word

_NO_PAGES = re.compile(rb"/Type\s*/Pages\b[^>]*/Count\s+0\b|/Count\s+0\b[^>]*/Type\s*/Pages\b|/Kids\s*\[\s*\]")
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_MIN_PICTURE_PT = 2.0
_FIELDS_UNREAD = "the text in form fields is not among the page's words"


class PdfSource(Source):
    """An opened PDF. Broken pages are counted; loading one raises PageError and leaves the others alone."""

    kind = "pdf"

    def __init__(self, source: Path | bytes, name: str, shown: str, password: str | None, options: ReadOptions) -> None:
        import pypdfium2 as pdfium

        self._options = options
        try:
            self._pdf = pdfium.PdfDocument(source, password=password)
        except pdfium.PdfiumError as error:
            raise _open_error(error, source, shown, password) from error
        except OSError as error:
            raise InputError(f"{shown} cannot be read: {error.strerror or error}.") from error
        try:
            super().__init__(name, len(self._pdf))
            # Sizes come from the page tree without parsing contents, so this costs nothing on good files: it stops at
            # the first page that exists. Declared but missing pages must not look like an empty success.
            if not any(self._has_page(index) for index in range(self.page_count)):
                raise InputError(f"{shown} has no pages.")
            self._init_forms()
        except BaseException:
            self._pdf.close()
            raise

    def _has_page(self, index: int) -> bool:
        import pypdfium2.raw as raw

        return bool(raw.FPDF_GetPageSizeByIndexF(self._pdf, index, raw.FS_SIZEF()))

    def _init_forms(self) -> None:
        import pypdfium2 as pdfium
        import pypdfium2.raw as raw

        form = self._pdf.get_formtype()
        if form in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
            self.warnings.append("the file holds an XFA form: what only XFA draws is missing")
        # PDFium's wrapper reports XFA on its own logger as well; the warning above says it once and for all.
        logger = logging.getLogger("pypdfium2._helpers.document")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._pdf.init_forms()
        except pdfium.PdfiumError as error:
            self.warnings.append(f"form fields are not shown: {error}")
        finally:
            logger.setLevel(level)

    def _load(self, number: int) -> PdfPage:
        return PdfPage(self._pdf, number, self._options)

    def close(self) -> None:
        self._pdf.close()


def _open_error(error: Any, source: Path | bytes, shown: str, password: str | None) -> InputError:
    if getattr(error, "err_code", None) == _PASSWORD_ERROR or "password" in str(error).lower():
        if password:
            return PasswordError(f"{shown} is encrypted and the password given is wrong.")
        return PasswordError(f"{shown} is encrypted: give --password.")
    data = source if isinstance(source, bytes) else source.read_bytes()
    if _NO_PAGES.search(data):
        return InputError(f"{shown} has no pages.")
    if b"%%EOF" not in data[-2048:]:
        return InputError(f"{shown} is truncated or damaged: its end is missing and it cannot be opened as a PDF.")
    return InputError(f"{shown} is damaged and cannot be opened as a PDF.")


class PdfPage(PageInput):
    """One page of a PDF. Native handles are opened on use and closed by release()."""

    def __init__(self, pdf: Any, number: int, options: ReadOptions) -> None:
        self._pdf = pdf
        self._handle: Any = None
        self._words: list[Word] | None = None
        self._index = number - 1
        self.warnings = []
        page = self._page()
        try:
            width, height = page.get_size()
            dpi, warning = plan_dpi(width, height, options)
        except PageError as error:
            self.release()
            raise PageError(f"page {number}: {error}") from None
        loading = self.warnings
        super().__init__(number, width, height, dpi)
        self.warnings += loading
        if warning:
            self.warnings.append(warning)

    def _page(self) -> Any:
        import pypdfium2 as pdfium

        if self._handle is None:
            try:
                self._handle = self._load_page()
            except pdfium.PdfiumError as error:
                raise PageError(f"page {self._index + 1} is damaged and cannot be loaded.") from error
        return self._handle

    def _load_page(self) -> Any:
        import pypdfium2.raw as raw

        page = self._pdf[self._index]
        # What stands in form fields is no part of the page's text until it is flattened into it. In memory only.
        if page.formenv and raw.FPDFPage_GetAnnotCount(page) > 0:
            flattened = raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
            page.close()
            page = self._pdf[self._index]
            if flattened == raw.FLATTEN_FAIL and _FIELDS_UNREAD not in self.warnings:
                self.warnings.append(_FIELDS_UNREAD)
        return page

    def _render(self) -> Image:
        import pypdfium2 as pdfium

        try:
            bitmap = self._page().render(scale=self.dpi / 72, rev_byteorder=True, limit_image_cache=True)
        except (pdfium.PdfiumError, MemoryError, ValueError) as error:
            raise PageError(f"page {self.number} cannot be rendered: {error}") from error
        try:
            return np.ascontiguousarray(bitmap.to_numpy()[:, :, :3]).copy()
        finally:
            bitmap.close()

    def words(self) -> list[Word]:
        if self._words is None:
            import pypdfium2 as pdfium

            from derender.ingest.pdfwords import extract_words

            try:
                self._words = extract_words(self._page())
            except pdfium.PdfiumError as error:
                raise PageError(f"the text of page {self.number} cannot be read: {error}") from error
        return self._words

    def images(self) -> list[Box]:
        import pypdfium2 as pdfium
        import pypdfium2.raw as raw

        from derender.ingest.frame import Frame

        boxes: list[Box] = []
        try:
            page = self._page()
            frame = Frame.of(page)
            placed_objects = list(frame.placed_objects(page))
        except pdfium.PdfiumError as error:
            raise PageError(f"the pictures of page {self.number} cannot be listed: {error}") from error
        for placed in placed_objects:
            if placed.kind != raw.FPDF_PAGEOBJ_IMAGE or not all(map(math.isfinite, placed.box)):
                continue
            x0, y0, x1, y1 = placed.box
            box = (max(x0, 0.0), max(y0, 0.0), min(x1, self.width_pt), min(y1, self.height_pt))
            if box[2] - box[0] >= _MIN_PICTURE_PT and box[3] - box[1] >= _MIN_PICTURE_PT:
                boxes.append(box)
        return boxes

    def release(self) -> None:
        self._image = None
        self._words = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

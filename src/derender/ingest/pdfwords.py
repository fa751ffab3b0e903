"""Native words of a PDF page: PDFium's characters, grouped at white space, jumps and turns, with font facts.

Does not make lines (lines.py) and does not say whether the words can be believed (textlayer.py). Coordinates: PDFium
gives user space (y up, /Rotate not applied); Frame maps it to the displayed page.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from derender.ingest.frame import Frame, address_of, in_text_frame
from derender.ingest.types import Box, Piece, Word, hull

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "\u017ft", 0xFB06: "st"}
_SOFT_HYPHENS = ("\x02", "\ufffe", "\u00ad")  # how PDFium marks a hyphen at a line's end, and U+00AD itself
_STRUCK = re.compile("\u0338([=∈<>≡≤≥∼⊂⊆])")
_INVISIBLE_MODES = (3, 7)
_FIXED_PITCH, _ITALIC, _FORCE_BOLD = 1, 1 << 6, 1 << 18
_BOLD_WEIGHT = 600
_COVERING = 0.5
"""Share of the page a picture must cover before letters painted earlier count as hidden below it."""
_GAP_EM = 0.8
"""A gap this wide (in font sizes) separates words also where PDFium has put no space."""


@dataclass(frozen=True)
class _Style:
    """Facts shared by the characters of one text object."""

    font: str = ""
    bold: bool = False
    italic: bool = False
    mono: bool = False
    visible: bool = True


@dataclass
class _Run:
    """Characters of the word being built. Boxes are on the displayed page; tight is ink, loose is ascent to descent."""

    texts: list[str] = field(default_factory=list)
    tight: list[Box] = field(default_factory=list)
    loose: list[Box] = field(default_factory=list)
    bases: list[tuple[float, float]] = field(default_factory=list)  # size and baseline
    style: _Style = field(default_factory=_Style)
    size: float = 0.0
    angle: float = 0.0
    vertical: bool = False
    font_ok: bool = True
    visible: bool = True
    hyphen: bool = False


def extract_words(page: Any) -> list[Word]:
    """Words of a pypdfium2 page in the file's order. Raises pypdfium2.PdfiumError when there is no text page."""
    textpage = page.get_textpage()
    try:
        return list(_Extractor(page, textpage).words())
    finally:
        textpage.close()


class _Extractor:
    def __init__(self, page: Any, textpage: Any) -> None:
        self._frame = Frame.of(page)
        self._textpage = textpage
        self._page_area = max(1.0, page.get_width() * page.get_height())
        self._styles: dict[int, _Style] = {}
        self._hidden_from: dict[int, int] = {}
        self._place: dict[int, int] = {}
        self._covers: list[tuple[int, Box]] = []
        self._scan_objects(page)

    def _scan_objects(self, page: Any) -> None:
        import pypdfium2.raw as raw

        for place, placed in enumerate(self._frame.placed_objects(page)):
            if placed.kind == raw.FPDF_PAGEOBJ_TEXT:
                self._place[placed.address] = place
            elif placed.kind == raw.FPDF_PAGEOBJ_IMAGE and not placed.transparent:
                x0, y0, x1, y1 = placed.box
                if (x1 - x0) * (y1 - y0) >= _COVERING * self._page_area:
                    self._covers.append((place, placed.box))

    def words(self) -> Iterator[Word]:
        import pypdfium2.raw as raw

        textpage = self._textpage
        run = _Run()
        order = 0
        for index in range(max(0, textpage.count_chars())):
            code = raw.FPDFText_GetUnicode(textpage, index)
            char = chr(code) if 0 < code < 0x110000 else "\ufffd"
            is_hyphen = raw.FPDFText_IsHyphen(textpage, index) == 1 or char in _SOFT_HYPHENS[:2]
            if char.isspace() and not is_hyphen:
                if run.texts:
                    yield _finish(run, order)
                    order += 1
                    run = _Run()
                continue
            placed = self._character(index, char)
            if run.texts and not _continues(run, placed):
                yield _finish(run, order)
                order += 1
                run = _Run()
            _append(run, placed)
            if is_hyphen:
                run.texts[-1] = "-"
                run.font_ok = run.font_ok and not placed.mapping_error
                run.hyphen = True
                yield _finish(run, order)
                order += 1
                run = _Run()
        if run.texts:
            yield _finish(run, order)

    def _character(self, index: int, char: str) -> _Char:
        import pypdfium2.raw as raw

        textpage, frame = self._textpage, self._frame
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        raw.FPDFText_GetCharBox(textpage, index, left, right, bottom, top)
        tight = frame.box(left.value, bottom.value, right.value, top.value)
        rect = raw.FS_RECTF()
        raw.FPDFText_GetLooseCharBox(textpage, index, rect)
        loose = frame.box(rect.left, rect.bottom, rect.right, rect.top)
        x, y = ctypes.c_double(), ctypes.c_double()
        raw.FPDFText_GetCharOrigin(textpage, index, x, y)
        matrix = raw.FS_MATRIX()
        raw.FPDFText_GetMatrix(textpage, index, matrix)
        scale = math.hypot(matrix.c, matrix.d) or 1.0
        angle = math.degrees(math.atan2(-matrix.b, matrix.a)) + frame.rotation
        obj = raw.FPDFText_GetTextObject(textpage, index)
        style, address = self._style(index, obj)
        return _Char(
            text=char,
            tight=tight,
            loose=loose,
            size=raw.FPDFText_GetFontSize(textpage, index) * scale,
            angle=(angle + 180.0) % 360.0 - 180.0,
            origin=frame.point(x.value, y.value),
            style=style,
            visible=style.visible and not self._covered(address, tight),
            mapping_error=raw.FPDFText_HasUnicodeMapError(textpage, index) == 1,
        )

    def _covered(self, address: int, box: Box) -> bool:
        if not self._covers:
            return False
        place = self._place.get(address)
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return place is not None and any(
            later > place and c[0] <= x <= c[2] and c[1] <= y <= c[3] for later, c in self._covers
        )

    def _style(self, index: int, obj: Any) -> tuple[_Style, int]:
        if not obj:
            return _Style(), 0
        address = address_of(obj)
        style = self._styles.get(address)
        if style is None:
            style = self._styles[address] = self._read_style(index, obj)
        return style, address

    def _read_style(self, index: int, obj: Any) -> _Style:
        import pypdfium2.raw as raw

        font = raw.FPDFTextObj_GetFont(obj)
        name, flags = "", 0
        if font:
            length = raw.FPDFFont_GetBaseFontName(font, None, 0)
            buffer = ctypes.create_string_buffer(max(1, length))
            raw.FPDFFont_GetBaseFontName(font, buffer, length)
            name = buffer.value.decode("utf-8", "replace").split("+", 1)[-1]
            flags = max(0, raw.FPDFFont_GetFlags(font))
        lower = name.lower()
        alpha = ctypes.c_uint(255)
        parts = [ctypes.c_uint() for _ in range(3)]
        has_fill = raw.FPDFPageObj_GetFillColor(obj, *parts, alpha)
        return _Style(
            font=name,
            bold=bool(flags & _FORCE_BOLD)
            or raw.FPDFText_GetFontWeight(self._textpage, index) >= _BOLD_WEIGHT
            or any(mark in lower for mark in ("bold", "black", "heavy", "semibold", "-bd")),
            italic=bool(flags & _ITALIC) or "italic" in lower or "oblique" in lower,
            mono=bool(flags & _FIXED_PITCH) or "mono" in lower or "courier" in lower or "cmtt" in lower,
            visible=raw.FPDFTextObj_GetTextRenderMode(obj) not in _INVISIBLE_MODES
            and not (has_fill and alpha.value == 0),
        )


@dataclass(frozen=True)
class _Char:
    text: str
    tight: Box
    loose: Box
    size: float
    angle: float
    origin: tuple[float, float]
    style: _Style
    visible: bool
    mapping_error: bool


def _continues(run: _Run, char: _Char) -> bool:
    if abs(char.angle - run.angle) > 5 or char.style.visible != run.style.visible:
        return False
    if run.tight[-1] == char.tight:  # several characters of one glyph, such as an expanded ligature
        return True
    em = max(char.size, run.size, 1.0)
    ax0, ay0, ax1, ay1 = in_text_frame(run.loose[-1], run.angle)
    bx0, by0, bx1, by1 = in_text_frame(char.loose, run.angle)
    if _is_cjk(char.text) and (run.vertical or len(run.texts) == 1):
        below = by0 - ay1
        if abs((ax0 + ax1) / 2 - (bx0 + bx1) / 2) < 0.3 * em and abs(below) < _GAP_EM * em:
            run.vertical = True
            return True
    if run.vertical:
        return False
    overlap = min(ay1, by1) - max(ay0, by0)
    if overlap <= 0.2 * min(ay1 - ay0, by1 - by0):
        return False
    # The gap is taken on either side, because right-to-left words grow leftwards.
    gap = max(bx0 - ax1, ax0 - bx1)
    if gap > _GAP_EM * em:
        return False
    # A jump far back over what is already there starts something new.
    return not (bx1 < ax0 - _GAP_EM * em or gap < -max(em, ax1 - ax0, bx1 - bx0) * 1.5)


def _append(run: _Run, char: _Char) -> None:
    if not run.texts:
        run.style, run.angle = char.style, char.angle
    run.texts.append(char.text)
    run.tight.append(char.tight)
    run.loose.append(char.loose)
    run.bases.append((char.size, in_text_frame((*char.origin, *char.origin), run.angle)[1]))
    run.size = max(run.size, char.size)
    run.visible = run.visible and char.visible
    if char.text not in _SOFT_HYPHENS:
        run.font_ok = run.font_ok and not char.mapping_error and _plausible(char.text)


def _plausible(char: str) -> bool:
    # Surrogate halves are joined later; "Cn" would condemn characters younger than this Python's tables.
    return char != "\ufffd" and unicodedata.category(char) not in ("Cc", "Co")


def _is_cjk(char: str) -> bool:
    return "\u2e80" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\uff00" <= char <= "\uffef"


def _finish(run: _Run, order: int) -> Word:
    texts = _mend_rtl_glyphs(run) if len(run.texts) > 1 else run.texts
    text = "".join(texts)
    if any("\ud800" <= c <= "\udfff" for c in text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    hyphen = run.hyphen
    if text.endswith("\u00ad"):
        text, hyphen = text[:-1] + "-", True
    text = text.replace("\u00ad", "").translate(_LIGATURES)
    if "\u0338" in text:  # TeX sets the stroke of an unequal sign before the sign; Unicode has it behind
        text = _STRUCK.sub(lambda m: unicodedata.normalize("NFC", m[1] + "\u0338"), text)
    text = "".join(c if unicodedata.category(c) != "Cc" else "\ufffd" for c in text)
    return Word(
        text=text,
        box=_word_box(run),
        order=order,
        font_size=run.size,
        font=run.style.font,
        bold=run.style.bold,
        italic=run.style.italic,
        mono=run.style.mono,
        visible=run.visible,
        font_ok=run.font_ok,
        angle=run.angle,
        vertical=run.vertical,
        hyphen=hyphen,
        pieces=_pieces(run, text),
    )


def _pieces(run: _Run, text: str) -> tuple[Piece, ...]:
    """The word's characters by size and baseline; () where they are not the word's text, or lie askew."""
    if run.vertical or not run.font_ok or "".join(run.texts) != text or abs(run.angle - 90 * round(run.angle / 90)) > 1:
        return ()
    out: list[Piece] = []
    for char, (size, base) in zip(run.texts, run.bases, strict=True):
        if out and abs(out[-1][1] - size) < 0.05 * size and abs(out[-1][2] - base) < 0.03 * size:
            out[-1] = (out[-1][0] + char, *out[-1][1:])
        else:
            out.append((char, round(size, 2), round(base, 2)))
    return tuple(out)


def _mend_rtl_glyphs(run: _Run) -> list[str]:
    """Puts the characters of one right-to-left glyph (lam-alef) into logical order.

    PDFium turns a right-to-left line around character by character, and with it the letters that a single glyph
    stands for; such letters share one box.
    """
    texts, boxes = run.texts, run.tight
    out: list[str] = []
    start = 0
    for index in range(1, len(texts) + 1):
        if index == len(texts) or boxes[index] != boxes[start]:
            group = texts[start:index]
            if len(group) > 1 and all(unicodedata.bidirectional(c) in ("R", "AL") for c in group):
                group = group[::-1]
            out += group
            start = index
    return out


def _word_box(run: _Run) -> Box:
    """Hull: along the text the letters' ink, across it ascent to descent where the font's figures are believable."""
    tight, loose = hull(run.tight), hull(run.loose)
    along_x = round(run.angle / 90) % 2 == 0
    across = (loose[3] - loose[1]) if along_x else (loose[2] - loose[0])
    em = max(run.size, 0.1)
    if not 0.4 * em <= across <= 2.5 * em or run.vertical:
        return tight
    if along_x:
        return tight[0], min(tight[1], loose[1]), tight[2], max(tight[3], loose[3])
    return min(tight[0], loose[0]), tight[1], max(tight[2], loose[2]), tight[3]

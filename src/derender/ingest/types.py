"""What the reading part hands on: options, words and lines. Boxes as in derender.document: page points, top-left
origin.

Holds no code that opens files (source.py, pdf.py, image.py) and none that judges words (textlayer.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from derender.errors import UsageError

Box = tuple[float, float, float, float]
Piece = tuple[str, float, float]
"""Characters of one size on one baseline: text, font size, baseline in points along the text's own axes (y down)."""
Image = npt.NDArray[np.uint8]  # (height, width, 3) RGB, or (height, width) where a grey picture is asked for


@dataclass(frozen=True)
class ReadOptions:
    """How pages become pictures.

    dpi: resolution that PDF pages are rendered at; pictures keep their own pixels. small_page_px: a page whose longer
    side would come out shorter than this gets a higher dpi, at most max_raise times the one asked for, because small
    pages (cards, labels, reduced prints) carry small letters. max_pixels and max_side bound each picture: beyond them
    the dpi is lowered and the page says so in its warnings.
    """

    dpi: float = 150.0
    max_pixels: int = 20_000_000
    max_side: int = 8_000
    small_page_px: int = 1_200
    max_raise: float = 2.5

    def __post_init__(self) -> None:
        if not 10 <= self.dpi <= 1200:
            raise UsageError(f"dpi must lie between 10 and 1200, not {self.dpi:g}.")
        if self.max_pixels < 10_000 or self.max_side < 100:
            raise UsageError("max_pixels must be at least 10000 and max_side at least 100.")
        if self.max_raise < 1:
            raise UsageError("max_raise must be at least 1.")


@dataclass(frozen=True)
class Word:
    """One word of a PDF's own text.

    box: horizontally the ink of the letters, vertically the font's ascent and descent (so that words of one line
    agree), in points of the displayed page. order: its place in the file's own order. font_size in points as
    displayed. angle: degrees clockwise by which the reading direction is turned from left-to-right (90: the text runs
    downwards). vertical: upright characters stacked in a column (Chinese and Japanese). visible: False for render
    mode 3 or 7, fully transparent fill, and letters that lie below a picture covering most of the page. font_ok:
    every character has a mapping to Unicode and none is a control, private-use or replacement character. hyphen: the
    word ends with a hyphen that is there because the line ends. pieces: the text where its size or baseline changes;
    empty where that is not known (text that lies askew, characters that were rewritten or have no sound mapping).
    """

    text: str
    box: Box
    order: int
    font_size: float
    font: str = ""
    bold: bool = False
    italic: bool = False
    mono: bool = False
    visible: bool = True
    font_ok: bool = True
    angle: float = 0.0
    vertical: bool = False
    hyphen: bool = False
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class TextLine:
    """Words on one baseline, in reading order; box is their hull, font_size that of most of its characters."""

    text: str
    box: Box
    words: tuple[Word, ...]
    font_size: float
    angle: float = 0.0

    @property
    def hyphen(self) -> bool:
        """True when the last word is cut by the line's end."""
        return self.words[-1].hyphen


def hull(boxes: list[Box]) -> Box:
    """The smallest box around `boxes` (at least one)."""
    return (
        min(b[0] for b in boxes),
        min(b[1] for b in boxes),
        max(b[2] for b in boxes),
        max(b[3] for b in boxes),
    )

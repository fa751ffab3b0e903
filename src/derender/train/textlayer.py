"""Which lines of a PDF page have words that can be a truth: what the text layer says must be what the picture shows.

Four doubts, none of which asks a network, so that they can be used on held-out pages too: a glyph whose code the font
does not map to Unicode (angle brackets of TeX's symbol fonts come out as "h" and "i"), words that are spaced out letter
by letter, spaces that PDFium saw where hardly any room is (listings that are set on a grid), and small capitals, which
the layer has in the one case or the other and a reader sees as capitals. Does not read pages (pages.py) and does not
compare with a reading (features.py).
"""

from __future__ import annotations

import re
from statistics import median

Box = tuple[float, float, float, float]

NARROWEST_SPACE = 0.17
"""Of the height of a font's box. Of the spaces that PDFium makes up on 86 documents 98% are wider."""
SMALL_CAPITALS = 1.12
"""Letters with ascenders are at least 1.3 times as high as those without in any lower case."""
ASCENDERS, PLAIN = frozenset("bdhkl"), frozenset("acemnorsuvwxz")
_SPACED = re.compile(r"(?<!\S)(?:[^\W\d_] ){3,}[^\W\d_](?!\S)")


def is_spaced_out(text: str) -> bool:
    """Whether four or more letters in a row stand alone, as in "A P P E N D I X"."""
    return _SPACED.search(text) is not None


def has_small_capitals(text: str, boxes: list[Box]) -> bool:
    """Whether a word's letters with ascenders (b, d, h, k, l) are as high as those without. boxes: one a character, as
    tight as the ink, y down, any unit."""
    at = 0
    for word in text.split(" "):
        heights = [(ch, b[3] - b[1]) for ch, b in zip(word, boxes[at : at + len(word)], strict=True)]
        at += len(word) + 1
        high = [h for ch, h in heights if ch in ASCENDERS]
        low = [h for ch, h in heights if ch in PLAIN]
        if high and low and median(high) < SMALL_CAPITALS * median(low):
            return True
    return False

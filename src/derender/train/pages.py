"""Text regions from real PDF pages: the page is rendered, its own words are the truth.

Groups a page's characters into lines and lines into regions by geometry, writes the flowing target (line-end hyphens
mended by a vocabulary, forced line breaks kept), and crops the line pictures. Lines whose words may be other than what
the picture shows are left out (textlayer.py); pages whose text layer is unsound are weeded out later, by comparing each
line with the tower's reading (features.py). Does not degrade.
"""

from __future__ import annotations

import ctypes
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.train.sample import LineSample, RegionSample, forced_break
from derender.train.textlayer import NARROWEST_SPACE, has_small_capitals, is_spaced_out

HYPHENS = "-\u00ad\u2010\x02\ufffe"


@dataclass
class Line:
    """A line of characters: text and boxes (x0, y0, x1, y1) in points from the top left. unmapped: it has a glyph that
    the font does not map to Unicode; squeezed: a space where hardly any room is."""

    text: str = ""
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    unmapped: bool = False
    squeezed: bool = False

    @property
    def box(self) -> tuple[float, float, float, float]:
        b = np.array([x for x in self.boxes if x[2] > x[0]] or self.boxes)
        return (float(b[:, 0].min()), float(b[:, 1].min()), float(b[:, 2].max()), float(b[:, 3].max()))

    @property
    def doubtful(self) -> bool:
        """Whether the words may be other than the picture shows (textlayer.py)."""
        doubt = self.unmapped or self.squeezed or is_spaced_out(self.text)
        return doubt or has_small_capitals(self.text, self.boxes)


def page_lines(page: Any) -> list[Line]:
    """Lines of a pypdfium2 page in the content's own order; runs with wide gaps are cut."""
    import pypdfium2.raw as c

    textpage = page.get_textpage()
    n = textpage.count_chars()
    page_height = page.get_height()
    doubles, loose = [ctypes.c_double() for _ in range(4)], c.FS_RECTF()
    left, right, bottom, top = doubles
    lines: list[Line] = []
    line = Line()
    prev: tuple[float, float, float, float] | None = None
    end = 0.0  # of the previous glyph's advance

    def flush() -> None:
        nonlocal line
        if line.text.strip():
            lines.append(line)
        line = Line()

    pending_space = False
    for i in range(min(n, 20000)):
        code = c.FPDFText_GetUnicode(textpage, i)
        char = chr(code) if 0 < code < 0x110000 else "\ufffd"
        if char in "\r\n":
            flush()
            prev, pending_space = None, False
            continue
        if char.isspace():
            pending_space = True
            continue
        if not c.FPDFText_GetCharBox(textpage, i, *doubles):
            continue
        box = (left.value, page_height - top.value, right.value, page_height - bottom.value)
        if prev is not None:
            h = max(prev[3] - prev[1], box[3] - box[1], 1.0)
            below = (box[1] + box[3]) / 2 - (prev[1] + prev[3]) / 2 > 1.2 * h
            if box[0] < prev[0] - 3 * h or box[0] - prev[2] > 3 * h or below:
                flush()
                pending_space = False
        c.FPDFText_GetLooseCharBox(textpage, i, loose)
        if pending_space and line.text:
            line.text += " "
            line.boxes.append((box[0], box[1], box[0], box[3]))
            line.squeezed |= loose.left - end < NARROWEST_SPACE * (loose.top - loose.bottom)
        pending_space = False
        line.text += char
        line.boxes.append(box)
        line.unmapped |= c.FPDFText_HasUnicodeMapError(textpage, i) == 1
        prev, end = box, loose.right
    flush()
    textpage.close()
    return lines


def clean(text: str) -> str:
    """Text as a reader would write it: ligatures and compatibility forms opened, line-end hyphen marks as '-'."""
    text = "".join("-" if ch in HYPHENS else ch for ch in text)
    text = "".join(
        unicodedata.normalize("NFKC", ch) if "\ufb00" <= ch <= "\ufb4f" or ch in "\u00a0\u2002\u2003\u2009" else ch
        for ch in text
    )
    return unicodedata.normalize("NFC", " ".join(text.split()))


def is_cjk(ch: str) -> bool:
    return "\u2e80" <= ch <= "\u9fff" or "\uf900" <= ch <= "\ufaff" or "\uff00" <= ch <= "\uffef"


def join(left: str, right: str, vocabulary: frozenset[str]) -> str:
    """Flowing text of two lines: a line-end hyphen is dropped when the vocabulary has the whole word, kept when it has
    the hyphenated one, and otherwise dropped before a lower-case letter."""
    if not left or not right:
        return left + right
    if left[-1] == "-" and len(left) > 1 and left[-2].isalpha() and right[0].isalpha():
        head = left[:-1].split()[-1].lower().lstrip("([\"'“‘")
        tail = right.split()[0].lower().rstrip(".,;:!?)]\"'”’")
        whole, hyphened = head + tail, f"{head}-{tail}"
        if hyphened in vocabulary and whole not in vocabulary:
            return left + right
        return left[:-1] + right if whole in vocabulary or right[0].islower() else left + right
    if left[-1] == "-" and len(left) > 1 and left[-2] != " ":
        return left + right
    if is_cjk(left[-1]) and is_cjk(right[0]):
        return left + right
    return left + " " + right


def group(lines: list[Line], rng: np.random.Generator, most: int = 12) -> Iterator[list[Line]]:
    """Consecutive lines of one height, evenly spaced and overlapping sideways, cut into regions of 1..most lines.
    Doubtful lines are in none."""
    current: list[Line] = []
    limit = int(rng.integers(1, most + 1))
    for line in lines:
        b = line.box
        if b[3] - b[1] < 3 or b[2] - b[0] < 2 or (len(line.text) > 3 and b[3] - b[1] > b[2] - b[0]):
            continue
        if line.doubtful:
            if current:
                yield current
            current = []
            continue
        if current:
            p = current[-1].box
            h = max(p[3] - p[1], b[3] - b[1])
            similar = 0.55 < (p[3] - p[1]) / max(b[3] - b[1], 1e-3) < 1.8
            follows = -0.4 * h < b[1] - p[3] < 1.1 * h
            overlaps = min(p[2], b[2]) - max(p[0], b[0]) > 0
            if not (similar and follows and overlaps) or len(current) >= limit:
                yield current
                current, limit = [], int(rng.integers(1, most + 1))
        current.append(line)
    if current:
        yield current


def target_of(lines: list[Line], vocabulary: frozenset[str]) -> str:
    """The flowing text of a region's lines."""
    right = max(line.box[2] for line in lines)
    out = clean(lines[0].text)
    for prev, line in zip(lines, lines[1:], strict=False):
        text = clean(line.text)
        word = line.text.split(" ")[0]
        x = [b for b in line.boxes[: len(word)] if b[2] > b[0]]
        first = (max(b[2] for b in x) - min(b[0] for b in x)) if x else 0.0
        if forced_break(prev.box, first, right):
            out = out + "\n" + text
        else:
            out = join(out, text, vocabulary)
    return out


def regions_of_page(
    page: Any, rng: np.random.Generator, vocabulary: frozenset[str], most: int = 12
) -> Iterator[RegionSample]:
    """Regions of one pypdfium2 page, rendered at a random 72-220 dpi."""
    lines = page_lines(page)
    if not lines:
        return
    dpi = float(rng.choice([72, 96, 110, 130, 150, 170, 200, 220], p=[0.05, 0.1, 0.15, 0.2, 0.2, 0.12, 0.12, 0.06]))
    k = dpi / 72
    bitmap = page.render(scale=k, grayscale=True)
    picture: npt.NDArray[np.uint8] = bitmap.to_numpy().reshape(bitmap.height, bitmap.width, -1)[:, :, 0].copy()
    bitmap.close()
    height, width = picture.shape
    for lines_ in group(lines, rng, most):
        pad_y, pad_x = rng.uniform(0.03, 0.28), rng.uniform(0.05, 0.45)
        samples = []
        for line in lines_:
            x0, y0, x1, y1 = (v * k for v in line.box)
            h = max(y1 - y0, 7.0 * k * 0.6)
            mid = (y0 + y1) / 2
            y0, y1 = min(y0, mid - h / 2), max(y1, mid + h / 2)
            top = int(y0 - h * pad_y * rng.uniform(0.6, 1.4))
            low = int(np.ceil(y1 + h * pad_y * rng.uniform(0.6, 1.4)))
            a, b = int(x0 - h * pad_x), int(np.ceil(x1 + h * pad_x))
            crop = picture[max(0, top) : max(0, low), max(0, a) : max(0, b)]
            if crop.shape[0] < 6 or crop.shape[1] < 4 or b > width + h or low > height + h:
                break
            samples.append(LineSample(crop, line.box, clean(line.text)))
        if len(samples) == len(lines_):
            yield RegionSample(tuple(samples), target_of(lines_, vocabulary), "page")

"""Words to text lines: words on one baseline are merged, without bridging the gutter between columns.

Works on words in their native order first, since that order seldom crosses a gutter, and only then by geometry. Does
not put lines into reading order across a page (the layout does) and does not mend hyphens.
"""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from derender.ingest.frame import in_text_frame
from derender.ingest.scripts import NEAR, Base, marked
from derender.ingest.types import Box, TextLine, Word, hull

_IN_ORDER_EM = 1.8
"""Widest gap, in font sizes, between words that follow each other in the file: justified lines stretch their spaces."""
_OUT_OF_ORDER_EM = 0.7
"""Widest gap between words that do not: column gutters are rarely below one font size."""
_SAME_LINE = 0.45
"""Vertical overlap, as a share of the smaller height, that puts two words on one line; superscripts pass, lines do
not."""
_RECENT = 8
_BAND_PT = 12.0
_MAX_BANDS = 500  # a word taller than 6000 points is not joined with anything


@dataclass
class _Line:
    """A line being built; boxes are those of the words in the text's own axes."""

    words: list[Word]
    boxes: list[Box]
    angle: float
    vertical: bool

    def measure(self, last: int | None = None) -> tuple[float, tuple[float, float]]:
        """Font size of most characters, and core: the vertical extent of the words of that size, so that a tall
        initial does not swallow other lines. Of the `last` words only where given: a long line must not cost
        quadratic time."""
        words, boxes = (self.words, self.boxes) if last is None else (self.words[-last:], self.boxes[-last:])
        size = line_size(words)
        main = [b for w, b in zip(words, boxes, strict=True) if 0.8 * size <= w.font_size <= 1.25 * size] or boxes
        return size, (statistics.median(b[1] for b in main), statistics.median(b[3] for b in main))


def line_size(words: Sequence[Word]) -> float:
    """Font size of most characters of `words`."""
    weight: dict[float, int] = {}
    for word in words:
        key = round(word.font_size, 1)
        weight[key] = weight.get(key, 0) + len(word.text)
    return max(weight, key=lambda size: (weight[size], size))


def words_to_lines(words: Sequence[Word]) -> list[TextLine]:
    """Lines of `words` (any order), sorted by the native place of their first word; every word is in exactly one."""
    runs: list[_Line] = []
    for word in sorted(words, key=lambda w: w.order):
        box = in_text_frame(word.box, word.angle)
        if runs and _follows(runs[-1], word, box):
            runs[-1].words.append(word)
            runs[-1].boxes.append(box)
        else:
            runs.append(_Line([word], [box], word.angle, word.vertical))
    merged = _merge(runs)
    merged.sort(key=lambda line: min(w.order for w in line.words))
    return [_text_line(line) for line in merged]


def _follows(line: _Line, word: Word, box: Box) -> bool:
    if word.vertical or line.vertical or abs(word.angle - line.angle) > 5:
        return False
    last, last_box = line.words[-1], line.boxes[-1]
    if last.hyphen or word.order - last.order > 3:
        return False
    size, core = line.measure(_RECENT)
    # a subscript stands below the superscript before it: only the line itself counts
    small = word.font_size <= 0.87 * size and last.font_size <= 0.87 * size
    if not (_on_one_line(core, box) and (small or _on_one_line((last_box[1], last_box[3]), box))):
        return False
    # Either side: right-to-left words follow on the left.
    gap = max(box[0] - last_box[2], last_box[0] - box[2])
    em = max(size, word.font_size, 1.0)
    if gap > _IN_ORDER_EM * em:
        return False
    return gap > -0.5 * em or _contains_none(line, box)


def _contains_none(line: _Line, box: Box) -> bool:
    recent = line.boxes[-_RECENT:]
    return all(min(b[2], box[2]) - max(b[0], box[0]) < 0.5 * min(b[2] - b[0], box[2] - box[0]) for b in recent)


def _on_one_line(extent: tuple[float, float], box: Box) -> bool:
    overlap = min(extent[1], box[3]) - max(extent[0], box[1])
    return overlap >= _SAME_LINE * max(0.1, min(extent[1] - extent[0], box[3] - box[1]))


def _merge(runs: list[_Line]) -> list[_Line]:
    """Joins runs on one baseline that stand close together although the file has them apart."""
    runs = sorted(runs, key=lambda run: min(box[0] for box in run.boxes))
    out: list[_Merged] = []
    bands: dict[int, list[_Merged]] = {}  # merged lines by the heights they touch, so that few are compared
    for run in runs:
        start, end = min(box[0] for box in run.boxes), max(box[2] for box in run.boxes)
        size, core = run.measure()
        touched = range(int(core[0] // _BAND_PT), int(core[1] // _BAND_PT) + 1)
        best: _Merged | None = None
        for other in () if run.vertical else {id(m): m for band in touched for m in bands.get(band, ())}.values():
            em = max(size if size > 0.6 * other.size else other.size, 1.0)
            if (
                -0.3 * em <= start - other.end <= _OUT_OF_ORDER_EM * em
                and abs(other.line.angle - run.angle) <= 5
                and _on_one_line(core, (0.0, other.core[0], 0.0, other.core[1]))
                and (best is None or other.end > best.end)
            ):
                best = other
        if best is not None:
            best.line.words += run.words
            best.line.boxes += run.boxes
            best.end = max(best.end, end)
            continue
        merged = _Merged(run, size, core, end)
        out.append(merged)
        if not run.vertical and len(touched) <= _MAX_BANDS:
            for band in touched:
                bands.setdefault(band, []).append(merged)
    return [merged.line for merged in out]


@dataclass
class _Merged:
    line: _Line
    size: float
    core: tuple[float, float]
    end: float


def _text_line(line: _Line) -> TextLine:
    pairs = list(zip(line.words, line.boxes, strict=True))
    if _is_rtl(line.words):
        # Words run from right to left, but numbers and Latin words inside keep PDFium's logical order when consecutive.
        pairs.sort(key=lambda pair: pair[0].order) if _is_ordered(line) else pairs.sort(key=lambda pair: -pair[1][2])
    elif not line.vertical:
        pairs.sort(key=lambda pair: (pair[1][0], pair[0].order))
    words = [pair[0] for pair in pairs]
    boxes = [pair[1] for pair in pairs]
    base = None if line.vertical or _is_rtl(words) else Base.of([p for w in words for p in w.pieces])
    text = ""
    for index, word in enumerate(words):
        if index:
            gap = max(boxes[index][0] - boxes[index - 1][2], boxes[index - 1][0] - boxes[index][2])
            scripted = base is not None and (
                (gap < NEAR * base.size and _has_script(words[index - 1], word, base))
                or (gap < 2 * NEAR * base.size and _ends_sentence(words[index - 1], word, base))
            )
            text += "" if scripted else _joint(words[index - 1], word, gap)
        text += marked(word.pieces, base, text) if base and word.pieces else word.text
    return TextLine(text, hull([w.box for w in words]), tuple(words), line_size(words), line.angle)


def _has_script(left: Word, right: Word, base: Base) -> bool:
    """Whether the left word ends or the right word begins with a script."""
    return any(base.side(p) for p in (*left.pieces[-1:], *right.pieces[:1]))


def _ends_sentence(left: Word, right: Word, base: Base) -> bool:
    """Whether a script stands before punctuation: TeX leaves more room there than between letters."""
    return right.text in {",", ".", ";", ":", ")"} and any(base.side(p) for p in left.pieces[-1:])


def _is_ordered(line: _Line) -> bool:
    orders = sorted(w.order for w in line.words)
    return orders[-1] - orders[0] < 2 * len(orders)


def _joint(left: Word, right: Word, gap: float) -> str:
    em = max(left.font_size, right.font_size)
    if _wide(left.text[-1:]) and _wide(right.text[:1]) and gap < 0.6 * em:
        return ""
    # Words that touch were split at a change of style or size: x and its superscript, a bold half of a word.
    if gap < 0.05 * em and left.order + 1 == right.order and abs(left.font_size - right.font_size) > 0.1 * em:
        return ""
    return " "


def _wide(char: str) -> bool:
    return bool(char) and unicodedata.east_asian_width(char) in ("W", "F")


def _is_rtl(words: Sequence[Word]) -> bool:
    text = "".join(word.text for word in words)
    strong = [unicodedata.bidirectional(char) for char in text]
    right = sum(kind in ("R", "AL") for kind in strong)
    return right > sum(kind == "L" for kind in strong)

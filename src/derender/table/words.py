"""Words of a table's text lines as runs of ink, so that a line that bridges two columns can be cut between them.

Ruling lines and dot leaders are no words. Native words need none of this: `lines_of_words` takes them as they are. Does
not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derender.document import Box
from derender.recognise.types import Image
from derender.table.types import Rule, TableLine

WORD_GAP = 0.17  # of a line's height: emptier stretches part words
REACH = 0.6  # of a line's height: how far beyond its box a line's first and last letter are looked for
LEADER_HEIGHT = 0.22  # of a line's height: lower ink, several times in a row, is a dot leader


def ink_words(image: Image, boxes: Sequence[Box], rules: Sequence[Rule]) -> list[TableLine]:
    """The lines with their words, both shrunk to their ink. A box that holds nothing but a rule keeps its size and
    has no words; one too faint for words is one word.

    image: (H, W, 3) uint8 RGB, level; boxes: text lines in its pixels.
    """
    gray = image.mean(axis=2)
    free = _without_rules(gray.shape, rules)
    return [_line(gray, free, box) for box in boxes]


def _without_rules(shape: tuple[int, ...], rules: Sequence[Rule]) -> Any:
    """True where no rule is drawn."""
    free = np.ones(shape, bool)
    for r in rules:
        half = r.thickness / 2 + 1.5
        x0, x1 = (r.x0, r.x1) if r.horizontal else (min(r.x0, r.x1) - half, max(r.x0, r.x1) + half)
        y0, y1 = (min(r.y0, r.y1) - half, max(r.y0, r.y1) + half) if r.horizontal else (r.y0, r.y1)
        free[max(0, round(y0)) : max(0, round(y1)), max(0, round(x0)) : max(0, round(x1))] = False
    return free


def _line(gray: Any, free: Any, box: Box) -> TableLine:
    height, width = gray.shape
    reach = REACH * (box[3] - box[1])
    x0, y0 = max(0, int(box[0] - reach)), max(0, int(box[1]))
    x1, y1 = min(width, int(np.ceil(box[2] + reach))), min(height, int(np.ceil(box[3])))
    part, open_ = gray[y0:y1, x0:x1], free[y0:y1, x0:x1]
    if part.size == 0:
        return TableLine(box, words=(box,))
    if not open_.any():
        return TableLine(box)
    paper = np.median(part[open_])
    away = np.abs(part - paper) * open_
    strongest = float(np.percentile(away, 99))
    ink = away > max(20.0, 0.35 * strongest)
    line_height = y1 - y0
    own = ink[:, max(0, round(box[0] - x0)) : round(box[2] - x0)]
    if not own.any():  # faint: kept as it is, unless what there was is a rule
        covered = 1 - float(open_.mean())
        return TableLine(box) if covered > 0.05 else TableLine(box, words=(box,))
    stroke = own.mean(axis=1) > 0.85
    if own.shape[1] > 2.5 * line_height and 0 < stroke.sum() < 0.35 * line_height:
        ink[stroke] = False  # what is left of a rule
        if not own.any():
            return TableLine(box)
    rows = _band(own.sum(axis=1), 0.12 * line_height)
    columns = np.flatnonzero(ink[rows[0] : rows[-1] + 1].any(axis=0))
    columns = _grown(columns, box[0] - x0, box[2] - x0, 0.1 * line_height)
    if len(columns) == 0:
        return TableLine(box, words=(box,))
    least = max(2.2, WORD_GAP * line_height)
    cuts = np.flatnonzero(np.diff(columns) > least)
    starts = np.concatenate([columns[:1], columns[cuts + 1]])
    ends = np.concatenate([columns[cuts], columns[-1:]]) + 1
    words = []
    for a, b in zip(starts.tolist(), ends.tolist(), strict=True):
        rows = _band(ink[:, a:b].sum(axis=1), 0.12 * line_height)
        words.append((float(x0 + a), float(y0 + rows[0]), float(x0 + b), float(y0 + rows[-1] + 1)))
    words = _drop_leaders(words, line_height) or words
    tight = (words[0][0], min(w[1] for w in words), words[-1][2], max(w[3] for w in words))
    return TableLine(tight, words=tuple(words))


def _grown(columns: Any, low: float, high: float, gap: float) -> Any:
    """Inked columns of the box from low to high, and those outside that follow with hardly a gap: a letter that the
    detector cut off.
    """
    inside = np.flatnonzero((columns >= low) & (columns < high))
    if len(inside) == 0:
        return columns[:0]
    first, last = int(inside[0]), int(inside[-1])
    step = max(1.0, gap) + 1
    while first > 0 and columns[first] - columns[first - 1] <= step and columns[first] <= low + step:
        first, low = first - 1, float(columns[first - 1])
    while last + 1 < len(columns) and columns[last + 1] - columns[last] <= step and columns[last] >= high - 1 - step:
        last, high = last + 1, float(columns[last + 1]) + 1
    return columns[first : last + 1]


def _band(ink_H: Any, gap: float) -> Any:
    """The rows of the strongest stretch of ink; what hangs in from the lines above and below, and
    single descenders, are left out."""
    rows = np.flatnonzero(ink_H > 0.12 * ink_H.max())
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > max(1.0, gap) + 1) + 1)
    return max(parts, key=lambda part: float(ink_H[part].sum()))


def _drop_leaders(words: list[Box], line_height: float) -> list[Box]:
    """The words without runs of three or more dots."""
    dots = [max(w[3] - w[1], 0.0) < LEADER_HEIGHT * line_height and w[2] - w[0] < 8 * line_height for w in words]
    kept: list[Box] = []
    start = 0
    while start < len(words):
        end = start
        while end < len(words) and dots[end] == dots[start]:
            end += 1
        long = words[end - 1][2] - words[start][0]
        leader = long > 1.2 * line_height if end - start >= 3 else long > 2.5 * line_height
        if not (dots[start] and leader):
            kept += words[start:end]
        start = end
    return kept

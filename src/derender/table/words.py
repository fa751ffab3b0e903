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

WORD_GAP = 0.16  # of a line's height: emptier stretches part words
LEADER_HEIGHT = 0.22  # of a line's height: lower ink, several times in a row, is a dot leader


def ink_words(image: Image, boxes: Sequence[Box], rules: Sequence[Rule]) -> list[TableLine]:
    """The lines with their words, both shrunk to their ink. A box without ink keeps its size and has one word.

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
    x0, y0 = max(0, int(box[0])), max(0, int(box[1]))
    x1, y1 = min(width, int(np.ceil(box[2]))), min(height, int(np.ceil(box[3])))
    part, open_ = gray[y0:y1, x0:x1], free[y0:y1, x0:x1]
    if part.size == 0 or not open_.any():
        return TableLine(box, words=(box,))
    paper = np.median(part[open_])
    away = np.abs(part - paper) * open_
    strongest = float(np.percentile(away, 99))
    ink = away > max(20.0, 0.35 * strongest)
    columns = np.flatnonzero(ink.any(axis=0))
    if len(columns) == 0:
        return TableLine(box, words=(box,))
    line_height = y1 - y0
    least = max(1.5, WORD_GAP * line_height)
    cuts = np.flatnonzero(np.diff(columns) > least)
    starts = np.concatenate([columns[:1], columns[cuts + 1]])
    ends = np.concatenate([columns[cuts], columns[-1:]]) + 1
    words = []
    for a, b in zip(starts.tolist(), ends.tolist(), strict=True):
        rows = np.flatnonzero(ink[:, a:b].any(axis=1))
        words.append((float(x0 + a), float(y0 + rows[0]), float(x0 + b), float(y0 + rows[-1] + 1)))
    words = _drop_leaders(words, line_height) or words
    tight = (words[0][0], min(w[1] for w in words), words[-1][2], max(w[3] for w in words))
    return TableLine(tight, words=tuple(words))


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

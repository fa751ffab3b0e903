"""Ruling lines of a table picture, by morphological opening of its ink.

Dark lines on light and light lines on dark fills; dashed lines are closed first, double lines become one, a lean of a
degree is followed. Strokes of letters are told from rules by what lies beside them: a rule has no ink above and below
along most of its length. Edges of fills (zebra stripes) are not rules. Does not decide what a rule means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.recognise.types import Image
from derender.table.types import Rule

Mask = npt.NDArray[np.uint8]
MAX_THICKNESS = 9
CONTRAST = 12


def find_rules(image: Image, line_height: float, text: Sequence[Box] = ()) -> list[Rule]:
    """Ruling lines of `image` ((H, W, 3) uint8 RGB), horizontal ones first, each from top to bottom or left to right.

    line_height: typical height of a text line's box in pixels; rules are at least about one and a half as long. text:
    boxes of text lines, whose strokes are no rules.
    """
    import cv2

    if min(image.shape[:2]) < 3 or line_height > max(image.shape[:2]):
        return []
    gray = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    inner, whole = _inside(gray.shape, text, 0.2), _inside(gray.shape, text, 0.0)
    rules: list[Rule] = []
    for polarity in (gray, 255 - gray):
        ink = cv2.adaptiveThreshold(
            polarity, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, _odd(line_height), CONTRAST
        )
        rules += _strokes(ink, polarity, line_height, True, inner, whole)
        rules += _strokes(np.ascontiguousarray(ink.T), polarity.T, line_height, False, inner.T, whole.T)
    merged = _merge([r for r in rules if r.horizontal], line_height)
    return merged + _merge([r for r in rules if not r.horizontal], line_height)


def _odd(value: float) -> int:
    return max(9, round(1.2 * value) // 2 * 2 + 1)


def _inside(shape: tuple[int, ...], text: Sequence[Box], share: float) -> Any:
    """True in text lines without `share` of their height above and below: rules often touch a line's edge."""
    inner = np.zeros(shape, bool)
    for x0, y0, x1, y1 in text:
        rim = share * (y1 - y0)
        inner[max(0, round(y0 + rim)) : max(0, round(y1 - rim)), max(0, round(x0)) : max(0, round(x1))] = True
    return inner


def _strokes(ink: Mask, gray: Mask, line_height: float, horizontal: bool, inner: Any, whole: Any) -> list[Rule]:
    """Level strokes of an ink mask (the transposed one gives the vertical rules)."""
    import cv2

    height, width = ink.shape
    least = max(12, round(1.5 * line_height)) if horizontal else max(10, round(1.1 * line_height))
    if width < least:
        return []
    reach = max(2, round(0.25 * line_height))
    closed = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((1, reach), np.uint8))
    # A leaning stroke is a staircase: steps as thin as its thickness must not end the run.
    run = max(8, min(least, round(0.9 * line_height)))
    opened = cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones((1, run), np.uint8))
    joined = cv2.dilate(opened, np.ones((1, reach + 1), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    rules = []
    for i in range(1, count):
        x, y, w, h, _ = (int(v) for v in stats[i])
        if w < least or h > MAX_THICKNESS + 0.03 * w:
            continue
        part = (labels[y : y + h, x : x + w] == i) & (opened[y : y + h, x : x + w] > 0)
        rule = _fit(part, x, y, ink, gray, inner, whole, line_height, horizontal)
        if rule is not None and rule.length >= least:
            rules.append(rule)
    return rules


def _fit(
    part: Any, x: int, y: int, ink: Mask, gray: Mask, inner: Any, text_box: Any, line_height: float, horizontal: bool
) -> Rule | None:
    columns = np.flatnonzero(part.any(axis=0))
    if len(columns) < 8:
        return None
    depth = part[:, columns].sum(axis=0)
    thickness = float(np.median(depth))
    if thickness > max(3.0, min(MAX_THICKNESS, 0.4 * line_height)):
        return None
    middle = (part[:, columns] * np.arange(part.shape[0])[:, None]).sum(axis=0) / depth
    at = np.clip(np.round(middle + y).astype(int), 0, ink.shape[0] - 1)
    in_text = float(inner[at, columns + x].mean())
    solid = float((ink[at, columns + x] > 0).mean()) > 0.93
    # A rule may run through lines that the detector drew across two columns, or along one that it took for text;
    # strokes of letters end after a letter.
    long = solid and len(columns) > (15 if horizontal else 2.5) * line_height
    if in_text > ((1.0 if long else 0.5) if horizontal else 0.8 if long else 0.2):
        return None
    if not _darker(columns + x, middle + y, thickness, gray):
        return None
    # Bars of capitals form strokes at the upper edge of a line of text; their stems hang from them.
    rim = float(text_box[at, columns + x].mean()) > 0.9 and horizontal and not long
    if _beside(columns + x, middle + y, thickness, ink, line_height) > (0.15 if rim else 0.35):
        return None
    end = max(1, len(columns) // 8)
    a, b = float(np.median(middle[:end])) + y + 0.5, float(np.median(middle[-end:])) + y + 0.5
    x0, x1 = float(columns[0] + x), float(columns[-1] + x + 1)
    if horizontal:
        return Rule(x0, a, x1, b, True, thickness)
    return Rule(a, x0, b, x1, False, thickness)


def _darker(x: Any, middle: Any, thickness: float, gray: Mask) -> bool:
    """Whether a stroke is darker than what lies on either side: the edge of a fill is darker than one side only."""
    rows = np.clip(np.round(middle).astype(int), 0, gray.shape[0] - 1)
    here = float(np.median(gray[rows, x]))
    for side in (-1, 1):
        lightest = []
        for off in (2.0, 3.5, 5.0):
            beside = np.round(middle + side * (thickness / 2 + off)).astype(int)
            if 0 <= beside.min() and beside.max() < gray.shape[0]:
                lightest.append(float(np.median(gray[beside, x])))
        if lightest and max(lightest) - here < 0.6 * CONTRAST:
            return False
    return True


def _beside(x: Any, middle: Any, thickness: float, ink: Mask, line_height: float) -> float:
    """Share of a stroke's length that has ink close above or below it: letters have, rules have not."""
    off = thickness / 2 + max(1.5, 0.1 * line_height)
    share = 0.0
    for side in (-1, 1):
        rows = np.clip(np.round(middle + side * off).astype(int), 0, ink.shape[0] - 1)
        inside = (middle + side * off >= 0) & (middle + side * off < ink.shape[0])
        here = float(((ink[rows, x] > 0) & inside).mean())
        share = max(share, here if here < 0.9 else 0.0)  # ink all along is the other stroke of a double rule
    return share


def _merge(rules: list[Rule], line_height: float) -> list[Rule]:
    """Rules on one line, end to end or side by side (double rules, both edges of a thick one), as one."""
    rules = sorted(rules, key=lambda r: (r.at, r.span))
    near, gap = max(3.0, 0.3 * line_height), max(3.0, 0.4 * line_height)
    changed = True
    while changed:
        changed = False
        kept: list[Rule] = []
        for rule in rules:
            for i, other in enumerate(kept):
                if abs(rule.at - other.at) <= near and _apart(rule, other) <= gap:
                    kept[i] = _join(other, rule)
                    changed = True
                    break
            else:
                kept.append(rule)
        rules = kept
    return sorted(rules, key=lambda r: (r.at, r.span))


def _apart(a: Rule, b: Rule) -> float:
    return max(a.span[0], b.span[0]) - min(a.span[1], b.span[1])


def _join(a: Rule, b: Rule) -> Rule:
    long = a if a.length >= b.length else b
    first, last = (a, b) if a.span[0] <= b.span[0] else (b, a)
    end = first if first.span[1] >= last.span[1] else last
    thickness = max(a.thickness, b.thickness)
    if min(a.length, b.length) > 0.7 * max(a.length, b.length) and _apart(a, b) < 0:  # side by side
        shift = ((a.at + b.at) / 2) - long.at
        if long.horizontal:
            return Rule(first.x0, long.y0 + shift, end.x1, long.y1 + shift, True, thickness)
        return Rule(long.x0 + shift, first.y0, long.x1 + shift, end.y1, False, thickness)
    if long.horizontal:
        return Rule(first.x0, first.y0, end.x1, end.y1, True, thickness)
    return Rule(first.x0, first.y0, end.x1, end.y1, False, thickness)

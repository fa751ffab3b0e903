"""Letter-like shapes of a page: their size, areas of small print, and lone marks that no text line covers.

Connected components of the locally thresholded picture. Cheap (tens of milliseconds a page) and used to choose the
line detector's scale and to find what it leaves out: small print, page numbers of one digit, bullets. Does not read
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from derender.document import Box
from derender.layout.types import TextLineBox, hull, overlap, quad_of
from derender.recognise.types import Image

_MOST_SIDE = 3000  # components are looked for at no more than this many pixels on the long side
_FEW = 30
_MOST_MARKS = 12  # more lone marks than this are dirt or a drawing


@dataclass(frozen=True)
class Letters:
    """boxes_N4: x0, y0, x1, y1 of letter-like components in page pixels. x_height: their median height, None when
    they are too few.

    marks_M4: all components of a size between a dot and a capital, letters included.
    """

    boxes_N4: npt.NDArray[np.float64]
    marks_M4: npt.NDArray[np.float64]
    x_height: float | None


def find_letters(image: Image) -> Letters:
    """Letter-like components of a page, (H, W, 3) uint8 RGB; dark on light or, where that gives few, light on dark.

    The median height of components that are neither specks nor rules is close to the x-height of Latin text and to
    0.8 of the body of Chinese characters.
    """
    import cv2

    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    shrink = min(1.0, _MOST_SIDE / max(grey.shape))
    if shrink < 1:
        grey = cv2.resize(grey, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    best = Letters(np.zeros((0, 4)), np.zeros((0, 4)), None)
    for flag, offset in ((cv2.THRESH_BINARY_INV, 15), (cv2.THRESH_BINARY, -15)):
        mask = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, flag, 31, offset)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        x, y, width, height, size = (stats[1:, i].astype(np.float64) for i in range(5))
        boxes = np.stack([x, y, x + width, y + height], axis=1) / shrink
        full = width * height
        mark = (height >= 3) & (height <= 120) & (width <= 6 * height) & (height <= 8 * width) & (size > 0.12 * full)
        letter = (
            mark
            & (height >= 4)
            & (width >= 2)
            & (height <= 6 * width)
            & (size > 0.15 * full)
            & (size < 0.98 * full + 4)
        )
        count = int(letter.sum())
        if count > 3 * len(best.boxes_N4):
            known = float(np.median(height[letter])) / shrink if count >= _FEW else None
            best = Letters(boxes[letter], boxes[mark], known)
    return best


def small_print(letters: Letters, size: tuple[int, int]) -> list[tuple[Box, float]]:
    """Areas whose letters are clearly smaller than the page's: (box, x-height there), in page pixels.

    size: the page's width and height. An area holds at least 25 small letters.
    """
    import cv2

    if letters.x_height is None:
        return []
    heights = letters.boxes_N4[:, 3] - letters.boxes_N4[:, 1]
    middle = (letters.boxes_N4[:, :2] + letters.boxes_N4[:, 2:]) / 2
    cell = 5.0 * letters.x_height
    cols, rows = int(size[0] / cell) + 1, int(size[1] / cell) + 1
    column = np.clip((middle[:, 0] / cell).astype(int), 0, cols - 1)
    row = np.clip((middle[:, 1] / cell).astype(int), 0, rows - 1)
    place = row * cols + column
    flags = np.zeros(rows * cols, np.uint8)
    order = np.argsort(place, kind="stable")
    for chunk in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
        if len(chunk) >= 4 and np.percentile(heights[chunk], 70) < 0.74 * letters.x_height:
            flags[place[chunk[0]]] = 1
    grown = cv2.morphologyEx(flags.reshape(rows, cols), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(grown, connectivity=8)
    found = []
    for label in range(1, count):
        inside = labels[row, column] == label
        if inside.sum() >= 25:
            x, y, w, h = (float(stats[label, i]) for i in range(4))
            box = (max(0.0, (x - 1) * cell), max(0.0, (y - 1) * cell), (x + w + 1) * cell, (y + h + 1) * cell)
            clipped = (box[0], box[1], min(box[2], float(size[0])), min(box[3], float(size[1])))
            found.append((clipped, float(np.median(heights[inside]))))
    return found


def lone_marks(letters: Letters, lines: Sequence[TextLineBox], taken: Sequence[Box]) -> list[TextLineBox]:
    """Short isolated texts that no line covers, such as a page number of one digit, as new lines.

    taken: boxes of pictures and tables, whose ink is their own. Gives nothing when there are many candidates (dirt,
    drawings), or when a candidate's shapes do not stand in a row with the height of letters.
    """
    x_height = letters.x_height
    if x_height is None or not lines:
        return []
    boxes = letters.boxes_N4
    tall = boxes[:, 3] - boxes[:, 1]
    free = (tall > 0.85 * x_height) & (tall < 2.4 * x_height)
    slack = 0.5 * x_height
    for b in [line.box for line in lines] + list(taken):
        free &= ~(
            (boxes[:, 0] < b[2] + slack)
            & (boxes[:, 2] > b[0] - slack)
            & (boxes[:, 1] < b[3] + slack)
            & (boxes[:, 3] > b[1] - slack)
        )
    groups: list[list[Box]] = []
    for x0, y0, x1, y1 in sorted(map(tuple, boxes[free].tolist())):
        for group in groups:
            last = group[-1]
            level = overlap(y0, y1, last[1], last[3]) > 0.5 * min(y1 - y0, last[3] - last[1])
            if level and x0 - last[2] < 1.5 * x_height:
                group.append((x0, y0, x1, y1))
                break
        else:
            groups.append([(x0, y0, x1, y1)])
    if len(groups) > _MOST_MARKS:
        return []
    result = []
    for group in groups:
        box = hull(group)
        if box[3] - box[1] > 2.6 * x_height or not _apart(box, letters.marks_M4, x_height):
            continue
        pad = 0.35 * x_height
        wide = (box[0] - pad, box[1] - pad, box[2] + pad, box[3] + pad)
        result.append(TextLineBox(quad=quad_of(wide), box=wide, score=0.5))
    return result


def _apart(box: Box, marks_M4: npt.NDArray[np.float64], x_height: float) -> bool:
    """Whether nothing else of a letter's size stands within two x-heights (true of a page number, not of dirt or a
    drawing).
    """
    reach = 2 * x_height
    near = (marks_M4[:, 0] < box[2] + reach) & (marks_M4[:, 2] > box[0] - reach)
    near &= (marks_M4[:, 1] < box[3] + reach) & (marks_M4[:, 3] > box[1] - reach)
    inside = (marks_M4[:, 0] >= box[0] - 1) & (marks_M4[:, 2] <= box[2] + 1)
    inside &= (marks_M4[:, 1] >= box[1] - 1) & (marks_M4[:, 3] <= box[3] + 1)
    return not bool((near & ~inside).any())


def take_in_bullets(letters: Letters, lines: Sequence[TextLineBox]) -> list[TextLineBox]:
    """Lines with a bullet to their left are widened to hold it and get marker=True.

    A bullet is one compact shape, 0.25 to 1.1 x-heights large, at the height of the small letters, within 3 box
    heights of the line and alone on its row there.
    """
    marks = letters.marks_M4
    if not len(marks):
        return list(lines)
    result = []
    for line in lines:
        x0, y0, x1, y1 = line.box
        height, middle = line.height, line.centre[1]
        if line.vertical or line.words:
            result.append(line)
            continue
        near = (marks[:, 2] <= x0 + 0.2 * height) & (marks[:, 2] > x0 - 3 * height)
        near &= (marks[:, 1] < y1) & (marks[:, 3] > y0)
        rest = marks[near]
        if len(rest) == 1 and not any(_beside(line, other) for other in lines):
            bx0, by0, bx1, by1 = rest[0]
            size = by1 - by0
            compact = 0.6 < (bx1 - bx0) / size < 1.7 and 0.12 * height < size < 0.55 * height
            if compact and abs((by0 + by1) / 2 - middle) < 0.22 * height and bx0 < x0 - 0.1 * height:
                box = (float(bx0) - 0.15 * height, y0, x1, y1)
                tl, tr, br, bl = line.quad
                result.append(replace(line, quad=((box[0], tl[1]), tr, br, (box[0], bl[1])), box=box, marker=True))
                continue
        result.append(line)
    return result


def _beside(line: TextLineBox, other: TextLineBox) -> bool:
    """Whether another line ends just to the left of a line, on its row."""
    if other is line or overlap(line.box[1], line.box[3], other.box[1], other.box[3]) < 0.4 * min(
        line.height, other.height
    ):
        return False
    return other.box[0] < line.box[0] and other.box[2] > line.box[0] - 3 * line.height

"""Can a PDF's own words be believed? Answers for a page and for a region, from the words and from the picture; no
model.

The hidden text of a scan, fonts without a mapping to Unicode, words off the page, words where nothing is printed, print
where no words are, and character salad all make words untrustworthy: reading the picture is then the better source.
Does not correct words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from derender.ingest.types import Box, Word

_BAD_FONT = 0.1  # share of characters in words without a sound mapping
_HIDDEN = 0.5
_OFF_PAGE = 0.3
_NO_INK = 0.3  # share of words without any ink below them
_UNCOVERED = 0.4  # share of letter-sized ink that no word accounts for
_MIN_UNCOVERED = 6
_INK_SHARE = 0.01
_LEADERS = re.compile(r"([.\u00b7_\u2026\-\u2013\u2014*=~])[\s\1]*\1+")
_VOWELS = frozenset("aeiouy")


@dataclass(frozen=True)
class Trust:
    """Verdict on words: ok, and when not, why. The shares (0-1, by characters) are what it rests on."""

    ok: bool
    reason: str
    hidden: float = 0.0
    bad_font: float = 0.0
    off_page: float = 0.0


def judge_words(words: Sequence[Word], page_box: Box) -> Trust:
    """Verdict on a page's words without its picture. page_box: (0, 0, width, height) in points."""
    total = sum(len(word.text) for word in words)
    if total == 0:
        return Trust(False, "there are no words")

    def share(chosen: Sequence[Word]) -> float:
        return sum(len(word.text) for word in chosen) / total

    hidden = share([word for word in words if not word.visible])
    bad_font = share([word for word in words if not word.font_ok])
    off_page = share([word for word in words if not _inside(word.box, page_box)])
    reason = ""
    if hidden > _HIDDEN:
        reason = "the words are invisible"
    elif bad_font > _BAD_FONT:
        reason = "the font has no sound mapping to Unicode"
    elif off_page > _OFF_PAGE:
        reason = "the words lie off the page"
    else:
        reason = noise(" ".join(word.text for word in words))
    return Trust(not reason, reason, hidden, bad_font, off_page)


def trustworthy(words: Sequence[Word], ink: np.ndarray | None = None, box: Box | None = None) -> tuple[bool, str]:
    """Whether a region's words may stand for what is printed there, and if not, why.

    words: those whose centre lies in the region. ink: (H, W) uint8 grey picture of the region; box: the region in
    points, needed with `ink` to place the words in it. Without a picture only the words themselves are judged.
    """
    verdict = judge_words(words, box or (float("-inf"), float("-inf"), float("inf"), float("inf")))
    # A word's centre lies in the region by definition, so only a page-level verdict speaks of words off the page.
    if not verdict.ok:
        return False, verdict.reason
    if ink is None or ink.size == 0:
        return True, ""
    if box is None:
        raise ValueError("trustworthy needs the region's box to place words in its picture")
    reason = _disagreement(words, ink, box)
    return not reason, reason


def noise(text: str) -> str:
    """Why `text` cannot be language, figures or a formula; empty when it can. Short texts are given the benefit of
    doubt."""
    text = _LEADERS.sub(" ", unicodedata.normalize("NFKD", text))
    seen = [char for char in text if not char.isspace() and not unicodedata.combining(char)]
    if len(seen) < 4:
        return ""
    if sum(unicodedata.category(char) in ("Cc", "Co", "Cs") or char == "\ufffd" for char in seen) > 0.1 * len(seen):
        return "many characters mean nothing"
    letters = [char for char in seen if char.isalpha()]
    if len(letters) + sum(char.isnumeric() for char in seen) < 0.35 * len(seen):
        return "the characters are mostly symbols"
    latin = [char.lower() for char in letters if "LATIN" in unicodedata.name(char, "")]
    # A shifted encoding ("7KLV LV" for "This is") keeps the letter count but not the vowels: 0.35-0.48 in European
    # languages, about 0.14 after the usual shift by 29. Codes and acronyms can be as low, so it takes many letters.
    if len(latin) >= 40 and len(latin) > 0.8 * len(letters):
        vowels = sum(char in _VOWELS for char in latin) / len(latin)
        if not 0.2 <= vowels <= 0.75:
            return "the letters do not form words"
    return ""


def _inside(box: Box, page: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return page[0] <= x <= page[2] and page[1] <= y <= page[3]


def _disagreement(words: Sequence[Word], ink: np.ndarray, box: Box) -> str:
    import cv2

    from derender.ingest.blank import ink_mask

    height, width = ink.shape[:2]
    scale_x, scale_y = width / max(box[2] - box[0], 1e-6), height / max(box[3] - box[1], 1e-6)
    mask = ink_mask(np.ascontiguousarray(ink))
    covered = np.zeros((height, width), dtype=bool)
    judged = empty = 0
    heights: list[float] = []
    for word in words:
        x0, x1 = (word.box[0] - box[0]) * scale_x, (word.box[2] - box[0]) * scale_x
        y0, y1 = (word.box[1] - box[1]) * scale_y, (word.box[3] - box[1]) * scale_y
        # Rounded outwards and widened: glyphs overshoot their boxes, and accents stand above the ascent.
        pad = 0.15 * min(x1 - x0, y1 - y0) + 1
        rows = slice(_clip(y0 - pad, height), _clip(y1 + pad, height))
        columns = slice(_clip(x0 - pad, width), _clip(x1 + pad, width))
        covered[rows, columns] = True
        upright = round(word.angle / 90) % 2 == 0
        heights.append(min(x1 - x0, y1 - y0) if word.vertical else y1 - y0 if upright else x1 - x0)
        below = mask[rows, columns]
        if below.size >= 9 and any(char.isalnum() for char in word.text):
            judged += 1
            empty += bool(below.mean() < _INK_SHARE)
    if judged and empty > _NO_INK * judged:
        return "nothing is printed where the words are"
    letter = float(np.median(heights)) if heights else 10.0
    _, _, stats, centres = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    wide, high = stats[1:, cv2.CC_STAT_WIDTH], stats[1:, cv2.CC_STAT_HEIGHT]
    # Only what could be a letter: rules, frames, pictures, dots and dust prove nothing about missing words.
    letters = (high >= 0.25 * letter) & (high <= 2.5 * letter) & (wide >= 0.1 * letter) & (wide <= 4 * letter)
    x, y = centres[1:][letters].astype(int).T
    total, uncovered = len(x), int((~covered[y.clip(0, height - 1), x.clip(0, width - 1)]).sum())
    if uncovered >= _MIN_UNCOVERED and uncovered > _UNCOVERED * total:
        return "much is printed where there are no words"
    return ""


def _clip(value: float, limit: int) -> int:
    return int(min(max(value, 0), limit))


def near_page(words: Sequence[Word], width: float, height: float) -> list[Word]:
    """Words not more than a page's size off the page (points), their boxes cut to that. A damaged file may give any
    size and place; what comes after counts in bands and pixels.
    """
    out = []
    for word in words:
        x0, y0, x1, y1 = word.box
        box = (max(x0, -width), max(y0, -height), min(x1, 2 * width), min(y1, 2 * height))
        if box[0] <= box[2] and box[1] <= box[3]:
            out.append(word if box == word.box else replace(word, box=box))
    return out

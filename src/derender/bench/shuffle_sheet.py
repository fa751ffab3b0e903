"""A page as words that can be moved: their pictures, the lines they stand in, and the same page set with other words.

A `Sheet` is a background without its movable words, the words (each with its own picture, so font, size and weight go
with it) and the slots, one a line of text. `shuffle` permutes a share of the words among words of one group (one font
size); `compose` sets them again in the same lines, with the same measure and word space. Nothing is read or scored.

All lengths are pixels of the sheet's own picture, origin top left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]  # (height, width), ink dark on light

SHRINK, STRETCH = 0.2, 0.9
"""How much of the word space a line may take away or add, in shares of it, before it runs long or stays short."""
TIGHT = 12.0
"""Setting a line tighter than natural costs this much more than setting it looser."""
LOOSE_END = 0.02
"""What a line that need not fill its measure costs when it ends early or late, as a share of what others pay."""


@dataclass(frozen=True)
class Piece:
    """One movable word. ink: (H, W) its picture; rise: pixels from the picture's top row down to the slot's foot;
    width: what it takes up on the line (the picture may be wider by `before` pixels on the left)."""

    text: str
    ink: Gray
    rise: int
    width: float
    before: int = 0


@dataclass(frozen=True)
class Slot:
    """One line of text: from x0 to x1, its foot at y. group: words move only between slots of one group.

    justify: the line fills its measure; else it keeps the natural word space and may end early, or late up to `limit`
    (default: x1). fixed: its text, for lines that stay in the background as they are.
    """

    x0: float
    x1: float
    foot: int
    group: int = 0
    justify: bool = True
    fixed: str = ""
    limit: float = 0.0

    @property
    def measure(self) -> float:
        return self.x1 - self.x0


@dataclass(frozen=True)
class Sheet:
    """words[g], spaces[g] and counts[g] belong to group g: the words in reading order, the natural word space, and how
    many words its lines have on the original page."""

    name: str
    background: Gray
    slots: tuple[Slot, ...]
    words: tuple[tuple[Piece, ...], ...]
    spaces: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    dpi: float


def shuffle(words: Sequence[Piece], fraction: float, rng: np.random.Generator) -> list[Piece]:
    """The words with `fraction` of them (0-1), chosen at random, permuted at random among their places.

    For one state of `rng` the words chosen for a smaller fraction are among those of a larger one.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"a fraction lies between 0 and 1, not {fraction}")
    order, keys = rng.permutation(len(words)), rng.random(len(words))
    chosen = np.sort(order[: round(fraction * len(words))])
    out = list(words)
    for place, source in zip(chosen, chosen[np.argsort(keys[chosen])], strict=True):
        out[place] = words[source]
    return out


def break_lines(widths: Sequence[float], slots: Sequence[Slot], space: float) -> list[int]:
    """Numbers of words on each line: all words, at least one a line, the least total badness (Knuth and Plass 1981).

    Badness of a line: (slack / word space / gaps) squared, times TIGHT where it is too long and LOOSE_END where it need
    not fill its measure. Raises ValueError when there are fewer words than lines.
    """
    n, lines = len(widths), len(slots)
    if n < lines:
        raise ValueError(f"{n} words cannot fill {lines} lines")
    if lines == 0:
        return []
    ends = np.concatenate([[0.0], np.cumsum(np.asarray(widths, np.float64) + space)])
    best = np.full((lines + 1, n + 1), np.inf)
    best[0, 0] = 0.0
    back = np.zeros((lines + 1, n + 1), np.int64)
    for line, slot in enumerate(slots):
        most = n - (lines - line - 1)  # every later line needs a word
        longest = 1.6 * max(slot.measure, slot.limit - slot.x0)
        for start in np.flatnonzero(np.isfinite(best[line])).tolist():
            # a line far too long is never part of the best; one word always may be, however long it is
            far = int(np.searchsorted(ends, ends[start] + longest + space))
            stops = np.arange(start + 1, min(max(start + 1, far), most) + 1)
            total = best[line, start] + _badness(slot, ends[stops] - ends[start] - space, stops - start - 1, space)
            better = total < best[line + 1, stops]
            best[line + 1, stops[better]] = total[better]
            back[line + 1, stops[better]] = start
    if not np.isfinite(best[lines, n]):  # the lines are too short for what is left: the last one runs on
        return [1] * (lines - 1) + [n - lines + 1]
    counts: list[int] = []
    stop = n
    for line in range(lines, 0, -1):
        start = int(back[line, stop])
        counts.append(stop - start)
        stop = start
    return counts[::-1]


def _badness(
    slot: Slot, natural: npt.NDArray[np.float64], gaps: npt.NDArray[np.int64], space: float
) -> npt.NDArray[np.float64]:
    """Of lines whose natural lengths are `natural`, in pixels, with so many spaces."""
    slack = (slot.measure - natural) / space
    if slot.justify:
        return (slack / np.maximum(gaps, 1)) ** 2 * np.where(slack < 0, TIGHT, 1.0)
    over = np.maximum(natural - max(slot.measure, slot.limit - slot.x0), 0) / space
    return LOOSE_END * (slack / np.maximum(gaps, 1)) ** 2 + TIGHT * (over / np.maximum(gaps, 1)) ** 2


def compose(sheet: Sheet, fraction: float, seed: int) -> tuple[Gray, str]:
    """The page's picture (H, W) with a share of its words permuted, and its text, a line of text a line.

    fraction 0 keeps the lines of the original page; otherwise lines are broken anew, for the words have other widths.
    """
    page = sheet.background.copy()
    texts: list[str] = [slot.fixed for slot in sheet.slots]
    for group, words in enumerate(sheet.words):
        mine = [i for i, slot in enumerate(sheet.slots) if slot.group == group and not slot.fixed]
        moved = shuffle(words, fraction, np.random.default_rng((seed, group)))
        space = sheet.spaces[group]
        slots = [sheet.slots[i] for i in mine]
        counts = break_lines([w.width for w in moved], slots, space) if fraction else sheet.counts[group]
        at = 0
        for i, count in zip(mine, counts, strict=True):
            line = moved[at : at + count]
            at += count
            _set_line(page, sheet.slots[i], line, space)
            texts[i] = " ".join(w.text for w in line)
    return page, "\n".join(texts)


def _set_line(page: Gray, slot: Slot, line: Sequence[Piece], space: float) -> None:
    gaps = len(line) - 1
    slack = slot.x1 - slot.x0 - sum(w.width for w in line) - space * gaps
    over = max(slot.x1, slot.limit) - slot.x1 + slack
    change = (slack if slot.justify else min(over, 0.0)) / gaps if gaps else 0.0
    gap = space + min(max(change, -SHRINK * space), STRETCH * space)
    x = slot.x0
    for word in line:
        _paste(page, word.ink, slot.foot - word.rise, round(x) - word.before)
        x += word.width + gap


def _paste(page: Gray, ink: Gray, top: int, left: int) -> None:
    """Darkens the page by a word's picture; what falls outside is cut."""
    y0, x0 = max(0, top), max(0, left)
    y1, x1 = min(page.shape[0], top + ink.shape[0]), min(page.shape[1], left + ink.shape[1])
    if y1 > y0 and x1 > x0:
        part = page[y0:y1, x0:x1]
        np.minimum(part, ink[y0 - top : y1 - top, x0 - left : x1 - left], out=part)

"""Passages of a read document that a query is found in, also where either has a few wrong letters.

A passage is a block: a paragraph with all its parts, a heading, a table, a caption. Compares letters, not meanings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rapidfuzz import fuzz

from derender.assemble.blocks import Block, blocks
from derender.document import Document, Page, Region

CUTOFF = 80.0
_ALL_WORDS = 0.9  # what finding the words anywhere is worth against finding them side by side
_AROUND = 160  # characters shown on each side of what was found


@dataclass(frozen=True)
class Hit:
    """score: 0-100, 100 for the query as it stands. text: an excerpt. parts: (page, region) of the whole passage."""

    score: float
    text: str
    parts: tuple[tuple[Page, Region], ...]


def search(document: Document, query: str) -> list[Hit]:
    """All passages that fit, best first, equals in reading order."""
    wanted, _ = fold(query)
    if not wanted:
        return []
    hits = [hit for block in _all(blocks(document, keep_paratext=True)) if (hit := _match(block, wanted)) is not None]
    return sorted(hits, key=lambda hit: -hit.score)


def _all(found: Iterable[Block]) -> Iterator[Block]:
    for block in found:
        yield block
        yield from _all(block.captions)


def _match(block: Block, wanted: str) -> Hit | None:
    text = passage_text(block)
    folded, places = fold(text)
    if not folded:
        return None
    if len(folded) < len(wanted):
        # A short text is inside of many a query: it must be the query, not a part of it.
        score, start, end = fuzz.ratio(wanted, folded, score_cutoff=CUTOFF), 0, len(folded)
    else:
        found = fuzz.partial_ratio_alignment(wanted, folded, score_cutoff=CUTOFF)
        score, start, end = (found.score, found.dest_start, found.dest_end) if found else (0.0, 0, 0)
        words = _ALL_WORDS * fuzz.token_set_ratio(" ".join(_words(wanted)), " ".join(_words(folded)))
        if words >= CUTOFF and words > score:
            score, start, end = words, *_first_word(wanted, folded)
    if score < CUTOFF:
        return None
    low = max(0, places[start] - _AROUND)
    high = min(len(text), places[min(end, len(places)) - 1] + 1 + _AROUND)
    shown = ("…" if low else "") + " ".join(text[low:high].split()) + ("…" if high < len(text) else "")
    return Hit(round(score, 1), shown, tuple(block.parts))


def _words(folded: str) -> list[str]:
    return re.findall(r"\w+", folded)


def _first_word(wanted: str, folded: str) -> tuple[int, int]:
    at = {word: place for word in _words(wanted) if (place := folded.find(word)) >= 0}
    longest = max(at, key=len, default="")
    return (at[longest], at[longest] + len(longest)) if at else (0, 1)


def passage_text(block: Block) -> str:
    """The block's text, a table's row by row, a formula's LaTeX beside it."""
    if block.cells:
        rows: dict[int, list[str]] = {}
        for cell in sorted(block.cells, key=lambda cell: (cell.row, cell.col)):
            rows.setdefault(cell.row, []).append(cell.text)
        return "\n".join(" | ".join(row) for row in rows.values())
    return " ".join(filter(None, [block.text, block.region.latex]))


def fold(text: str) -> tuple[str, list[int]]:
    """`text` without differences of case, width, accents and spaces; and where in it each character came from."""
    out: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        for folded in unicodedata.normalize("NFKD", char).casefold():
            if unicodedata.combining(folded):
                continue
            if folded.isspace():
                if not out or out[-1] == " ":
                    continue
                folded = " "
            out.append(folded)
            places.append(place)
    if out and out[-1] == " ":
        out.pop()
        places.pop()
    return "".join(out), places

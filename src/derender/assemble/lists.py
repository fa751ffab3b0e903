"""Lists: finding items in a region's lines, and the plain form that Region.text gives a list: one item a line.

The plain form is "- item" for a bullet and "3. item" or "3) item" for a number, indented by four spaces a level (what
Markdown needs for any marker). Other markers ("(a)", "iv.") stay in the item's text after "- ". Item text is cut out of
Region.text, so nothing read is lost or changed. Does not guess lists from indentation alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rapidfuzz.distance import Levenshtein, Opcodes

from derender.assemble.contents import ends_row
from derender.assemble.join import join_lines
from derender.document import Document, Line, Page, Region, RegionType

_SURE = "\u2022\u25aa\u25e6\u2023\u25cf\u25a0\u25a1\u25cb\u2043\u2219\u2756\u27a2\u2713\u2714\u25ba\u25b8\uf0b7\uf0a7"
_BULLET = re.compile(rf"^(?P<mark>[{_SURE}])\s*(?=\S)|^(?P<weak>[-*\u2013\u2014\u00b7o])\s+(?=\S)")
_NUMBER = re.compile(r"^(?P<open>\(?)(?P<value>\d{1,3}|[a-z]|[ivx]{1,5}|[A-Z]|[IVX]{1,5})(?P<close>[.)])\s+(?=\S)")
_CIRCLED = re.compile(r"^[\u2460-\u2473]\s*(?=\S)")
_ITEM = re.compile(r"^(?P<indent> *)(?:-|(?P<number>\d{1,9})(?P<close>[.)])) (?P<text>.*)$")
INDENT = 4


@dataclass(frozen=True)
class Item:
    """One item of a list in plain form. number is None for a bullet; text holds no marker.

    lead: not an item but the words before the first one ("We need:").
    """

    depth: int
    number: int | None
    close: str
    text: str
    lead: bool = False


def parse_items(text: str) -> list[Item]:
    """Items of a list in plain form. A line without a marker belongs to what is above it; the first is a lead."""
    items: list[Item] = []
    for line in text.split("\n"):
        match = _ITEM.match(line)
        if match is not None:
            number = match.group("number")
            depth = len(match.group("indent")) // INDENT
            if items and not items[-1].lead:
                depth = min(depth, items[-1].depth + 1)
            items.append(
                Item(depth, int(number) if number else None, match.group("close") or "", match.group("text").strip())
            )
        elif line.strip():
            old = items.pop() if items else Item(0, None, "", "", lead=True)
            items.append(replace(old, text=f"{old.text} {line.strip()}".strip()))
    return items


def mark_lists(doc: Document) -> Document:
    """Text regions whose lines open with markers become lists; the text of all lists is brought to the plain form."""
    return doc.model_copy(update={"pages": [_mark_page(page) for page in doc.pages]})


@dataclass
class _Found:
    """A list before its text is written: lead, items as read (marker included), their left edges, height of a line."""

    region: Region
    lead: list[str]
    pieces: list[str]
    lefts: list[float]
    line: float


def _mark_page(page: Page) -> Page:
    ordered = sorted(page.regions, key=lambda region: region.order)
    changed: dict[int, Region] = {}
    run: list[_Found] = []
    for i, region in enumerate(ordered):
        if region.type is RegionType.REFERENCE:
            changed[id(region)] = _split_references(region)
        elif region.type is RegionType.LIST and _has_rows(region.text):
            changed[id(region)] = region.model_copy(update={"type": RegionType.TEXT})
        neighbours = ordered[max(i - 1, 0) : i] + ordered[i + 1 : i + 2]
        found = _find_items(region, neighbours)
        if found is None or (run and abs(run[0].region.box[0] - region.box[0]) > 0.2 * page.width):
            changed.update(_write_run(run))
            run = []
        if found is not None:
            run.append(found)
    changed.update(_write_run(run))
    return page.model_copy(update={"regions": [changed.get(id(region), region) for region in page.regions]})


def _has_rows(text: str) -> bool:
    """Whether a list's text is rows of contents: on lines, with a leader, and none of them an item."""
    rows = text.strip().split("\n")
    return len(rows) > 1 and any(map(ends_row, rows)) and not any(map(_ITEM.match, rows))


def _find_items(region: Region, neighbours: list[Region]) -> _Found | None:
    """The items of a list; None for what is no list, and for a list whose text has its items on lines already."""
    if region.type not in (RegionType.TEXT, RegionType.LIST) or "\n" in region.text.strip():
        return None
    lines = [line for line in region.lines if line.text.strip()]
    sure = region.type is RegionType.LIST or any(_consecutive(region, other) for other in neighbours)
    starts = _item_starts(lines, sure)
    bulleted = any(lines[i].text.lstrip()[:1] in _SURE for i in starts)
    if not starts or (
        region.type is RegionType.TEXT and not (sure or bulleted or (len(starts) > 1 and starts[0] <= 1))
    ):
        return None
    pieces = _cut(region.text, lines, starts if starts[0] == 0 else [0, *starts])
    lead = [] if starts[0] == 0 else [pieces.pop(0)]
    heights = sorted(line.box[3] - line.box[1] for line in lines)
    return _Found(region, lead, pieces, [lines[i].box[0] for i in starts], heights[len(heights) // 2])


def _consecutive(a: Region, b: Region) -> bool:
    """Whether two regions open with neighbouring numbers of one kind, or with the same dash: items set apart."""
    if b.type not in (RegionType.TEXT, RegionType.LIST) or not a.lines or not b.lines:
        return False
    first, second = (region.lines[0].text.strip() for region in (a, b))
    if _BULLET.match(first) and _BULLET.match(second):
        return first[0] == second[0]
    one, two = _NUMBER.match(first), _NUMBER.match(second)
    if one is None or two is None or one.group("open", "close") != two.group("open", "close"):
        return False
    numbers = _values(one.group("value"))
    return any(kind == other and abs(x - y) == 1 for kind, x in numbers for other, y in _values(two.group("value")))


def _write_run(run: list[_Found]) -> dict[int, Region]:
    """The regions of neighbouring lists with their text in plain form; nesting is measured over all of them."""
    depths = iter(_depths([left for found in run for left in found.lefts], [found.line for found in run]))
    result = {}
    for found in run:
        items = [
            " " * (INDENT * depth) + _plain(piece) for piece, depth in zip(found.pieces, depths, strict=False) if piece
        ]
        update = {"type": RegionType.LIST, "text": "\n".join([*found.lead, *items]), "level": None}
        result[id(found.region)] = found.region.model_copy(update=update)
    return result


def _item_starts(lines: list[Line], sure: bool) -> list[int]:
    """Indices of the lines that open an item: bullets, and numbers where they count up (or letters, roman numerals).

    sure: something else says that this is a list, so that a single mark at its start is enough.
    """
    starts: list[int] = []
    expected: dict[tuple[str, str], int] = {}
    for i, line in enumerate(lines):
        text = line.text.strip()
        if _BULLET.match(text) or _CIRCLED.match(text):
            starts.append(i)
            continue
        match = _NUMBER.match(text)
        if match is None:
            continue
        kinds = [
            (match.group("open") + kind + match.group("close"), value) for kind, value in _values(match.group("value"))
        ]
        for kind, value in kinds:
            key = (kind, "")
            opens = i == 0 or value == 1
            if opens or expected.get(key) == value:
                starts.append(i)
                for other, number in kinds:
                    expected[(other, "")] = number + 1
                break
    numbered = [i for i in starts if not _BULLET.match(lines[i].text.strip())]
    weak = [i for i in starts if i not in numbered and lines[i].text.strip()[0] not in _SURE]
    # One dash, one "o", or one "1." can be anything: a second one must confirm it.
    for group in (numbered, weak):
        if len(group) == 1 and not (sure and group[0] == 0):
            starts.remove(group[0])
    return starts


def _values(value: str) -> list[tuple[str, int]]:
    if value.isdigit():
        return [("1", int(value))]
    result = []
    if len(value) == 1:
        result.append(("a" if value.islower() else "A", ord(value.lower()) - ord("a") + 1))
    roman = roman_value(value)
    if roman is not None:
        result.append(("i" if value.islower() else "I", roman))
    return result


def roman_value(text: str) -> int | None:
    """The value of a well-formed roman numeral up to 3999, in either case, else None."""
    if not re.fullmatch(r"m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})", text, re.IGNORECASE) or not text:
        return None
    digits = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}[char] for char in text.lower()]
    return sum(-a if a < b else a for a, b in zip(digits, [*digits[1:], 0], strict=True))


def _cut(text: str, lines: list[Line], starts: list[int]) -> list[str]:
    """`text` cut where the lines in `starts` begin. text may be a better reading than the lines: edits are followed."""
    raw = [line.text for line in lines]
    offsets = [len(join_lines(raw[:i])) for i in starts[1:]]
    joined = join_lines(raw)
    if joined != text:
        opcodes = Levenshtein.opcodes(joined, text)
        offsets = [_follow(opcodes, offset) for offset in offsets]
    cuts = [0]
    for offset in offsets:
        cuts.append(max(cuts[-1], _snap(text, offset)))
    return [text[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _follow(opcodes: Opcodes, offset: int) -> int:
    for op in opcodes:
        if op.src_start <= offset <= op.src_end and op.src_end > op.src_start:
            span = max(op.src_end - op.src_start, 1)
            return op.dest_start + round((offset - op.src_start) * (op.dest_end - op.dest_start) / span)
    return 0


def _snap(text: str, offset: int) -> int:
    """The nearest place between words, so that no word is cut in two."""
    for step in range(12):
        for place in (offset + step, offset - step):
            if 0 < place < len(text) and text[place].isspace():
                return place
    return min(offset, len(text))


def _depths(lefts: list[float], heights: list[float]) -> list[int]:
    """Nesting from the left edges of the items: deeper when further in by most of a line's height."""
    step = 0.7 * (sorted(heights)[len(heights) // 2] if heights else 12.0)
    stack: list[float] = []
    depths = []
    for left in lefts:
        while len(stack) > 1 and left < stack[-1] - step:
            stack.pop()
        if not stack or left > stack[-1] + step:
            stack.append(left)
        depths.append(len(stack) - 1)
    return depths


def _plain(piece: str) -> str:
    bullet = _BULLET.match(piece)
    if bullet is not None:
        return "- " + piece[bullet.end() :]
    number = _NUMBER.match(piece)
    if number is not None and number.group("value").isdigit() and not number.group("open"):
        return f"{number.group('value')}{number.group('close')} {piece[number.end() :]}"
    return "- " + piece


_REFERENCE_START = re.compile(r"^(?:\[[\w+.,\- ]{1,12}\]|\d{1,3}\.)\s")


def _split_references(region: Region) -> Region:
    """A reference region with several "[12] ..." entries gets one entry a line."""
    lines = [line for line in region.lines if line.text.strip()]
    starts = [i for i, line in enumerate(lines) if _REFERENCE_START.match(line.text.strip() + " ")]
    if not starts or len(lines) < 2 or "\n" in region.text.strip():
        return region
    pieces = _cut(region.text, lines, starts if starts[0] == 0 else [0, *starts])
    return region.model_copy(update={"text": "\n".join(piece for piece in pieces if piece)})

"""Where shuffled pages come from: prose set here by Pillow, or pages of a PDF with a text layer.

Prose is Python's own language reference as every installation has it (`pydoc_data.topics`, PSF licence), or a text
file; so nothing is downloaded. Pages of a PDF are rendered and each word is cut out of the picture:
font, size and weight stay the document's own. Fragments of a word hyphenated at a line's end are
joined, hyphen kept, and move as one.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from derender.bench.shuffle_sheet import Gray, Piece, Sheet, Slot
from derender.errors import InputError
from derender.ingest.lines import words_to_lines
from derender.ingest.types import ReadOptions, TextLine, Word

DPI = 300.0
"""Pages are composed at this resolution and scaled down afterwards."""
PAGE_MM = (148, 210)
MARGIN_MM = 16
FEWEST = 20
"""Lines of a font size that has fewer words than this on the page stay as they are."""
ABOVE, BELOW = 0.86, 0.29
"""How far a word's picture reaches from the baseline, in font sizes: past ascenders and descenders, and no further."""
_PROSE = re.compile(r"[A-Z][A-Za-z0-9 ,.;:()'-]{120,}\.")


def built_in_prose() -> list[str]:
    """Paragraphs of English prose from Python's language reference, without quoted code."""
    from pydoc_data.topics import topics

    found: dict[str, None] = {}
    for _, text in sorted(topics.items()):
        for part in re.split(r"\n\s*\n", text):
            flat = " ".join(part.split())
            if part[:1].isalpha() and _PROSE.fullmatch(flat):
                found[flat] = None
    return list(found)


def prose_of_file(path: Path) -> list[str]:
    """Paragraphs (separated by blank lines) of a UTF-8 text file. Raises InputError where there is none."""
    try:
        parts = re.split(r"\n\s*\n", path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as text: {error}.") from error
    flat = [" ".join(part.split()) for part in parts]
    if not any(flat):
        raise InputError(f"{path.name} holds no text.")
    return [text for text in flat if text]


def prose_sheets(
    paragraphs: Sequence[str], pages: int, words: int, seed: int, font: Path | None = None, points: float = 10.0
) -> Iterator[Sheet]:
    """`pages` pages of about `words` words each, paragraphs in random order and each used once.

    font: a font file, by default Pillow's own. Raises InputError for a file that is no font, and where the text does
    not last for one page.
    """
    from PIL import ImageFont

    size = round(points * DPI / 72)
    try:
        face = ImageFont.truetype(str(font), size) if font else ImageFont.load_default(size)
    except OSError as error:
        raise InputError(f"{font.name if font else 'the font'} cannot be used: {error}.") from error
    order = list(np.random.default_rng(seed).permutation(len(paragraphs)))
    for number in range(pages):
        chosen: list[str] = []
        while order and sum(len(p.split()) for p in chosen) < words:
            chosen.append(paragraphs[order.pop()])
        if sum(len(p.split()) for p in chosen) < words:
            if number == 0:
                raise InputError(f"the text is too short for a page of {words} words.")
            return
        yield _set_prose(f"page {number + 1}", chosen, words, face, size)


def _set_prose(name: str, paragraphs: Sequence[str], most: int, face: object, size: int) -> Sheet:
    mm = DPI / 25.4
    width, height = round(PAGE_MM[0] * mm), round(PAGE_MM[1] * mm)
    left, right = MARGIN_MM * mm, width - MARGIN_MM * mm
    foot, pitch = round(MARGIN_MM * mm) + size, round(1.35 * size)
    space = face.getlength(" ")  # type: ignore[attr-defined]
    pieces: list[Piece] = []
    slots: list[Slot] = []
    counts: list[int] = []
    for paragraph in paragraphs:
        line: list[Piece] = []
        for text in paragraph.split()[: most - len(pieces)]:
            word = _draw(text, face, size)
            used = sum(w.width for w in line) + space * len(line)
            if line and used + word.width > right - left:
                slots.append(Slot(left, right, foot))
                counts.append(len(line))
                foot, line = foot + pitch, []
            line.append(word)
            pieces.append(word)
        if line:
            end = left + sum(w.width for w in line) + space * (len(line) - 1)
            slots.append(Slot(left, end, foot, justify=False, limit=right))
            counts.append(len(line))
            foot += pitch + round(0.4 * size)
    height = max(height, foot + round(MARGIN_MM * mm))
    blank = np.full((height, width), 255, np.uint8)
    return Sheet(name, blank, tuple(slots), (tuple(pieces),), (space,), (tuple(counts),), DPI)


def _draw(text: str, face: object, size: int) -> Piece:
    from PIL import Image, ImageDraw

    width = face.getlength(text)  # type: ignore[attr-defined]
    pad = size // 4  # letters may lean out of their advance
    image = Image.new("L", (int(width) + 2 * pad + 1, 2 * size), 255)
    ImageDraw.Draw(image).text((pad, round(1.4 * size)), text, font=face, fill=0, anchor="ls")  # type: ignore[arg-type]
    return Piece(text, np.asarray(image), round(1.4 * size), width, pad)


def pdf_sheets(path: Path, pages: str | None = None) -> Iterator[Sheet]:
    """Pages of a PDF as sheets. Raises InputError when it is no PDF or none of its pages has enough words to move."""
    from derender.ingest.source import open_source, parse_pages

    found = False
    with open_source(path, options=ReadOptions(dpi=DPI)) as source:
        if source.kind != "pdf":
            raise InputError(f"{path.name} is no PDF: pages are made from a PDF's words or from text.")
        for number in parse_pages(pages, source.page_count) if pages else range(1, source.page_count + 1):
            opened = source.page(number)
            picture = np.ascontiguousarray(opened.image @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)
            sheet = sheet_of_words(f"{path.name} page {number}", picture, opened.words(), opened.dpi)
            opened.release()
            if sheet is not None:
                found = True
                yield sheet
    if not found:
        raise InputError(f"{path.name} has no page with {FEWEST} words of one size that can be moved.")


def sheet_of_words(name: str, picture: Gray, words: Sequence[Word], dpi: float) -> Sheet | None:
    """The page's upright, visible words cut out of its picture (H, W); None where too few can be moved.

    words: boxes in points of the page that `picture` shows at `dpi`.
    """
    k = dpi / 72
    usable = [w for w in words if w.visible and w.font_ok and not w.vertical and abs(w.angle) < 1]
    lines = words_to_lines(usable)
    sizes = [round(2 * line.font_size) / 2 for line in lines]
    number = {size: sum(len(ln.words) for ln, s in zip(lines, sizes, strict=True) if s == size) for size in sizes}
    groups = {size: i for i, size in enumerate(s for s, n in number.items() if n >= FEWEST)}
    if not groups:
        return None
    feet = _baselines(lines, sizes, picture, k)
    background = picture.copy()
    pieces: list[list[Piece]] = [[] for _ in groups]
    gaps: list[list[float]] = [[] for _ in groups]
    counts: list[list[int]] = [[] for _ in groups]
    slots: list[Slot] = []
    open_end: dict[int, bool] = {}
    for line, size, foot in zip(lines, sizes, feet, strict=True):
        if size not in groups:
            slots.append(Slot(0, 0, 0, -1, fixed=line.text))
            continue
        group = groups[size]
        cut, spaces = _cut_line(line, foot, picture, background, k)
        gaps[group] += spaces
        if open_end.get(group):
            pieces[group][-1] = _glue(pieces[group][-1], cut.pop(0))
        open_end[group] = line.hyphen
        if cut:
            pieces[group] += cut
            counts[group].append(len(cut))
            slots.append(Slot(line.box[0] * k, line.box[2] * k, foot, group))
    natural = tuple(statistics.median(g) if g else 0.25 * s * k for g, s in zip(gaps, groups, strict=True))
    return Sheet(
        name, background, _ragged(slots, dpi), tuple(map(tuple, pieces)), natural, tuple(map(tuple, counts)), dpi
    )


def _baselines(lines: Sequence[TextLine], sizes: Sequence[float], picture: Gray, k: float) -> list[int]:
    """Row of each line's baseline: under it the ink falls off most, and lines of one size agree where that is."""
    bottoms = [statistics.median(w.box[3] for w in line.words) * k for line in lines]
    offsets: dict[float, list[float]] = {}
    for line, size, bottom in zip(lines, sizes, bottoms, strict=True):
        low, high = max(0, int(bottom - 0.6 * size * k)), min(picture.shape[0], int(bottom + 0.1 * size * k) + 1)
        ink = 255.0 - picture[low:high, max(0, int(line.box[0] * k)) : int(line.box[2] * k) + 1].mean(axis=1)
        if len(ink) > 4:
            fall = ink[:-2] - ink[2:]
            offsets.setdefault(size, []).append(bottom - (low + 1 + int(np.argmax(fall))))
    return [round(b - statistics.median(offsets.get(s, [0.0]))) for b, s in zip(bottoms, sizes, strict=True)]


def _cut_line(line: TextLine, foot: int, picture: Gray, background: Gray, k: float) -> tuple[list[Piece], list[float]]:
    """The line's words as pieces (erased from the background), those that touch as one; and the spaces between.

    Pieces reach from ABOVE to BELOW the baseline, so that they take no ink of neighbouring lines along.
    """
    runs: list[list[Word]] = []
    spaces: list[float] = []
    for word in line.words:
        gap = word.box[0] - runs[-1][-1].box[2] if runs else 0.0
        if runs and gap < 0.08 * line.font_size:
            runs[-1].append(word)
        else:
            if runs:
                spaces.append(gap * k)
            runs.append([word])
    pieces = []
    em = line.font_size * k
    pad = max(1, round(0.06 * em))
    y0, y1 = max(0, round(foot - ABOVE * em)), round(foot + BELOW * em)
    for run in runs:
        x0, x1 = run[0].box[0] * k, max(w.box[2] for w in run) * k
        a, b = max(0, int(x0) - pad), int(np.ceil(x1)) + pad
        ink = picture[y0:y1, a:b].copy()
        background[y0:y1, a:b] = 255
        pieces.append(Piece("".join(w.text for w in run), ink, foot - y0, x1 - x0, int(round(x0)) - a))
    return pieces, spaces


def _glue(head: Piece, tail: Piece) -> Piece:
    """Both parts of a hyphenated word side by side, their feet in line."""
    rise = max(head.rise, tail.rise)
    below = max(p.ink.shape[0] - p.rise for p in (head, tail))
    start = round(head.before + head.width)
    ink = np.full((rise + below, start + tail.ink.shape[1]), 255, np.uint8)
    for part, x in ((head, 0), (tail, start - tail.before)):
        top, x = rise - part.rise, max(0, x)
        target = ink[top : top + part.ink.shape[0], x : x + part.ink.shape[1]]
        np.minimum(target, part.ink[:, : target.shape[1]], out=target)
    return Piece(head.text + tail.text, ink, rise, head.width + tail.width, head.before)


def _ragged(slots: Sequence[Slot], dpi: float) -> tuple[Slot, ...]:
    """Lines whose end is shared by two other lines of their group are justified, the others not: these may run on to
    the nearest such end on their right."""
    near = 0.02 * dpi
    ends = [sum(abs(o.x1 - s.x1) < near and o.group == s.group for o in slots) for s in slots]
    out = []
    for slot, same in zip(slots, ends, strict=True):
        right = [o.x1 for o, n in zip(slots, ends, strict=True) if n >= 3 and o.group == slot.group and o.x1 >= slot.x1]
        limit = min(right, default=slot.x1)
        out.append(Slot(slot.x0, slot.x1, slot.foot, slot.group, same >= 3, slot.fixed, limit))
    return tuple(out)

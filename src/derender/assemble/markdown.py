"""Document -> Markdown (CommonMark with GitHub tables and dollar math). One block a region, one blank line between.

Escapes only what a Markdown reader would take for markup, so that rendering gives the same text back. Does not wrap
lines and does not decide structure: titles, lists and joined paragraphs come from the Document.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import quote

from derender.assemble.blocks import Block, blocks, table_cells
from derender.assemble.captions import label
from derender.assemble.lists import INDENT, Item, parse_items
from derender.assemble.mathml import formula_number
from derender.assemble.tables import cells_to_html, cells_to_markdown
from derender.document import Document, RegionType

_LINE_START = re.compile(
    r"^(?:(#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|[-_*=~](?=[-_*=~ ]*$)|~~~|\||:?-)|(\d{1,9})([.)])(?=\s|$))"
)
_TABLE_RULE = re.compile(r"^[|:\- ]+$")
_MARKUP = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\n|$)"  # a backslash that would escape, or break the line
    r"|`"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]*;)"
    r"|\](?=[(\[])|\[(?=\^)"  # links, footnote marks
)
INLINE_MATH = re.compile(r"\$(?=[^\s$])(?=[^$\n]*?[\\^_{}])[^$\n]++(?<=\S)\$(?!\d)")


def to_markdown(
    doc: Document, keep_paratext: bool = False, page_markers: bool = False, image_dir: str = "images"
) -> str:
    """The whole document as Markdown.

    keep_paratext: also headers, footers and page numbers. page_markers: `<!-- page 3 -->` where a page begins.
    image_dir: folder that picture links point to, relative to the Markdown file.
    """
    pieces: list[str] = []
    shown = 0
    running: list[Item] = []  # items of the list that `pieces` ends with
    for block in blocks(doc, keep_paratext):
        if page_markers and block.page.number > shown:
            # Every page gets its marker, empty ones too, so that markers can be counted.
            pieces += [_marker(page.number) for page in doc.pages if shown < page.number <= block.page.number]
            shown, running = block.page.number, []
        if block.type is not RegionType.LIST or not block.text:
            pieces += block_markdown(block, image_dir)
            running = []
            continue
        lead, items = _lead_and_items(block)
        if not lead and items and running and _goes_on(running, items[0]):
            pieces[-1] += "\n" + _list(items, block.region.source == "text_layer")
        else:
            if not lead and running:
                pieces.append("<!-- -->")  # or a reader would make one list of the two
            pieces += block_markdown(block, image_dir)
            running = []
        running += items
    if page_markers:
        pieces += [_marker(page.number) for page in doc.pages if page.number > shown]
    return "\n\n".join(pieces) + "\n" if pieces else ""


def _marker(number: int) -> str:
    return f"<!-- page {number} -->"


def _goes_on(running: list[Item], first: Item) -> bool:
    """Whether `first` opens a region that goes on the list written so far (the layout may cut lists up)."""
    if first.depth > running[-1].depth:
        return True
    last = next((item for item in reversed(running) if item.depth <= first.depth), running[0])
    if first.number is None or last.number is None:
        return first.number is last.number
    return first.number == last.number + 1 and first.close == last.close


def _lead_and_items(block: Block) -> tuple[list[Item], list[Item]]:
    items = parse_items(block.text)
    return [item for item in items if item.lead], [item for item in items if not item.lead]


def block_markdown(block: Block, image_dir: str = "images") -> list[str]:
    """One block's pieces of Markdown, captions included, to be set apart by blank lines."""
    region, text = block.region, block.text
    above = [b for b in block.captions if b.region.order < region.order]
    below = [b for b in block.captions if b.region.order >= region.order]
    pieces = [piece for b in above for piece in block_markdown(b, image_dir)]
    if region.type is RegionType.TITLE and text:
        pieces.append(_heading(text, region.level or 1, region.source == "text_layer"))
    elif region.type is RegionType.LIST and text:
        plain = region.source == "text_layer"
        lead, items = _lead_and_items(block)
        shift = items[0].depth if items else 0  # alone, a deeper list starts at the margin
        pieces += [escape_block(item.text, plain) for item in lead]
        pieces += [_list([replace(item, depth=max(item.depth - shift, 0)) for item in items], plain)] if items else []
    elif table_cells(region):
        pieces += _table(block)
    elif region.type is RegionType.FORMULA and region.latex:
        pieces.append(_formula(region.latex, text))
    else:
        if region.image:
            pieces.append(_picture(block, image_dir))
        if region.type is RegionType.REFERENCE:
            pieces += [escape_block(line, region.source == "text_layer") for line in text.split("\n") if line.strip()]
        elif text:
            pieces.append(escape_block(text, region.source == "text_layer"))
        elif not region.image or region.status == "failed":
            pieces.append(_missing(block))
    return pieces + [piece for b in below for piece in block_markdown(b, image_dir)]


def _heading(text: str, level: int, plain: bool) -> str:
    text = escape_inline(" ".join(text.split()), plain)
    text = re.sub(r"(?<![^ ])(?=#+$)", r"\\", text)  # a closing row of # would vanish
    return f"{'#' * min(max(level, 1), 6)} {text}"


def _list(items: list[Item], plain: bool) -> str:
    lines = []
    for item in items:
        marker = "-" if item.number is None else f"{item.number}{item.close}"
        text = re.sub(r"^\[([ xX])\](?=\s)", r"\\[\1]", escape_block(item.text, plain))  # not a task list
        lines.append(f"{' ' * (INDENT * item.depth)}{marker} {text}")
    return "\n".join(lines)


def _table(block: Block) -> list[str]:
    region = block.region
    cells = block.cells
    plain = region.source == "text_layer"
    table = cells_to_markdown(cells, lambda text: escape_inline(text, plain).replace("|", "\\|"))
    return [table if table is not None else cells_to_html(cells, pretty=True)]


def _formula(latex: str, text: str) -> str:
    latex = strip_math(latex)
    number = formula_number(text)
    if number is not None and "\\tag" not in latex and not latex.endswith(f"({number})"):
        latex += f" \\tag{{{number}}}"
    return f"$$\n{latex}\n$$"


def strip_math(latex: str) -> str:
    """LaTeX without its outer `$$` or `\\[ \\]`, and without blank lines, which would end a formula."""
    latex = latex.strip()
    for opening, closing in (("$$", "$$"), ("\\[", "\\]"), ("$", "$")):
        if latex.startswith(opening) and latex.endswith(closing) and len(latex) > len(opening) + len(closing):
            latex = latex[len(opening) : -len(closing)].strip()
            break
    return "\n".join(line for line in latex.splitlines() if line.strip()).replace("$$", "$ $")


def picture_path(image: str, image_dir: str) -> str:
    """The link to a cropped picture, percent-encoded."""
    name = PurePosixPath(image).name
    return quote(f"{image_dir.rstrip('/')}/{name}" if image_dir else name)


def picture_name(block: Block) -> str:
    """What to call the picture where it cannot be shown: its caption's label ("Figure 3"), else its kind."""
    labels = [found for caption in block.captions if (found := label(caption.text)) is not None]
    return labels[0] if labels else str(block.type)


def _picture(block: Block, image_dir: str) -> str:
    assert block.region.image is not None
    return f"![{escape_inline(picture_name(block), True)}]({picture_path(block.region.image, image_dir)})"


def _missing(block: Block) -> str:
    """A note for the reader of the file about what could not be written; not shown when rendered."""
    reason = "; ".join(block.region.errors) or "no picture was saved"
    return f"<!-- page {block.page.number}, {block.type}: {re.sub('--+>?|>', '-', reason)} -->"


def escape_block(text: str, plain: bool = False) -> str:
    """`text` as a paragraph: inline escapes, and nothing at a line's start that opens a block. Line feeds become hard
    breaks.
    """
    lines = [" ".join(line.split()) for line in text.split("\n")]
    lines = escape_inline("\n".join(line for line in lines if line), plain).split("\n")
    return "  \n".join(_escape_start(line) for line in lines)


def _escape_start(line: str) -> str:
    line = _LINE_START.sub(lambda m: f"\\{m.group(1)}" if m.group(1) else f"{m.group(2)}\\{m.group(3)}", line)
    return re.sub(r"^\[([^\]]*)\]:", r"\\[\1]:", line)  # a link definition would vanish


def escape_inline(text: str, plain: bool = False) -> str:
    """`text` with backslashes before what would be read as inline markup.

    plain: the text cannot hold math (it comes from a text layer), so pairs of dollars are escaped too. Otherwise a pair
    around something that looks like LaTeX is left alone, with all that is in it.
    """
    if plain or "$" not in text:
        return _escape_plain(text)
    parts = []
    last = 0
    for match in INLINE_MATH.finditer(text):
        parts += [_escape_plain(text[last : match.start()]), match.group()]
        last = match.end()
    return "".join([*parts, _escape_plain(text[last:], dollars=bool(parts))])


def _escape_plain(text: str, dollars: bool = False) -> str:
    """Finds all places in the text as it is, then escapes them at once: no escape can change what another one sees."""
    places = {match.start() for match in _MARKUP.finditer(text)}
    if dollars or text.count("$") > 1:
        places.update(i for i, char in enumerate(text) if char == "$")
    for pattern in (r"\*+", r"_+", r"~+"):
        marks = [m for m in re.finditer(pattern, text) if _can_mark(text, m.start(), m.end())]
        if len(marks) > 1:  # one alone has nothing to pair with
            places.update(i for mark in marks for i in range(mark.start(), mark.end()))
    if not places:
        return text
    return "".join(f"\\{char}" if i in places else char for i, char in enumerate(text))


def _can_mark(text: str, start: int, end: int) -> bool:
    """Whether a run of *, _ or ~ could open or close emphasis: not between spaces, and for _ not inside a word."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if (not before or before.isspace()) and (not after or after.isspace()):
        return False
    return not (text[start] == "_" and before.isalnum() and after.isalnum())

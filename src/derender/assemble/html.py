"""Document -> one self-contained HTML page: inline style, no script, nothing loaded from anywhere else.

Every region has an id; each page is a section with an anchor; text direction and, where the script gives it away,
language are marked per region. Formulas are MathML (mathml.py), which browsers show by themselves. Pictures are
embedded when their folder is given.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from derender.assemble.blocks import Block, blocks
from derender.assemble.lists import Item, parse_items
from derender.assemble.markdown import INLINE_MATH, picture_name, picture_path, strip_math
from derender.assemble.mathml import formula_mathml, formula_number, mathml
from derender.assemble.script import direction, language
from derender.assemble.tables import cells_to_html
from derender.document import PARATEXT, Document, Page, RegionType

_STYLE = (
    "body{max-width:46em;margin:2em auto;padding:0 1em;font:1rem/1.5 serif;color:#111;background:#fff}"
    "nav{font-size:.85em}section{border-top:1px solid #bbb;margin-top:2em}img{max-width:100%}"
    "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2em .5em;text-align:start;vertical-align:top}"
    "figure{margin:1em 0}figcaption{font-size:.9em}.math.display{display:block;text-align:center;margin:1em 0}"
    ".math{font-family:monospace}.footnote,.paratext{font-size:.85em;color:#444}.missing{color:#a00}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:"


def to_html(
    doc: Document, keep_paratext: bool = False, image_dir: str = "images", image_root: str | Path | None = None
) -> str:
    """The whole document as one HTML page.

    image_root: folder that `Region.image` is relative to; when given, pictures found there are embedded as data,
    otherwise they are linked in `image_dir`.
    """
    root = Path(image_root) if image_root is not None else None
    by_page: dict[int, list[Block]] = {page.number: [] for page in doc.pages}
    for block in blocks(doc, keep_paratext):
        by_page[block.page.number].append(block)
    text = " ".join(region.text for page in doc.pages for region in page.regions)
    lang = language(text)
    lang_attribute = f' lang="{lang}"' if lang else ""
    parts = [
        f'<!DOCTYPE html>\n<html{lang_attribute} dir="{direction(text)}">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(doc.name)}</title>',
        f"<style>{_STYLE}</style>\n</head>\n<body>",
    ]
    if len(doc.pages) > 1:
        links = " ".join(f'<a href="#page-{page.number}">{page.number}</a>' for page in doc.pages)
        parts.append(f'<nav aria-label="Pages">Pages: {links}</nav>')
    parts.append("<main>")
    for page in doc.pages:
        parts.append(_section(page, by_page[page.number], image_dir, root))
    parts.append("</main>\n</body>\n</html>\n")
    return "\n".join(parts)


def _section(page: Page, found: list[Block], image_dir: str, root: Path | None) -> str:
    body = "\n".join(_block(block, image_dir, root) for block in found)
    return f'<section id="page-{page.number}" aria-label="Page {page.number}">\n{body}\n</section>'


def _attributes(block: Block, css: str = "") -> str:
    lang = language(block.text)
    parts = [f'id="{escape(block.anchor)}"']
    if css:
        parts.append(f'class="{css}"')
    if lang:
        parts.append(f'lang="{lang}"')
    if block.text:
        parts.append(f'dir="{direction(block.text)}"')
    return " ".join(parts)


def _block(block: Block, image_dir: str, root: Path | None) -> str:
    kind, region = block.type, block.region
    if kind in (RegionType.FIGURE, RegionType.TABLE):
        return _figure(block, image_dir, root)
    if not block.text and not (kind is RegionType.FORMULA and region.latex):
        content = _picture(block, image_dir, root) if region.image else _missing(block)
        return f"<div {_attributes(block)}>{content}</div>"
    if kind is RegionType.FORMULA:
        if region.latex:
            shown = formula_mathml(strip_math(region.latex), formula_number(block.text))
            return f"<div {_attributes(block, 'formula')}>{shown}</div>"
        picture = _picture(block, image_dir, root) if region.image else ""
        return f"<div {_attributes(block)}>{picture}<p>{inline(block.text)}</p></div>"
    if kind is RegionType.TITLE:
        level = min(max(region.level or 1, 1), 6)
        return f"<h{level} {_attributes(block)}>{inline(block.text)}</h{level}>"
    if kind is RegionType.LIST:
        return f"<div {_attributes(block, 'list')}>{list_html(parse_items(block.text))}</div>"
    if kind is RegionType.REFERENCE:
        entries = "".join(f"<p>{inline(line)}</p>" for line in block.text.split("\n") if line.strip())
        return f"<div {_attributes(block, 'reference')}>{entries}</div>"
    if kind is RegionType.FOOTNOTE:
        return f'<aside role="note" {_attributes(block, "footnote")}><p>{inline(block.text)}</p></aside>'
    css = f"paratext {kind}" if kind in PARATEXT else "caption" if kind is RegionType.CAPTION else ""
    return f"<p {_attributes(block, css)}>{inline(block.text)}</p>"


def _figure(block: Block, image_dir: str, root: Path | None) -> str:
    region = block.region
    pieces = []
    cells = block.cells
    if cells:
        pieces.append(cells_to_html(cells))
    else:
        if region.image:
            pieces.append(_picture(block, image_dir, root))
        if block.text:
            pieces.append(f"<p>{inline(block.text)}</p>")
        if not pieces:
            pieces.append(_missing(block))
    # HTML allows one <figcaption>, first or last; more than one caption shares it.
    captions = "".join(f"<span {_attributes(b)}>{inline(b.text)}</span>" for b in block.captions)
    caption = f"<figcaption>{captions}</figcaption>" if captions else ""
    first = bool(block.captions) and block.captions[0].region.order < region.order
    body = caption + "".join(pieces) if first else "".join(pieces) + caption
    return f"<figure {_attributes(block, str(block.type))}>{body}</figure>"


def _picture(block: Block, image_dir: str, root: Path | None) -> str:
    image = block.region.image
    assert image is not None
    source = picture_path(image, image_dir)
    if root is not None and (root / image).is_file():
        kind = mimetypes.guess_type(image)[0] or "image/png"
        source = f"data:{kind};base64,{base64.b64encode((root / image).read_bytes()).decode('ascii')}"
    return f'<img src="{escape(source)}" alt="{escape(picture_name(block))}">'


def _missing(block: Block) -> str:
    reason = "; ".join(block.region.errors) or "no picture was saved"
    return f'<p class="missing">[{escape(str(block.type))}: {escape(reason)}]</p>'


def list_html(items: list[Item], text_of: Callable[[Item], str] | None = None) -> str:
    """Items as nested lists. text_of: an item's text as HTML, where it is to be more than `inline`."""
    made = text_of or (lambda item: inline(item.text))
    lead = "".join(f"<p>{made(item)}</p>" for item in items if item.lead)
    rest = [item for item in items if not item.lead]
    return lead + _nested(rest, min((item.depth for item in rest), default=0), made)[0]


def _nested(items: list[Item], depth: int, text_of: Callable[[Item], str]) -> tuple[str, list[Item]]:
    """The list of all items at `depth` that open `items`, and the items left over."""
    parts = []
    while items and items[0].depth >= depth:
        ordered = items[0].number is not None
        tag = "ol" if ordered else "ul"
        start = f' start="{items[0].number}"' if ordered and items[0].number != 1 else ""
        entries = []
        while items and items[0].depth >= depth and (items[0].number is not None) == ordered:
            item, items = items[0], items[1:]
            inner = ""
            if items and items[0].depth > depth:
                inner, items = _nested(items, depth + 1, text_of)
            value = f' value="{item.number}"' if ordered else ""
            entries.append(f"<li{value}>{text_of(item)}{inner}</li>")
        parts.append(f"<{tag}{start}>{''.join(entries)}</{tag}>")
    return "".join(parts), items


def inline(text: str) -> str:
    """Escaped text; line feeds become <br>, pairs of dollars around LaTeX MathML."""
    parts = []
    last = 0
    for match in INLINE_MATH.finditer(text):
        parts.append(escape(text[last : match.start()], quote=False))
        parts.append(mathml(match.group()[1:-1]))
        last = match.end()
    parts.append(escape(text[last:], quote=False))
    return re.sub(r"\n+", "<br>", "".join(parts))

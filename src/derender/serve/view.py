"""A document for showing beside its pages: blocks as Markdown and as safe HTML, doubtful tokens marked, formulas as
MathML. Rendered here, so that the page loads nothing from elsewhere. Is no page itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape

from pydantic import BaseModel, Field

from derender.assemble.blocks import Block, blocks
from derender.assemble.html import list_html
from derender.assemble.lists import Item, parse_items
from derender.assemble.markdown import INLINE_MATH, block_markdown, strip_math
from derender.assemble.mathml import mathml
from derender.assemble.tables import cells_to_html
from derender.document import Cell, RegionType, Token
from derender.serve.outcome import Outcome

DOUBTFUL = 0.8
"""Tokens committed with less probability than this are underlined."""
_DISPLAY_MATH = re.compile(r"\$\$(.+?)\$\$", re.S)
_KEPT = re.compile("\ue000(\\d+)\ue001")
_PICTURE = re.compile(r"data:image/(png|jpeg);base64,")
_LINK = re.compile(r"https?:|mailto:|#", re.I)


class BlockView(BaseModel):
    """A block as it is shown. regions: ids of its parts, its own first."""

    region: str
    page: int
    type: RegionType
    regions: list[str]
    markdown: str
    html: str = Field(description="Escaped and free of scripts")
    doubtful: int = Field(description="Tokens below the threshold of doubt, those of captions included")


def block_views(outcome: Outcome) -> list[BlockView]:
    """The blocks of the body in reading order; captions are in their figure's block."""
    return [
        BlockView(
            region=block.region.id,
            page=block.page.number,
            type=block.type,
            regions=[region.id for _, region in block.parts],
            markdown="\n\n".join(block_markdown(block)),
            html=_html(block, outcome),
            doubtful=sum(t.confidence < DOUBTFUL for b in (block, *block.captions) for t in _tokens(b)),
        )
        for block in blocks(outcome.document)
    ]


def _tokens(block: Block) -> list[Token]:
    """Of all parts of the block, in its text's order."""
    return [token for _, region in block.parts for token in region.tokens or []]


def _html(block: Block, outcome: Outcome) -> str:
    region = block.region
    captions = "".join(f'<p class="caption">{_marked(c.text, _tokens(c))}</p>' for c in block.captions)
    if cells := block.cells:
        return captions + _table(cells, _tokens(block))
    if region.type is RegionType.FORMULA and region.latex:
        return mathml(strip_math(region.latex), "block") + captions
    if region.type is RegionType.LIST and block.text:
        return _list(block.text, _tokens(block)) + captions
    picture = ""
    if region.image and (data := outcome.pictures.get(region.image)):
        picture = (
            f'<img alt="{escape(str(region.type))}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        )
    text = _marked(block.text, _tokens(block)) if block.text else ""
    if region.type is RegionType.TITLE:
        return f"<h{min(6, (region.level or 1) + 1)}>{text}</h{min(6, (region.level or 1) + 1)}>"
    return picture + (f"<p>{text}</p>" if text else "") + captions


Span = tuple[int, int, float]
"""Start, end and probability of a doubtful token in a text."""


def doubtful_spans(text: str, tokens: Sequence[Token]) -> list[Span]:
    """Where in `text` the doubtful ones of `tokens` stand. They are found again by aligning what was decoded with what
    assembly made of it."""
    if not any(t.confidence < DOUBTFUL for t in tokens):
        return []
    from rapidfuzz.distance import Levenshtein

    decoded = "".join(t.text for t in tokens)
    place: list[int | None] = [None] * len(decoded)
    for op in Levenshtein.opcodes(decoded, text):
        if op.tag == "equal":
            for i in range(op.src_end - op.src_start):
                place[op.src_start + i] = op.dest_start + i
    spans, at = [], 0
    for token in tokens:
        found = [p for p in place[at : at + len(token.text)] if p is not None]
        at += len(token.text)
        if found and token.confidence < DOUBTFUL:
            spans.append((found[0], found[-1] + 1, token.confidence))
    return spans


def _table(cells: Sequence[Cell], tokens: Sequence[Token]) -> str:
    """The table, with doubtful tokens marked in their cells."""
    spans = _spans_of([cell.text for cell in cells], tokens)
    marks = {id(cell): found for cell, found in zip(cells, spans, strict=True)}
    return cells_to_html(cells, text_of=lambda cell: _with_marks(cell.text, marks[id(cell)]))


def _list(text: str, tokens: Sequence[Token]) -> str:
    """The list's items, with doubtful tokens marked in them."""
    items = parse_items(text)
    spans = _spans_of([item.text for item in items], tokens)
    marks = {id(item): found for item, found in zip(items, spans, strict=True)}

    def text_of(item: Item) -> str:
        return _with_formulas(item.text, marks[id(item)])

    return list_html(items, text_of)


def _spans_of(texts: Sequence[str], tokens: Sequence[Token]) -> list[list[Span]]:
    """The doubtful spans of each of several texts that were decoded as one."""
    spans = doubtful_spans("\n".join(texts), tokens)
    out, start = [], 0
    for text in texts:
        out.append(_within(spans, start, start + len(text)))
        start += len(text) + 1
    return out


def _within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    return [(a - start, b - start, c) for a, b, c in spans if start <= a and b <= end]


def _marked(text: str, tokens: Sequence[Token]) -> str:
    """Escaped text with doubtful tokens in <mark>, inline formulas as MathML, line feeds as <br>."""
    return _with_formulas(text, doubtful_spans(text, tokens))


def _with_formulas(text: str, spans: Sequence[Span]) -> str:
    shown, last = "", 0
    for found in INLINE_MATH.finditer(text):
        shown += _with_marks(text[last : found.start()], _within(spans, last, found.start()))
        shown += mathml(found[0][1:-1])
        last = found.end()
    return shown + _with_marks(text[last:], _within(spans, last, len(text)))


def _with_marks(text: str, spans: Sequence[Span]) -> str:
    parts, last = [], 0
    for start, end, confidence in spans:
        parts.append(escape(text[last:start], quote=False))
        mark = f'<mark class="doubt" title="{round(100 * confidence)}% sure">'
        parts.append(f"{mark}{escape(text[start:end], quote=False)}</mark>")
        last = end
    return re.sub(r"\n+", "<br>", "".join([*parts, escape(text[last:], quote=False)]))


def markdown_html(text: str) -> str:
    """Markdown as safe HTML: tables (also HTML's), formulas, no scripts, no pictures from elsewhere."""
    import nh3
    from markdown_it import MarkdownIt

    kept: list[tuple[str, str]] = []  # as written, and as MathML

    def keep(source: str, latex: str, display: bool) -> str:
        kept.append((source, mathml(latex, "block" if display else "inline")))
        return f"\ue000{len(kept) - 1}\ue001"

    def as_written(text: str) -> str:
        return _KEPT.sub(lambda m: kept[int(m[1])][0], text)

    def attribute(tag: str, name: str, value: str) -> str | None:
        wanted = {"src": _PICTURE, "href": _LINK}.get(name)
        return as_written(value) if wanted is None or wanted.match(value) else None

    text = text.replace("\ue000", "").replace("\ue001", "")
    text = _DISPLAY_MATH.sub(lambda m: keep(m[0], m[1].strip(), True), text)
    text = INLINE_MATH.sub(lambda m: keep(m[0], m[0][1:-1], False), text)
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = reader.parse(text)
    for token in [t for top in tokens for t in (top, *(top.children or []))]:
        if token.type in ("code_inline", "code_block", "fence"):
            token.content = as_written(token.content)
    html = nh3.clean(
        reader.renderer.render(tokens, reader.options, {}),
        url_schemes={"data", "http", "https", "mailto"},
        attribute_filter=attribute,
    )
    # MathML is safe as mathml.py makes it, and cleaning would take it away. In attributes it is gone by now.
    return _KEPT.sub(lambda m: kept[int(m[1])][1], html)

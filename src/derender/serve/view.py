"""A document for showing beside its pages: blocks as Markdown and as safe HTML, doubtful tokens marked, formulas as
MathML. Rendered here, so that the page loads nothing from elsewhere. Is no page itself."""

from __future__ import annotations

import base64
import re
from html import escape

from pydantic import BaseModel, Field

from derender.assemble.blocks import Block, blocks
from derender.assemble.markdown import INLINE_MATH, block_markdown, strip_math
from derender.assemble.tables import cells_to_html
from derender.document import Region, RegionType
from derender.serve.outcome import Outcome

DOUBTFUL = 0.8
"""Tokens committed with less probability than this are underlined."""
_DISPLAY_MATH = re.compile(r"\$\$(.+?)\$\$", re.S)


class BlockView(BaseModel):
    """A block as it is shown. regions: ids of its parts, its own first."""

    region: str
    page: int
    type: RegionType
    regions: list[str]
    markdown: str
    html: str = Field(description="Escaped and free of scripts")
    doubtful: int = Field(description="Tokens below the threshold of doubt")


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
            doubtful=sum(t.confidence < DOUBTFUL for t in block.region.tokens or []),
        )
        for block in blocks(outcome.document)
    ]


def _html(block: Block, outcome: Outcome) -> str:
    region = block.region
    captions = "".join(f'<p class="caption">{_marked(c.text, c.region)}</p>' for c in block.captions)
    if cells := block.cells:
        return captions + cells_to_html(cells)
    if region.type is RegionType.FORMULA and region.latex:
        return math(strip_math(region.latex), display=True) + captions
    picture = ""
    if region.image and (data := outcome.pictures.get(region.image)):
        picture = (
            f'<img alt="{escape(str(region.type))}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        )
    text = _marked(block.text, region) if block.text else ""
    if region.type is RegionType.TITLE:
        return f"<h{min(6, (region.level or 1) + 1)}>{text}</h{min(6, (region.level or 1) + 1)}>"
    return picture + (f"<p>{text}</p>" if text else "") + captions


def doubtful_spans(text: str, region: Region) -> list[tuple[int, int, float]]:
    """(start, end, probability) in `text` of the region's doubtful tokens. Tokens are found again by aligning what was
    decoded with what assembly made of it."""
    tokens = region.tokens or []
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


def _marked(text: str, region: Region) -> str:
    """Escaped text with doubtful tokens in <mark>, inline formulas as MathML, line feeds as <br>."""
    formulas = [(m.start(), m.end()) for m in INLINE_MATH.finditer(text)]
    parts, last = [], 0
    spans = [(a, b, c) for a, b, c in doubtful_spans(text, region) if not any(a < y and b > x for x, y in formulas)]
    for start, end, confidence in sorted([*spans, *((a, b, -1.0) for a, b in formulas)]):
        if start < last:
            continue
        parts.append(escape(text[last:start]))
        if confidence < 0:
            parts.append(math(text[start + 1 : end - 1]))
        else:
            percent = round(100 * confidence)
            parts.append(f'<mark class="doubt" title="{percent}% sure">{escape(text[start:end])}</mark>')
        last = end
    parts.append(escape(text[last:]))
    return re.sub(r"\n+", "<br>", "".join(parts))


def math(latex: str, display: bool = False) -> str:
    """LaTeX as MathML; as it is written where that cannot be made of it."""
    from latex2mathml.converter import convert

    try:
        return convert(latex, display="block" if display else "inline")
    except Exception:  # the converter raises kinds of its own, and IndexError, for what it does not know
        return f"<code>{escape(latex)}</code>"


def markdown_html(text: str) -> str:
    """Markdown as safe HTML: tables (also HTML's), formulas, no scripts, no pictures from elsewhere."""
    import nh3
    from markdown_it import MarkdownIt

    kept: list[str] = []

    def keep(latex: str, display: bool) -> str:
        kept.append(math(latex, display))
        return f"\ue000{len(kept) - 1}\ue001"

    text = text.replace("\ue000", "").replace("\ue001", "")
    text = _DISPLAY_MATH.sub(lambda m: keep(m[1].strip(), True), text)
    text = INLINE_MATH.sub(lambda m: keep(m[0][1:-1], False), text)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    html = nh3.clean(html, url_schemes={"data", "http", "https", "mailto"})
    # The converter escapes what it does not know, so its output needs no cleaning, which would take the formulas away.
    return re.sub("\ue000(\\d+)\ue001", lambda m: kept[int(m[1])], html)

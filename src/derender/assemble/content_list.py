"""Document -> the flat list of blocks that MinerU calls content_list.json (field names as in its documentation).

page_idx counts from 0 and is the page's place in the file; bbox is 0-1000 of the page. Headers, footers, page numbers
and footnotes are kept under types of their own, as MinerU does. Does not write the file.
"""

from __future__ import annotations

from typing import Any

from derender.assemble.blocks import Block, blocks
from derender.assemble.lists import INDENT, parse_items
from derender.assemble.markdown import strip_math
from derender.assemble.tables import cells_to_html
from derender.document import PARATEXT, Document, RegionType, box_1000


def to_content_list(doc: Document, keep_paratext: bool = True) -> list[dict[str, Any]]:
    """One dict a block, in reading order; a paragraph over a page break is one block, placed where it begins."""
    return [
        {**_entry(block), "bbox": _bbox(block), "page_idx": block.page.number - 1}
        for block in blocks(doc, keep_paratext)
    ]


def _bbox(block: Block) -> list[int]:
    return list(box_1000(block.region.box, block.page.width, block.page.height))


def _entry(block: Block) -> dict[str, Any]:
    kind, region, text = block.type, block.region, block.text
    captions = [caption.text for caption in block.captions]
    image = region.image or ""
    if kind is RegionType.TITLE:
        return {"type": "text", "text": text, "text_level": region.level or 1}
    if kind is RegionType.FIGURE:
        extra = {"content": text} if text else {}
        return {"type": "image", "img_path": image, "image_caption": captions, "image_footnote": [], **extra}
    if kind is RegionType.TABLE:
        cells = block.cells
        body = cells_to_html(cells) if cells else ""
        extra = {"text": text} if text and not body else {}
        return {
            "type": "table",
            "img_path": image,
            "table_caption": captions,
            "table_footnote": [],
            "table_body": body,
            **extra,
        }
    if kind is RegionType.FORMULA:
        if region.latex:
            latex = f"$$\n{strip_math(region.latex)}\n$$"
            return {"type": "equation", "img_path": image, "text": latex, "text_format": "latex"}
        return {"type": "equation", "img_path": image, "text": text, "text_format": "text"}
    if kind is RegionType.LIST:
        return {"type": "list", "sub_type": "text", "list_items": _items(text)}
    if kind is RegionType.REFERENCE:
        return {"type": "list", "sub_type": "ref_text", "list_items": [t for t in text.split("\n") if t.strip()]}
    if kind in PARATEXT:
        return {"type": str(kind), "text": text}
    if kind is RegionType.FOOTNOTE:
        return {"type": "page_footnote", "text": text}
    return {"type": "text", "text": text, **({"img_path": image} if image else {})}


def _items(text: str) -> list[str]:
    items = []
    for item in parse_items(text):
        marker = "" if item.lead else "- " if item.number is None else f"{item.number}{item.close} "
        items.append(" " * (INDENT * item.depth) + marker + item.text)
    return items

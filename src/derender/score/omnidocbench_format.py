"""OmniDocBench's annotation JSON, v1.5 and v1.6, as typed pages. Scores nothing.

Both have the same fields: a list of pages with `layout_dets` (category_type, poly, order, anno_id, ignore, and text,
html or latex), `page_info` (image_path, width, height, page_attribute) and `extra.relation`. v1.6 adds
`page_attribute.subset` ("v1.5" for its base pages, else "equation_hard", "layout_hard", "table_hard") and more
category types. Blocks marked `ignore`, page furniture and masked blocks are no truth; blocks linked by a "truncated"
relation are one, at the place of the first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derender.errors import InputError
from derender.score.markup import markdown_to_text
from derender.score.normalise import page_text
from derender.score.types import NormBox

TEXT_TYPES = frozenset(
    """title text_block figure_caption figure_footnote table_caption table_footnote equation_caption code_txt
    code_txt_caption code_algorithm reference list_group equation_explanation""".split()
)
OTHER_TYPES = frozenset(
    """table equation_isolated equation_semantic figure header footer page_number page_footnote abandon text_mask
    table_mask chart_mask unknown_mask need_mask algorithm_mask organic_chemical_formula_mask""".split()
)
"""Tables and formulas, and what is left out of the text: pictures, furniture, masked blocks, groups of equations."""


@dataclass(frozen=True)
class OmniBlock:
    """A table's HTML or a formula's LaTeX, and where it is on the page; None where the file gives no page size."""

    source: str
    box: NormBox | None = None


@dataclass(frozen=True)
class OmniPage:
    """The truth of one page: text blocks in reading order (markup stripped, normalised), tables, formulas.

    subset: of v1.6, "" in v1.5. unknown: category types with text that neither version is known to have; left out.
    """

    image: str
    language: str
    layout: str
    texts: tuple[str, ...]
    tables: tuple[OmniBlock, ...]
    formulas: tuple[OmniBlock, ...]
    subset: str = ""
    unknown: tuple[str, ...] = ()


def load_annotations(path: Path) -> list[OmniPage]:
    """Pages of an annotation file. Raises InputError when it is not such a file."""
    try:
        return [_page(entry) for entry in json.loads(path.read_text("utf-8"))]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path.name} is not an OmniDocBench annotation file: {error!r}.") from error


def version_of(pages: Sequence[OmniPage]) -> str:
    """ "v1.6" when pages name a subset, else "v1.5"."""
    return "v1.6" if any(page.subset for page in pages) else "v1.5"


def _page(entry: dict[str, Any]) -> OmniPage:
    blocks = [b for b in entry["layout_dets"] if not b.get("ignore")]
    blocks.sort(key=lambda b: (b.get("order") is None, b.get("order") or 0))
    info = entry["page_info"]
    attribute = info.get("page_attribute") or {}
    size = (float(info.get("width") or 0), float(info.get("height") or 0))
    return OmniPage(
        image=info["image_path"],
        language=str(attribute.get("language", "")),
        layout=str(attribute.get("layout", "")),
        texts=_texts(blocks, (entry.get("extra") or {}).get("relation") or []),
        tables=tuple(
            OmniBlock(b["html"], _box(b, size))
            for b in blocks
            if b["category_type"] == "table" and "<table" in (b.get("html") or "")
        ),
        formulas=tuple(
            OmniBlock(b["latex"], _box(b, size))
            for b in blocks
            if b["category_type"] == "equation_isolated" and b.get("latex")
        ),
        subset=str(attribute.get("subset") or ""),
        unknown=tuple(
            sorted({b["category_type"] for b in blocks if (b.get("text") or "").strip()} - TEXT_TYPES - OTHER_TYPES)
        ),
    )


def _texts(blocks: list[dict[str, Any]], relations: list[dict[str, Any]]) -> tuple[str, ...]:
    joined: dict[int, int] = {}
    for link in relations:
        if link.get("relation_type") == "truncated":
            joined[link["target_anno_id"]] = joined.get(link["source_anno_id"], link["source_anno_id"])
    texts: dict[int, str] = {}
    for number, block in enumerate(blocks):
        if block["category_type"] in TEXT_TYPES and (block.get("text") or "").strip():
            own = block.get("anno_id", -1 - number)
            key = joined.get(own, own)
            texts[key] = (texts[key] + "\n" if key in texts else "") + block["text"]
    return tuple(t for t in (page_text(markdown_to_text(v)) for v in texts.values()) if t)


def _box(block: dict[str, Any], size: tuple[float, float]) -> NormBox | None:
    """Hull of the block's polygon (x, y, x, y, ... in pixels) as shares of the page."""
    poly = block.get("poly") or []
    if min(size) <= 0 or len(poly) < 4:
        return None
    xs, ys = ([min(max(float(v) / s, 0.0), 1.0) for v in poly[i::2]] for i, s in enumerate(size))
    return (min(xs), min(ys), max(xs), max(ys))

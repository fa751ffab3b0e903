"""TEDS and TEDS-S: similarity of two HTML tables by tree edit distance (Zhong et al. 2020, PubTabNet, section 5).

    TEDS(a, b) = 1 - EditDist(a, b) / max(|a|, |b|)

Deleting or inserting a node costs 1; changing one costs 1 when tag, colspan or rowspan differ; two td nodes of equal
shape cost the normalised Levenshtein distance of their contents, taken over characters and inline tags. |a| counts
the elements below <table>, inline tags in cells included, as the published implementation does. TEDS-S ignores cell
contents. The distance is computed by the `apted` package, parsing is lxml's.

Does not judge how a table looks, and does not read Markdown tables (checks.py does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

from derender.errors import MissingExtraError

SECTIONS = ("thead", "tbody", "tfoot")


@dataclass(frozen=True)
class _Node:
    tag: str
    span: tuple[int, int]
    content: tuple[str, ...]
    children: tuple[_Node, ...]


def teds(pred: str, truth: str, structure_only: bool = False, normalise: bool = True) -> float:
    """TEDS, 0-1, of two HTML strings that each hold one <table> (the first one counts).

    normalise: th is taken as td, thead/tbody/tfoot and inline tags (b, i, span, ...; br becomes a space) are dropped
    and white space in cells is folded, on both sides, so that only grid and words count. normalise=False is the
    published measure to the letter. A prediction without a table scores 0; an empty truth raises ValueError.
    """
    tree_t = _table(truth, normalise)
    if tree_t is None:
        raise ValueError("The ground truth has no <table>.")
    tree_p = _table(pred, normalise)
    if tree_p is None:
        return 0.0
    from apted import APTED

    size = max(len(tree_p.xpath(".//*")), len(tree_t.xpath(".//*")))
    if size == 0:
        return 1.0
    distance = APTED(_node(tree_p, structure_only), _node(tree_t, structure_only), _costs()).compute_edit_distance()
    return 1.0 - distance / size


def teds_s(pred: str, truth: str, normalise: bool = True) -> float:
    """TEDS of the structure alone: tags and spans, contents ignored. Arguments as for teds."""
    return teds(pred, truth, structure_only=True, normalise=normalise)


def _table(text: str, normalise: bool) -> Any:
    try:
        from lxml import etree, html
    except ImportError as error:
        raise MissingExtraError("Table scores need lxml and apted: pip install 'derender[score]'.") from error
    if not text.strip():
        return None
    parser = html.HTMLParser(remove_comments=True, encoding="utf-8")
    root = html.document_fromstring(f"<html><body>{text}</body></html>".encode(), parser)
    tables = root.xpath("//table")
    if not tables:
        return None
    table = tables[0]
    if normalise:
        for node in list(table.iter("br")):
            node.tail = " " + (node.tail or "")
        for node in table.iter("th"):
            node.tag = "td"
        keep = {"table", "tr", "td", "caption"}
        etree.strip_tags(table, *{n.tag for n in table.iter() if isinstance(n.tag, str)} - keep)
        for node in table.iter("td"):
            if len(node) == 0:  # a nested table keeps its own cells
                node.text = " ".join((node.text or "").split())
    return table


def _node(element: Any, structure_only: bool) -> _Node:
    if element.tag == "td":
        content = () if structure_only else tuple(_tokens(element)[1:-1])
        return _Node("td", (_span(element, "colspan"), _span(element, "rowspan")), content, ())
    return _Node(element.tag, (0, 0), (), tuple(_node(child, structure_only) for child in element))


def _span(element: Any, name: str) -> int:
    value = element.get(name, "1").strip()
    return int(value) if value.isdigit() else 1  # browsers take a malformed span as 1


def _tokens(element: Any) -> list[str]:
    out = [f"<{element.tag}>", *(element.text or "")]
    for child in element:
        out += _tokens(child)
    out.append(f"</{element.tag}>")
    return out + list(element.tail or "") if element.tag != "td" else out


def _costs() -> Any:
    from apted import Config

    class Costs(Config):  # type: ignore[misc]
        def rename(self, node1: _Node, node2: _Node) -> float:
            if node1.tag != node2.tag or node1.span != node2.span:
                return 1.0
            if node1.content or node2.content:
                longest = max(len(node1.content), len(node2.content))
                return Levenshtein.distance(node1.content, node2.content) / longest
            return 0.0

        def children(self, node: _Node) -> tuple[_Node, ...]:
            return node.children

    return Costs()

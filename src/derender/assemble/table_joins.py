"""Tables that go on on the next page: which region continues which, and the cells of the whole.

A table continues one on the page before when it is the first thing in its page's body and the other the last, both have
the same number of columns, and their edges stand above one another. Header rows that are printed again are left out of
the whole. The JSON keeps each part on its page; the writers show the whole at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from derender.document import PARATEXT, Cell, Document, Page, Region, RegionType

_EDGE = 0.04  # how far edges may be off, as a share of the page's width
_CONTINUED = re.compile(r"\b(continued|cont\.|cont'd|fortsetzung|suite|continuación)|续|續", re.IGNORECASE)
_AFTER = PARATEXT | {RegionType.FOOTNOTE, RegionType.CAPTION}


def mark_joined_tables(doc: Document) -> Document:
    """Sets `continues` of tables that go on from the page before; pages that were not read in between part them."""
    pages: list[Page] = []
    for page in doc.pages:
        before = pages[-1] if pages and pages[-1].number == page.number - 1 else None
        first = _first_table(page)
        last = _last_table(before) if before else None
        if before and first and last and first.continues is None and _fit(before, last, page, first):
            marked = first.model_copy(update={"continues": last.id})
            page = page.model_copy(update={"regions": [marked if r is first else r for r in page.regions]})
        pages.append(page)
    return doc.model_copy(update={"pages": pages})


def joined_cells(parts: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The cells of a table from those of its parts, top part first; rows are counted on, repeated headers left out."""
    whole = list(parts[0])
    head = _rows(whole)[: _header_rows(whole)] or _rows(whole)[:1]
    for part in parts[1:]:
        rows = _rows(part)
        skip = 0
        while skip < min(len(rows), len(head)) and rows[skip] == head[skip] and any(rows[skip]):
            skip += 1
        # A row that a span ties to one above it cannot be left out.
        while skip and any(c.row < skip < c.row + c.rowspan for c in part):
            skip -= 1
        shift = len(_rows(whole)) - skip
        headers = _header_rows(part)
        whole += [
            c.model_copy(update={"row": c.row + shift, "header": c.header and c.row >= headers})
            for c in part
            if c.row >= skip
        ]
    return whole


def _rows(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """Texts of the cells that begin in each row, white space folded."""
    rows: list[list[str]] = [[] for _ in range(max((c.row + c.rowspan for c in cells), default=0))]
    for cell in sorted(cells, key=lambda c: (c.row, c.col)):
        rows[cell.row].append(" ".join(cell.text.split()))
    return [tuple(row) for row in rows]


def _header_rows(cells: Sequence[Cell]) -> int:
    return min((c.row for c in cells if not c.header), default=max((c.row + c.rowspan for c in cells), default=0))


def columns(cells: Sequence[Cell]) -> int:
    return max((c.col + c.colspan for c in cells), default=0)


def _first_table(page: Page) -> Region | None:
    """The page's first body region when that is a table; a caption that says "continued" may stand before it."""
    for region in sorted(page.regions, key=lambda r: r.order):
        if region.type is RegionType.TABLE:
            return region if region.cells else None
        if region.type in PARATEXT or not (region.text.strip() or region.type is RegionType.FIGURE):
            continue
        if not _CONTINUED.search(region.text[:80]):
            return None
    return None


def _last_table(page: Page) -> Region | None:
    for region in sorted(page.regions, key=lambda r: -r.order):
        if region.type is RegionType.TABLE:
            return region if region.cells else None
        if region.type not in _AFTER and (region.text.strip() or region.type is RegionType.FIGURE):
            return None
    return None


def _fit(page_a: Page, a: Region, page_b: Page, b: Region) -> bool:
    if columns(a.cells) != columns(b.cells):
        return False
    edges = zip((a.box[0], a.box[2]), (b.box[0], b.box[2]), strict=True)
    return all(abs(x / page_a.width - y / page_b.width) < _EDGE for x, y in edges)

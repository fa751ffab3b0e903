"""The one view of a Document that every writer draws from: its blocks in reading order.

A block is one region, with the regions that continue its paragraph joined to it and its captions known. Because
Markdown, HTML and content_list.json are all made from this list, none can hold a region that another lacks. Changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from derender.assemble.captions import caption_targets
from derender.assemble.contents import short_leaders
from derender.assemble.join import HYPHENS, join_pair, vocabulary_of
from derender.assemble.script import clean
from derender.assemble.table_joins import joined_cells
from derender.assemble.tables import html_to_cells
from derender.document import PARATEXT, Cell, Document, Page, Region, RegionType


@dataclass
class Block:
    """One region and what belongs to it. parts: (page, region) of every piece of its paragraph or table, the region
    itself first.

    captions: blocks that a figure or table shows itself; they are not in the list of blocks again.
    """

    page: Page
    region: Region
    text: str
    parts: list[tuple[Page, Region]] = field(default_factory=list)
    captions: list[Block] = field(default_factory=list)

    @property
    def type(self) -> RegionType:
        return self.region.type

    @property
    def cells(self) -> list[Cell]:
        """The cells of a table, those of the parts on later pages joined to them; [] when it is not read as one."""
        tables = [cells for _, region in self.parts if (cells := table_cells(region))]
        return joined_cells(tables) if tables else []

    @property
    def anchor(self) -> str:
        return anchor(self.page, self.region)


def anchor(page: Page, region: Region) -> str:
    """A name for the region that is unique in the document, also where region ids start anew on each page."""
    return region.id if region.id.startswith(f"p{page.number}-") else f"p{page.number}-{region.id}"


def in_order(page: Page) -> list[Region]:
    """The page's regions by their reading order."""
    return sorted(page.regions, key=lambda region: region.order)


def is_empty(region: Region) -> bool:
    """Whether there is nothing to write: no content, no picture, and no error to tell of. A figure is never empty."""
    has_content = region.text.strip() or region.latex or region.html or region.cells or region.image
    return not has_content and not region.errors and region.status == "ok" and region.type is not RegionType.FIGURE


def table_cells(region: Region) -> list[Cell]:
    """The cells of a table: its own, else those in its HTML; [] when it was not read as a table."""
    if region.type is not RegionType.TABLE:
        return []
    return region.cells or html_to_cells(region.html or "")


def blocks(doc: Document, keep_paratext: bool = False) -> list[Block]:
    """All blocks of the document. A caption directly follows (figure) or precedes (table) in its block's `captions`."""
    result: list[Block] = []
    heads: dict[str, Block] = {}  # region id -> the block that its text went to; a later page may use the id again
    vocabulary: frozenset[str] | None = None
    for page, region in _regions(doc, keep_paratext):
        head = heads.get(region.continues) if region.continues else None
        if head is not None and head.type is RegionType.TABLE and table_cells(region):
            head.parts.append((page, region))
            heads[region.id] = head
            continue
        if head is not None and head.type is not RegionType.TABLE and region.text.strip():
            if vocabulary is None and head.text.endswith(tuple(HYPHENS)):
                vocabulary = vocabulary_of(line.text for p in doc.pages for r in p.regions for line in r.lines)
            head.text = join_pair(head.text, region.text, vocabulary)
            head.parts.append((page, region))
            heads[region.id] = head
            continue
        block = Block(page, region, _text(region), [(page, region)])
        heads[region.id] = block
        result.append(block)
    for block in result:  # only now: a row is known by its dots, also to what is joined to it
        block.text = short_leaders(block.text)
    return _with_captions(doc, result)


def _text(region: Region) -> str:
    text = clean(region.text).rstrip()
    return text.lstrip("\n") if region.type is RegionType.LIST else text.lstrip()  # indentation is a list's nesting


def _regions(doc: Document, keep_paratext: bool) -> Iterator[tuple[Page, Region]]:
    for page in doc.pages:
        for region in in_order(page):
            if not is_empty(region) and (keep_paratext or region.type not in PARATEXT):
                yield page, region


def _with_captions(doc: Document, found: list[Block]) -> list[Block]:
    owner: dict[int, Region] = {}
    for page in doc.pages:
        regions = {id(region): region for region in page.regions}
        owner.update({key: regions[target] for key, target in caption_targets(page).items()})
    by_region = {id(block.region): block for block in found}
    result = []
    for block in found:
        target = owner.get(id(block.region))
        if target is not None and id(target) in by_region:
            by_region[id(target)].captions.append(block)
        else:
            result.append(block)
    return result

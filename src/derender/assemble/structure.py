"""The stages that give a read document its structure, each a pure (Document) -> Document, in the order they need.

Regions come in with their type from the layout and their text read; they leave with list items, heading levels,
captions by their figures, paratext told apart and broken paragraphs linked. No stage drops a region or a letter of
text.
"""

from __future__ import annotations

from collections.abc import Callable

from derender.assemble.captions import mark_captions, place_captions
from derender.assemble.flow import mark_continued, mark_references
from derender.assemble.headings import level_titles
from derender.assemble.lists import mark_lists
from derender.assemble.paratext import mark_paratext
from derender.assemble.script import clean
from derender.assemble.table_joins import mark_joined_tables
from derender.document import Document, Page, Region

Stage = Callable[[Document], Document]


def clean_text(doc: Document) -> Document:
    """Takes out of every text what no output format can hold (control characters, lone surrogates)."""
    return doc.model_copy(update={"pages": [clean_page(page) for page in doc.pages]})


def clean_page(page: Page) -> Page:
    """The same for one page."""
    return page.model_copy(update={"regions": [_clean_region(region) for region in page.regions]})


def _clean_region(region: Region) -> Region:
    texts = [region.text, *(line.text for line in region.lines), *(cell.text for cell in region.cells)]
    if all(clean(text) == text for text in texts):
        return region
    lines = [line.model_copy(update={"text": clean(line.text)}) for line in region.lines]
    cells = [cell.model_copy(update={"text": clean(cell.text)}) for cell in region.cells]
    return region.model_copy(update={"text": clean(region.text), "lines": lines, "cells": cells})


# Paratext first, so that headers do not count as headings; references before lists, so that "[1]" entries are not
# items.
STAGES: tuple[Stage, ...] = (
    clean_text,
    mark_paratext,
    mark_captions,
    mark_references,
    mark_lists,
    level_titles,
    place_captions,
    mark_continued,
)


def structure(doc: Document, join_tables: bool = True) -> Document:
    """All stages in order. The given document is left as it was. join_tables: link tables that go on on the next
    page."""
    for stage in STAGES:
        doc = stage(doc)
    return mark_joined_tables(doc) if join_tables else doc

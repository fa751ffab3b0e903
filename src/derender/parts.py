"""Finished pages of a document that is still being read, on disk, so that an interrupted run can be taken up again.

Each page is a file of its own, DIR/NAME/.pages/000001.json, written under another name and renamed: what is there is
whole. key.json beside them says which bytes, settings and version they were made with; pages of any other are thrown
away. The folder lasts until the document's output is complete. Local files only (derender.scale.store is for URIs), one
process at a time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from derender import __version__
from derender.assemble.structure import clean_page
from derender.document import Page

FOLDER = ".pages"


class PageParts:
    """The pages of one document. folder: the document's output folder, which need not exist yet.

    source and settings: what the pages depend on, comparable after a round trip through JSON.
    """

    def __init__(self, folder: Path, source: dict[str, Any] | None, settings: dict[str, Any]) -> None:
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        self._folder = folder / FOLDER
        self._key = json.dumps({"version": __version__, "source": source, "settings": settings}, sort_keys=True)

    def load(self) -> dict[int, Page]:
        """Pages that an earlier run finished, by number; a damaged one counts as missing."""
        key = self._folder / "key.json"
        if not key.is_file() or key.read_text(encoding="utf-8") != self._key:
            return {}
        pages = {}
        for path in sorted(self._folder.iterdir()):
            if re.fullmatch(r"\d+\.json", path.name):
                try:
                    page = Page.model_validate_json(path.read_bytes())
                except ValueError:
                    continue
                pages[page.number] = page
        return pages

    def add(self, page: Page) -> None:
        """Keeps a page. Raises OSError when the disk does."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
            self._write("key.json", self._key)
        self._write(f"{page.number:06d}.json", clean_page(page).model_dump_json(exclude_none=True))

    def remove(self) -> None:
        """Drops all pages, and the folders that were made for them if nothing else is in them."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for path in self._made:  # innermost first
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def _write(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(text, encoding="utf-8", newline="\n")
        os.replace(new, self._folder / name)

"""Document > Page > Region > (Line, Cell, Token): the one model that every reader fills and every writer draws from.

Units and frames, valid everywhere in this file:
- a box is (x0, y0, x1, y1) in page points (1/72 inch), origin at the page's top-left corner, x to the right, y down;
- the frame is the page as a viewer shows it (the PDF's /Rotate flag or the image's EXIF orientation applied). When the
  *content* lies on its side or upside down, `Page.content_rotation` says by how many degrees clockwise the picture was
  turned before reading; boxes are mapped back to the frame above;
- `box_1000` is the same box normalised to 0-1000 in both directions, as MinerU's content_list.json writes it.

Does not read or write any format but its own JSON; writers are in `derender.assemble`.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

Box = tuple[float, float, float, float]
Status = Literal["ok", "partial", "failed"]
Source = Literal["ocr", "text_layer", "none"]


class RegionType(StrEnum):
    """Kinds of region; the first group is body, the second ("paratext") is left out of Markdown by default."""

    TITLE = "title"
    TEXT = "text"
    LIST = "list"
    TABLE = "table"
    FORMULA = "formula"
    FIGURE = "figure"
    CAPTION = "caption"
    FOOTNOTE = "footnote"
    REFERENCE = "reference"

    HEADER = "header"
    FOOTER = "footer"
    PAGE_NUMBER = "page_number"


PARATEXT = frozenset({RegionType.HEADER, RegionType.FOOTER, RegionType.PAGE_NUMBER})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Token(_Model):
    """One decoded token: its text, the probability it was committed with, and the forward (step) that committed it."""

    text: str
    confidence: float
    step: int | None = None


class Line(_Model):
    """One text line of a region. `text` is what was read in this line alone, line-end hyphen kept (raw text)."""

    box: Box
    text: str = ""


class Cell(_Model):
    """One table cell; row and col count from 0, spans are at least 1."""

    row: int
    col: int
    rowspan: int = 1
    colspan: int = 1
    header: bool = False
    text: str = ""
    box: Box | None = None
    confidence: float | None = None


class Region(_Model):
    """A part of a page that is read as one: `order` is its place in the page's reading order, from 0."""

    id: str
    type: RegionType
    order: int
    box: Box
    box_1000: tuple[int, int, int, int] = (0, 0, 0, 0)
    level: int | None = Field(default=None, description="Heading level from 1, for titles only")
    text: str = Field(default="", description="Flowing text: lines joined, line-end hyphens mended")
    latex: str | None = None
    html: str | None = None
    cells: list[Cell] = []
    lines: list[Line] = []
    tokens: list[Token] | None = None
    confidence: float | None = Field(default=None, description="Mean token confidence, 0-1; None for text_layer")
    source: Source = "none"
    image: str | None = Field(default=None, description="Path of the cropped picture, relative to the document's JSON")
    continues: str | None = Field(default=None, description="id of the region whose paragraph or table goes on here")
    status: Status = "ok"
    errors: list[str] = []
    trace: list[dict[str, Any]] | None = None


class Page(_Model):
    """One page. `number` counts from 1 in the file, also when only some pages were asked for."""

    number: int
    width: float
    height: float
    dpi: float = Field(description="Resolution the page was rendered at; lower than asked for when a cap applied")
    content_rotation: Literal[0, 90, 180, 270] = 0
    regions: list[Region] = []
    coverage: float | None = Field(default=None, description="Share of detected text lines that ended in a region")
    seconds: dict[str, float] = {}
    warnings: list[str] = []
    errors: list[str] = []
    status: Status = "ok"


class Document(_Model):
    """A whole document and how it was made."""

    schema_version: Literal["1"] = "1"
    name: str
    pages: list[Page] = []
    page_count: int = Field(default=0, description="Pages in the file, also those not asked for")
    status: Status = "ok"
    warnings: list[str] = []
    errors: list[str] = []
    meta: dict[str, Any] = Field(default={}, description="Version, model, mode, decode settings and statistics")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unit(self) -> str:
        return "pt, origin top-left"

    def to_json(self, indent: int | None = 1) -> str:
        """The document as JSON text; `Document.from_json` reads it back unchanged."""
        return self.model_dump_json(indent=indent, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Document:
        """Inverse of to_json. Raises pydantic.ValidationError when the text is not such a document."""
        import json

        data = json.loads(text)
        data.pop("unit", None)
        return cls.model_validate(data)

    def to_markdown(self, **options: Any) -> str:
        """Markdown text; options as in derender.assemble.markdown.to_markdown."""
        from derender.assemble.markdown import to_markdown

        return to_markdown(self, **options)

    def to_html(self, **options: Any) -> str:
        """One self-contained HTML page; options as in derender.assemble.html.to_html."""
        from derender.assemble.html import to_html

        return to_html(self, **options)

    def to_content_list(self) -> list[dict[str, Any]]:
        """The flat list of blocks that MinerU calls content_list.json."""
        from derender.assemble.content_list import to_content_list

        return to_content_list(self)


def box_1000(box: Box, width: float, height: float) -> tuple[int, int, int, int]:
    """`box` in points, normalised to 0-1000 of the page's width and height and clipped to the page."""

    def norm(value: float, size: float) -> int:
        return max(0, min(1000, round(1000 * value / size))) if size > 0 else 0

    return (norm(box[0], width), norm(box[1], height), norm(box[2], width), norm(box[3], height))


def load(path: str | os.PathLike[str]) -> Document:
    """Reads a document that was written as JSON."""
    return Document.from_json(Path(path).read_bytes())

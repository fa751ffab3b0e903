"""What passes between the pipeline and a recogniser: Request in, Result out.

A recogniser is anything with `recognise(requests) -> iterator of results`. Does not know of pages or files: a Request
is a picture and a task, and boxes in it are in pixels of that picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from derender.decode.config import DecodeConfig
from derender.document import Box, Cell

Task = Literal["text", "formula", "table", "layout"]
TASKS: tuple[Task, ...] = ("text", "formula", "table", "layout")
Image = npt.NDArray[np.uint8]  # (height, width, 3) RGB
Quad = tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
"""Corners clockwise from the text's own top-left: left-top, right-top, right-bottom, left-bottom; pixels."""


@dataclass(frozen=True)
class Request:
    """One region to read.

    image: (H, W, 3) uint8 RGB. lines: the region's text lines in reading order as quads in pixels of `image`;
    None asks the recogniser to detect them; an empty tuple says that there are none. origin: where the crop's top-left
    pixel lies in the page's picture, for the caller's use only. formula: where the formula itself lies, when the crop
    holds its number too. decode: in place of the recogniser's own settings. on_text: called with each piece of text as
    it is committed (text requests only), in the recogniser's thread.
    """

    id: str
    image: Image
    task: Task = "text"
    lines: tuple[Quad, ...] | None = None
    origin: tuple[float, float] = (0.0, 0.0)
    formula: Box | None = None
    decode: DecodeConfig | None = None
    on_text: Callable[[str], None] | None = None


@dataclass(frozen=True)
class TokenOut:
    """One committed token: text, probability at commit (float32), forward number in its request (from 1)."""

    text: str
    confidence: float
    step: int


@dataclass
class DecodeStats:
    """What decoding one request cost. forwards counts the forwards this request took part in, prefill excluded."""

    mode: str = ""
    tokens: int = 0
    forwards: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards if self.forwards else 0.0

    def add(self, part: DecodeStats) -> None:
        """Takes in what a part of the request cost; the mode is that of the last part."""
        self.mode = part.mode
        self.tokens += part.tokens
        self.forwards += part.forwards
        self.seconds += part.seconds


@dataclass
class Result:
    """The reading of one Request, same id. status "partial": `errors` says what is missing or doubtful."""

    id: str
    text: str = ""
    tokens: list[TokenOut] = field(default_factory=list)
    line_texts: list[str] = field(default_factory=list)
    """The tower's own (CTC) reading of each line, in the order of Request.lines; raw, hyphens kept."""
    lines: tuple[Quad, ...] = ()
    latex: str | None = None
    text_confidence: float | None = None
    """Of a formula's text; `tokens` are those of its LaTeX."""
    html: str | None = None
    otsl: str | None = None
    cells: list[Cell] = field(default_factory=list)
    """A table's cells, their boxes in pixels of Request.image."""
    status: Literal["ok", "partial", "failed"] = "ok"
    errors: list[str] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)
    trace: list[dict[str, Any]] | None = None

    @property
    def confidence(self) -> float | None:
        """Mean token confidence, or None when there is no token."""
        return sum(t.confidence for t in self.tokens) / len(self.tokens) if self.tokens else None


class Recogniser(Protocol):
    """Reads regions. Results may come in any order; each request gives exactly one result.

    CompactRecogniser also takes None among the requests: there is none right now, but ask again later.
    """

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]: ...

"""What passes between evaluation set, reader and report.

A reader is anything with `read_crops` and `parse_page`; it knows nothing of truths or metrics. Boxes here are
normalised to the page: (x0, y0, x1, y1) as shares of its width and height, origin top left, so that readers that
render at different resolutions compare without a conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

NormBox = tuple[float, float, float, float]
Image = npt.NDArray[np.uint8]  # (height, width, 3) RGB
CropTask = Literal["line", "block", "formula", "table"]


@dataclass(frozen=True)
class Block:
    """One block that a reader found, in its reading order. type: the reader's name for it, "" when it has none."""

    text: str
    box: NormBox | None = None
    type: str = ""


@dataclass(frozen=True)
class PageReading:
    """One page. markdown is None for readers that write plain text only."""

    blocks: tuple[Block, ...] = ()
    markdown: str | None = None


@dataclass(frozen=True)
class Reading:
    """A whole document: its pages in order and, if the reader writes it, the Markdown of all of them together."""

    pages: tuple[PageReading, ...] = ()
    markdown: str | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(b for page in self.pages for b in page.blocks)


class Reader(Protocol):
    """A system under test. lang: a hint such as "en", "zh", "de-fraktur"; readers without language models ignore it."""

    name: str

    def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
        """One text (LaTeX for formulas, HTML for tables) for each (H, W, 3) RGB picture, in order."""
        ...

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        """Reads the document file (image or PDF, one or more pages) without looking at a PDF's own words."""
        ...


@dataclass(frozen=True)
class Row:
    """One value of one file. weight: characters of the truth (micro averages); 1 where each file counts the same.
    group, subset: two ways of breaking totals down, "" for none."""

    task: str
    file: str
    metric: str
    value: float
    group: str = ""
    weight: float = 1.0
    subset: str = ""


@dataclass(frozen=True)
class Total:
    """`value` is the weighted mean of n rows; metric is NAME, NAME.GROUP or NAME.SUBSET."""

    task: str
    metric: str
    value: float
    n: int


@dataclass(frozen=True)
class Sample:
    """Prediction and truth of one file as they were compared; `error` (0-1 or more, higher is worse) ranks them.

    image: file with the picture, relative to a folder the caller knows; page: of that file, from 1; box: the part of
    that page that is meant, None for all of it.
    """

    task: str
    file: str
    pred: str
    truth: str
    error: float
    image: str = ""
    page: int = 1
    box: NormBox | None = None


@dataclass(frozen=True)
class Skipped:
    """A file that has no score, and why."""

    task: str
    file: str
    reason: str


@dataclass
class ScoreReport:
    """Everything that was measured in one run. seconds: reading time a task (scoring and loading excluded)."""

    reader: str
    evalset: str
    rows: list[Row] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    pages: int = 0

    def total(self, task: str, metric: str) -> float:
        """Value of one total. Raises KeyError when it was not measured."""
        for t in self.totals:
            if (t.task, t.metric) == (task, metric):
                return t.value
        raise KeyError(f"{task}/{metric}")


def summarise(rows: Sequence[Row]) -> list[Total]:
    """Weighted means of every (task, metric) and every (task, metric, group or subset), in order."""
    sums: dict[tuple[str, str], tuple[float, float, int]] = {}
    for row in rows:
        for name in dict.fromkeys([row.metric, *(f"{row.metric}.{part}" for part in (row.group, row.subset) if part)]):
            value, weight, n = sums.get((row.task, name), (0.0, 0.0, 0))
            sums[row.task, name] = (value + row.value * row.weight, weight + row.weight, n + 1)
    return [Total(task, name, v / w if w else 0.0, n) for (task, name), (v, w, n) in sums.items()]

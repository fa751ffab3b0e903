"""What passes between the parts of the benchmark: samples, units, cases and rows. Measures nothing.

A *sample* is one region to decode, with its prefix built. A *unit* is what one error rate is taken over: a crop,
or a whole document whose regions have no truth of their own. A *case* is one configuration; a *row* its figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from derender.decode.config import DecodeConfig
from derender.model.prefix import RegionPrefix

REGIMES = ("region", "page", "saturated")
RUNTIMES = ("onnx", "torch")
MODES = ("ar", "block", "sliding", "exact")
Fold = Callable[[str], str]


@dataclass(frozen=True)
class Sample:
    """One region. ctc: the tower's own reading, a line of text a line. page: which page it is on, -1 = a crop."""

    name: str
    prefix: RegionPrefix
    ctc: str
    page: int = -1


@dataclass(frozen=True)
class Unit:
    """samples: indices into BenchSet.samples, in reading order. fold makes texts comparable, on both sides."""

    name: str
    samples: tuple[int, ...]
    truth: str
    fold: Fold
    separator: str = "\n"


@dataclass
class BenchSet:
    """Everything that is decoded, and what reading it with the tower cost (seconds, once, detection apart)."""

    samples: list[Sample] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    tower_seconds: float = 0.0
    detection_seconds: float = 0.0
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """Samples decoded together: one engine run with at most `batch` of them at once."""

    samples: tuple[int, ...]
    batch: int


@dataclass(frozen=True)
class Case:
    """One configuration. runtime: name of the runtime object it runs on; variant: "" for the main table's rows."""

    regime: str
    runtime: str
    config: DecodeConfig
    variant: str = ""

    @property
    def threshold(self) -> float | None:
        """The confidence that a token needs: of the threshold rule, or of exact's draft."""
        if self.config.mode == "exact":
            return None if self.config.draft == "reading" else self.config.draft_threshold
        rule = self.config.commit_rule
        return rule.value if self.config.mode != "ar" and rule.name == "threshold" else None

    @property
    def rule(self) -> str:
        if self.config.mode == "ar":
            return "next-token"
        if self.config.mode == "exact":
            return "reading" if self.config.draft == "reading" else "draft"
        return self.config.commit_rule.name

    @property
    def size(self) -> int:
        """Window rows of a forward."""
        if self.config.mode == "ar":
            return 1
        return self.config.block if self.config.mode == "block" else self.config.window


@dataclass(frozen=True)
class Row:
    """Figures of one case.

    tokens: text tokens of all samples. forwards: summed over samples, so that tokens_per_forward is that of one
    sequence in every regime. rowcost: time of a forward with a window / time of a one-row forward, at the regime's
    batch. seconds: median over repeats, prefill and decoding. speedup: over `ar` of the same regime and runtime.
    cer and relative_accuracy (= (1 - cer) / (1 - cer of ar)) are None where there is no truth.
    """

    regime: str
    runtime: str
    mode: str
    rule: str
    threshold: float | None
    block: int
    tokens: int
    forwards: int
    tokens_per_forward: float
    rowcost: float
    seconds: float
    tokens_per_second: float
    speedup: float
    cer: float | None
    relative_accuracy: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ExtraRow:
    """A case beside the main table: `variant` says what differs."""

    variant: str
    row: Row

"""DecodeConfig: every knob of the decoding engine, checked when it is made. Knows nothing of a particular model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from derender.decode.protocol import RuntimeSpec
from derender.decode.rules import CommitRule
from derender.errors import UsageError

Draft = Literal["auto", "window", "reading"]
Mode = Literal["ar", "block", "sliding", "exact", "full"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class DecodeConfig:
    """How to decode. Raises UsageError on nonsense.

    mode: ar, block, sliding, exact, or full (whole text as one block; for the ablation).
    rule: commit rule of block, sliding and full, see rules.CommitRule. block: tokens a block (full rounds up to it).
    window: most window rows of sliding and exact. max_tokens: no text is longer.
    temperature: 0 = greedy; above 0 samples (paper mode: 1) with top_k (0 = all), top_p (1 = all) and seed.
    trace: record when each token was committed. overlap: a finished block rides in the next forward (block, full).
    keep: sliding leaves confident tokens right of the first doubtful one visible in the next window.
    draft: what exact verifies: a denoised window, or the model's cheap reading (compact: CTC); auto takes the reading
    where there is one.
    draft_threshold: exact drafts the positions whose probability is above it. reuse_draft: exact tries the rest of a
    draft again behind the corrected token. fit: sliding and exact shrink the window to what `expected` says is left.
    max_rows: sliding and exact shrink their windows so that those of one forward have at most this many rows (0 = off;
    then the text may depend on what else is in the batch). repetition_guard: end loops as partial.
    """

    mode: Mode = "exact"
    rule: str = "threshold:0.95"
    block: int = 32
    window: int = 32
    max_tokens: int = 4096
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    trace: bool = False
    overlap: bool = True
    keep: bool = False
    draft: Draft = "auto"
    draft_threshold: float = 0.5
    reuse_draft: bool = True
    fit: bool = False
    max_rows: int = 0
    repetition_guard: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"unknown decode mode {self.mode!r}: use one of {', '.join(MODES)}")
        rule = self.commit_rule
        for name, low, high in (("block", 1, 1024), ("window", 1, 1024), ("max_tokens", 1, 1 << 20)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UsageError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature must be 0 or more, not {self.temperature!r}")
        if self.top_k < 0 or not 0 < self.top_p <= 1 or self.seed < 0 or self.max_rows < 0:
            raise UsageError("top_k, seed and max_rows must be 0 or more, and top_p above 0 and at most 1")
        if self.temperature == 0 and (self.top_k or self.top_p < 1):
            raise UsageError("top_k and top_p only matter when sampling: set a temperature above 0")
        if not 0 <= self.draft_threshold <= 1:
            raise UsageError(f"draft_threshold must be from 0 to 1, not {self.draft_threshold!r}")
        if self.draft not in get_args(Draft):
            raise UsageError(f"draft must be one of {', '.join(get_args(Draft))}, not {self.draft!r}")
        if self.mode == "exact" and self.temperature > 0:
            raise UsageError("mode exact verifies the greedy text and cannot sample: set the temperature to 0")
        if self.mode == "sliding" and rule.name == "schedule":
            raise UsageError("the schedule rule counts steps of a block: use it with mode block or full")
        if self.max_rows and self.mode not in ("sliding", "exact"):
            raise UsageError(f"max_rows shrinks windows, which mode {self.mode} does not allow")

    @property
    def commit_rule(self) -> CommitRule:
        return CommitRule.parse(self.rule)

    def check_against(self, spec: RuntimeSpec) -> None:
        """Raises UsageError where the model was not trained for this mode or its windows are not that long."""
        # `full` is block with one long block: valid where block is, so a runtime need not list it.
        if self.mode not in spec.valid_modes and not (self.mode == "full" and "block" in spec.valid_modes):
            name = spec.name or "this model"
            raise UsageError(f"{name} cannot decode in mode {self.mode}: use one of {', '.join(spec.valid_modes)}")
        if self.mode == "exact" and self.draft == "reading" and not spec.reading:
            raise UsageError(f"{spec.name or 'this model'} has no reading to draft from: set draft to window")
        size = {"block": self.block, "full": self.block, "ar": 1}.get(self.mode, self.window)
        if size > spec.max_window:
            raise UsageError(f"a window of {size} tokens is longer than the model's {spec.max_window}")

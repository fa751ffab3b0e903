"""`derender bench speed`: all decode modes on the same prefixes, weights and threads, in one interleaved run.

`ar` is the baseline: one row a token, with the draft, cache, quantisation and batching of the others. Builds the cases,
runs them and derives the rows; reading inputs is in samples.py, timing in measure.py, files in report.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from derender.bench.measure import (
    CLOCKS,
    Outcome,
    error_rate,
    groups_of,
    make_row,
    row_times,
    run_interleaved,
)
from derender.bench.positions import PositionTable, position_table
from derender.bench.types import MODES, REGIMES, RUNTIMES, BenchSet, Case, ExtraRow, Group, Row
from derender.decode.config import DecodeConfig
from derender.errors import UsageError
from derender.model.tokens import Vocab
from derender.model.tower import WEIGHTS
from derender.score.metrics import count_errors

THRESHOLDS = (0.5, 0.6, 0.75, 0.85, 0.9, 0.95, 0.97, 0.99)
NO_DRAFT, NO_OVERLAP, FLOAT32 = "no draft", "overlap off", "float32"
VARIANT_THRESHOLD = 0.9
TABLE_THRESHOLDS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class SpeedOptions:
    """What to measure. block: window of block, sliding and exact. Raises UsageError on nonsense."""

    modes: tuple[str, ...] = MODES
    thresholds: tuple[float, ...] = THRESHOLDS
    regimes: tuple[str, ...] = REGIMES
    block: int = 32
    threads: int = 2
    repeat: int = 3
    clock: str = "wall"

    def __post_init__(self) -> None:
        for name, given, known in (("mode", self.modes, MODES), ("regime", self.regimes, REGIMES)):
            for value in given:
                if value not in known:
                    raise UsageError(f"unknown {name} {value!r}: use {', '.join(known)}")
        if not self.regimes or self.repeat < 1 or self.threads < 1:
            raise UsageError("give at least one regime, and repeat and threads of at least 1")
        if self.clock not in CLOCKS:
            raise UsageError(f"unknown clock {self.clock!r}: use {', '.join(CLOCKS)}")


@dataclass
class SpeedReport:
    """Rows of the main table, rows beside it, and errors by position of the first regime and runtime."""

    rows: list[Row] = field(default_factory=list)
    extras: list[ExtraRow] = field(default_factory=list)
    positions: list[tuple[str, int, PositionTable]] = field(default_factory=list)
    """(label, number of positions, table)"""
    ctc_cer: float | None = None
    tower_seconds: float = 0.0
    detection_seconds: float = 0.0
    samples: int = 0
    units: int = 0
    overlap: tuple[int, int] | None = None
    """Forwards of block mode with and without finished blocks riding along."""
    exact_differs: int = 0
    """Samples whose `exact` text is not that of `ar`, in any regime and runtime."""
    partial: int = 0
    notes: list[str] = field(default_factory=list)


def main_configs(options: SpeedOptions) -> list[DecodeConfig]:
    """`ar` once, whether asked for or not; the others at each threshold; `exact` also with the reading as draft."""
    b = options.block
    out = [DecodeConfig(mode="ar", block=b)]
    for t in options.thresholds:
        if "block" in options.modes:
            out.append(DecodeConfig(mode="block", rule=f"threshold:{t:g}", block=b))
        if "sliding" in options.modes:
            out.append(DecodeConfig(mode="sliding", rule=f"threshold:{t:g}", window=b, block=b))
        if "exact" in options.modes:
            out.append(DecodeConfig(mode="exact", draft="window", draft_threshold=t, window=b, block=b))
    if "exact" in options.modes:
        out.append(DecodeConfig(mode="exact", draft="reading", window=b, block=b))
    return out


def all_cases(options: SpeedOptions, runtimes: Sequence[str]) -> list[Case]:
    """The main table's cases on each plain runtime, and the variants on `onnx` in the first regime.

    runtimes: `onnx`, `torch`, and `onnx/no draft`, `onnx/float32` for the variants.
    """
    cases = [
        Case(regime, runtime, config)
        for regime in options.regimes
        for runtime in runtimes
        if "/" not in runtime
        for config in main_configs(options)
    ]
    first, rule = options.regimes[0], f"threshold:{VARIANT_THRESHOLD:g}"
    base = next((r for r in runtimes if "/" not in r), None)
    if base is None:
        return cases
    block = DecodeConfig(mode="block", rule=rule, block=options.block)
    sliding = DecodeConfig(mode="sliding", rule=rule, window=options.block, block=options.block)
    ar = DecodeConfig(mode="ar", block=options.block)
    cases.append(
        Case(first, base, DecodeConfig(mode="block", rule=rule, block=options.block, overlap=False), NO_OVERLAP)
    )
    cases.append(Case(first, base, block, "overlap on"))
    for name in runtimes:
        if "/" in name:
            cases += [Case(first, name, config, name.split("/")[1]) for config in (ar, sliding)]
    return cases


def measure_speed(
    found: BenchSet,
    vocab: Vocab,
    runtimes: Mapping[str, Any],
    options: SpeedOptions,
    progress: Callable[[str], None] = lambda _text: None,
) -> SpeedReport:
    """Runs everything. runtimes: by name, see all_cases; all of them decode the same prefixes."""
    clock = CLOCKS[options.clock]
    groups = {regime: groups_of(regime, found.samples) for regime in options.regimes}
    cases = all_cases(options, list(runtimes))
    costs = _row_costs(cases, found, runtimes, groups, clock)
    outcomes = run_interleaved(cases, runtimes, groups, found.samples, options.repeat, clock, progress)
    report = SpeedReport(
        ctc_cer=_ctc_rate(found),
        tower_seconds=found.tower_seconds,
        detection_seconds=found.detection_seconds,
        samples=len(found.samples),
        units=len(found.units),
        notes=[f"left out: {text}" for text in found.skipped],
    )
    for case, outcome in outcomes.items():
        # a variant runtime has an `ar` of its own for the speed-up; accuracy is always against the plain one
        same = [c for c in outcomes if c.regime == case.regime and c.config.mode == "ar"]
        baseline = outcomes[next(c for c in same if c.runtime == case.runtime)]
        plain = outcomes[next(c for c in same if c.runtime == case.runtime.split("/")[0])]
        cer, ar_cer = (error_rate(found.units, o, vocab) for o in (outcome, plain))
        cost = costs[(case.regime, case.runtime)]
        row = make_row(case, outcome, baseline, cost[case.size] / cost[1], cer, ar_cer)
        report.partial += outcome.not_ok if not case.variant else 0
        if case.config.mode == "exact":
            report.exact_differs += sum(outcome.tokens[i] != baseline.tokens[i] for i in outcome.tokens)
        if case.variant:
            report.extras.append(ExtraRow(case.variant, row))
        else:
            report.rows.append(row)
    report.overlap = _overlap(outcomes)
    report.positions = _positions(outcomes, found, vocab, options)
    return report


def _row_costs(
    cases: Sequence[Case], found: BenchSet, runtimes: Mapping[str, Any], groups: Mapping[str, list[Group]], clock: Any
) -> dict[tuple[str, str], dict[int, float]]:
    """Seconds of a forward by (regime, runtime) and rows, on a group that is typical of the regime."""
    out = {}
    lengths = [len(s.prefix.draft_D) for s in found.samples]
    for key in dict.fromkeys((case.regime, case.runtime) for case in cases):
        sizes = sorted({1, *(c.size for c in cases if (c.regime, c.runtime) == key)})
        # the middle token's group and region: most forwards are made in the long ones
        group = _middle(groups[key[0]], [sum(lengths[i] for i in g.samples) for g in groups[key[0]]])
        chosen = sorted(group.samples, key=lambda i: lengths[i])
        if len(chosen) > group.batch:
            chosen = chosen[:: len(chosen) // group.batch][: group.batch]
        out[key] = row_times(runtimes[key[1]], [found.samples[i].prefix for i in chosen], sizes, clock)
    return out


def _middle(groups: Sequence[Group], weights: Sequence[int]) -> Group:
    """The group, in order of weight, in which half of all weight is reached."""
    order = sorted(range(len(groups)), key=lambda i: weights[i])
    reached = 0
    for i in order:
        reached += weights[i]
        if 2 * reached >= sum(weights):
            return groups[i]
    return groups[order[-1]]


def _ctc_rate(found: BenchSet) -> float | None:
    edits = length = 0
    for unit in found.units:
        text = unit.separator.join(found.samples[i].ctc for i in unit.samples)
        count = count_errors(unit.fold(text), unit.fold(unit.truth))
        edits, length = edits + count.edits, length + count.length
    return edits / length if length else None


def _overlap(outcomes: Mapping[Case, Outcome]) -> tuple[int, int] | None:
    by_variant = {case.variant: outcome.forwards for case, outcome in outcomes.items()}
    return (by_variant["overlap on"], by_variant[NO_OVERLAP]) if NO_OVERLAP in by_variant else None


def _positions(
    outcomes: Mapping[Case, Outcome], found: BenchSet, vocab: Vocab, options: SpeedOptions
) -> list[tuple[str, int, PositionTable]]:
    """Of the first regime and runtime: ar, and block and sliding at the lowest, middle and highest threshold."""
    first = next(iter(outcomes))
    wanted = {t for t in TABLE_THRESHOLDS if t in options.thresholds} or set(options.thresholds)
    out = []
    for case, outcome in outcomes.items():
        if case.variant or (case.regime, case.runtime) != (first.regime, first.runtime) or case.config.mode == "exact":
            continue
        if case.config.mode != "ar" and case.threshold not in wanted:
            continue
        label = "ar" if case.config.mode == "ar" else f"{case.config.mode} {case.threshold:g}"
        out.append((label, options.block, position_table(case, outcome, found.units, vocab)))
    return out


def make_runtimes(
    names: Sequence[str],
    vocab: Vocab,
    threads: int,
    checkpoint: Path | None = None,
    float32: Path | None = None,
    weights: Path | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Runtimes by name, and notes on what was left out. weights: an export's folder, None = the packaged one; PyTorch
    runs its int8 weights too, as float32, unless it is given a checkpoint.

    Raises UsageError for unknown names or when no runtime is left.
    """
    from derender.model.runtime_onnx import OnnxRuntime

    unknown = [name for name in names if name not in RUNTIMES]
    if unknown:
        raise UsageError(f"unknown runtime {unknown[0]!r}: use {', '.join(RUNTIMES)}")
    runtimes: dict[str, Any] = {}
    notes = []
    if "onnx" in names:
        runtimes["onnx"] = OnnxRuntime(vocab, weights, threads=threads)
        runtimes[f"onnx/{NO_DRAFT}"] = OnnxRuntime(vocab, weights, threads=threads, use_draft=False)
        if float32 is not None:
            runtimes[f"onnx/{FLOAT32}"] = OnnxRuntime(vocab, float32, threads=threads)
    if "torch" in names and not (find_spec("torch") and find_spec("onnx")):
        notes.append("the torch runtime was left out: pip install 'derender[torch]'")
    elif "torch" in names:
        import torch

        from derender.model.restore import restore
        from derender.model.runtime_torch import TorchRuntime
        from derender.train.loop import load_decoder

        torch.set_num_threads(threads)
        model = load_decoder(checkpoint) if checkpoint else restore(weights or WEIGHTS)
        runtimes["torch"] = TorchRuntime(model, vocab)
    if not runtimes:
        raise UsageError("no runtime is left to measure: torch needs pip install 'derender[torch]'")
    return runtimes, notes


def bounds(rows: Sequence[Row], at_least: float = 0.999) -> list[tuple[str, str, Row | None, Row | None]]:
    """For each regime and runtime: the fastest row with relative accuracy of at least this, and the fastest exact."""
    out = []
    for key in dict.fromkeys((r.regime, r.runtime) for r in rows):
        mine = [r for r in rows if (r.regime, r.runtime) == key and r.mode != "ar"]
        good = [r for r in mine if r.relative_accuracy is not None and r.relative_accuracy >= at_least]
        exact = [r for r in mine if r.mode == "exact"]
        fastest = [max(some, key=lambda r: r.speedup) if some else None for some in (good, exact)]
        out.append((*key, *fastest))
    return out  # type: ignore[return-value]

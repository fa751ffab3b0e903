"""Runs cases and times them: interleaved, several repeats, on prefixes made beforehand; and what a row costs.

The engine's prefill and decoding are timed, nothing else. Does not read pictures and does not write reports.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from derender.bench.types import Case, Group, Row, Sample, Unit
from derender.decode.engine import Engine
from derender.decode.protocol import Rows
from derender.errors import ModelError
from derender.model.tokens import Vocab
from derender.score.metrics import count_errors

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}
SATURATED = 40
CROPS_A_PAGE = 8
BATCH_LEAD = 32
"""Tokens committed before a row is timed: a cache as full as in the middle of a text."""


@dataclass
class Outcome:
    """What decoding with one case gave. tokens, steps: per sample (by index), committed ids and their forwards."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    steps: dict[int, list[int]] = field(default_factory=dict)
    forwards: int = 0
    engine_forwards: int = 0
    rides: int = 0
    not_ok: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def token_count(self) -> int:
        return sum(map(len, self.tokens.values()))


def groups_of(regime: str, samples: Sequence[Sample]) -> list[Group]:
    """region: one at a time, crops if there are any. page: a page's regions together, or crops by eight. saturated:
    everything, forty at a time."""
    crops = tuple(i for i, s in enumerate(samples) if s.page < 0)
    paged = [i for i, s in enumerate(samples) if s.page >= 0]
    if regime == "region":
        return [Group((i,), 1) for i in crops or tuple(paged)]
    if regime == "saturated":
        return [Group(tuple(range(len(samples))), SATURATED)]
    if not paged:
        chunks = [crops[i : i + CROPS_A_PAGE] for i in range(0, len(crops), CROPS_A_PAGE)]
        return [Group(chunk, len(chunk)) for chunk in chunks]
    pages: dict[int, list[int]] = {}
    for i in paged:
        pages.setdefault(samples[i].page, []).append(i)
    return [Group(tuple(page), len(page)) for page in pages.values()]


def run_once(case: Case, runtime: Any, groups: Sequence[Group], samples: Sequence[Sample], clock: Clock) -> Outcome:
    """Decodes all groups with one case. Raises ModelError when a region fails: figures without it would be wrong."""
    out = Outcome()
    total = 0.0
    for group in groups:
        engine: Engine[Any, Any] = Engine(runtime, case.config, max_batch=group.batch, prefill_group=group.batch)
        began = clock()
        results = list(engine.run((i, samples[i].prefix) for i in group.samples))
        total += clock() - began
        for result in results:
            if result.status == "failed":
                raise ModelError(f"{samples[int(str(result.id))].name} cannot be decoded: {result.errors[0]}")
            index = int(str(result.id))
            out.tokens[index], out.steps[index] = result.tokens, result.steps
            out.forwards += result.stats.forwards
            out.not_ok += result.status != "ok"
        out.engine_forwards += engine.stats.forwards
        out.rides += engine.stats.rides
    out.seconds.append(total)
    return out


def run_interleaved(
    cases: Sequence[Case],
    runtimes: Mapping[str, Any],
    groups: Mapping[str, Sequence[Group]],
    samples: Sequence[Sample],
    repeat: int,
    clock: Clock,
    progress: Callable[[str], None] = lambda _text: None,
) -> dict[Case, Outcome]:
    """Every case once, then every case again, ...: what else the machine does meets all of them alike."""
    for name in dict.fromkeys(case.runtime for case in cases):  # first calls allocate; nobody pays for that
        case = next(c for c in cases if c.runtime == name)
        run_once(case, runtimes[name], list(groups[case.regime])[:2], samples, clock)
    out: dict[Case, Outcome] = {}
    for turn in range(repeat):
        gc.collect()
        for case in cases:
            outcome = run_once(case, runtimes[case.runtime], groups[case.regime], samples, clock)
            if case in out:
                out[case].seconds += outcome.seconds
            else:
                out[case] = outcome
            c = case.config
            progress(f"{turn + 1}/{repeat} {case.regime} {case.runtime} {c.mode} {case.threshold or ''} {case.variant}")
    return out


def row_times(
    runtime: Any, prefixes: Sequence[Any], sizes: Sequence[int], clock: Clock, repeat: int = 15
) -> dict[int, float]:
    """Median seconds of a forward over all prefixes at once: for size 1 a token of `ar`, for others a window of masks.

    Interleaved over sizes. Each sequence first gets BATCH_LEAD of its drafted tokens.
    """
    mask = runtime.spec.mask_id
    seqs = runtime.prefill(list(prefixes))
    lead = [[runtime.spec.bos_id, *p.draft_D[:BATCH_LEAD].tolist()] for p in prefixes]
    runtime.forward([Rows(seq, tokens) for seq, tokens in zip(seqs, lead, strict=True)])
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(repeat + 2):
        for size in sizes:
            if size == 1:
                rows = [
                    Rows(seq, [int(p.draft_D[-1])], (), want_next=True) for seq, p in zip(seqs, prefixes, strict=True)
                ]
            else:
                rows = [Rows(seq, (), [mask] * size) for seq in seqs]
            began = clock()
            runtime.forward(rows)
            spent = clock() - began
            if size == 1:
                for seq in seqs:
                    runtime.truncate(seq, seq.length - 1)
            if turn >= 2:
                times[size].append(spent)
    for seq in seqs:
        runtime.release(seq)
    return {size: median(values) for size, values in times.items()}


def error_rate(units: Sequence[Unit], outcome: Outcome, vocab: Vocab) -> float | None:
    """Edits over characters of all units that were decoded whole; None without any."""
    edits = length = 0
    for unit in units:
        if all(i in outcome.tokens for i in unit.samples):
            text = unit.separator.join(vocab.decode(outcome.tokens[i]) for i in unit.samples)
            count = count_errors(unit.fold(text), unit.fold(unit.truth))
            edits, length = edits + count.edits, length + count.length
    return edits / length if length else None


def make_row(
    case: Case, outcome: Outcome, baseline: Outcome, rowcost: float, cer: float | None, ar_cer: float | None
) -> Row:
    """The figures of a case. baseline: `ar` of the same regime and runtime."""
    seconds, ar_seconds = median(outcome.seconds), median(baseline.seconds)
    tokens = outcome.token_count
    rate, ar_rate = tokens / seconds, baseline.token_count / ar_seconds
    relative = None if cer is None or ar_cer is None or ar_cer >= 1 else (1 - cer) / (1 - ar_cer)
    return Row(
        regime=case.regime,
        runtime=case.runtime.split("/")[0],
        mode=case.config.mode,
        rule=case.rule,
        threshold=case.threshold,
        block=case.size,
        tokens=tokens,
        forwards=outcome.forwards,
        tokens_per_forward=tokens / outcome.forwards if outcome.forwards else 0.0,
        rowcost=rowcost,
        seconds=seconds,
        tokens_per_second=rate,
        speedup=rate / ar_rate,
        cer=cer,
        relative_accuracy=relative,
    )

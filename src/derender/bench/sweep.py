"""The sweep behind the default settings: block size x denoise steps T x commit rule -> accuracy, tokens per forward.

Counts forwards and errors, which do not depend on the machine; times nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from derender.bench.measure import error_rate, run_once
from derender.bench.types import BenchSet, Case, Group
from derender.decode.config import DecodeConfig
from derender.errors import UsageError
from derender.model.tokens import Vocab

BLOCKS = (4, 8, 16, 24, 32, 48)
STEPS = (1, 2, 4, 8, 16, 32)
RULES = ("threshold:0.5", "threshold:0.9", "threshold:0.95", "factor:1", "entropy:0.5", "hierarchy:0.9")
BATCH = 16


def sweep_rules(block: int) -> list[str]:
    """Cosine schedules of up to `block` steps, and the rules that count none."""
    return [f"schedule:cosine:{t}" for t in STEPS if t <= block] + list(RULES)


def run_sweep(
    found: BenchSet,
    vocab: Vocab,
    runtime: Any,
    blocks: Sequence[int] = BLOCKS,
    progress: Callable[[str], None] = lambda _text: None,
) -> list[dict[str, Any]]:
    """Rows with block, rule, steps (None where the rule has none), tokens, forwards, tokens_per_forward, cer and
    relative_accuracy (against `ar`, the first row). Raises UsageError for a block longer than the model's windows."""
    if max(blocks) > runtime.spec.max_window:
        raise UsageError(f"blocks of up to {runtime.spec.max_window} can be swept, not {max(blocks)}")
    group = [Group(tuple(range(len(found.samples))), BATCH)]
    rows: list[dict[str, Any]] = []
    configs = [DecodeConfig(mode="ar")]
    configs += [DecodeConfig(mode="block", block=b, rule=rule) for b in blocks for rule in sweep_rules(b)]
    for config in configs:
        case = Case("saturated", "onnx", config)
        outcome = run_once(case, runtime, group, found.samples, lambda: 0.0)
        cer = error_rate(found.units, outcome, vocab)
        base = rows[0]["cer"] if rows else cer
        rows.append(
            {
                "block": case.size,
                "rule": "next-token" if config.mode == "ar" else config.rule,
                "steps": config.commit_rule.steps or None if config.mode != "ar" else None,
                "tokens": outcome.token_count,
                "forwards": outcome.forwards,
                "tokens_per_forward": outcome.token_count / outcome.forwards,
                "cer": cer,
                "relative_accuracy": None if cer is None or base is None or base >= 1 else (1 - cer) / (1 - base),
            }
        )
        progress(f"{config.mode} block {case.size} {config.rule}")
    return rows

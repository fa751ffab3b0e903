"""Writes what was measured: speed.json, speed_more.json, speed.md, sweep.json, sweep.md. Measures and draws nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derender.bench.positions import PositionTable
from derender.bench.speed import SpeedReport, bounds
from derender.bench.types import Row

REGIME_TEXT = {
    "region": "one region at a time",
    "page": "one page at a time, its regions batched",
    "saturated": "everything, 40 regions at a time",
}
HEAD = [
    "mode",
    "rule",
    "threshold",
    "tokens/s",
    "speed-up",
    "tokens/forward",
    "row cost",
    "forwards",
    "CER %",
    "relative accuracy %",
]


def write_speed_json(report: SpeedReport, machine: dict[str, Any], model: dict[str, Any], path: Path) -> None:
    """Two files: `path`, a list of dictionaries with Row's keys, and beside it NAME_more.json with what else was found.
    extras: rows with a `variant`; positions: counts by position."""
    more = {
        "extras": [{"variant": e.variant, **e.row.as_dict()} for e in report.extras],
        "ctc": {
            "cer": report.ctc_cer,
            "tower_seconds": report.tower_seconds,
            "detection_seconds": report.detection_seconds,
        },
        "positions": [
            {
                "case": label,
                "tokens": [table.tokens[i] for i in range(size)],
                "errors": [table.errors[i] for i in range(size)],
                "unplaced": table.unplaced,
            }
            for label, size, table in report.positions
        ],
        "overlap_forwards": report.overlap,
        "exact_differs_from_ar": report.exact_differs,
        "partial": report.partial,
        "samples": report.samples,
        "units": report.units,
        "notes": report.notes,
        "machine": machine,
        "model": model,
    }
    for data, where in (
        ([row.as_dict() for row in report.rows], path),
        (more, path.with_name(f"{path.stem}_more.json")),
    ):
        where.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")


def write_speed_md(report: SpeedReport, machine: dict[str, Any], model: dict[str, Any], path: Path) -> None:
    """A table for each regime and runtime, then the rows beside it and the errors by position."""
    out = ["# Decoding speed", "", _machine_line(machine), "", f"Weights: {_model_line(model)}.", ""]
    out += [
        f"{report.samples} regions, {report.units} with a truth. Every configuration decodes the same prefixes, made "
        f"once (tower {report.tower_seconds:.1f} s, detection and layout {report.detection_seconds:.1f} s, not counted "
        "below); seconds are prefill and decoding, medians of interleaved repeats. Speed-up is over `ar` of the same "
        "table: one row a token, same draft, cache, weights and batching. Tokens per forward are a sequence's own; row "
        "cost is the time of a forward with a window of masks over that of one row at this batch size. Committed "
        "tokens ride along as further rows, so the speed-up is below tokens per forward / row cost; a draft that is "
        "read, not predicted, needs no window. Relative accuracy is (1 - CER) / (1 - CER of `ar`).",
        "",
    ]
    out += [f"- {note}" for note in _remarks(report)] + [""]
    for regime, runtime in dict.fromkeys((r.regime, r.runtime) for r in report.rows):
        rows = [r for r in report.rows if (r.regime, r.runtime) == (regime, runtime)]
        out += [f"## {REGIME_TEXT[regime].capitalize()} ({runtime})", "", *_table(HEAD, [_cells(r) for r in rows]), ""]
    out += ["## Beside the table", "", *_table(["variant", *HEAD], _extra_cells(report)), ""]
    if report.positions:
        out += ["## Errors by position", ""]
        out += [
            "Error rate (%) by a token's place in its block (`block`; `ar` as if it had blocks) or in the run that one "
            "forward committed (`sliding`).",
            "",
            *position_lines(report.positions),
            "",
        ]
    path.write_text("\n".join(out), "utf-8")


def _remarks(report: SpeedReport) -> list[str]:
    lines = []
    for regime, runtime, good, exact in bounds(report.rows):
        best = (
            f"{good.speedup:.2f}x with at least 99.9% relative accuracy ({_name(good)})"
            if good
            else "nothing reaches 99.9% relative accuracy"
        )
        verified = f"; exact {exact.speedup:.2f}x ({_name(exact)})" if exact else ""
        lines.append(f"{REGIME_TEXT[regime]}, {runtime}: {best}{verified}.")
    if any(r.mode == "exact" for r in report.rows):
        lines.append(f"Texts of `exact` that differ from `ar`: {report.exact_differs}.")
    if report.overlap:
        on, off = report.overlap
        lines.append(
            f"Block mode with finished blocks riding in the next forward: {on} forwards; with a forward of their own: "
            f"{off} ({(off - on) / off:.0%} saved)."
        )
    if report.partial:
        lines.append(f"Readings ended by a guard, over all configurations: {report.partial}.")
    return lines + report.notes


def _name(r: Row) -> str:
    return f"{r.mode}, {r.rule}" if r.threshold is None else f"{r.mode}, {r.threshold:g}"


def _cells(r: Row) -> list[str]:
    return [
        r.mode,
        r.rule,
        "" if r.threshold is None else f"{r.threshold:g}",
        f"{r.tokens_per_second:.0f}",
        f"{r.speedup:.2f}",
        f"{r.tokens_per_forward:.2f}",
        f"{r.rowcost:.2f}",
        str(r.forwards),
        "" if r.cer is None else f"{100 * r.cer:.3f}",
        "" if r.relative_accuracy is None else f"{100 * r.relative_accuracy:.3f}",
    ]


def _extra_cells(report: SpeedReport) -> list[list[str]]:
    ctc = "" if report.ctc_cer is None else f"{100 * report.ctc_cer:.3f}"
    rows = [["bare CTC reading", "", "", "", f"{report.tower_seconds:.1f} s tower", *[""] * 4, ctc, ""]]
    return rows + [[e.variant, *_cells(e.row)] for e in report.extras]


def position_lines(positions: Sequence[tuple[str, int, PositionTable]]) -> list[str]:
    """Markdown table of error rates by position."""
    size = max(size for _, size, _ in positions)
    head = ["case", *(label for label, _, _ in positions[0][2].bins(size)), "errors"]
    body = [
        [label, *(f"{100 * e / t:.2f}" if t else "–" for _, t, e in table.bins(size)), str(table.total)]
        for label, _, table in positions
    ]
    return _table(head, body)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def _machine_line(m: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {m[k]}" for k in ("onnxruntime", "torch", "numpy", "python") if k in m)
    load = "" if m["load"] is None else f" Load at the start: {m['load']} (other work makes times longer and noisier)."
    clock = "wall time" if m["clock"] == "wall" else "processor time of all threads"
    return (
        f"{m['processor']}, {m['cores']} cores, {m['threads']} thread{'s' if m['threads'] != 1 else ''}, "
        f"{m['system']}; {versions}; {clock}.{load}"
    )


def _model_line(model: dict[str, Any]) -> str:
    return ", ".join(f"{name} `{digest[:12]}`" for name, digest in model["sha256"].items())


def write_sweep(rows: list[dict[str, Any]], machine: dict[str, Any], model: dict[str, Any], out: Path) -> None:
    """sweep.json and sweep.md: accuracy and tokens per forward by block size and rule."""
    data = {"rows": rows, "machine": machine, "model": model}
    (out / "sweep.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    head = ["block", "rule", "steps T", "tokens/forward", "CER %", "relative accuracy %"]
    body = [
        [
            str(r["block"]),
            r["rule"],
            str(r["steps"] or ""),
            f"{r['tokens_per_forward']:.2f}",
            "" if r["cer"] is None else f"{100 * r['cer']:.3f}",
            "" if r["relative_accuracy"] is None else f"{100 * r['relative_accuracy']:.3f}",
        ]
        for r in rows
    ]
    lines = [
        "# Block size, steps and rule",
        "",
        f"Weights: {_model_line(model)}. Mode block, onnx.",
        "",
        *_table(head, body),
    ]
    (out / "sweep.md").write_text("\n".join(lines) + "\n", "utf-8")

"""Writes what Semantic Shuffle measured: shuffle.json, shuffle.md, shuffle.png. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from derender.bench.shuffle import ShuffleReport
from derender.bench.shuffle_scores import METRICS, Curve, Interval, compare_losses, curves
from derender.score.report import write_whole

NAMES = {"bleu": "BLEU-4", "precision": "Precision of words", "recall": "Recall of words", "edit": "Edit distance"}


def write_shuffle(report: ShuffleReport, machine: dict[str, Any], model: dict[str, Any], out: Path) -> None:
    """All three files into `out`, which is made."""
    from derender.bench.shuffle_chart import draw_shuffle

    found = curves(report.scores)
    out.mkdir(parents=True, exist_ok=True)
    data = {
        "source": report.source,
        "options": asdict(report.options),
        "pages": report.pages,
        "words": report.words,
        "scores": [asdict(s) for s in report.scores],
        "curves": [_curve(c) for c in found],
        "notes": report.notes,
        "machine": machine,
        "model": model,
    }
    write_whole(out / "shuffle.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    caption = f"{_size(report)}, {_hardness(report)}. Whiskers: 95% bootstrap over pages."
    draw_shuffle(found, caption).save(out / "shuffle.png")
    write_whole(out / "shuffle.md", "\n".join(_lines(report, found, machine, model)) + "\n")


def _curve(curve: Curve) -> dict[str, Any]:
    points = [{"fraction": f, **asdict(i)} for f, i in curve.points]
    return {"reader": curve.reader, "metric": curve.metric, "points": points, "loss": asdict(curve.loss)}


def _size(report: ShuffleReport) -> str:
    n = len(report.pages)
    return f"{n} page{'s' if n != 1 else ''}, {report.words} words"


def _hardness(report: ShuffleReport) -> str:
    o = report.options
    return f"{o.dpi:g} dpi, blur {o.blur:g} px, noise {o.noise:g}"


def _lines(report: ShuffleReport, found: Sequence[Curve], machine: dict[str, Any], model: dict[str, Any]) -> list[str]:
    o = report.options
    weights = ", ".join(f"{name} `{digest[:12]}`" for name, digest in model["sha256"].items())
    out = [
        "# Semantic Shuffle",
        "",
        "![Accuracy against the share of permuted words](shuffle.png)",
        "",
        f"Pages: {report.source}; {_size(report)}, {_hardness(report)}, seed {o.seed}. "
        f"Words of one size change places within a page; lines, font, size and measure stay. block and sliding: "
        f"{o.rule}, block {o.block}. All decode modes read the same prefixes with the same weights; `exact` writes the "
        "text of `ar` by construction; `tower alone` is the line reader without the decoder; `no draft`: the decoder "
        "does not see the tower's reading.",
        "",
        f"{machine['processor']}, {machine['threads']} thread{'s' if machine['threads'] != 1 else ''}; onnxruntime "
        f"{machine.get('onnxruntime', '?')}, python {machine['python']}. Weights: {weights}.",
        "",
        *(f"- {note}" for note in report.notes),
        *([""] if report.notes else []),
    ]
    for metric in METRICS:
        mine = [c for c in found if c.metric == metric]
        head = ["reader", *(f"{100 * f:.0f}%" for f, _ in mine[0].points), "loss, points"]
        rows = [[c.reader, *(_cell(i) for _, i in c.points), _cell(c.loss)] for c in mine]
        better = "lower" if metric == "edit" else "higher"
        out += [f"## {NAMES[metric]} (%, {better} is better)", "", *_table(head, rows), ""]
    out += _differences(report)
    return out


def _differences(report: ShuffleReport) -> list[str]:
    readers = {s.reader for s in report.scores}
    lines: list[str] = []
    for reference in ("ar", "ar, no draft"):
        if reference not in readers:
            continue
        rows = []
        bleu, edit = (dict(compare_losses(report.scores, m, reference)) for m in ("bleu", "edit"))
        for reader in bleu:
            rows.append([reader, _signed(bleu[reader]), _signed(edit[reader])])
        if rows:
            head = ["reader", "BLEU", "edit distance"]
            lines += [f"## Loss compared with `{reference}`, points", ""]
            meaning = "loses more than the reference when words are permuted"
            lines += [f"Above 0: {meaning}. Paired by page; * = 0 is outside the interval.", ""]
            lines += [*_table(head, rows), ""]
    return lines


def _cell(i: Interval) -> str:
    return f"{100 * i.mean:.2f} ({100 * i.low:.2f} to {100 * i.high:.2f})"


def _signed(i: Interval) -> str:
    sure = "" if i.low <= 0 <= i.high or i.low == i.high else " *"  # one page has no interval
    return f"{100 * i.mean:+.2f} ({100 * i.low:+.2f} to {100 * i.high:+.2f}){sure}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]

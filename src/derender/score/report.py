"""Writes a ScoreReport: JSON, and tables on a terminal. The HTML report is html_report.py.

The JSON has `rows` (task, file, metric, value, group, weight), `totals` (task, metric, value, n), `skipped`, `samples`
(prediction and truth as compared) and what was run. Values are shares, on the terminal as percentages.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from derender.score.run import worst
from derender.score.types import Row, Sample, ScoreReport, Skipped, Total


def to_dict(report: ScoreReport) -> dict[str, Any]:
    """The report as JSON data, with this package's version."""
    try:
        release = version("derender")
    except PackageNotFoundError:  # run from a source tree that is not installed
        release = "source"
    return {"derender": release, **asdict(report)}


def write_json(report: ScoreReport, path: Path) -> None:
    """Writes the report as JSON."""
    write_whole(path, json.dumps(to_dict(report), ensure_ascii=False, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a text file under a temporary name first, so that no half file is left; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8")
    part.replace(path)


def read_json(path: Path) -> ScoreReport:
    """Inverse of write_json. Raises KeyError or TypeError for JSON of another shape."""
    data = json.loads(path.read_text("utf-8"))
    return ScoreReport(
        reader=data["reader"],
        evalset=data["evalset"],
        rows=[Row(**r) for r in data["rows"]],
        totals=[Total(**t) for t in data["totals"]],
        samples=[Sample(**s | {"box": tuple(s["box"]) if s.get("box") else None}) for s in data["samples"]],
        skipped=[Skipped(**s) for s in data["skipped"]],
        seconds=data["seconds"],
        pages=data["pages"],
    )


def print_report(report: ScoreReport, console: Console, files: bool = False, worst_n: int = 10) -> None:
    """Totals, the worst files and what was skipped; files=True adds one line a file."""
    if files:
        console.print(_file_table(report))
    totals = Table(title=f"{report.reader} on {report.evalset}")
    for name in ("task", "metric", "value %", "n"):
        totals.add_column(name, justify="left" if name in ("task", "metric") else "right")
    for t in report.totals:
        totals.add_row(t.task, t.metric, f"{100 * t.value:.2f}", str(t.n))
    console.print(totals)
    bad = [s for s in worst(report, worst_n) if s.error > 0]
    if bad:
        table = Table("file", "error %", "read", "truth", title=f"Worst {len(bad)}")
        for s in bad:
            table.add_row(s.file, f"{100 * s.error:.1f}", _short(s.pred), _short(s.truth))
        console.print(table)
    for skip in report.skipped:
        console.print(f"not scored: {skip.file}: {skip.reason}", markup=False, highlight=False)
    timing = ", ".join(f"{task} {s:.1f} s" for task, s in report.seconds.items())
    pages = report.seconds.get("pages", 0.0)
    rate = f"; {report.pages} pages, {report.pages / pages:.2f} pages/s" if report.pages and pages else ""
    console.print(f"reading time: {timing or 'none'}{rate}", highlight=False)


def _file_table(report: ScoreReport) -> Table:
    table = Table("task", "file", "values %", title="Files")
    by_file: dict[tuple[str, str], list[str]] = {}
    for row in report.rows:
        by_file.setdefault((row.task, row.file), []).append(f"{row.metric} {100 * row.value:.1f}")
    for (task, file), values in by_file.items():
        table.add_row(task, file, "  ".join(values))
    return table


def _short(text: str, size: int = 60) -> str:
    from rich.markup import escape

    text = " ".join(text.split())
    return escape(text if len(text) <= size else text[: size - 1] + "…")

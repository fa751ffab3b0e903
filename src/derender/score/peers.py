"""Several readers on the same files, one after another, each in a process of its own; one table.

The process is `python -m derender.score.peers JOB` (JOB is JSON): it loads the reader (not timed), reads every
file (timed, the first one included) and reports its peak memory, its own children included. Nothing is run in
parallel, so that readers do not take each other's processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from derender.errors import DerenderError
from derender.score.readers import make_reader
from derender.score.report import read_json, write_json, write_whole
from derender.score.run import FAILED, score_evalset
from derender.score.types import ScoreReport


@dataclass(frozen=True)
class PeerResult:
    """One reader. peak_mb: highest resident memory of its process or of one it started; error: why it has no report."""

    reader: str
    report: ScoreReport | None
    peak_mb: float = 0.0
    error: str = ""


def bench_peers(
    folder: Path,
    tasks: Sequence[str] = ("text", "pages"),
    readers: Sequence[str] = ("derender", "rapidocr", "tesseract"),
    limit: int | None = None,
) -> list[PeerResult]:
    """Runs each reader on the evaluation set. A reader that is not installed gives a result with `error` set."""
    return [_run_in_process(name, folder, tasks, limit) for name in readers]


def print_peers(results: Sequence[PeerResult], console: Console) -> None:
    """One row a total, one column a reader, then time, pages/s and memory; below, who could not read some files."""
    table = Table("", *(r.reader for r in results), title="Peers (shares in %)")
    reports = [r.report for r in results]
    names = dict.fromkeys((t.task, t.metric) for r in reports if r for t in r.totals)
    for task, metric in names:
        table.add_row(f"{task} {metric}", *(_total(r, task, metric) for r in reports))
    for task in dict.fromkeys(task for r in reports if r for task in r.seconds):
        table.add_row(f"{task} seconds", *(f"{r.seconds.get(task, 0.0):.1f}" if r else "–" for r in reports))
    if any(r and r.pages for r in reports):
        table.add_row("pages/s", *(_rate(r) for r in reports))
    table.add_row("peak memory MB", *(f"{r.peak_mb:.0f}" if r.report else "–" for r in results))
    console.print(table)
    for r in results:
        if note := r.error or _failures(r.report):
            console.print(f"{r.reader}: {note}", markup=False, highlight=False)


def write_peers(results: Sequence[PeerResult], path: Path) -> None:
    """The table as JSON: for each reader its totals, seconds by task, pages, peak memory, error, and the files that
    were skipped or could not be read (which count as empty)."""
    rows = [
        {
            "reader": r.reader,
            "error": r.error,
            "peak_mb": round(r.peak_mb),
            "pages": r.report.pages if r.report else 0,
            "seconds": r.report.seconds if r.report else {},
            "totals": [vars(t) for t in r.report.totals] if r.report else [],
            "skipped": [vars(f) for f in r.report.skipped] if r.report else [],
        }
        for r in results
    ]
    write_whole(path, json.dumps(rows, indent=1))


def _failures(report: ScoreReport | None) -> str:
    failed = [s for s in report.skipped if s.reason.startswith(FAILED)] if report else []
    if not failed:
        return ""
    first = failed[0]
    return f"{len(failed)} files could not be read and count as empty, the first {first.file} ({first.reason})"


def _total(report: ScoreReport | None, task: str, metric: str) -> str:
    try:
        return f"{100 * report.total(task, metric):.2f}" if report else "–"
    except KeyError:
        return "–"


def _rate(report: ScoreReport | None) -> str:
    seconds = report.seconds.get("pages", 0.0) if report else 0.0
    return f"{report.pages / seconds:.2f}" if report and seconds else "–"


def _run_in_process(name: str, folder: Path, tasks: Sequence[str], limit: int | None) -> PeerResult:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "report.json"
        job = {"reader": name, "folder": str(folder), "tasks": list(tasks), "limit": limit, "out": str(out)}
        command = [sys.executable, "-m", "derender.score.peers", json.dumps(job)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        if done.returncode or not out.is_file():
            lines = done.stderr.strip().splitlines()
            return PeerResult(name, None, error=lines[-1] if lines else f"ended with code {done.returncode}")
        return PeerResult(name, read_json(out), float(done.stdout.strip().splitlines()[-1]))


def peak_memory_mb() -> float:
    """Peak resident memory of this process, or of the largest process it has waited for, in MB (10^6 bytes).

    On Linux the process's own figure is VmHWM: ru_maxrss of a started process includes what its parent held before.
    A child's figure can therefore not be smaller than this process was when it started the child.
    """
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                own = int(line.split()[1]) * 1024
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit) / 1e6


def _worker(job_text: str) -> int:
    job = json.loads(job_text)
    try:
        report = score_evalset(Path(job["folder"]), job["tasks"], make_reader(job["reader"]), job["limit"])
    except DerenderError as error:
        print(error, file=sys.stderr)
        return 1
    write_json(report, Path(job["out"]))
    print(peak_memory_mb())
    return 0


if __name__ == "__main__":
    sys.exit(_worker(sys.argv[1]))

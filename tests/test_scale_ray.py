"""A real run on a Ray cluster of this machine: a worker is killed in the middle, and every page comes out once."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_helpers import text_pdf
from derender.config import ParseOptions
from derender.document import load
from derender.scale.plan import expand_uris
from derender.scale.progress import ScaleReporter
from derender.scale.run import ScaleOptions, run_scale
from derender.scale.work import Job

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found in /proc")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def _documents(folder: Path, sizes: dict[str, int]) -> None:
    for name, count in sizes.items():
        pages = [f"Sentence {n} stands in the {name} file" for n in range(1, count + 1)]
        (folder / f"{name}.pdf").write_bytes(text_pdf(*pages))


def worker_pids() -> set[int]:
    """Descendants of this process that Ray named after the actor's method they are in."""
    parents, reading = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if title.startswith(b"ray::Worker.read"):
                reading.add(int(entry.name))
    return {pid for pid in reading if _descends(pid, parents)}


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def _kill_one(stop: threading.Event, killed: list[int]) -> None:
    """Kills the first worker that is seen reading."""
    while not stop.is_set():
        for pid in worker_pids():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return
        time.sleep(0.02)


def test_every_page_once_though_a_worker_is_killed_and_a_second_run_reads_nothing(cluster: Any, tmp_path: Path) -> None:
    _documents(tmp_path, {"long": 9, "short": 1})
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    documents = expand_uris([str(tmp_path)])
    job = Job(str(tmp_path / "out"), ParseOptions(mode="text", threads=1), ("md", "json"), "settings")
    stop, killed = threading.Event(), list[int]()
    killer = threading.Thread(target=_kill_one, args=(stop, killed))
    killer.start()
    report = ScaleReporter()
    try:
        code = run_scale(documents, job, ScaleOptions(workers=2, unit_pages=3), report)
    finally:
        stop.set()
        killer.join()

    assert killed and report.lost == 1 and code == 1
    for name, count in (("long", 9), ("short", 1)):
        document = load(tmp_path / "out" / name / f"{name}.json")
        text = " ".join(region.text for page in document.pages for region in page.regions)
        assert Counter(re.findall(r"Sentence (\d+)", text)) == Counter(str(n) for n in range(1, count + 1))
        assert document.status == "ok"
    table = (tmp_path / "out" / "failures.jsonl").read_text().splitlines()
    assert len(table) == 1 and "broken.pdf" in table[0]
    assert not list((tmp_path / "out" / ".derender" / "pages").rglob("*.jsonl"))

    again = ScaleReporter()
    assert run_scale(documents, job, ScaleOptions(workers=1), again) == 1
    assert again.pages_read == 0 and again.skipped == 2

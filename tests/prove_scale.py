"""Proof on a cluster of several nodes on this machine. Not a pytest file.

    python tests/prove_scale.py kill FOLDER          # kills a worker, then a node, in the middle; counts every page
    python tests/prove_scale.py throughput FOLDER    # the same pages with one and with two workers, alternately

The documents are made here: every page holds a sentence with its own number, so that a page that is missing, doubled
or in the wrong place shows in the output. FOLDER is made anew. Each node is a raylet with processors of its own; what
nodes have in common is the disk, as with any shared store.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cli_helpers import text_pdf
from derender.config import ParseOptions
from derender.document import load
from derender.scale.plan import expand_uris
from derender.scale.progress import ScaleReporter
from derender.scale.run import ScaleOptions, run_scale
from derender.scale.work import Job
from test_scale_ray import worker_pids

LONG, SHORT, NODES = 60, 20, 3
DOCUMENTS, PAGES = 8, 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "throughput"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    return prove_kill(given.folder) if given.what == "kill" else measure(given.folder, given.repeat)


def _cluster(nodes: int) -> tuple[Any, list[Any]]:
    """A head without processors for workers, and nodes with one each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    return cluster, [cluster.add_node(num_cpus=1) for _ in range(nodes)]


def prove_kill(folder: Path) -> int:
    """One document of LONG pages and SHORT of one page; a worker and a node die while pages are read."""
    sizes = {"long": LONG, **{f"short{n}": 1 for n in range(SHORT)}}
    for name, count in sizes.items():
        pages = [f"Sentence {n} stands in the {name} file" for n in range(1, count + 1)]
        (folder / f"{name}.pdf").write_bytes(text_pdf(*pages))
    cluster, nodes = _cluster(NODES)
    report = ScaleReporter()
    killer = threading.Thread(target=_kill, args=(report, cluster, nodes))
    killer.start()
    job = Job(str(folder / "out"), ParseOptions(mode="text", threads=1), ("md", "json"), "proof")
    documents = expand_uris([str(folder)])
    code = run_scale(documents, job, ScaleOptions(cluster.address, NODES, unit_pages=5), report)
    killer.join()
    cluster.shutdown()
    report.summary(str(folder / "out"))
    wrong = []
    for name, count in sizes.items():
        document = load(folder / "out" / name / f"{name}.json")
        for number, page in enumerate(document.pages, 1):
            text = " ".join(region.text for region in page.regions)
            if re.findall(r"Sentence (\d+) stands in the (\w+)", text) != [(str(number), name)]:
                wrong.append((name, number, text))
        if len(document.pages) != count:
            wrong.append((name, count, f"{len(document.pages)} pages"))
    print(f"exit code {code}; {sum(sizes.values())} pages expected, {len(wrong)} wrong; {report.lost} workers lost")
    return 1 if wrong or code or report.lost < 2 else 0


def _kill(report: ScaleReporter, cluster: Any, nodes: list[Any]) -> None:
    """A worker when a fifth of the pages is read, a node when half is."""
    total = LONG + SHORT
    while report.pages_read < total / 5:
        time.sleep(0.05)
    while not (pids := worker_pids()):
        time.sleep(0.01)
    os.kill(min(pids), signal.SIGKILL)
    print(f"killed worker process {min(pids)} after {report.pages_read} pages", flush=True)
    while report.pages_read < total / 2:
        time.sleep(0.05)
    cluster.remove_node(nodes[-1], allow_graceful=False)
    print(f"killed a node after {report.pages_read} pages", flush=True)


def measure(folder: Path, repeat: int) -> int:
    """Pages a second, read from pictures, with one worker and with two, one thread each. Workers are started before
    the clock: it runs from the first page to the last.
    """
    line = "Sentence {} of this page is read from its picture and not from the words of the file"
    for name in range(DOCUMENTS):
        pages = [line.format(number) for number in range(1, PAGES + 1)]
        (folder / f"d{name}.pdf").write_bytes(text_pdf(*pages))
    cluster, _ = _cluster(2)
    for turn in range(repeat):
        for workers in (1, 2):
            report = ScaleReporter(quiet=True)
            job = Job(str(folder / f"out{turn}-{workers}"), ParseOptions(mode="ocr", threads=1), ("json",), "speed")
            times: list[float] = []
            watch = threading.Thread(target=_watch, args=(report, times))
            watch.start()
            run_scale(expand_uris([str(folder / "*.pdf")]), job, ScaleOptions(cluster.address, workers, 2), report)
            watch.join()
            print(
                f"{workers} workers: {report.pages_read} pages, {times[0]:.1f} s from first report to last", flush=True
            )
    cluster.shutdown()
    return 0


def _watch(report: ScaleReporter, times: list[float]) -> None:
    """Seconds from the first pages reported to the last."""
    while report.pages_read == 0:
        time.sleep(0.02)
    began = time.monotonic()
    while report.pages_read < DOCUMENTS * PAGES:
        time.sleep(0.02)
    times.append(time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())

"""Proof under load: many clients at once, good and hostile documents, and then killed workers and a killed server.

    python tests/prove_load.py FOLDER --corpus HOSTILE --clients 32 --seconds 180

Not a pytest file. Starts a real server, warms it up, loads it, and checks that every request had an answer that its
document may get, that every accepted job ended, that clients who left hold nothing, and that memory is back within
--growth-mb of what it was after the warm-up. Then kills workers and the server while jobs run, starts the server
again, and checks that every job ends. Prints the figures; the exit status is 1 where a check failed. FOLDER is
made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

import httpx

from load_clients import Tally, good_only, load
from load_documents import Sent, documents
from load_server import LoadServer, Memory, Watch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path, help="a folder of hostile documents")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--warm", type=float, default=60.0, help="seconds of load before memory is first compared")
    parser.add_argument("--seconds", type=float, default=180.0, help="seconds of load that count")
    parser.add_argument(
        "--growth-mb", type=int, default=150, help="most that server and workers may hold more at the end"
    )
    parser.add_argument("--jobs", type=int, default=24, help="jobs in the second part, with kills")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    sent = documents(given.corpus)
    server = LoadServer(given.folder, "--threads", "1", "--page-seconds", "30")
    print(f"ready after {server.start():.1f} s; {len(sent)} documents, {len(sent) - len(good_only(sent))} hostile")
    try:
        faults = prove_load(server, sent, given.clients, given.warm, given.seconds, given.growth_mb)
        faults += prove_kills(server, sent, given.jobs)
        code = server.stop()
        faults += [] if code in (0, -signal.SIGTERM) else [f"the server ended with {code}"]
    finally:
        server.kill()
    for fault in faults[:40]:
        print("FAULT", fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def prove_load(
    server: LoadServer, sent: list[Sent], clients: int, warm: float, seconds: float, growth: int
) -> list[str]:
    start = server.memory()
    tally = Tally()
    asyncio.run(load(server.url, sent, clients, warm, 10_000, tally))
    faults = settle(server)
    warmed = server.memory()
    watch, began = Watch(server), time.monotonic()
    asyncio.run(load(server.url, sent, clients, seconds, 20_000, tally))
    took = time.monotonic() - began
    faults += settle(server)
    most, end = watch.stop(), server.memory()
    print(f"\n{clients} clients, {warm:g} s to warm up, then {took:.0f} s until the last had its answer")
    show(tally)
    for name, memory in (("start", start), ("warmed up", warmed), ("most", most), ("end", end)):
        print(f"{name:>10}: server {memory.server} MB, {memory.processes} workers {memory.workers} MB")
    faults += tally.faults
    faults += [f"job {id} never ended" for id in tally.accepted - {*tally.ended}]
    if total(end) > total(warmed) + growth:
        faults.append(f"memory grew from {total(warmed)} to {total(end)} MB, more than {growth} allowed")
    return faults


def total(memory: Memory) -> int:
    return memory.server + memory.workers


def settle(server: LoadServer, seconds: float = 120.0) -> list[str]:
    """Waits until nothing is held for anybody: no seats, no documents, no regions, no unfinished jobs."""
    names = ("derender_clients_waiting", "derender_documents_queued", "derender_engine_depth")
    end = time.monotonic() + seconds
    while True:
        text = httpx.get(f"{server.url}/metrics", timeout=30).text
        held = {name: _metric(text, name) for name in names}
        held |= {state: _metric(text, f'derender_jobs{{status="{state}"}}') for state in ("queued", "running")}
        if not any(held.values()):
            return []
        if time.monotonic() > end:
            return [f"still held {seconds:g} s after the last client left: {held}"]
        time.sleep(0.5)


def _metric(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def show(tally: Tally) -> None:
    print(f"{'route':38} {'n':>5} {'p50 s':>7} {'p95 s':>7}  statuses")
    for route, seconds in sorted(tally.seconds.items()):
        p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
        counts = ", ".join(f"{status}: {n}" for status, n in sorted(tally.statuses[route].items()))
        print(f"{route:38} {len(seconds):5} {statistics.median(seconds):7.2f} {p95:7.2f}  {counts}")
    print(f"told to come back later (429): {tally.busy}; clients that left: {tally.left}")


def prove_kills(server: LoadServer, sent: list[Sent], count: int) -> list[str]:
    """Jobs of good documents and some hostile ones; a worker dies twice, the server twice."""
    good, hostile = good_only(sent), [s for s in sent if not s.good and s.data]
    wanted = [hostile[n % len(hostile)] if n % 4 == 3 else good[n % len(good)] for n in range(count)]
    jobs: dict[str, Sent] = {}
    kills = 0
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for document in wanted:
            answer = http.post("/v1/jobs", files={"file": (document.name, document.data)}, data=document.fields)
            if answer.status_code == 202:
                jobs[answer.json()["id"]] = document
        for share in (0.15, 0.55):
            wait_for(http, jobs, share)
            kills += kill_worker(server)
            wait_for(http, jobs, share + 0.15)
            server.kill()
            began = time.monotonic()
            server.start()
            print(f"server killed and back after {time.monotonic() - began:.1f} s")
        wait_for(http, jobs, 1.0)
        ends = {id: http.get(f"/v1/jobs/{id}").json() for id in jobs}
        results = {id: http.get(f"/v1/jobs/{id}/result?format=md").status_code for id in jobs}
    counts: dict[str, int] = {}
    faults = []
    for id, end in ends.items():
        counts[end["status"]] = counts.get(end["status"], 0) + 1
        name, allowed = jobs[id].name, jobs[id].allowed
        # The document whose worker was killed by us may say so; nothing else may fail.
        if results[id] not in allowed and (end["error"] or {}).get("code") != "worker_killed":
            faults.append(f"after kills, {name}: {end['status']}, {end['error']}, result {results[id]}")
    print(f"{len(jobs)} jobs, {kills} workers and 2 servers killed: {counts}")
    return faults if kills else [*faults, "no worker could be killed"]


def wait_for(http: httpx.Client, jobs: dict[str, Sent], share: float, seconds: float = 900.0) -> None:
    """Until that share of the jobs has ended. Raises AssertionError when it takes too long."""
    end = time.monotonic() + seconds
    while True:
        states = [http.get(f"/v1/jobs/{id}").json()["status"] for id in jobs]
        if sum(s in ("done", "failed", "cancelled") for s in states) >= share * len(jobs):
            return
        assert time.monotonic() < end, f"jobs do not end: {states}"
        time.sleep(0.3)


def kill_worker(server: LoadServer) -> int:
    """Kills all workers there are; how many."""
    pids = server.workers()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


if __name__ == "__main__":
    sys.exit(main())

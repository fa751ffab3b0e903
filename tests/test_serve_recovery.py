"""Nothing accepted is lost: killed workers, a killed server, an orderly stop, and documents that kill the service."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from serve_helpers import EXAMPLES, EchoRecogniser, client_of, pdf, picture, settings, wait_for_job

pytest.importorskip("fastapi", reason="the extra serve is not installed")

import httpx

from derender.errors import PageError, UsageError
from derender.serve.jobs import JobStore
from derender.serve.options import ParseParameters
from derender.serve.problems import KilledError
from derender.serve.remote import RemoteSource, WorkerPool


def test_a_killed_worker_costs_its_page_only() -> None:
    pool = WorkerPool(settings())
    with RemoteSource(pool, settings(), pdf(3), "scan") as source:
        assert source.page(1).image.shape[2] == 3
        assert source._worker is not None
        os.kill(source._worker.process.pid, signal.SIGKILL)
        with pytest.raises(PageError):
            source.page(2)
        assert source.page(3).image.shape[2] == 3
    pool.close()
    assert pool.deaths == 1


def test_a_slow_worker_is_ended() -> None:
    pool = WorkerPool(settings())
    worker = pool.take()
    pool.give(worker)  # counts as used: no extra time for its start
    worker.seconds = 1.0
    os.kill(worker.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(KilledError):
        RemoteSource(pool, settings(), pdf(), "scan")
    assert time.monotonic() - began < 10
    pool.close()


def test_a_picture_that_needs_too_much_memory_is_an_error_and_not_the_end() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (9500, 9500), "white").save(buffer, "PNG", compress_level=1)
    limited = settings(worker_mb=512)
    pool = WorkerPool(limited)
    with RemoteSource(pool, limited, buffer.getvalue(), "huge") as source, pytest.raises((PageError, KilledError)):
        source.page(1)
    with RemoteSource(pool, limited, picture(), "small") as source:
        assert source.page(1).image.shape == (300, 600, 3)
    pool.close()


def test_a_service_goes_on_after_its_worker_died_in_a_document() -> None:
    gate = threading.Event()
    with client_of(settings(), EchoRecogniser(gate)) as client:
        files = {"file": ("b.pdf", pdf(2))}
        job = client.post("/v1/jobs", files=files, data={"mode": "ocr"}).json()
        service = client.app.state.service
        while service.host.depth == 0:
            time.sleep(0.02)
        children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for pid in {int(p) for file in children for p in file.read_text().split()}:
            if b"derender.serve.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        gate.set()
        assert wait_for_job(client, job["id"])["status"] in ("done", "failed")
        assert client.post("/v1/parse", files={"file": ("a.png", picture())}).status_code == 200


def test_jobs_survive_a_restart_and_a_guilty_document_fails(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    store = JobStore(path)
    first, second = (store.add("a", b"data", ParseParameters(password="secret"), False) for _ in range(2))
    for _ in range(3):
        assert store.begin(second.id)
        store.close()
        store = JobStore(path)
    job = store.get(second.id)
    assert job is not None and job.status == "failed" and job.error_code == "service_stopped"
    assert job.wanted.password is None and store.input(second.id) is None
    assert [j.id for j in store.queued()] == [first.id] and store.input(first.id) == b"data"
    with pytest.raises(UsageError, match="another service"):
        JobStore(path)
    store.close()


def test_an_orderly_stop_hands_the_job_back(tmp_path: Path) -> None:
    state = tmp_path / "jobs.sqlite"
    gate = threading.Event()
    with client_of(settings(state=state, grace=0.2), EchoRecogniser(gate)) as client:
        job = client.post("/v1/jobs", files={"file": ("a.png", picture())}).json()
        while client.app.state.service.host.depth == 0:
            time.sleep(0.02)
    gate.set()
    with client_of(settings(state=state)) as client:
        ended = wait_for_job(client, job["id"])
    assert ended["status"] == "done" and ended["attempts"] == 1


def start(port: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from derender.cli import main; main()", "serve", "--port", str(port)]
    command += ["--state", str(folder / "jobs.sqlite"), "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    environment.pop("DERENDER_TOKEN", None)
    process = subprocess.Popen(command, env=environment)
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ready").status_code == 200:
                return process
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the server did not become ready")


def test_a_killed_server_finishes_every_accepted_job_when_it_is_back(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/jobs"
    process = start(port, tmp_path)
    scan = (EXAMPLES / "reproducibility-scan.pdf").read_bytes()
    documents = [(scan, {"pages": "1"}), (b"no document", {}), (picture(), {})]
    jobs = [httpx.post(url, files={"file": ("a.pdf", d)}, data=f, timeout=30).json()["id"] for d, f in documents]
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = start(port, tmp_path)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            ends: list[dict[str, Any]] = [wait_for_job(client, id, 90) for id in jobs]
            assert [e["status"] for e in ends] == ["done", "failed", "done"]
            assert len(client.get(f"/v1/jobs/{jobs[0]}/result?format=md").text) > 500
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()

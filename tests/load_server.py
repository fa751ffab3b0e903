"""A real `derender serve` process for prove_load.py: start, memory, its workers, kill. Knows no requests."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass(frozen=True)
class Memory:
    """Resident megabytes at one moment, and how many worker processes there were."""

    server: int
    workers: int
    processes: int


class LoadServer:
    """One service with its state in `folder`; it can be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder, self._options = folder, options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 120.0) -> float:
        """Returns the seconds until it was ready."""
        command = [sys.executable, "-m", "derender.cli", "serve", "--port", str(self.port)]
        command += ["--state", str(self._folder / "jobs.sqlite"), *self._options]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
        environment.pop("DERENDER_TOKEN", None)
        began = time.monotonic()
        with (self._folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stderr=log)
        while time.monotonic() - began < seconds:
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return time.monotonic() - began
            except httpx.TransportError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}, see {self._folder}/server.log")
            time.sleep(0.2)
        raise RuntimeError(f"the server did not become ready in {seconds:g} s")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def workers(self) -> list[int]:
        """Process ids of its rendering workers."""
        found = []
        for children in Path(f"/proc/{self.pid}/task").glob("*/children"):
            try:
                pids = [int(pid) for pid in children.read_text().split()]
                found += [p for p in pids if b"serve.worker" in Path(f"/proc/{p}/cmdline").read_bytes()]
            except OSError:  # gone meanwhile
                continue
        return found

    def memory(self) -> Memory:
        workers = self.workers()
        return Memory(_rss(self.pid), sum(map(_rss, workers)), len(workers))

    def kill(self) -> None:
        """SIGKILL: no goodbye of any kind. Its workers see their socket close and end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 40.0) -> int:
        """SIGTERM, as an orderly stop; the exit status."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()


def _rss(pid: int) -> int:
    try:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) // 1024 if found else 0


class Watch:
    """Memory once a second, in a thread of its own."""

    def __init__(self, server: LoadServer) -> None:
        self._server = server
        self._ended = threading.Event()
        self.samples: list[Memory] = []
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._ended.wait(1.0):
            self.samples.append(self._server.memory())

    def stop(self) -> Memory:
        """The most that was seen of each."""
        self._ended.set()
        self._thread.join()
        seen = self.samples or [self._server.memory()]
        return Memory(max(m.server for m in seen), max(m.workers for m in seen), max(m.processes for m in seen))

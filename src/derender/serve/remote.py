"""Documents opened in a worker process (worker.py), as a Source like any other; and the pool of such processes.

A worker that dies or is too slow costs its page: the page becomes an error, and a new worker opens the document again
for the next one. After MAX_DEATHS the document is given up. Does not lay out or read pages.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from derender.errors import DerenderError, InputError, PageError, PasswordError
from derender.ingest.page import PageInput, Source
from derender.ingest.types import Box, Image, Word
from derender.serve.limits import ServeSettings
from derender.serve.problems import CancelledError, KilledError, TooLargeError, UnsupportedError

MAX_DEATHS = 3
MAX_DOCUMENTS = 20  # after which a worker is replaced, so that nothing can pile up in it
_HEADER_BYTES = 64_000_000
_KINDS: dict[str, type[DerenderError]] = {
    "unsupported": UnsupportedError,
    "too_large": TooLargeError,
    "killed": KilledError,
    "PasswordError": PasswordError,
    "InputError": InputError,
}


class WorkerDied(Exception):
    """The process ended, or was ended because it was too slow, before it answered."""


class Worker:
    """One process. `ask` may be called by one thread at a time, `kill` by any."""

    def __init__(self, megabytes: int, seconds: float) -> None:
        self.seconds, self.documents = seconds, 0
        ours, theirs = socket.socketpair()
        # The package's own folder first: the worker must run the same code, also where it is not installed.
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "derender.serve.worker", str(theirs.fileno()), str(megabytes), str(seconds)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # ctrl-C in the service's terminal is the service's to handle
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    def ask(self, request: dict[str, Any], data: bytes | None = None) -> tuple[dict[str, Any], bytes]:
        """The answer and its pixels. Raises WorkerDied."""
        # A new process needs a moment for its imports, on a busy machine a long one.
        timer = threading.Timer(self.seconds + (20 if self.documents == 0 else 0), self.process.kill)
        timer.start()
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            if data is not None:
                self._connection.send_bytes(data)
            answer = json.loads(self._connection.recv_bytes(_HEADER_BYTES))
            shape = answer.get("shape")
            return answer, self._connection.recv_bytes(int(np.prod(shape))) if shape else b""
        except (EOFError, OSError, ValueError) as error:
            self.kill()
            raise WorkerDied from error
        finally:
            timer.cancel()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._connection.close()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class WorkerPool:
    """Idle workers. `take` gives one to a document, `give` or `died` brings it back.

    There are never more processes than documents are read at once, and two for pages and replays of finished jobs; who
    comes when all are taken waits. Nobody may take a second worker while holding one.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._most = settings.documents + 2
        self._taken = 0
        self._idle: list[Worker] = []
        self._lock = threading.Condition()
        self._closed = False
        self.deaths = 0

    def take(self) -> Worker:
        """Raises CancelledError when the pool is closed."""
        with self._lock:
            while self._taken >= self._most and not self._closed:
                self._lock.wait()
            if self._closed:
                raise CancelledError("the service is stopping")
            self._taken += 1
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
        try:
            return Worker(self._settings.worker_mb, self._settings.page_seconds)
        except BaseException:  # no more processes or memory
            self._free()
            raise

    def give(self, worker: Worker) -> None:
        """Takes it back, also when it has died meanwhile."""
        worker.documents += 1
        with self._lock:
            keep = worker.alive and worker.documents < MAX_DOCUMENTS and not self._closed
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.kill()
        self._free()

    def died(self) -> None:
        """A worker was lost while a document was in it."""
        with self._lock:
            self.deaths += 1
        self._free()

    def _free(self) -> None:
        with self._lock:
            self._taken -= 1
            self._lock.notify()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._lock.notify_all()
        for worker in idle:
            worker.kill()


class RemoteSource(Source):
    """A document in a worker. words=False: pages come without their native words (mode ocr)."""

    kind: Literal["pdf", "image"]

    def __init__(
        self,
        pool: WorkerPool,
        settings: ServeSettings,
        data: bytes,
        name: str,
        *,
        dpi: float = 150.0,
        password: str | None = None,
        words: bool = True,
    ) -> None:
        self._pool, self._data, self._words = pool, data, words
        self._request = {"op": "open", "name": name, "dpi": dpi, "password": password}
        self._request["page_pixels"] = settings.page_pixels
        self._worker: Worker | None = None
        self._deaths = 0
        try:
            answer = self._open()
            super().__init__(name, int(answer["page_count"]))
            self.kind = "pdf" if answer["kind_of"] == "pdf" else "image"
            self.warnings = [str(text) for text in answer["warnings"]]
            if answer["pixels"] > settings.max_pixels:
                most = settings.max_pixels // 1_000_000
                raise TooLargeError(f"the picture has {answer['pixels'] // 1_000_000} megapixels, more than {most}")
        except BaseException:
            self.close()
            raise

    def _open(self) -> dict[str, Any]:
        if self._worker is None:
            self._worker = self._pool.take()
        try:
            answer, _ = self._worker.ask(self._request, self._data)
        except WorkerDied:
            self._lost()
            raise KilledError(
                "the document made the process that opens it exceed its memory or time, or crash"
            ) from None
        _raise(answer)
        return answer

    def _lost(self) -> None:
        self._worker = None
        self._deaths += 1
        self._pool.died()

    def _load(self, number: int) -> PageInput:
        if self._deaths >= MAX_DEATHS:
            raise KilledError(f"{self._deaths} pages made the process that renders them exceed its memory or time")
        if self._worker is None:
            self._open()
        assert self._worker is not None
        try:
            answer, pixels = self._worker.ask({"op": "page", "number": number, "words": self._words})
        except WorkerDied:
            self._lost()
            raise PageError(
                f"page {number} made the process that renders it exceed its memory or time, or crash"
            ) from None
        _raise(answer)
        return RemotePage(self, number, answer, pixels)

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                worker.ask({"op": "close"})
            except WorkerDied:
                pass
            self._pool.give(worker)


class RemotePage(PageInput):
    """One page with all that a worker said of it."""

    def __init__(self, source: RemoteSource, number: int, answer: dict[str, Any], pixels: bytes) -> None:
        super().__init__(number, float(answer["width"]), float(answer["height"]), float(answer["dpi"]))
        self._source = source
        self.warnings = [str(text) for text in answer["warnings"]]
        self._native = [_word(word) for word in answer["words"]]
        self._pictures: list[Box] = [(b[0], b[1], b[2], b[3]) for b in answer["images"]]
        height, width, _ = answer["shape"]
        self._image = np.frombuffer(pixels, np.uint8).reshape(height, width, 3)

    def _render(self) -> Image:
        return self._source.page(self.number).image

    def words(self) -> list[Word]:
        return self._native

    def images(self) -> list[Box]:
        return self._pictures


def _word(fields: dict[str, Any]) -> Word:
    """A word as it was before it went through JSON, which knows no tuples."""
    pieces = tuple((str(t), float(size), float(base)) for t, size, base in fields.get("pieces", ()))
    return Word(**{**fields, "box": tuple(fields["box"]), "pieces": pieces})


def _raise(answer: dict[str, Any]) -> None:
    if "error" in answer:
        raise _KINDS.get(answer["kind"], PageError)(answer["error"])

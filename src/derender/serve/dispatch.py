"""A bounded queue of work and the threads that do it. Knows neither documents nor HTTP.

Each kind of work has its own bound, so that jobs cannot crowd out clients that wait, and those who wait are not told to
come back because of jobs. Clients that wait go first.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from derender.serve.problems import ApiError, CancelledError, busy


class Work:
    """One thing to do. `cancelled` is set by the client's leaving, a deletion, or a shutdown."""

    def __init__(self, run: Callable[[Work], Any]) -> None:
        self.run = run
        self.future: Future[Any] = Future()
        self.cancelled = threading.Event()


class Dispatcher:
    """threads: works done at once. waiting: most clients that may wait, those being served included."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._bound, self._reserved = waiting, 0
        self._wake = threading.Condition()
        self._first: deque[Work] = deque()
        self._second: deque[Work] = deque()
        self._running: set[Work] = set()
        self.stopping = False
        self._threads = [
            threading.Thread(target=self._loop, name=f"documents-{i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def seat(self) -> Iterator[None]:
        """A place for one waiting client, taken before its upload is read. Raises ApiError 429 or 503."""
        with self._wake:
            if self.stopping:
                raise ApiError(503, "stopping", "the service is stopping", 30)
            if self._reserved >= self._bound:
                raise busy(f"{self._reserved} clients are being served or waiting")
            self._reserved += 1
        try:
            yield
        finally:
            with self._wake:
                self._reserved -= 1

    def put(self, work: Work, waits: bool) -> None:
        """Queues work; waits: a client holds the line open for it."""
        with self._wake:
            if self.stopping:
                raise ApiError(503, "stopping", "the service is stopping", 30)
            (self._first if waits else self._second).append(work)
            self._wake.notify()

    @property
    def seats(self) -> int:
        return self._reserved

    @property
    def depth(self) -> int:
        """Works waiting or being done."""
        with self._wake:
            return len(self._first) + len(self._second) + len(self._running)

    def stop(self, grace: float) -> None:
        """Takes nothing more, waits up to `grace` seconds for what is being done, then cancels that too."""
        with self._wake:
            self.stopping = True
            left = [*self._first, *self._second]
            self._first.clear()
            self._second.clear()
            self._wake.notify_all()
        for work in left:
            work.cancelled.set()
            if work.future.set_running_or_notify_cancel():
                work.future.set_exception(CancelledError("the service is stopping"))
        end = time.monotonic() + grace
        while self._running and time.monotonic() < end:
            time.sleep(0.05)
        for work in [*self._running]:
            work.cancelled.set()
        for thread in self._threads:
            thread.join(20)  # as in EngineHost.stop: it may be in a model's forward

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not (self._first or self._second or self.stopping):
                    self._wake.wait()
                if self.stopping:
                    return
                work = (self._first or self._second).popleft()
                if not work.future.set_running_or_notify_cancel():
                    continue  # given up by who waited; setting a result would now raise, and end this thread
                self._running.add(work)
            try:
                if work.cancelled.is_set():
                    raise CancelledError("cancelled before it began")
                work.future.set_result(work.run(work))
            except BaseException as error:  # goes to whoever waits; the thread must live on
                work.future.set_exception(error)
            finally:
                with self._wake:
                    self._running.discard(work)

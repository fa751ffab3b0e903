"""All long-lived parts of the service in one object, made once and stopped once. Knows no HTTP."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from derender.errors import ModelError
from derender.serve.dispatch import Dispatcher
from derender.serve.engine_host import EngineHost
from derender.serve.events import Broker
from derender.serve.jobs import JobStore
from derender.serve.limits import ServeSettings
from derender.serve.reader import DocumentReader
from derender.serve.remote import WorkerPool
from derender.serve.runner import JobRunner

EXPIRE_SECONDS = 300.0


class Service:
    """make_recogniser: in place of derender-compact, for tests. Raises UsageError when the state is in use."""

    def __init__(self, settings: ServeSettings, make_recogniser: Any = None) -> None:
        self.settings = settings
        self.store = JobStore(settings.state, settings.attempts)
        self.pool = WorkerPool(settings)
        self.host = EngineHost(make_recogniser or self._compact)
        self.reader = DocumentReader(settings, self.host, self.pool)
        self.dispatcher = Dispatcher(settings.documents, settings.waiting)
        self.jobs = JobRunner(settings, self.store, self.dispatcher, self.reader)
        self.broker = Broker()
        self._stopped = threading.Event()
        self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
        self.jobs.on_change = self.broker.changed

    def _compact(self) -> Any:
        from derender.recognise.compact import CompactRecogniser

        s = self.settings
        return CompactRecogniser(s.decode, threads=s.threads, max_batch=s.batch)

    def start(self) -> None:
        """Takes up the jobs that an earlier process left and loads the weights, the latter beside the answering."""
        self.jobs.resume()
        self._warming.start()
        threading.Thread(target=self._expire, name="expire", daemon=True).start()

    def _warm(self) -> None:
        try:
            self.host.warm()
        except ModelError:  # host.broken says why, and /ready with it
            return

    def _expire(self) -> None:
        """Results go when their time is over, also where nobody submits anything any more."""
        while not self._stopped.wait(EXPIRE_SECONDS):
            try:
                self.store.expire(self.settings.keep_hours)
            except sqlite3.Error:  # locked, full or being closed: there is a next time
                continue

    def stop(self) -> None:
        """Waits for documents being read, as long as settings.grace; hands jobs back; stops everything."""
        self._stopped.set()
        self.dispatcher.stop(self.settings.grace)
        self.host.stop()
        if self._warming.is_alive():
            self._warming.join(20)  # as in EngineHost.stop
        self.pool.close()
        self.store.close()

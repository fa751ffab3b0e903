"""Takes jobs from the database to the dispatcher and their ends back into it, and tells who listens. No HTTP here."""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable

from derender.document import Document, Page
from derender.serve.dispatch import Dispatcher, Work
from derender.serve.engine_host import Deadline
from derender.serve.jobs import Job, JobStore
from derender.serve.limits import ServeSettings
from derender.serve.outcome import Outcome, pack_pictures, unpack_pictures
from derender.serve.problems import ApiError, CancelledError, as_api_error, busy
from derender.serve.reader import DocumentReader

Listener = Callable[[str], None]
STORAGE_PAUSES = (0.5, 2.0, 5.0, 15.0)  # seconds between attempts to write that a job failed


class JobRunner:
    """Accepts, runs, cancels. on_change: called with a job's id whenever it changes, from any thread."""

    def __init__(
        self, settings: ServeSettings, store: JobStore, dispatcher: Dispatcher, reader: DocumentReader
    ) -> None:
        self.settings, self.store, self.dispatcher, self.reader = settings, store, dispatcher, reader
        self.on_change: Listener = lambda id: None
        self._works: dict[str, Work] = {}
        self._lock = threading.Lock()

    def resume(self) -> int:
        """Queues what an earlier process left; returns how many."""
        jobs = self.store.queued()
        for job in jobs:
            self._put(job)
        return len(jobs)

    def check_room(self) -> None:
        """Raises ApiError 429 when there are too many unfinished jobs, 503 when the service is stopping."""
        if self.dispatcher.stopping:
            raise ApiError(503, "stopping", "the service is stopping", 30)
        self.store.expire(self.settings.keep_hours)
        if self.store.unfinished() >= self.settings.max_jobs:
            raise busy(f"{self.settings.max_jobs} jobs are waiting")

    def accept(self, name: str, data: bytes, wanted: object, keep_input: bool) -> Job:
        """Stores and queues a job."""
        from derender.serve.options import ParseParameters

        assert isinstance(wanted, ParseParameters)
        self.check_room()
        job = self.store.add(name, data, wanted, keep_input)
        try:
            self._put(job)
        except ApiError:
            self.store.delete(job.id)  # never accepted: the client is told so
            raise
        return job

    def cancel(self, id: str) -> None:
        """Ends a job that is not finished; its regions leave the engine."""
        self.store.cancel(id)
        with self._lock:
            work = self._works.get(id)
        if work is not None:
            work.cancelled.set()
        self.on_change(id)

    def outcome(self, job: Job) -> Outcome:
        """The result of a job that is done. Raises ApiError 410 when it was deleted meanwhile."""
        document, pictures = self.store.document(job.id), self.store.pictures(job.id)
        if document is None or pictures is None:
            raise ApiError(410, "gone", "the result is no longer there")
        return Outcome(Document.from_json(zlib.decompress(document)), unpack_pictures(pictures))

    def _fail(self, id: str, problem: ApiError) -> None:
        """Tries for a while: where the disk is full, room may come. What cannot be written now stays `running`, and is
        begun again at the next start."""
        for pause in STORAGE_PAUSES:
            try:
                self.store.fail(id, problem.status, problem.code, str(problem))
                return
            except sqlite3.Error:
                time.sleep(pause)

    def _put(self, job: Job) -> None:
        work = Work(lambda work: self._run(job, work))
        with self._lock:
            self._works[job.id] = work
        try:
            self.dispatcher.put(work, waits=False)
        except ApiError:
            self._forget(job.id)
            raise

    def _forget(self, id: str) -> None:
        with self._lock:
            self._works.pop(id, None)

    def _run(self, job: Job, work: Work) -> None:
        if not self.store.begin(job.id):
            self._forget(job.id)
            return
        self.on_change(job.id)

        def page_done(page: Page, done: int, count: int) -> None:
            self.store.progress(job.id, done, count)
            self.on_change(job.id)

        try:
            data = self.store.input(job.id)
            if data is None:
                raise ApiError(410, "gone", "the document is no longer there")
            check = Deadline(self.settings.seconds, work.cancelled)
            outcome = self.reader.read(data, job.name, job.wanted, check, page_done)
            text = zlib.compress(outcome.document.to_json(indent=None).encode("utf-8", "replace"))
            self.store.succeed(job.id, text, pack_pictures(outcome.pictures), outcome.document.status)
        except CancelledError:
            if self.dispatcher.stopping:
                self.store.hand_back(job.id)
            else:
                self.store.cancel(job.id)
        except BaseException as error:
            self._fail(job.id, as_api_error(error))
        finally:
            self._forget(job.id)
            self.on_change(job.id)

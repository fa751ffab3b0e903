"""Hands out the work of a run on a Ray cluster: `derender parse --ray ADDRESS|local INPUT... -o URI`.

    look into documents -> cut pages into units -> read units -> put finished documents together

One actor a worker, one task an actor at a time, so that a lost worker or node costs one unit, which another gets. What
a worker finished is in the store; this process holds only what is not finished yet, and running it again does only what
is missing. A page that costs three workers their life is given up and recorded. Does not read pages (work.py).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from derender.errors import DerenderError, MissingExtraError, ModelError, UsageError
from derender.pipeline import failed_page
from derender.scale.plan import DocumentInput, PageRange, Unit, cut_unit, page_ranges
from derender.scale.progress import ScaleReporter
from derender.scale.store import Problem, Store
from derender.scale.work import Job, Piece, Probed, Worker

UNIT_PAGES = 16
PROBE_DOCUMENTS = 16
MAX_ATTEMPTS = 3
"""How often a page may cost a worker its life before it is given up. Lost nodes count too: a driver cannot tell."""
_MAX_FALSE_STARTS = 4


@dataclass(frozen=True)
class ScaleOptions:
    """address: of a Ray cluster, or "local" for one on this machine. workers: None = as many as the cluster's
    processors hold. unit_pages: pages a worker reads before it reports; more fill batches better, fewer lose less.
    page_seconds: a worker that takes longer, for each page of its unit, is taken to hang and is replaced.
    """

    address: str = "local"
    workers: int | None = None
    unit_pages: int = UNIT_PAGES
    page_seconds: float = 600.0

    def __post_init__(self) -> None:
        if self.unit_pages < 1 or (self.workers is not None and self.workers < 1):
            raise UsageError("workers and unit_pages must be at least 1")


@dataclass(frozen=True)
class _Task:
    """What one worker is doing: exactly one of the three is given."""

    probe: tuple[int, ...] = ()
    unit: Unit | None = None
    finish: int | None = None


@dataclass
class _Seat:
    """A worker's place: its actor, and what it is doing since when (monotonic seconds). started: it has answered."""

    actor: Any
    started: bool = False
    task: _Task | None = None
    since: float = 0.0


@dataclass
class _Book:
    """What is still to be done, by document number. suspects are looked into one by one: a worker was lost over them
    or others of their group.
    """

    unprobed: deque[int]
    suspects: deque[int] = field(default_factory=deque)
    backlog: deque[PageRange] = field(default_factory=deque)
    units: deque[Unit] = field(default_factory=deque)
    complete: deque[int] = field(default_factory=deque)
    numbers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    attempts: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.unprobed or self.suspects or self.backlog or self.units or self.complete)


def run_scale(documents: Sequence[DocumentInput], job: Job, scale: ScaleOptions, report: ScaleReporter) -> int:
    """Reads all documents; returns the exit code. Raises MissingExtraError without Ray, DerenderError when the cluster
    cannot be reached or no worker starts, KeyboardInterrupt with everything finished so far kept.
    """
    ray, ours = _connect(scale)
    try:
        driver = _Driver(ray, documents, job, scale, report)
        try:
            driver.run()
        finally:
            driver.close()
    finally:
        if ours:
            ray.shutdown()
    return report.exit_code


def _connect(scale: ScaleOptions) -> tuple[Any, bool]:
    """Ray, connected, and whether this made the connection."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'derender[ray]'") from None
    if ray.is_initialized():
        return ray, False
    try:
        ray.init(address=scale.address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DerenderError(f"the Ray cluster {scale.address} cannot be reached: {error}") from None
    return ray, True


class _Driver:
    """One run: the loop in `run`, and what it does when a task ends well or badly."""

    def __init__(
        self, ray: Any, documents: Sequence[DocumentInput], job: Job, scale: ScaleOptions, report: ScaleReporter
    ) -> None:
        self.ray, self.documents, self.job, self.scale, self.report = ray, documents, job, scale, report
        self.store = Store(job.out)
        self.keys = [document.key(job.settings) for document in documents]
        finished = self.store.finished()
        self.book = _Book(deque(i for i, key in enumerate(self.keys) if key not in finished))
        report.begin(len(documents), len(documents) - len(self.book.unprobed))
        self.seats: list[_Seat] = []
        self.running: dict[Any, _Seat] = {}
        self.false_starts = 0

    def run(self) -> None:
        if not self.book.empty:
            for _ in range(self._worker_count()):
                self._hire()
        while not self.book.empty or any(seat.task for seat in self.seats):
            self._hand_out()
            ended, _ = self.ray.wait(list(self.running), num_returns=1, timeout=1.0)
            for reference in ended:
                self._collect(reference)
            self._stop_hanging()
            self.report.workers = sum(seat.started for seat in self.seats)
            self.report.show()
        self.report.failures = self.store.write_failures(set(self.keys))

    def close(self) -> None:
        for seat in self.seats:
            self.ray.kill(seat.actor)
        self.seats.clear()

    def _worker_count(self) -> int:
        if self.scale.workers is not None:
            return self.scale.workers
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)) // self.job.options.threads)

    def _hire(self) -> None:
        """A new actor; it gets work when it has said that it is ready, so one that finds no room blocks nothing."""
        model = self.job.options.model
        gpus = 1 if model is not None and model.device == "cuda" else 0
        room = {"num_cpus": self.job.options.threads, "num_gpus": gpus}
        remote = self.ray.remote(**room, scheduling_strategy="SPREAD")(Worker)
        seat = _Seat(remote.remote(self.job))
        self.seats.append(seat)
        self.running[seat.actor.ready.remote()] = seat

    def _hand_out(self) -> None:
        for seat in self.seats:
            if seat.started and seat.task is None:
                task = self._next()
                if task is None:
                    return
                seat.task, seat.since = task, time.monotonic()
                self.running[self._send(seat.actor, task)] = seat

    def _next(self) -> _Task | None:
        book = self.book
        if book.complete:
            return _Task(finish=book.complete.popleft())
        if book.units:
            return _Task(unit=book.units.popleft())
        if book.suspects:
            return _Task(probe=(book.suspects.popleft(),))
        waiting = sum(map(len, book.backlog))
        probing = any(seat.task and seat.task.probe for seat in self.seats)
        if waiting >= self.scale.unit_pages or (book.backlog and not book.unprobed and not probing):
            share = -(-waiting // max(1, len(self.seats)))  # towards the end, something for every worker
            return _Task(unit=cut_unit(book.backlog, max(1, min(self.scale.unit_pages, share))))
        if book.unprobed:
            count = min(PROBE_DOCUMENTS, len(book.unprobed))
            return _Task(probe=tuple(book.unprobed.popleft() for _ in range(count)))
        return None

    def _send(self, actor: Any, task: _Task) -> Any:
        if task.unit is not None:
            pieces = [Piece(self.documents[r.document], r.first, r.last) for r in task.unit.ranges]
            return actor.read.remote(pieces)
        if task.finish is not None:
            return actor.finish.remote(self.documents[task.finish], self.book.numbers[task.finish])
        return actor.probe.remote([self.documents[i] for i in task.probe])

    def _collect(self, reference: Any) -> None:
        """Takes what a worker answered; a worker that is gone is replaced and its task judged by `_lost`."""
        seat = self.running.pop(reference)
        task, seat.task = seat.task, None
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BaseException) else error
            if task is None or isinstance(cause, ModelError | MissingExtraError | UsageError):
                raise DerenderError(f"a worker cannot work: {cause}") from None  # nor can it for any other page
            self._lost(task, f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}")
            return
        except self.ray.exceptions.RayError as error:
            self._replace(seat, error)
            if task is not None:
                self._lost(task, "the worker ended without an answer, or hung")
            return
        if task is None:
            seat.started, self.false_starts = True, 0
        elif task.unit is not None:
            self._read(task.unit, failed=answer)
        elif task.finish is not None:
            self._finished(task.finish, answer)
        else:
            for document, probed in zip(task.probe, answer, strict=True):
                self._probed(document, probed)

    def _stop_hanging(self) -> None:
        """Ends workers that are over their time; their task then ends as that of any lost worker."""
        for seat in self.seats:
            if seat.task is not None:
                pages = seat.task.unit.pages if seat.task.unit else PROBE_DOCUMENTS
                if time.monotonic() - seat.since > self.scale.page_seconds * pages:
                    self.ray.kill(seat.actor)

    def _replace(self, seat: _Seat, error: BaseException) -> None:
        self.seats.remove(seat)
        self.ray.kill(seat.actor)  # unreachable need not be dead
        self.report.lost += 1
        self.false_starts += not seat.started
        if self.false_starts >= _MAX_FALSE_STARTS * max(1, len(self.seats)):
            raise DerenderError(f"no worker starts: {' '.join(str(error).split())[:400]}")
        self._hire()

    def _probed(self, document: int, probed: Probed) -> None:
        if probed.error is not None:
            self._fail(document, probed.error)
            return
        book, ranges = self.book, page_ranges(document, probed.numbers, probed.done)
        book.numbers[document], book.left[document] = probed.numbers, sum(map(len, ranges))
        self.report.found(len(probed.numbers), len(probed.done))
        book.backlog.extend(ranges)
        if not ranges:
            book.complete.append(document)

    def _read(self, unit: Unit, failed: int) -> None:
        self.report.read(unit.pages, failed)
        for part in unit.ranges:
            self.book.left[part.document] -= len(part)
            if self.book.left[part.document] == 0:
                self.book.complete.append(part.document)

    def _finished(self, document: int, done: Any) -> None:
        if done is None:  # parts vanished, by someone else's hand: look again
            if self._tries(document, "finish") < MAX_ATTEMPTS:
                self.book.unprobed.append(document)
            else:
                self._fail(document, "its finished pages vanished from the output")
            return
        del self.book.numbers[document], self.book.left[document]
        self.report.document(done.status)

    def _lost(self, task: _Task, reason: str) -> None:
        """A task that brought no answer is done again: a unit by the page after its second loss, to find the page that
        is to blame; what is lost MAX_ATTEMPTS times by itself is given up.
        """
        if task.unit is not None:
            unit = Unit(task.unit.ranges, task.unit.attempts + 1)
            if unit.pages > 1:
                self.book.units.extend(self._still_missing(unit) if unit.attempts > 1 else [unit])
            elif unit.attempts < MAX_ATTEMPTS:
                self.book.units.append(unit)
            else:
                self._give_up(unit.ranges[0], reason)
        elif task.finish is not None:
            if self._tries(task.finish, "finish") < MAX_ATTEMPTS:
                self.book.complete.append(task.finish)
            else:
                self._fail(task.finish, f"it could not be put together: {reason}")
        else:
            for document in task.probe:
                if self._tries(document, "probe") < MAX_ATTEMPTS:
                    self.book.suspects.append(document)  # alone, so that it takes no other with it
                else:
                    self._fail(document, f"it could not be looked into: {reason}")

    def _tries(self, document: int, what: str) -> int:
        self.book.attempts[document, what] = self.book.attempts.get((document, what), 0) + 1
        return self.book.attempts[document, what]

    def _still_missing(self, unit: Unit) -> list[Unit]:
        """The unit's pages one by one, less those that a worker kept before it was lost."""
        units = []
        for single in unit.singles():
            (part,) = single.ranges
            if part.first in self.store.pages_done(self.keys[part.document]):
                self._read(single, failed=0)
            else:
                units.append(single)
        return units

    def _give_up(self, part: PageRange, reason: str) -> None:
        page = failed_page(part.first, DerenderError(f"given up after {MAX_ATTEMPTS} attempts: {reason}"))
        self.store.add_pages(self.keys[part.document], [page])
        self._read(Unit((part,)), failed=1)

    def _fail(self, document: int, reason: str) -> None:
        item = self.documents[document]
        self.store.note(self.keys[document], [Problem(item.uri, item.name, None, None, "failed", reason)])
        self.book.numbers.pop(document, None)
        self.book.left.pop(document, None)
        self.report.document("failed", f"{item.uri}: {reason}")

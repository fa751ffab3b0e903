"""One recogniser for all clients: regions of every request are decoded in the same batches, in one thread.

The engine asks for more before each forward, so a client's first region joins the batch that is under way; clients take
turns. `measure` waits until the engine is idle, for timings that nobody disturbs. Does not open or lay out pages.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from derender.decode.config import DecodeConfig
from derender.errors import DerenderError, ModelError
from derender.recognise.types import Request, Result
from derender.serve.problems import CancelledError

Deliver = Callable[[Result], None]


@dataclass
class _Ticket:
    """A region on its way: the request under the host's own id, the caller's id, and where the result goes."""

    request: Request
    caller_id: str
    client: str
    deliver: Deliver


@dataclass(frozen=True)
class Measured:
    """The fastest reading of one region. seconds: of all of it, looking at the picture included."""

    result: Result
    seconds: float


@dataclass(frozen=True)
class _Solo:
    request: Request
    configs: Sequence[DecodeConfig]
    repeat: int
    gone: threading.Event
    future: Future[list[Measured]]


class EngineHost:
    """Runs `make()`'s recogniser in a thread of its own; it is made when first needed, and anew after a fault.

    warmed: set once there was a recogniser. broken: why there is none, when making it failed; each client's next region
    tries once more.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._recogniser: Any = None
        self._making = threading.Lock()
        self._waiting: OrderedDict[str, deque[_Ticket]] = OrderedDict()
        self._under_way: dict[str, _Ticket] = {}
        self._solo: deque[_Solo] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._number = 0
        self.warmed = threading.Event()
        self.broken: ModelError | None = None
        self.regions = self.tokens = 0
        self.most_together = 0
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request, client: str, deliver: Deliver) -> None:
        """Queues one region; `deliver` is called once, in the engine's thread, with a result under the request's id."""
        with self._wake:
            if self._stopping:
                raise CancelledError("the service is stopping")
            self._number += 1
            ticket = _Ticket(replace(request, id=str(self._number)), request.id, client, deliver)
            self._waiting.setdefault(client, deque()).append(ticket)
            self._wake.notify()

    def cancel(self, client: str) -> None:
        """Drops the client's waiting regions and ends those being decoded; none of them is delivered any more."""
        with self._wake:
            self._waiting.pop(client, None)
            mine = [ticket for ticket in self._under_way.values() if ticket.client == client]
            for ticket in mine:
                ticket.deliver = _nobody
        engine = getattr(self._recogniser, "engine", None)
        for ticket in mine:
            if engine is not None:
                engine.cancel(ticket.request.id)

    def measure(
        self,
        request: Request,
        configs: Sequence[DecodeConfig],
        repeat: int = 2,
        gone: threading.Event | None = None,
    ) -> Future[list[Measured]]:
        """The fastest of `repeat` readings under each of `configs`, with nothing else in the engine. gone: set when
        nobody waits for them any more; then no other reading is begun."""
        future: Future[list[Measured]] = Future()
        with self._wake:
            if self._stopping:
                raise CancelledError("the service is stopping")
            self._solo.append(_Solo(request, configs, repeat, gone or threading.Event(), future))
            self._wake.notify()
        return future

    @property
    def depth(self) -> int:
        """Regions waiting or under way."""
        with self._wake:
            return sum(map(len, self._waiting.values())) + len(self._under_way)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def warm(self) -> None:
        """Loads the weights now. Raises ModelError."""
        with self._making:
            if self._recogniser is None:
                try:
                    self._recogniser, self.broken = self._make(), None
                except Exception as error:
                    text = str(error) if isinstance(error, DerenderError) else f"{type(error).__name__}: {error}"
                    self.broken = ModelError(text)
                    raise self.broken from error
            self.warmed.set()

    def stop(self, timeout: float = 20.0) -> None:
        """Ends the thread; regions not read by then are never delivered. It is waited for even where that takes a
        while: a process that ends while a thread of its is in ONNX Runtime is aborted."""
        with self._wake:
            self._stopping = True
            self._waiting.clear()
            self._wake.notify()
        self._thread.join(timeout)

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not (self._waiting or self._solo or self._stopping):
                    self._wake.wait()
                if self._stopping:
                    break
                solo = self._solo.popleft() if self._solo else None
            if solo is not None:
                self._run_solo(solo)
                continue
            try:
                self.warm()
            except ModelError as error:
                self._refuse(error)
                continue
            try:
                for result in self._recogniser.recognise(self._feed()):
                    self._deliver(result)
            except Exception as error:
                # Sessions and caches are in no known state now: all under way fail, the next region gets new ones.
                self._recogniser = None
                text = str(error) if isinstance(error, DerenderError) else f"{type(error).__name__}: {error}"
                for key in [*self._under_way]:
                    self._deliver(Result(key, status="failed", errors=[f"the engine failed: {text}"]))
        for left in self._solo:
            left.future.set_exception(CancelledError("the service is stopping"))

    def _refuse(self, error: ModelError) -> None:
        """Fails every region that waits: without weights they would wait for ever."""
        with self._wake:
            refused = [ticket for tickets in self._waiting.values() for ticket in tickets]
            self._waiting.clear()
        for ticket in refused:
            ticket.deliver(Result(ticket.caller_id, status="failed", errors=[str(error)]))

    def _feed(self) -> Iterator[Request | None]:
        """What the recogniser pulls from: one region of each client in turn; None when there is none right now."""
        while True:
            with self._wake:
                ticket = None
                if self._waiting and not self._solo and not self._stopping:
                    client, tickets = self._waiting.popitem(last=False)
                    ticket = tickets.popleft()
                    if tickets:
                        self._waiting[client] = tickets
                    self._under_way[ticket.request.id] = ticket
                    clients = len({t.client for t in self._under_way.values()})
                    self.most_together = max(self.most_together, clients)
            yield None if ticket is None else ticket.request

    def _deliver(self, result: Result) -> None:
        with self._wake:
            ticket = self._under_way.pop(result.id)
        self.regions += 1
        self.tokens += result.stats.tokens
        result.id = ticket.caller_id
        ticket.deliver(result)

    def _run_solo(self, solo: _Solo) -> None:
        try:
            # In turns, so that what else this machine does meanwhile falls on all of them.
            rounds = [[self._measure_once(solo, config) for config in solo.configs] for _ in range(solo.repeat)]
            solo.future.set_result(
                [min(tries, key=lambda measured: measured.result.stats.seconds) for tries in zip(*rounds, strict=True)]
            )
        except (CancelledError, ModelError) as error:
            solo.future.set_exception(error)
        except Exception as error:
            self._recogniser = None
            solo.future.set_exception(error)

    def _measure_once(self, solo: _Solo, config: DecodeConfig) -> Measured:
        if solo.gone.is_set() or self._stopping:
            raise CancelledError("nobody waits for the reading any more")
        self.warm()
        start = time.perf_counter()
        result = next(iter(self._recogniser.recognise([replace(solo.request, decode=config)])))
        return Measured(result, time.perf_counter() - start)


def _nobody(result: Result) -> None:
    """Takes a result that nobody waits for any more."""


class ClientRecogniser:
    """The shared engine as one document's recogniser (recognise.types.Recogniser).

    check: called while waiting and between requests; raises what should end the reading. in_flight: regions handed
    over at once, so that one long document does not fill the queue and its pages are still rendered one by one.
    """

    name = "derender-compact"

    def __init__(
        self, host: EngineHost, client: str, decode: DecodeConfig, check: Callable[[], None], in_flight: int = 32
    ) -> None:
        self._host, self._client, self._decode, self._check = host, client, decode, check
        self._in_flight = in_flight

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
        """One Result per Request, as they finish."""
        done: queue.SimpleQueue[Result] = queue.SimpleQueue()
        source = iter(requests)
        pending, more = 0, True
        try:
            while more or pending:
                self._check()
                while more and pending < self._in_flight and done.empty():
                    request = next(source, None)
                    if request is None:
                        more = False
                        break
                    self._host.submit(replace(request, decode=self._decode), self._client, done.put)
                    pending += 1
                if not pending:
                    continue
                result = _wait(done, self._check)
                pending -= 1
                if result.status == "failed" and (broken := self._host.broken) is not None:
                    raise ModelError(str(broken))  # no other region would fare better
                yield result
        finally:
            if pending:
                self._host.cancel(self._client)


def _wait(done: queue.SimpleQueue[Result], check: Callable[[], None]) -> Result:
    while True:
        try:
            return done.get(timeout=0.25)
        except queue.Empty:
            check()


class Deadline:
    """Raises once the time is over or someone has cancelled."""

    def __init__(self, seconds: float, cancelled: threading.Event) -> None:
        self.seconds, self.cancelled = seconds, cancelled
        self._end = time.monotonic() + seconds

    def __call__(self) -> None:
        from derender.serve.problems import TimeLimitError

        if self.cancelled.is_set():
            raise CancelledError("reading was cancelled")
        if time.monotonic() > self._end:
            raise TimeLimitError(f"reading the document took longer than the {self.seconds:g} seconds allowed")

"""The decoding engine: schedule, forward, digest, over many sequences at different places of their texts at once.

A finished sequence is replaced before the next forward; prefill comes in small groups between forwards, so that running
sequences wait little. What a sequence does is its mode's business (modes/), what a forward computes the runtime's. Does
not turn tokens into text and does not know of images.

One forward's seconds are shared equally by the sequences in it, and a prefill's by its group, so that the requests'
seconds add up to the engine's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from derender.decode.config import DecodeConfig
from derender.decode.modes import SequenceDecoder, make_decoder
from derender.decode.modes.base import Status
from derender.decode.protocol import Rows, Runtime, S
from derender.decode.sampling import request_rng
from derender.errors import CapacityError, DerenderError, ModelError, UsageError
from derender.recognise.types import DecodeStats

P = TypeVar("P")
ConfigOf = Callable[[Hashable], DecodeConfig]
OnTokens = Callable[[Hashable, Sequence[int]], None]
MIN_WINDOW = 4  # below this a window costs a forward per few tokens for next to no rows saved


class TraceEntry(NamedTuple):
    """Token `token` of position `position` (from 0) was committed by forward `step` (from 1) with this probability."""

    step: int
    position: int
    token: int
    confidence: float


@dataclass
class DecodeResult:
    """One request decoded. tokens: ids without begin and end of text; confidences and steps are theirs, in order.

    status: ok; partial (a guard ended it, `errors` says where); failed or cancelled (tokens: what there was by then).
    trace: the same tokens in order of commitment, only where the configuration asks for it.
    """

    id: Hashable
    tokens: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    status: Status = "ok"
    errors: list[str] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)
    trace: list[TraceEntry] | None = None


@dataclass
class EngineStats:
    """What an engine has done so far.

    forwards: batched runtime calls. commit_only: per-sequence shares of them that only put tokens into the cache.
    rides: shares where finished tokens rode with a window instead, each a forward of that sequence saved.
    rows, window_rows: computed rows in all, and those of windows. tokens: committed text tokens of finished requests.
    """

    requests: int = 0
    tokens: int = 0
    forwards: int = 0
    commit_only: int = 0
    rides: int = 0
    rows: int = 0
    window_rows: int = 0
    prefill_seconds: float = 0.0
    forward_seconds: float = 0.0
    digest_seconds: float = 0.0


@dataclass
class _Slot(Generic[S]):
    """One active request."""

    id: Hashable
    decoder: SequenceDecoder[S]
    seconds: float = 0.0
    told: int = 0

    @property
    def config(self) -> DecodeConfig:
        return self.decoder.config


class Engine(Generic[P, S]):
    """Decodes requests on one runtime. Not for use by two threads at once, but `cancel` may come from another.

    max_batch: most sequences decoded together; lowered, and the request kept waiting, where one has no room beside the
    others (CapacityError). prefill_group: most sequences prefilled between two forwards.
    Raises UsageError where the runtime's model cannot decode as configured.
    """

    def __init__(
        self,
        runtime: Runtime[P, S],
        config: DecodeConfig | None = None,
        *,
        max_batch: int = 8,
        prefill_group: int = 4,
    ) -> None:
        if max_batch < 1 or prefill_group < 1:
            raise UsageError("max_batch and prefill_group must be at least 1")
        self.runtime = runtime
        self.config = config or DecodeConfig()
        self.config.check_against(runtime.spec)
        self.max_batch, self.prefill_group = max_batch, prefill_group
        self.stats = EngineStats()
        self._cancelled: set[Hashable] = set()
        self._waiting: list[tuple[Hashable, P]] = []
        self._config_of: ConfigOf | None = None
        self._on_tokens: OnTokens | None = None

    def cancel(self, request_id: Hashable) -> None:
        """Ends the request before its next forward; one not yet pulled is ended when `run` reaches it."""
        self._cancelled.add(request_id)

    def run(
        self,
        prefixes: Iterable[tuple[Hashable, P] | None],
        config_of: ConfigOf | None = None,
        on_tokens: OnTokens | None = None,
    ) -> Iterator[DecodeResult]:
        """Decodes (id, prefix) pairs, pulled only as slots get free; yields each result once, as it finishes.

        None in place of a pair: none is there right now, the source is asked again before the next forward; the run
        ends when nothing is active and the source has none. config_of: a request's own settings (max_rows stays the
        engine's). on_tokens: called with each request's newly committed tokens; a guard may take some of them back.
        ids are unique within a run. A request whose prefill or decoding fails gives a `failed` result and the others go
        on; an error of `prefixes` itself is passed on. Closing the iterator frees every cache.
        """
        source = iter(prefixes)
        active: list[_Slot[S]] = []
        self._config_of, self._on_tokens = config_of, on_tokens
        try:
            while True:
                more = yield from self._admit(source, active)
                yield from self._drop_cancelled(active)
                if active:
                    yield from self._step(active)
                elif not more:
                    break
        finally:
            for slot in active:
                self.runtime.release(slot.decoder.seq)
            self._cancelled.clear()
            self._waiting.clear()

    def window_for(self, batch: int) -> int | None:
        """Most window rows of each of `batch` sequences under `max_rows`; None = no limit."""
        return max(MIN_WINDOW, self.config.max_rows // batch) if self.config.max_rows else None

    def _step(self, active: list[_Slot[S]]) -> Iterator[DecodeResult]:
        """One forward for every active sequence; yields and removes those that finish."""
        rows = [slot.decoder.rows(self.window_for(len(active))) for slot in active]
        self._count(active, rows)
        start = time.perf_counter()
        try:
            logits = self.runtime.forward(rows)
            if len(logits) != len(rows):
                raise ModelError(f"the runtime answered {len(logits)} of {len(rows)} sequences")
        except Exception as error:  # the caches are in no known state now: none of these sequences can go on
            for slot in [*active]:
                yield self._finish(active, slot, "failed", _sentence(error))
            return
        ran = time.perf_counter()
        done: list[DecodeResult] = []
        for slot, answer in zip([*active], logits, strict=True):
            slot.seconds += (ran - start) / len(rows)
            try:
                slot.decoder.digest(answer)
                if not slot.decoder.finished and slot.decoder.cached < slot.decoder.seq.length:
                    self.runtime.truncate(slot.decoder.seq, slot.decoder.cached)
            except Exception as error:
                done.append(self._finish(active, slot, "failed", _sentence(error)))
                continue
            if self._on_tokens and len(slot.decoder.tokens) > slot.told:
                self._on_tokens(slot.id, slot.decoder.tokens[slot.told :])
                slot.told = len(slot.decoder.tokens)
            if slot.decoder.finished:
                done.append(self._finish(active, slot, slot.decoder.status))
        self.stats.forward_seconds += ran - start
        self.stats.digest_seconds += time.perf_counter() - ran
        yield from done

    def _admit(
        self, source: Iterator[tuple[Hashable, P] | None], active: list[_Slot[S]]
    ) -> Generator[DecodeResult, None, bool]:
        """Pulls and prefills up to a group of requests into the free slots; yields those that fail at once.

        Returns whether the source may hold more.
        """
        group: list[tuple[Hashable, P]] = []
        more = True
        while len(group) < min(self.prefill_group, self.max_batch - len(active)):
            pair = self._waiting.pop(0) if self._waiting else next(source, None)
            if pair is None:
                more = False
                break
            if pair[0] in self._cancelled:
                yield self._unstarted(pair[0], "cancelled", "cancelled before it began")
            else:
                group.append(pair)
        if not group:
            return more
        start = time.perf_counter()
        failed: list[DecodeResult] = []
        no_room: list[tuple[tuple[Hashable, P], CapacityError]] = []
        seqs = self._prefill(group, failed, no_room)
        if no_room and (active or seqs):
            self._waiting[:0] = [pair for pair, _ in no_room]
            self.max_batch = len(active) + len(seqs)
        else:
            failed += [self._unstarted(pair[0], "failed", _sentence(error)) for pair, error in no_room]
        seconds = time.perf_counter() - start
        self.stats.prefill_seconds += seconds
        for request_id, seq in seqs:
            try:
                config = self._config_of(request_id) if self._config_of else self.config
                config.check_against(self.runtime.spec)
                decoder = make_decoder(seq, self.runtime.spec, config, request_rng(config.seed, request_id))
            except DerenderError as error:
                self.runtime.release(seq)
                failed.append(self._unstarted(request_id, "failed", _sentence(error)))
                continue
            active.append(_Slot(request_id, decoder, seconds / len(group)))
        yield from failed
        return more or bool(self._waiting)

    def _prefill(
        self,
        group: list[tuple[Hashable, P]],
        failed: list[DecodeResult],
        no_room: list[tuple[tuple[Hashable, P], CapacityError]],
    ) -> list[tuple[Hashable, S]]:
        """The group's sequences; where the group fails, each on its own, so that only the culprit fails."""
        try:
            seqs = self.runtime.prefill([prefix for _, prefix in group])
            if len(seqs) != len(group):
                raise ModelError(f"the runtime prefilled {len(seqs)} of {len(group)} sequences")
            return [(request_id, seq) for (request_id, _), seq in zip(group, seqs, strict=True)]
        except Exception as error:
            if len(group) > 1:
                return [made for pair in group for made in self._prefill([pair], failed, no_room)]
            if isinstance(error, CapacityError):
                no_room.append((group[0], error))
            else:
                failed.append(self._unstarted(group[0][0], "failed", _sentence(error)))
            return []

    def _drop_cancelled(self, active: list[_Slot[S]]) -> Iterator[DecodeResult]:
        for slot in [slot for slot in active if slot.id in self._cancelled]:
            yield self._finish(active, slot, "cancelled", f"cancelled after {len(slot.decoder.tokens)} tokens")

    def _finish(self, active: list[_Slot[S]], slot: _Slot[S], status: Status, error: str = "") -> DecodeResult:
        decoder = slot.decoder
        active.remove(slot)
        self._cancelled.discard(slot.id)
        self.runtime.release(decoder.seq)
        self.stats.requests += 1
        self.stats.tokens += len(decoder.tokens)
        trace = None
        if slot.config.trace:
            parts = zip(decoder.steps, range(len(decoder.tokens)), decoder.tokens, decoder.confidences, strict=True)
            trace = sorted((TraceEntry(*part) for part in parts), key=lambda entry: entry[:2])
        return DecodeResult(
            slot.id,
            decoder.tokens,
            decoder.confidences,
            decoder.steps,
            status,
            decoder.errors + ([error] if error else []),
            DecodeStats(slot.config.mode, len(decoder.tokens), decoder.forwards, slot.seconds),
            trace,
        )

    def _unstarted(self, request_id: Hashable, status: Status, error: str) -> DecodeResult:
        self._cancelled.discard(request_id)
        self.stats.requests += 1
        trace: list[TraceEntry] | None = [] if self.config.trace else None
        return DecodeResult(request_id, status=status, errors=[error], stats=DecodeStats(self.config.mode), trace=trace)

    def _count(self, active: list[_Slot[S]], rows: list[Rows[S]]) -> None:
        self.stats.forwards += 1
        for slot, part in zip(active, rows, strict=True):
            self.stats.rows += len(part.commit) + len(part.window)
            self.stats.window_rows += len(part.window)
            finished_tokens = bool(part.commit) and slot.decoder.cached > 0 and not part.want_next
            self.stats.rides += finished_tokens and bool(part.window)
            self.stats.commit_only += finished_tokens and not part.window


def _sentence(error: Exception) -> str:
    """Our own errors read as they are; others need their kind to be understood."""
    return str(error) if isinstance(error, DerenderError) else f"{type(error).__name__}: {error}"

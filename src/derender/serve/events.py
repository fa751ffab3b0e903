"""Server-sent events of a job: its state at once and at each change; the stream ends with the job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

HEARTBEAT = 15.0  # seconds; proxies close streams that say nothing


class Broker:
    """Wakes the listeners of a job. `changed` may be called from any thread, the rest from the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self.closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def changed(self, id: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, id)

    def close(self) -> None:
        """Ends all streams; clients come back when the service does."""
        self.closed = True
        for id in [*self._listeners]:
            self._wake(id)

    def _wake(self, id: str) -> None:
        for event in self._listeners.get(id, ()):
            event.set()

    async def stream(self, id: str, state: Callable[[], tuple[BaseModel | None, bool]]) -> AsyncIterator[str]:
        """Events of one job. state: the job as shown, and whether it has ended; None when it was deleted."""
        event = asyncio.Event()
        self._listeners.setdefault(id, set()).add(event)
        last = ""
        try:
            while True:
                event.clear()
                shown, ended = await run_in_threadpool(state)  # the database may be busy with a large document
                if shown is None:
                    yield "event: deleted\ndata: {}\n\n"
                    return
                text = shown.model_dump_json()
                if text != last:
                    yield f"event: job\ndata: {text}\n\n"
                    last = text
                if ended or self.closed:
                    return
                try:
                    await asyncio.wait_for(event.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners[id].discard(event)
            if not self._listeners[id]:
                del self._listeners[id]

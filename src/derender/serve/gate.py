"""What every request passes first: host, token, size and pace of the upload; and what is counted of it. Plain ASGI, so
that a request is refused before its body is read."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from derender.serve.limits import ServeSettings
from derender.serve.metrics import Metrics
from derender.serve.problems import ApiError
from derender.serve.static_page import PAGE_PATHS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
OPEN_PATHS = frozenset({"/health", "/ready", "/docs", "/redoc", "/openapi.json"}) | PAGE_PATHS
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Gate:
    """The outermost layer of the app."""

    def __init__(self, app: Any, settings: ServeSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, started = time.monotonic(), 500, False

        async def counted_send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", []), (b"x-content-type-options", b"nosniff")]
            await send(message)

        body = _Body(receive, self.settings)
        try:
            self._check(scope)
            await self.app(scope, body, counted_send)
            if body.problem is not None and not started:
                raise body.problem
        except ApiError as error:
            if not started:
                await _answer(error, counted_send)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answered(scope["method"], route, status, time.monotonic() - began)

    def _check(self, scope: Scope) -> None:
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        token = self.settings.token
        if token is None and _loopback(self.settings.host):
            # Without a token the address is the only protection: a page elsewhere must not reach us by its own name.
            host = headers.get(b"host", "")
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in LOCAL_NAMES:
                raise ApiError(403, "bad_host", "this service answers to localhost only")
            # A browser sends forms to any address for any page, and says for which.
            if (origin := headers.get(b"origin")) is not None and not _local_origin(origin):
                raise ApiError(403, "bad_origin", "pages of other sites may not use this service")
        if token is not None and scope["path"] not in OPEN_PATHS:
            given = headers.get(b"authorization", "").removeprefix("Bearer ").strip()
            if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
                raise ApiError(401, "unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")
        length = headers.get(b"content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise ApiError(422, "bad_length", "Content-Length is not a number")
        if int(length) > self.settings.max_bytes:
            raise ApiError(413, "too_large", f"the request is larger than {self.settings.max_bytes} bytes")


class _Body:
    """Hands the body on, counted and timed; the first fault is kept in `problem`."""

    def __init__(self, receive: Receive, settings: ServeSettings) -> None:
        self._receive, self._settings = receive, settings
        self._bytes, self._whole = 0, False
        self.problem: ApiError | None = None

    async def __call__(self) -> MutableMapping[str, Any]:
        if self._whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._settings.body_seconds)
        except TimeoutError:
            self.problem = ApiError(408, "slow_upload", "the upload paused for too long")
            raise self.problem from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        if self._bytes > self._settings.max_bytes:
            self.problem = ApiError(413, "too_large", f"the request is larger than {self._settings.max_bytes} bytes")
            raise self.problem
        return message


async def _answer(error: ApiError, send: Send) -> None:
    body = error.body().model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.lower().encode(), value.encode()) for key, value in error.headers.items()]
    if error.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _local_origin(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    return (f"[{host}]" if ":" in host else host) in LOCAL_NAMES


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Errors as the service answers them: a status, a stable code, and one sentence. Does not raise them itself."""

from __future__ import annotations

import sqlite3

from pydantic import BaseModel

from derender.errors import DerenderError, InputError, MissingExtraError, ModelError, PasswordError, UsageError

RETRY_AFTER = 5  # seconds


class ProblemDetail(BaseModel):
    """`type` and `code` as OpenAI's clients look for them; `code` is stable, `message` is for people."""

    message: str
    type: str = "invalid_request_error"
    code: str


class Problem(BaseModel):
    """The body of every answer with a status of 400 or above."""

    error: ProblemDetail


class ApiError(DerenderError):
    """An answer other than success."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after

    @property
    def headers(self) -> dict[str, str]:
        found = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {**found, "WWW-Authenticate": "Bearer"} if self.status == 401 else found

    def body(self) -> Problem:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return Problem(error=ProblemDetail(message=str(self), type=kind, code=self.code))


class UnsupportedError(InputError):
    """The bytes are neither a PDF nor a picture of a known kind."""


class TooLargeError(InputError):
    """The document has more pages or pixels than the service allows."""


class KilledError(InputError):
    """The document made its worker exceed the memory or time allowed."""


class TimeLimitError(InputError):
    """Reading took longer than the service allows."""


class CancelledError(DerenderError):
    """The client took the request or job back, or the service is stopping."""


def busy(what: str) -> ApiError:
    return ApiError(429, "busy", f"{what}: try again later", RETRY_AFTER)


def as_api_error(error: BaseException) -> ApiError:
    """Any error as an answer. What is not known is a 500 that tells nothing of the inside."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, sqlite3.Error):
        return ApiError(503, "storage", f"the database of jobs cannot be used: {error}", 30)
    text = " ".join(str(error).split())
    kinds: tuple[tuple[type[BaseException], int, str], ...] = (
        (UnsupportedError, 415, "unsupported_document"),
        (TooLargeError, 413, "too_large"),
        (KilledError, 422, "worker_killed"),
        (TimeLimitError, 422, "time_limit"),
        (PasswordError, 422, "password"),
        (InputError, 422, "unreadable_document"),
        (UsageError, 422, "bad_option"),
        (CancelledError, 503, "stopping"),
        (ModelError, 500, "model"),
        (MissingExtraError, 501, "not_installed"),
        (DerenderError, 422, "failed"),
    )
    for kind, status, code in kinds:
        if isinstance(error, kind):
            return ApiError(status, code, text)
    return ApiError(500, "internal", f"internal error, {type(error).__name__}")

"""What the service allows: sizes, counts and times, and where they are checked by number alone. Opens no document."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from derender.config import default_threads
from derender.decode.config import DecodeConfig
from derender.errors import UsageError

TOKEN_VARIABLE = "DERENDER_TOKEN"
MB = 1_000_000


def token_from_environment() -> str | None:
    """The token that clients must send, or None. Raises UsageError for one too short to be a secret."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is not None and len(token.strip()) < 8:
        raise UsageError(f"{TOKEN_VARIABLE} must have at least 8 characters; unset it to serve without a token")
    return token.strip() if token else None


@dataclass(frozen=True)
class ServeSettings:
    """How the service behaves.

    max_bytes: of one request's body. max_pages: asked for in one document. max_pixels: of a picture as its header says;
    page_pixels: a page is rendered at a lower resolution beyond it. seconds: reading one document; page_seconds: one
    step of a worker (opening, rendering a page). worker_mb: a worker's address space. waiting: documents waiting or
    being read for clients that wait; max_jobs: unfinished jobs. documents: read at once. keep_hours: how long a
    finished job's result is kept. attempts: how often a job is begun before it fails because the service died in it.
    grace: seconds that a shutdown waits for documents being read. body_seconds: longest pause inside an upload.
    state: the jobs' database; None keeps them in memory only.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    state: Path | None = None
    max_bytes: int = 64 * MB
    max_pages: int = 500
    max_pixels: int = 150_000_000
    page_pixels: int = 20_000_000
    seconds: float = 900.0
    page_seconds: float = 30.0
    worker_mb: int = 2048
    waiting: int = 16
    max_jobs: int = 256
    documents: int = 2
    keep_hours: float = 24.0
    attempts: int = 3
    grace: float = 20.0
    body_seconds: float = 30.0
    allow_urls: bool = False
    threads: int = field(default_factory=default_threads)
    batch: int = 16
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_pages", "max_pixels", "seconds", "page_seconds", "waiting", "max_jobs"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.documents < 1 or self.threads < 1 or self.batch < 1 or self.attempts < 1:
            raise UsageError("documents, threads, batch and attempts must be at least 1")
        if self.worker_mb < 512:
            raise UsageError("worker_mb must be at least 512: libraries alone map that much")
        if self.keep_hours < 0 or self.grace < 0 or self.page_pixels < 10_000:
            raise UsageError("keep_hours and grace must not be negative, and page_pixels at least 10000")

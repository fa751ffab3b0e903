"""The jobs' database: SQLite, embedded, one file, so that accepted jobs outlive the process.

A job is queued, then running, then done, failed or cancelled. After a restart, jobs that were running are queued again,
unless they have been begun too often already: then the document is the likely cause, and the job fails. Documents and
results lie in the database, never under names of a client's. Does not read documents (runner.py).
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from derender.errors import UsageError
from derender.serve.options import ParseParameters

JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]
FINISHED = ("done", "failed", "cancelled")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
  options TEXT NOT NULL, keep_input INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
  pages_done INTEGER NOT NULL DEFAULT 0, page_count INTEGER, document_status TEXT,
  error_status INTEGER, error_code TEXT, error TEXT);
CREATE TABLE IF NOT EXISTS inputs (id TEXT PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS results (
  id TEXT PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE, document BLOB NOT NULL, pictures BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_status ON jobs(status, created);
"""
_COLUMNS = (
    "id, name, status, created, updated, options, keep_input, attempts, pages_done, page_count, document_status,"
    " error_status, error_code, error"
)


@dataclass(frozen=True)
class Job:
    """One row. created and updated: seconds since 1970. error_*: why a failed job failed, as the service answers it."""

    id: str
    name: str
    status: JobStatus
    created: float
    updated: float
    wanted: ParseParameters
    keep_input: bool
    attempts: int
    pages_done: int
    page_count: int | None
    document_status: str | None
    error_status: int | None
    error_code: str | None
    error: str | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


class JobStore:
    """path None: in memory. Safe for use by several threads. Raises UsageError when another process has the file."""

    def __init__(self, path: Path | None, attempts: int = 3) -> None:
        self._lock = threading.RLock()
        self._guard: IO[str] | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._guard = open(f"{path}.lock", "w")
            try:
                fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._guard.close()
                raise UsageError(f"another service uses {path}: give each its own --state") from None
        try:
            self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._db.execute("PRAGMA secure_delete=ON")  # a deleted document is gone from the file, too
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{path} is not a database of jobs: {error}") from error
        if path is not None:
            path.chmod(0o600)  # documents of clients
        self._recover(attempts)

    def _recover(self, attempts: int) -> None:
        with self._lock:
            self._db.execute(
                "UPDATE jobs SET status='failed', updated=?, error_status=422, error_code='service_stopped', error=?"
                " WHERE status='running' AND attempts >= ?",
                (time.time(), f"the service stopped {attempts} times while it was reading this document", attempts),
            )
            self._db.execute("UPDATE jobs SET status='queued', pages_done=0, updated=? WHERE status='running'", _now())
            self._drop_inputs()

    def add(self, name: str, data: bytes, wanted: ParseParameters, keep_input: bool = False) -> Job:
        """Accepts a job: once this returns, the job survives the process."""
        id = uuid.uuid4().hex
        with self._transaction():
            self._db.execute(
                "INSERT INTO jobs (id, name, status, created, updated, options, keep_input) VALUES (?,?,?,?,?,?,?)",
                (id, name, "queued", time.time(), time.time(), wanted.model_dump_json(), keep_input),
            )
            self._db.execute("INSERT INTO inputs VALUES (?, ?)", (id, data))
        job = self.get(id)
        assert job is not None
        return job

    def get(self, id: str) -> Job | None:
        with self._lock:
            row = self._db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id=?", (id,)).fetchone()
        return _job(row) if row else None

    def queued(self) -> list[Job]:
        with self._lock:
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE status='queued' ORDER BY created").fetchall()
        return [_job(row) for row in rows]

    def counts(self) -> dict[str, int]:
        """Jobs of each status."""
        with self._lock:
            return dict(self._db.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall())

    def unfinished(self) -> int:
        counts = self.counts()
        return counts.get("queued", 0) + counts.get("running", 0)

    def begin(self, id: str) -> bool:
        """queued -> running; False when the job is no longer queued (deleted, cancelled)."""
        return self._change(
            "UPDATE jobs SET status='running', attempts=attempts+1, pages_done=0, updated=? WHERE id=? AND"
            " status='queued'",
            (time.time(), id),
        )

    def progress(self, id: str, done: int, count: int) -> None:
        self._change(
            "UPDATE jobs SET pages_done=?, page_count=?, updated=? WHERE id=? AND status='running'",
            (done, count, time.time(), id),
        )

    def hand_back(self, id: str) -> None:
        """running -> queued, without counting the attempt: the service stops in an orderly way."""
        self._change(
            "UPDATE jobs SET status='queued', attempts=attempts-1, pages_done=0, updated=? WHERE id=? AND"
            " status='running'",
            (time.time(), id),
        )

    def succeed(self, id: str, document: bytes, pictures: bytes, document_status: str) -> None:
        with self._transaction():
            done = self._db.execute(
                "UPDATE jobs SET status='done', document_status=?, updated=? WHERE id=? AND status='running'",
                (document_status, time.time(), id),
            )
            if done.rowcount:
                self._db.execute("INSERT OR REPLACE INTO results VALUES (?,?,?)", (id, document, pictures))
            self._drop_inputs()

    def fail(self, id: str, status: int, code: str, message: str) -> None:
        self._end(id, "failed", status, code, message)

    def cancel(self, id: str) -> None:
        self._end(id, "cancelled", 409, "cancelled", "the job was cancelled")

    def _end(self, id: str, to: str, status: int, code: str, message: str) -> None:
        with self._transaction():
            self._db.execute(
                "UPDATE jobs SET status=?, updated=?, error_status=?, error_code=?, error=? WHERE id=? AND status IN"
                " ('queued','running')",
                (to, time.time(), status, code, message, id),
            )
            self._drop_inputs()

    def delete(self, id: str) -> bool:
        """Removes the job, its document and its result."""
        return self._change("DELETE FROM jobs WHERE id=?", (id,))

    def expire(self, hours: float) -> int:
        """Removes finished jobs older than that; returns how many."""
        with self._lock:
            gone = self._db.execute(
                "DELETE FROM jobs WHERE status IN ('done','failed','cancelled') AND updated < ?",
                (time.time() - 3600 * hours,),
            )
            return gone.rowcount

    def input(self, id: str) -> bytes | None:
        return self._blob("SELECT data FROM inputs WHERE id=?", id)

    def document(self, id: str) -> bytes | None:
        return self._blob("SELECT document FROM results WHERE id=?", id)

    def pictures(self, id: str) -> bytes | None:
        return self._blob("SELECT pictures FROM results WHERE id=?", id)

    def close(self) -> None:
        with self._lock:
            self._db.close()
            if self._guard is not None:
                self._guard.close()

    def _blob(self, query: str, id: str) -> bytes | None:
        with self._lock:
            row = self._db.execute(query, (id,)).fetchone()
        return bytes(row[0]) if row else None

    def _change(self, statement: str, values: tuple[Any, ...]) -> bool:
        with self._lock:
            return self._db.execute(statement, values).rowcount > 0

    def _drop_inputs(self) -> None:
        self._db.execute(
            "DELETE FROM inputs WHERE id IN (SELECT id FROM jobs WHERE status IN ('failed','cancelled') OR"
            " (status='done' AND NOT keep_input))"
        )
        # A password outlives only as long as the document that it opens.
        self._db.execute(
            "UPDATE jobs SET options=json_set(options, '$.password', NULL) WHERE"
            " json_extract(options, '$.password') IS NOT NULL AND id NOT IN (SELECT id FROM inputs)"
        )

    def _transaction(self) -> _Transaction:
        return _Transaction(self._lock, self._db)


class _Transaction:
    """All or nothing, one at a time."""

    def __init__(self, lock: threading.RLock, db: sqlite3.Connection) -> None:
        self._lock, self._db = lock, db

    def __enter__(self) -> None:
        self._lock.acquire()
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self._db.execute("ROLLBACK" if kind else "COMMIT")
        finally:
            self._lock.release()


def _now() -> tuple[float]:
    return (time.time(),)


def _job(row: tuple[Any, ...]) -> Job:
    values = list(row)
    values[5] = ParseParameters.model_validate(json.loads(values[5]))
    values[6] = bool(values[6])
    return Job(*values)

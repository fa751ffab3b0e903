"""What the person who started a run sees, on standard error: a line now and then, failed inputs, and the summary.

Counts and decides the exit code. A line every half minute rather than a bar: such runs last hours and end in log files.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

EVERY_SECONDS = 30.0
SHOWN = 20
"""Failed inputs that are shown; failures.jsonl has all."""


@dataclass
class ScaleReporter:
    """Counts of a run. pages_known counts the pages of the documents looked into so far."""

    quiet: bool = False
    documents: int = 0
    skipped: int = 0
    finished: int = 0
    partial: int = 0
    failed: int = 0
    pages_known: int = 0
    pages_kept: int = 0
    pages_read: int = 0
    pages_failed: int = 0
    workers: int = 0
    lost: int = 0
    failures: int = 0
    _began: float = field(default_factory=time.monotonic)
    _shown: float = field(default_factory=time.monotonic)

    @property
    def exit_code(self) -> int:
        """0 ok, 1 some input failed, 3 some page or region did."""
        return 1 if self.failed else 3 if self.partial else 0

    def begin(self, documents: int, skipped: int) -> None:
        self.documents, self.skipped = documents, skipped
        if not self.quiet and skipped:
            self.say(f"{skipped} of {documents} documents were finished earlier and are skipped")

    def found(self, pages: int, kept: int) -> None:
        """A document was looked into; `kept` of its pages are there from an earlier run."""
        self.pages_known += pages
        self.pages_kept += kept

    def read(self, pages: int, failed: int) -> None:
        self.pages_read += pages
        self.pages_failed += failed

    def document(self, status: str, message: str | None = None) -> None:
        """A document is finished, or failed with a message."""
        if status == "failed":
            self.failed += 1
            if self.failed <= SHOWN:
                self.say(f"Error: {message or 'none of the pages of an input could be read (failures.jsonl)'}")
        else:
            self.finished += 1
            self.partial += status == "partial"

    def show(self) -> None:
        """A line, when the last one is long enough ago."""
        now = time.monotonic()
        if self.quiet or now - self._shown < EVERY_SECONDS:
            return
        self._shown = now
        if self.workers == 0:
            self.say("no worker has started yet: the cluster has no room for one, or is still starting")
            return
        done = self.skipped + self.finished + self.failed
        self.say(
            f"{done} of {self.documents} documents, {self.pages_kept + self.pages_read} of {self.pages_known} known "
            f"pages, {self._rate()}; {self.workers} workers, {self.lost} lost; {self.pages_failed} pages failed"
        )

    def summary(self, out: str) -> None:
        if self.quiet:
            return
        parts = [f"{self.finished} documents, {self.pages_read} pages in {self._seconds():.1f} s ({self._rate()})"]
        for count, what in (
            (self.skipped, "documents finished earlier"),
            (self.pages_kept, "pages kept from an earlier run"),
            (self.failed, "failed"),
            (self.partial, "partial"),
            (self.lost, "workers lost and replaced"),
            (self.failures, f"problems, listed in {out.rstrip('/')}/failures.jsonl"),
        ):
            if count:
                parts.append(f"{count} {what}")
        self.say("; ".join(parts) + f"; written to {out}")

    def interrupted(self) -> None:
        done = self.skipped + self.finished
        self.say(f"Interrupted: {done} of {self.documents} documents finished: the same command goes on from there.")

    def say(self, text: str) -> None:
        print(" ".join(text.split()), file=sys.stderr, flush=True)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _rate(self) -> str:
        return f"{self.pages_read / max(self._seconds(), 1e-9):.2f} pages/s"

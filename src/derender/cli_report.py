"""What the person at the terminal sees, all on standard error: progress, problems, and the summary at the end.

Counts as it goes and decides the exit code from the counts. Reads and writes no documents.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from derender.document import Document, Page
from derender.errors import UsageError

SHOWN = 5
"""Warnings and page errors of one document that are shown without -v; a book of bad pages must not flood the screen."""


@dataclass
class Tally:
    """What became of the inputs. `failed` counts those that nothing came out of, `misused` those of them whose options
    made no sense for them (pages that they do not have).
    """

    documents: int = 0
    skipped: int = 0
    partial: int = 0
    failed: int = 0
    misused: int = 0
    pages: int = 0
    problems: int = 0
    sources: Counter[str] = field(default_factory=Counter)

    @property
    def exit_code(self) -> int:
        """0 ok, 1 some input failed, 2 all that failed was wrong usage and nothing came out, 3 partial."""
        if self.failed and self.failed == self.misused and not self.documents and not self.skipped:
            return 2
        return 1 if self.failed else 3 if self.partial else 0


class Reporter:
    """A context manager around one batch. verbose: 0, 1 (-v) or 2 (-vv). The bar shows only on a terminal."""

    def __init__(self, total: int, quiet: bool = False, verbose: int = 0) -> None:
        self.tally = Tally()
        self.quiet, self.verbose, self.total = quiet, verbose, total
        self._console = Console(stderr=True, highlight=False)
        self._began = self._document_began = time.perf_counter()
        self._bar: Progress | None = None
        self._documents = self._pages = TaskID(0)
        if self._console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._documents = self._bar.add_task("documents", total=total, visible=total > 1)
            self._pages = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> Reporter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line, whatever is in it."""
        self._console.print(" ".join(text.split()), markup=False, soft_wrap=True)

    def begin(self, name: str) -> None:
        self._document_began = time.perf_counter()
        if self._bar:
            self._bar.reset(self._pages, total=None, description=f"{name}, pages", visible=True)

    def page(self, page: Page, done: int, total: int) -> None:
        """Pipeline's on_page: one more page is done."""
        if self._bar:
            self._bar.update(self._pages, completed=done, total=total)

    def finished(self, document: Document, folder: Path | None) -> None:
        """The document came out, whole or in part, and lies in `folder` (None: printed)."""
        tally = self.tally
        sources: Counter[str] = Counter(region.source for page in document.pages for region in page.regions)
        tally.documents += 1
        tally.partial += document.status == "partial"
        tally.pages += len(document.pages)
        tally.sources += sources
        self._problems(document)
        if self.verbose:
            seconds = time.perf_counter() - self._document_began
            where = f"; written to {folder}" if folder else ""
            rotated = [p.number for p in document.pages if p.content_rotation]
            turned = f"; turned pages {ranges(rotated)}" if rotated else ""
            self.say(
                f"{document.name}: {document.status}, {_pages(len(document.pages), seconds)}{_by_source(sources)}"
                f"{_decoding(document)}{turned}{where}"
            )
        self._next()

    def failed(self, error: BaseException, document: Document | None = None, prefix: str = "") -> None:
        """Nothing came out of an input."""
        self.tally.failed += 1
        self.tally.misused += isinstance(error, UsageError)
        if document is not None:
            self._problems(document)
        self.tally.problems += 1
        self.error(error, prefix)
        self._next()

    def skipped(self, name: str) -> None:
        self.tally.skipped += 1
        if self.verbose:
            self.say(f"{name}: finished earlier, skipped")
        self._next()

    def error(self, error: BaseException, prefix: str = "") -> None:
        """The error as one line, with its traceback when -vv."""
        self.say(f"Error: {prefix}{error}")
        if self.verbose > 1:
            self._console.print("".join(traceback.format_exception(error)), markup=False, soft_wrap=True)

    def summary(self, out: Path | None) -> None:
        tally = self.tally
        if self.quiet:
            return
        parts = []
        if tally.documents:
            seconds = time.perf_counter() - self._began
            parts.append(
                f"{_count(tally.documents, 'document')}, {_pages(tally.pages, seconds)}{_by_source(tally.sources)}"
            )
        if tally.skipped:
            parts.append(f"{tally.skipped} skipped, finished earlier")
        if tally.failed:
            parts.append(f"{tally.failed} failed")
        if tally.partial:
            parts.append(f"{tally.partial} partial")
        parts.append(_count(tally.problems, "problem") if tally.problems else "no problems")
        if out is not None and tally.documents:
            parts.append(f"written to {out}")
        self.say("; ".join(parts))

    def interrupted(self, resumable: bool) -> None:
        done = self.tally.documents + self.tally.skipped
        hint = ": the same command with --resume goes on from there" if resumable else ""
        self.say(f"Interrupted: {done} of {_count(self.total, 'input')} finished{hint}.")

    def _next(self) -> None:
        if self._bar:
            self._bar.advance(self._documents)
            self._bar.update(self._pages, visible=False)

    def _problems(self, document: Document) -> None:
        self.tally.problems += len(document.errors)
        self._some(f"Error: {document.name}, ", document.errors)
        if not self.quiet:
            self._some(f"Warning: {document.name}, ", _warnings(document))

    def _some(self, prefix: str, messages: list[str]) -> None:
        shown = messages if self.verbose else messages[:SHOWN]
        for message in shown:
            self.say(prefix + message)
        if len(messages) > len(shown):
            self.say(f"{prefix}and {len(messages) - len(shown)} more like these (-v shows all)")


def _warnings(document: Document) -> list[str]:
    """Warnings, the same one of many pages once."""
    pages: dict[str, list[int]] = {}
    for page in document.pages:
        for warning in page.warnings:
            pages.setdefault(warning, []).append(page.number)
    grouped = [f"{'page' if len(n) == 1 else 'pages'} {ranges(n)}: {text}" for text, n in pages.items()]
    return [f"whole document: {text}" for text in document.warnings] + grouped


def ranges(numbers: Iterable[int]) -> str:
    """1, 2, 3, 7 as "1-3,7"; any order, repeats dropped."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _pages(pages: int, seconds: float) -> str:
    return f"{_count(pages, 'page')} in {seconds:.1f} s ({pages / max(seconds, 1e-9):.2f} pages/s)"


def _by_source(sources: Counter[str]) -> str:
    return "; regions: " + (", ".join(f"{n} {source}" for source, n in sources.most_common()) or "none found")


def _decoding(document: Document) -> str:
    decode = document.meta.get("decode") or {}
    if not decode.get("forwards"):
        return ""
    rate = decode["tokens"] / decode["forwards"]
    how = decode["mode"] if decode["mode"] in ("exact", "ar") else f"{decode['mode']}, {decode['rule']}"
    return f"; decoded {decode['tokens']} tokens, {rate:.1f} a forward ({how})"

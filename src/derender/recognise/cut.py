"""Requests that were cut into parts, each read as a request of its own: which are open, and what of them is read.

The bookkeeping of tables.py (cells) and leaders.py (pieces of rows). Cuts nothing and joins no texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from derender.recognise.types import Result

T = TypeVar("T")


@dataclass
class _Open(Generic[T]):
    """What was cut, the numbers of its parts still to come, and the results of the others."""

    whole: T
    missing: set[int]
    results: dict[int, Result] = field(default_factory=dict)


class CutRequests(Generic[T]):
    """mark: between a request's id and a part's number; no caller's id holds it. Those who cut parts again need
    another."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._open: dict[str, _Open[T]] = {}

    def open(self, id: str, whole: T, numbers: Iterable[int]) -> None:
        self._open[id] = _Open(whole, set(numbers))

    def part(self, id: str, number: int) -> str:
        """The id of a part's request."""
        return f"{id}{self._mark}{number}"

    def is_part(self, result: Result) -> bool:
        return self._mark in result.id

    def put(self, result: Result) -> tuple[T, dict[int, Result]] | None:
        """Takes a part's result. With the last one of a request: what was cut, and the results by their numbers."""
        id, _, number = result.id.rpartition(self._mark)
        found = self._open[id]
        found.results[int(number)] = result
        found.missing.discard(int(number))
        if found.missing:
            return None
        del self._open[id]
        return found.whole, found.results

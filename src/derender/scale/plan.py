"""What is to be read: inputs anywhere fsspec reaches, their names in the output, and pages cut into units of work.

A unit is what one worker reads at a time: pages of one document or of many small ones, so that the decoder's batches
are full. Opens no document and knows nothing of Ray.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from derender.assemble.files import safe_name
from derender.errors import MissingExtraError, UsageError
from derender.ingest.inputs import SUFFIXES

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True)
class DocumentInput:
    """One input. name: its folder in the output, unique in the run. size in bytes and version (what the file system
    gives: ETag, checksum or time of change) tell a changed file; size -1: there is no such file.
    """

    uri: str
    name: str
    size: int
    version: str

    def key(self, settings: str) -> str:
        """Names this input, unchanged, read with these settings; 24 hex digits."""
        text = "\0".join((self.uri, self.name, str(self.size), self.version, settings))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True)
class PageRange:
    """Pages first to last (from 1, both included) of document number `document` of the run."""

    document: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Unit:
    """Pages that one worker reads together. attempts: how often a worker was lost over it."""

    ranges: tuple[PageRange, ...]
    attempts: int = 0

    @property
    def pages(self) -> int:
        return sum(map(len, self.ranges))

    def singles(self) -> list[Unit]:
        """Each page a unit of its own, to find the one that costs workers their life."""
        return [Unit((PageRange(r.document, n, n),)) for r in self.ranges for n in range(r.first, r.last + 1)]


def file_system(uri: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a path or URI and the path in it. Raises UsageError for an unknown kind of URI,
    MissingExtraError when fsspec, or its package for that kind, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("--ray needs fsspec: pip install 'derender[ray]'") from None
    try:
        fs, path = url_to_fs(uri)
    except ImportError as error:
        raise MissingExtraError(f"{uri} needs another package: {error}") from None
    except ValueError as error:
        raise UsageError(f"{uri} is no path or URI that can be opened: {error}") from None
    return fs, path


def expand_uris(inputs: Iterable[str], recursive: bool = False) -> list[DocumentInput]:
    """Files, folders and patterns (*.pdf), local or by URI; the documents of a folder sorted by path.

    A path without a document stays in the list with size -1, so that it is reported and the others are read. The same
    inputs give the same names in every run.
    """
    names = _Names()
    found: list[DocumentInput] = []
    for given in inputs:
        if given == "-":
            raise UsageError("--ray reads files, not standard input")
        fs, path = file_system(given)
        if fs.isdir(path):
            files = fs.find(path, maxdepth=None if recursive else 1, detail=True)
            files = {p: info for p, info in files.items() if _is_document(p, path)}
        elif any(mark in path for mark in "*?["):
            files = fs.glob(path, detail=True)
        else:
            files = {path: fs.info(path)} if fs.exists(path) else {}
        root = path if fs.isdir(path) else path.rpartition("/")[0]
        for file in sorted(files):
            name = names.give(_below(file, root), file.rpartition("/")[2])
            found.append(DocumentInput(fs.unstrip_protocol(file), name, _size(files[file]), _version(files[file])))
        if not files:
            found.append(DocumentInput(given, names.give(path.rpartition("/")[2], path), -1, ""))
    return found


def page_ranges(
    document: int, numbers: Sequence[int], done: frozenset[int] | set[int] = frozenset()
) -> list[PageRange]:
    """The pages of `numbers` (in any order) that are not done, as unbroken ranges."""
    ranges: list[PageRange] = []
    for number in sorted(set(numbers) - done):
        if ranges and ranges[-1].last == number - 1:
            ranges[-1] = PageRange(document, ranges[-1].first, number)
        else:
            ranges.append(PageRange(document, number, number))
    return ranges


def cut_unit(backlog: deque[PageRange], size: int) -> Unit:
    """Takes up to `size` pages from the front of the backlog, which must not be empty."""
    taken: list[PageRange] = []
    while backlog and size > 0:
        head = backlog.popleft()
        if len(head) > size:
            middle = head.first + size
            backlog.appendleft(PageRange(head.document, middle, head.last))
            head = PageRange(head.document, head.first, middle - 1)
        taken.append(head)
        size -= len(head)
    return Unit(tuple(taken))


class _Names:
    """Safe names that no earlier input has, compared without case, in constant time each."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def give(self, below: str, file: str) -> str:
        stem, dot, suffix = below.rpartition(".")
        stem = stem if dot and f".{suffix}".lower() in SUFFIXES else below
        name = safe_name(stem)
        if name.casefold() in self._next and dot:
            name = safe_name(below)
        candidate = name
        while candidate.casefold() in self._next:
            self._next[name.casefold()] += 1
            candidate = f"{name}_{self._next[name.casefold()]}"
        self._next[candidate.casefold()] = 1
        return candidate


def _below(file: str, root: str) -> str:
    return file[len(root) :].lstrip("/") if file.startswith(root) else file


def _is_document(file: str, folder: str) -> bool:
    below = _below(file, folder)
    suffix = below[below.rfind(".") :].lower() if "." in below else ""
    return suffix in SUFFIXES and not any(part.startswith(".") for part in below.split("/"))


def _size(info: dict[str, Any]) -> int:
    return int(info.get("size") or 0)


def _version(info: dict[str, Any]) -> str:
    keys = ("ETag", "etag", "md5Hash", "checksum", "mtime", "LastModified", "last_modified", "created")
    return next((str(info[key]) for key in keys if info.get(key)), "")

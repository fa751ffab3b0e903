"""Which files an agent may name: those that lie in given folders, symbolic links followed. Does not open documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from derender.errors import InputError, UsageError
from derender.ingest.inputs import SUFFIXES

MOST_SEEN = 20_000  # entries of folders looked at for one list


@dataclass(frozen=True)
class Found:
    """A file that looks like a document by its name. path: as `Roots.read` takes it."""

    path: str
    size: int


class Roots:
    """The folders. Raises UsageError for one that is not there."""

    def __init__(self, folders: Sequence[Path], max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.folders: list[Path] = []
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"--root {folder} is not a folder")
            self.folders.append(folder.resolve())

    def resolve(self, path: str) -> Path:
        """The real path. A relative one is looked for in each folder. Raises InputError for what lies outside of all
        folders, without saying whether it is there."""
        if "\0" in path:
            raise InputError("a path cannot hold a zero byte.")
        given = Path(path)
        tried = [given] if given.is_absolute() else [folder / given for folder in self.folders]
        inside = [real for p in tried if (real := self._inside(p)) is not None]
        if not inside:
            names = ", ".join(str(folder) for folder in self.folders)
            raise InputError(f"{path} lies outside the folders that this server may read: {names}")
        return next((real for real in inside if real.exists()), inside[0])

    def _inside(self, path: Path) -> Path | None:
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # a loop of links
            return None
        return real if any(real.is_relative_to(folder) for folder in self.folders) else None

    def read(self, path: str) -> tuple[Path, bytes]:
        """The real path and the file's bytes. Raises InputError."""
        real = self.resolve(path)
        try:
            # Without waiting: a pipe with nobody at its other end would hold the server up.
            handle = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        known = os.fstat(handle)
        if not stat.S_ISREG(known.st_mode):
            os.close(handle)
            raise InputError(f"{path} is not a file.")
        with os.fdopen(handle, "rb") as file:
            if known.st_size > self.max_bytes:
                raise InputError(f"{path} is larger than the {self.max_bytes // 1_000_000} MB allowed.")
            return real, file.read()

    def list(self, folder: str = "") -> tuple[list[Found], bool]:
        """Documents in a folder and those inside it, sorted by path; in all of them without a folder. And whether that
        is all: where a folder holds too much, not everything is looked at. Raises InputError."""
        start = [self.resolve(folder)] if folder else self.folders
        if folder and not start[0].is_dir():
            raise InputError(f"{folder} is not a folder.")
        found, whole = {}, True
        for top in start:
            entries = top.rglob("*")
            for path in islice(entries, MOST_SEEN):
                if path.suffix.lower() in SUFFIXES and self._inside(path):
                    try:
                        known = path.stat()
                    except OSError:  # gone meanwhile
                        continue
                    if stat.S_ISREG(known.st_mode):
                        found[str(path)] = known.st_size
            whole &= next(entries, None) is None
        return [Found(path, size) for path, size in sorted(found.items())], whole

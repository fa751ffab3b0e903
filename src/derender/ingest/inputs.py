"""From what stands on the command line to the list of files to read. Opens nothing and judges nothing by content.

A path that does not exist, or a folder without documents, stays in the list: open_source says what is wrong with it, so
that one bad name does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = frozenset({".pdf", ".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".webp", ".bmp", ".gif"})


@dataclass(frozen=True)
class InputFile:
    """One input. path None means standard input. name is unique in its list and safe as a relative output path."""

    path: Path | None
    name: str


def expand_inputs(paths: Iterable[str | Path], recursive: bool = False) -> list[InputFile]:
    """Files, folders and `-`, in the order given; a folder gives its documents (by suffix) sorted by path.

    Folders inside a folder are searched only when `recursive`; names starting with a dot are skipped. Files from a
    folder are named by their path below it without suffix ("letters/may"). Where two inputs would share a name, the
    later one keeps its suffix ("may.png") or, failing that, gets a number.
    """
    taken: set[str] = set()
    found: list[InputFile] = []
    for given in paths:
        if str(given) == "-":
            found.append(InputFile(None, _unique("stdin", "stdin", taken)))
            continue
        path = Path(given)
        inside = _documents(path, recursive) if path.is_dir() else []
        for file in inside:
            below = file.relative_to(path)
            found.append(InputFile(file, _unique(below.with_suffix("").as_posix(), below.as_posix(), taken)))
        if not inside:
            found.append(InputFile(path, _unique(path.stem or path.resolve().stem, path.name, taken)))
    return found


def _documents(folder: Path, recursive: bool) -> list[Path]:
    candidates = sorted(folder.rglob("*") if recursive else folder.iterdir())
    return [
        file
        for file in candidates
        if file.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    ]


def _unique(name: str, with_suffix: str, taken: set[str]) -> str:
    choices = [name, with_suffix]
    # Case is folded because output folders may lie on a file system that does not tell case apart.
    while choices[0].casefold() in taken:
        choices.pop(0)
        if not choices:
            count = 2
            while f"{name}-{count}".casefold() in taken:
                count += 1
            choices.append(f"{name}-{count}")
    taken.add(choices[0].casefold())
    return choices[0]

"""Whether memory grows with the number of pages: a document repeated to many pages, read while its process is watched.

Reads `VmRSS`, so it runs on Linux only. Measures one process; peers are compared in score/peers.py.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from derender.errors import InputError

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class MemoryPoint:
    """Memory of the process once `pages` pages have been read, and the time since the start."""

    pages: int
    mib: float
    seconds: float


def repeat_pages(path: Path, pages: int) -> bytes:
    """A PDF of `pages` pages: those of `path` over and over. InputError where it cannot be opened or has none."""
    import pypdfium2

    try:
        source = pypdfium2.PdfDocument(path)
    except (pypdfium2.PdfiumError, OSError) as error:
        raise InputError(f"{path.name} cannot be opened as a PDF: {error}") from None
    if not len(source):
        raise InputError(f"{path.name} has no pages")
    out = pypdfium2.PdfDocument.new()
    while len(out) < pages:
        out.import_pages(source, list(range(min(len(source), pages - len(out)))))
    buffer = io.BytesIO()
    out.save(buffer)
    return buffer.getvalue()


def memory_over_pages(
    data: bytes, every: int, threads: int = 2, progress: Callable[[MemoryPoint], None] | None = None
) -> list[MemoryPoint]:
    """Reads a PDF in OCR mode and notes the memory after page 1 and every `every` pages."""
    from derender.config import ParseOptions
    from derender.pipeline import Pipeline

    if not _STATUS.is_file():
        raise InputError("memory can be watched on Linux only")
    points: list[MemoryPoint] = []
    began = time.monotonic()
    read = 0

    def on_page(*_: object) -> None:
        nonlocal read
        read += 1
        if read == 1 or read % every == 0:
            points.append(MemoryPoint(read, resident_mib(), time.monotonic() - began))
            if progress:
                progress(points[-1])

    Pipeline(ParseOptions(mode="ocr", threads=threads)).parse(data, on_page=on_page)
    return points


def resident_mib() -> float:
    """Resident memory of this process in MiB."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise InputError("this system does not say how much memory a process holds")

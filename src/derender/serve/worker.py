"""The process that opens, decodes and renders what strangers send, under limits of memory, time and files.

    python -m derender.serve.worker FD MEGABYTES SECONDS      (started by remote.py, not by hand)

Reads requests from the socket FD and answers them: a JSON header, then raw bytes where there are pixels. Nothing is
unpickled on either side, so a taken-over worker can lie about a document but not run code in the service. It may not
write files (RLIMIT_FSIZE is 0). Does not lay out or read pages.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from derender.errors import DerenderError, InputError, PasswordError
from derender.ingest.page import Source
from derender.ingest.types import ReadOptions


def main(fd: int, megabytes: int, seconds: float) -> None:
    """Serves one socket until the other side closes it."""
    limit_process(megabytes)
    connection = Connection(fd)
    source: Source | None = None
    while True:
        try:
            request = json.loads(connection.recv_bytes())
            data = connection.recv_bytes() if request["op"] == "open" else b""
        except (EOFError, ConnectionResetError):
            return
        limit_cpu(seconds)
        answer: dict[str, Any]
        pixels: Any = None
        try:
            if request["op"] == "close":
                _close(source)
                source, answer = None, {}
            elif request["op"] == "open":
                _close(source)
                source = None
                source, answer = _open(request, data)
            else:
                if source is None:
                    raise InputError("no document is open")
                answer, pixels = _page(source, request)
        except MemoryError:
            answer = {"error": "the document needs more memory than a worker has", "kind": "killed"}
        except DerenderError as error:
            answer = {"error": str(error), "kind": _kind(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500], "kind": "PageError"}
        connection.send_bytes(json.dumps(answer).encode())
        if pixels is not None and "error" not in answer:
            connection.send_bytes(memoryview(pixels).cast("B"))


def limit_process(megabytes: int) -> None:
    """Address space, no core files, no files written, few open files."""
    size = megabytes * 1_000_000
    for what, value in (
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (value, value))


def limit_cpu(seconds: float) -> None:
    """Processor seconds for the next request, beyond which the system kills this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, resource.RLIM_INFINITY))


def _close(source: Source | None) -> None:
    if source is not None:
        source.close()


def _kind(error: DerenderError) -> str:
    if "neither a PDF nor a picture" in str(error):
        return "unsupported"
    if isinstance(error, InputError) and "too large a picture" in str(error):  # as a PageError it costs its page only
        return "too_large"
    return "PasswordError" if isinstance(error, PasswordError) else type(error).__name__


def _open(request: dict[str, Any], data: bytes) -> tuple[Source, dict[str, Any]]:
    from derender.ingest.image import ImageSource
    from derender.ingest.source import open_source

    options = ReadOptions(dpi=request["dpi"], max_pixels=request["page_pixels"])
    source = open_source(data, name=request["name"], password=request["password"], options=options)
    pixels = 0
    if isinstance(source, ImageSource):
        width, height = source.frame(1).size
        pixels = width * height
    return source, {
        "page_count": source.page_count,
        "kind_of": source.kind,
        "warnings": source.warnings,
        "pixels": pixels,
    }


def _page(source: Source, request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    page = source.page(request["number"])
    try:
        image = page.image
        answer = {
            "width": page.width_pt,
            "height": page.height_pt,
            "dpi": page.dpi,
            "shape": list(image.shape),
            "words": [asdict(word) for word in page.words()] if request["words"] else [],
            "images": page.images() if request["words"] else [],
            "warnings": page.warnings,
        }
        return answer, image
    finally:
        page.release()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))

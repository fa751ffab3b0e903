"""What a speed figure depends on besides the code: processor, threads, versions, weights. Measures nothing."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def processor_name() -> str:
    """The processor's own name where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def describe_machine(threads: int, clock: str) -> dict[str, Any]:
    """Processor, cores, threads and versions, for the report. load: other work at the start, in processors."""
    packages = {}
    for name in ("numpy", "onnxruntime", "torch"):
        if name != "torch" or name in sys.modules:  # only what took part
            try:
                packages[name] = version(name)
            except PackageNotFoundError:
                continue
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "threads": threads,
        "clock": clock,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        **packages,
    }


def file_hashes(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """sha256 of the files of `folder` that exist."""
    return {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in names if (folder / n).is_file()}

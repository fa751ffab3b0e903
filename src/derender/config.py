"""Settings of a parse, in one frozen dataclass: the CLI's flags, the service and the Python API are made from it.

Settings of the parts are in the parts (read.ReadOptions, layout.LayoutOptions, decode.DecodeConfig). Validated when
made; a value that makes no sense is a UsageError.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, get_args

from derender.decode.config import DecodeConfig
from derender.errors import UsageError
from derender.mineru.options import ModelOptions

Mode = Literal["auto", "ocr", "text"]
MODES: tuple[Mode, ...] = get_args(Mode)


def default_threads() -> int:
    """Processors this process may use, at most 4: more make one page's small products slower, not faster."""
    return max(1, min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


@dataclass(frozen=True)
class ParseOptions:
    """How to read documents.

    mode: auto takes a PDF's own words where they can be trusted and reads the picture elsewhere; ocr never looks at
    them; text uses nothing else. pages: such as "1-3,7"; None = all. dpi: of rendered pages. password: of encrypted
    PDFs. orient: turn pages whose content lies on its side. threads: per model call. batch: regions decoded together.
    tokens: keep every token and its confidence in the JSON. join_tables: show a table that goes on on the next page as
    one. model: another model than derender-compact, which then lays pages out too.
    """

    mode: Mode = "auto"
    pages: str | None = None
    dpi: float = 150.0
    password: str | None = None
    orient: bool = True
    threads: int = field(default_factory=default_threads)
    batch: int = 16
    tokens: bool = False
    join_tables: bool = True
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    model: ModelOptions | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"unknown mode {self.mode!r}: use one of {', '.join(MODES)}")
        if not 36 <= self.dpi <= 1200:
            raise UsageError(f"dpi must lie between 36 and 1200, not {self.dpi:g}")
        if self.threads < 1 or self.batch < 1:
            raise UsageError("threads and batch must be at least 1")

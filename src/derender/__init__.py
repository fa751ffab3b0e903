"""derender reads documents by inverse rendering: PDF, scans and photos in, Markdown and JSON out.

    import derender
    document = derender.parse("paper.pdf")
    print(document.to_markdown())
    print(derender.read("line.png").text)

Imports of the heavy parts happen at the first call.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    import numpy as np

    from derender.document import Document, Page, Region, RegionType
    from derender.errors import DerenderError
    from derender.recognise.types import Result, Task

__all__ = [
    "Document",
    "DerenderError",
    "Page",
    "Region",
    "RegionType",
    "Result",
    "__version__",
    "load",
    "parse",
    "read",
]

_HOMES = {
    "Document": "derender.document",
    "Page": "derender.document",
    "Region": "derender.document",
    "RegionType": "derender.document",
    "load": "derender.document",
    "Result": "derender.recognise.types",
    "DerenderError": "derender.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'derender' has no attribute {name!r}")


def parse(source: str | Path | bytes, **options: Any) -> Document:
    """Reads a document: a path or the file's bytes.

    options: the fields of derender.config.ParseOptions (mode, pages, dpi, password, threads, decode, model, ...). With
    a model, decode defaults to mode block. Raises InputError when there is nothing to read; failed pages are in the
    document, whose `status` then says "partial".
    """
    from derender.config import ParseOptions
    from derender.pipeline import Pipeline

    if options.get("model") is not None and "decode" not in options:
        from derender.decode.config import DecodeConfig

        options["decode"] = DecodeConfig(mode="block")
    return Pipeline(ParseOptions(**options)).parse(source)


def read(image: str | Path | bytes | np.ndarray, task: Task = "text", **options: Any) -> Result:
    """Reads one crop: a line, a paragraph, a table or a formula, as a file, its bytes, or (H, W, 3) uint8 RGB.

    options: as for CompactRecogniser (decode, threads). Models are kept between calls with equal options. Raises
    InputError when the image cannot be read.
    """
    from derender.recognise.crop import read_crop

    return read_crop(image, task, **options)

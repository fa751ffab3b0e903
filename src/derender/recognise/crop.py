"""Reading single crops (`derender.read`): opens the picture, keeps one recogniser per set of options."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from derender.config import default_threads
from derender.decode.config import DecodeConfig
from derender.errors import InputError, UsageError
from derender.ingest.source import open_source
from derender.recognise.compact import DEFAULT_DECODE, CompactRecogniser
from derender.recognise.types import TASKS, Image, Request, Result, Task


@lru_cache(maxsize=2)
def shared_recogniser(decode: DecodeConfig, threads: int, use_draft: bool = True) -> CompactRecogniser:
    """The recogniser for these options, made once. Not thread-safe."""
    return CompactRecogniser(decode, threads=threads, use_draft=use_draft)


def load_image(image: str | Path | bytes | np.ndarray) -> Image:
    """(H, W, 3) uint8 RGB of a picture file, its bytes, or an array. Raises InputError for anything else."""
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim not in (2, 3) or 0 in image.shape:
            raise InputError(f"a crop must be a non-empty uint8 picture, not {image.dtype} of shape {image.shape}")
        return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image[:, :, :3]
    with open_source(image) as source:
        return source.page(1).image


def read_crop(
    image: str | Path | bytes | np.ndarray,
    task: Task = "text",
    *,
    decode: DecodeConfig = DEFAULT_DECODE,
    threads: int | None = None,
    use_draft: bool = True,
) -> Result:
    """Reads one crop. Raises InputError, or UsageError for an unknown task."""
    if task not in TASKS or task == "layout":
        raise UsageError(f"unknown task {task!r}: use text, formula or table")
    recogniser = shared_recogniser(decode, threads or default_threads(), use_draft)
    (result,) = recogniser.recognise([Request("crop", load_image(image), task)])
    return result

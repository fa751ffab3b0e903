"""The readers by name, made when asked for: nothing heavy is imported before."""

from __future__ import annotations

from typing import Literal, get_args

from derender.errors import UsageError
from derender.score.types import Reader

ReaderName = Literal["derender", "tesseract", "rapidocr", "rapidocr-full"]
READERS: tuple[ReaderName, ...] = get_args(ReaderName)


def make_reader(name: str, decode: str | None = None) -> Reader:
    """A reader with its default settings but for the decode mode, which only "derender" has.

    Raises UsageError for an unknown name, MissingExtraError when not installed.
    "rapidocr" gives crops of one line to its recogniser alone; "rapidocr-full" sends them through its detector.
    """
    if name == "derender":
        from derender.score.readers_derender import DerenderReader

        if decode is None:
            return DerenderReader()
        from derender.decode.config import DecodeConfig

        config = DecodeConfig(mode=decode)  # type: ignore[arg-type]
        return DerenderReader({"decode": config}, {"decode": config})
    if name == "tesseract":
        from derender.score.readers_tesseract import TesseractReader

        return TesseractReader()
    if name in ("rapidocr", "rapidocr-full"):
        from derender.score.readers_rapidocr import RapidOcrReader

        return RapidOcrReader(lines_by_recogniser=name == "rapidocr")
    raise UsageError(f"Unknown reader {name!r}: choose from {', '.join(READERS)}.")

"""Tesseract as a peer: the `tesseract` program, one process a picture, one thread (its default threads are slower).

Debian packages: tesseract-ocr, tesseract-ocr-chi-sim, tesseract-ocr-deu, tesseract-ocr-script-frak. Reads text only:
asked for formulas or tables it writes the plain text it sees, which is what a user of it would get.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from derender.errors import MissingExtraError, UsageError
from derender.score.page_images import page_images
from derender.score.types import Block, CropTask, Image, PageReading, Reading

LANGS = {"": "eng", "en": "eng", "de": "deu", "de-fraktur": "Fraktur", "zh": "chi_sim+eng", "mul": "eng+deu"}
"""Language data asked for by a file's language; other languages are read with English data."""
PSM: dict[CropTask, int] = {"line": 7, "block": 6, "formula": 6, "table": 6}


class TesseractReader:
    """Crops are passed as they are (white borders of 4-20 pixels made receipts and blocks worse).

    Page segmentation 7 for lines, 6 for other crops, `page_psm` (3: automatic) for pages.
    """

    name = "tesseract"

    def __init__(self, dpi: int = 300, page_psm: int = 3) -> None:
        """dpi: resolution PDFs are rendered at; 300 is what its manual asks for. Raises MissingExtraError."""
        if shutil.which("tesseract") is None:
            raise MissingExtraError("The program tesseract is not installed (Debian package tesseract-ocr).")
        self.dpi, self.page_psm = dpi, page_psm
        listed = subprocess.run(["tesseract", "--list-langs"], capture_output=True, text=True, check=True).stdout
        # script data is listed with its folder on some systems ("script/Fraktur") and without on others
        self.installed = {line.rsplit("/", 1)[-1]: line for line in listed.split("\n")[1:] if line}

    def read_crops(self, images: Sequence[Image], task: CropTask, lang: str = "") -> list[str]:
        return [self._run(i, PSM[task], lang, "txt").rstrip("\n\f") for i in images]

    def parse_page(self, path: Path, lang: str = "") -> Reading:
        """Blocks are Tesseract's paragraphs in its order, line breaks kept."""
        pages = (blocks_from_tsv(self._run(i, self.page_psm, lang, "tsv")) for i in page_images(path, self.dpi))
        return Reading(tuple(PageReading(blocks) for blocks in pages))

    def _languages(self, lang: str) -> str:
        wanted = LANGS.get(lang, "eng").split("+")
        missing = [w for w in wanted if w not in self.installed]
        if missing:
            raise MissingExtraError(f"Tesseract lacks the language data {missing[0]!r}: install its package.")
        return "+".join(self.installed[w] for w in wanted)

    def _run(self, image: Image, psm: int, lang: str, output: str) -> str:
        from PIL import Image as Pil

        buffer = io.BytesIO()
        Pil.fromarray(image).save(buffer, "PNG", compress_level=1)
        command = ["tesseract", "stdin", "stdout", "--psm", str(psm), "-l", self._languages(lang), output]
        done = subprocess.run(
            command, input=buffer.getvalue(), capture_output=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"}
        )
        if done.returncode:
            raise UsageError(f"tesseract failed: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout.decode("utf-8", "replace")


def blocks_from_tsv(tsv: str) -> tuple[Block, ...]:
    """Paragraphs of Tesseract's TSV output with boxes normalised to the page; lines end in line breaks."""
    rows = [line.split("\t") for line in tsv.splitlines()[1:]]
    page = next((r for r in rows if r[0] == "1"), None)
    if page is None:
        return ()
    width, height = int(page[8]), int(page[9])
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    boxes: dict[tuple[str, str], tuple[float, float, float, float]] = {}
    for row in rows:
        if row[0] == "3":
            x, y, w, h = (int(v) for v in row[6:10])
            boxes[row[2], row[3]] = (x / width, y / height, (x + w) / width, (y + h) / height)
        elif row[0] == "5" and len(row) > 11 and row[11].strip():
            lines.setdefault((row[2], row[3]), {}).setdefault(row[4], []).append(row[11])
    return tuple(Block("\n".join(" ".join(words) for words in par.values()), boxes.get(k)) for k, par in lines.items())

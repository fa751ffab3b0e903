"""The shipped weights: read real pictures, invent nothing, and decode alike in every mode that promises it.

With DERENDER_EVALSET set to an evaluation folder, `exact` is also compared with `ar` on every text crop in it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import derender
from derender.decode.config import DecodeConfig
from derender.recognise.compact import CompactRecogniser
from derender.recognise.types import Request

TEXT = (
    "Optical character recognition is the inverse of",
    "rendering: a page was text before it was a picture,",
    "and 1,234 words (or 56%) can be read in any order.",
)


def picture(lines: tuple[str, ...], size: int = 26) -> np.ndarray:
    font = ImageFont.load_default(size)
    width = max(int(font.getlength(line)) for line in lines) + 24
    image = Image.new("RGB", (width, int(size * 1.5) * len(lines) + 16), "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((12, 8 + int(size * 1.5) * i), line, font=font, fill="black")
    return np.asarray(image)


@pytest.fixture(scope="module")
def crops() -> list[Request]:
    pictures = [picture(TEXT[:n]) for n in (1, 2, 3)] + [picture((line,)) for line in TEXT]
    return [Request(str(i), p) for i, p in enumerate(pictures)]


def read(crops: list[Request], config: DecodeConfig, batch: int = 8) -> dict[str, str]:
    results = {r.id: r for r in CompactRecogniser(config, threads=1, max_batch=batch).recognise(crops)}
    assert all(r.status == "ok" for r in results.values()), [r.errors for r in results.values()]
    return {i: r.text for i, r in results.items()}


def test_a_line_is_read_exactly() -> None:
    assert derender.read(picture(TEXT[:1])).text == TEXT[0]


def test_a_paragraph_flows() -> None:
    result = derender.read(picture(TEXT))
    assert result.text == " ".join(TEXT)
    assert result.stats.tokens_per_forward > 4
    assert result.confidence is not None and result.confidence > 0.9


def test_blank_and_noise_give_no_text() -> None:
    assert derender.read(np.full((60, 400, 3), 255, np.uint8)).text == ""
    assert derender.read(np.zeros((60, 400, 3), np.uint8)).text == ""


@pytest.mark.parametrize("draft", ["window", "reading"])
def test_exact_equals_autoregressive(crops: list[Request], draft: str) -> None:
    ar = read(crops, DecodeConfig(mode="ar"))
    assert read(crops, DecodeConfig(mode="exact", draft=draft)) == ar  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["ar", "block", "sliding", "exact"])
def test_batched_equals_single(crops: list[Request], mode: str) -> None:
    config = DecodeConfig(mode=mode)  # type: ignore[arg-type]
    assert read(crops, config, batch=8) == read(crops, config, batch=1)


@pytest.mark.skipif("DERENDER_EVALSET" not in os.environ, reason="needs an evaluation set")
def test_exact_equals_autoregressive_on_the_evaluation_set() -> None:
    files = sorted((Path(os.environ["DERENDER_EVALSET"]) / "text").glob("*.png"))
    crops = [Request(f.name, np.asarray(Image.open(f).convert("RGB"))) for f in files]

    def texts(config: DecodeConfig) -> dict[str, str]:
        return {r.id: r.text for r in CompactRecogniser(config).recognise(crops)}

    ar = texts(DecodeConfig(mode="ar"))
    assert texts(DecodeConfig(mode="exact", draft="reading")) == ar
    assert texts(DecodeConfig(mode="exact", draft="window")) == ar

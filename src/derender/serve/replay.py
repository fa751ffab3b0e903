"""One region of a finished job, read again with its steps recorded, alone in the engine, so that the seconds of two
decode modes compare. Needs a job whose document was kept. Does not draw anything."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import numpy as np
from pydantic import BaseModel, Field

from derender.decode.config import DecodeConfig
from derender.document import Box, Page, Region, RegionType
from derender.ingest.orient import turn, turn_box
from derender.layout.crops import crop_region
from derender.layout.types import quad_of
from derender.recognise.types import Image, Request
from derender.serve.jobs import Job
from derender.serve.options import DecodeMode, ParseParameters
from derender.serve.problems import ApiError
from derender.serve.reader import clean_name
from derender.serve.service import Service

MARGIN = 4.0  # pixels
WAIT = 120.0  # seconds until the engine is idle and has read the crop


class ReplayToken(BaseModel):
    """A committed token: where it stands in the text, by which forward it was committed, and how sure."""

    position: int
    step: int
    text: str
    confidence: float


class Replay(BaseModel):
    """One mode's reading of the region."""

    mode: DecodeMode
    text: str = Field(description="As decoded; of a formula, its LaTeX")
    tokens: list[ReplayToken]
    window: int = Field(description="Most places that one forward works on")
    forwards: int
    seconds: float = Field(description="Of decoding alone (prefill and forwards), the fastest of two runs")
    whole: float = Field(description="Seconds of that run with all else: lines cut, the picture looked at")
    status: str
    errors: list[str]


def page_picture(service: Service, job: Job, number: int) -> Image:
    """(H, W, 3) uint8 RGB of a page as a viewer shows it. Raises ApiError 404 and 410, InputError, PageError."""
    data = service.store.input(job.id)
    if data is None:
        raise ApiError(410, "no_input", "the document was not kept: submit the job with keep_input")
    wanted = ParseParameters(mode="ocr", password=job.wanted.password, dpi=job.wanted.dpi)
    with service.reader.open(data, clean_name(job.name), wanted) as source:
        if number > source.page_count:
            raise ApiError(404, "no_page", f"the document has {source.page_count} pages")
        return source.page(number).image


def replay_region(
    service: Service, job: Job, region_id: str, modes: Sequence[DecodeMode], gone: threading.Event
) -> list[Replay]:
    """Reads the region under each mode, until `gone` is set. Raises ApiError 404, 410, 422 and 429."""
    document = service.jobs.outcome(job).document
    found = [(page, region) for page in document.pages for region in page.regions if region.id == region_id]
    if not found:
        raise ApiError(404, "no_region", "the document has no such region")
    page, region = found[0]
    if not region.lines and region.type is not RegionType.FORMULA:
        raise ApiError(422, "no_lines", "the region has no lines of text to read")
    request = region_of_page(page_picture(service, job, page.number), page, region)
    configs = [DecodeConfig(mode=mode, trace=True) for mode in modes]
    future = service.host.measure(request, configs, gone=gone)
    try:
        measured = future.result(timeout=WAIT)
    except TimeoutError:
        gone.set()
        raise ApiError(429, "busy", "the engine is busy with other clients", 10) from None
    replays = []
    for config, read in zip(configs, measured, strict=True):
        result = read.result
        mode = cast(DecodeMode, config.mode)
        tokens = [
            ReplayToken(position=i, step=t.step, text=t.text, confidence=round(t.confidence, 4))
            for i, t in enumerate(result.tokens)
        ]
        replays.append(
            Replay(
                mode=mode,
                text=result.latex or "" if request.task == "formula" else result.text,
                tokens=tokens,
                window={"ar": 1, "block": config.block}.get(mode, config.window),
                forwards=result.stats.forwards,
                seconds=round(result.stats.seconds, 5),
                whole=round(read.seconds, 5),
                status=result.status,
                errors=result.errors,
            )
        )
    return replays


def region_of_page(image: Image, page: Page, region: Region) -> Request:
    """A region of a read document as a request: its crop from the page's picture, its lines in pixels of the crop."""
    k = image.shape[1] / page.width
    upright = turn(image, page.content_rotation)

    def pixels(box: Box) -> Box:
        turned = turn_box(box, page.content_rotation, page.width, page.height)
        return cast(Box, tuple(float(v) * k for v in turned))

    crop, (x, y) = crop_region(upright, pixels(region.box), MARGIN)
    if region.type is RegionType.FORMULA:  # without lines: its text is not what is looked at
        return Request("replay", np.ascontiguousarray(crop), "formula", ())
    lines = []
    for line in region.lines:
        x0, y0, x1, y1 = pixels(line.box)
        lines.append(quad_of((x0 - x, y0 - y, x1 - x, y1 - y)))
    return Request("replay", np.ascontiguousarray(crop), "text", tuple(lines))

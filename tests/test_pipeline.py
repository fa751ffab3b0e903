"""The main loop: pages in, document out; sources chosen per region, errors kept apart, pages streamed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import derender
from derender.assemble.figures import wants_picture
from derender.config import ParseOptions
from derender.document import Document, Line, Page, Region, RegionType
from derender.errors import InputError, PageError, UsageError
from derender.ingest.page import PageInput, Source
from derender.page import PageWork
from derender.pipeline import Pipeline, fill_region
from derender.recognise.types import DecodeStats, Request, Result, TokenOut

PARAGRAPHS = (
    ("The quick brown fox jumps over the lazy dog and", "runs into the deep forest behind the old mill."),
    ("A second paragraph stands below the first one and", "tells what happened to the fox on the next day."),
)


def page_picture(paragraphs: tuple[tuple[str, ...], ...] = PARAGRAPHS, size: int = 22) -> Image.Image:
    image = Image.new("RGB", (850, 1100), "white")
    draw, font, y = ImageDraw.Draw(image), ImageFont.load_default(size), 120
    for lines in paragraphs:
        for line in lines:
            draw.text((110, y), line, font=font, fill="black")
            y += int(size * 1.45)
        y += size * 2
    return image


def pdf_of(images: list[Image.Image]) -> bytes:
    buffer = io.BytesIO()
    images[0].save(buffer, "PDF", resolution=100, save_all=True, append_images=images[1:])
    return buffer.getvalue()


class Pictures(Source):
    """Pages from pictures; page `broken` fails. Counts the pages whose pictures are held at once."""

    def __init__(self, count: int, broken: int = 0) -> None:
        super().__init__("pictures", count)
        self.kind = "image"
        self.broken, self.held, self.most_held = broken, 0, 0
        self.picture = np.asarray(page_picture(PARAGRAPHS[:1]))

    def _load(self, number: int) -> PageInput:
        if number == self.broken:
            raise PageError(f"Page {number} cannot be loaded.")
        return _Held(self, number)

    def close(self) -> None:
        pass


class _Held(PageInput):
    def __init__(self, source: Pictures, number: int) -> None:
        super().__init__(number, 612.0, 792.0, 100.0)
        self.source = source

    def _render(self) -> np.ndarray:
        self.source.held += 1
        self.source.most_held = max(self.source.most_held, self.source.held)
        return self.source.picture

    def words(self) -> list:  # type: ignore[type-arg]
        return []

    def images(self) -> list:  # type: ignore[type-arg]
        return [(0.0, 0.0, 612.0, 792.0)]

    def release(self) -> None:
        if self._image is not None:
            self.source.held -= 1
        super().release()


class Echo:
    """A recogniser double that reads every region as its id, and fails those whose id is in `bad`."""

    name = "echo"

    def __init__(self, bad: tuple[str, ...] = ()) -> None:
        self.bad, self.pulled = bad, 0

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
        for request in requests:
            self.pulled += 1
            if request.id in self.bad:
                yield Result(request.id, status="failed", errors=["unreadable"])
                continue
            stats = DecodeStats("sliding", 2, 1, 0.1)
            yield Result(request.id, text=f"text {request.id}", tokens=[TokenOut("t", 0.5, 1)], stats=stats)


@pytest.fixture(scope="module")
def scan() -> Document:
    return derender.parse(pdf_of([page_picture()]), threads=1)


def test_a_scan_is_read_from_its_picture(scan: Document) -> None:
    assert scan.status == "ok" and scan.page_count == 1
    regions = [r for r in scan.pages[0].regions if r.text]
    assert [r.text for r in regions] == [" ".join(p) for p in PARAGRAPHS]
    assert {r.source for r in regions} == {"ocr"} and all((r.confidence or 0) > 0.9 for r in regions)


def test_boxes_are_in_points_of_the_page(scan: Document) -> None:
    page = scan.pages[0]
    assert (page.width, page.height) == pytest.approx((612, 792), abs=1)
    x0, y0, x1, y1 = next(r for r in page.regions if r.text).box
    assert x0 == pytest.approx(110 * 0.72, abs=6) and y0 == pytest.approx(122 * 0.72, abs=6)
    assert 300 < x1 < 612 and y0 + 20 < y1 < y0 + 60


def test_decoding_is_recorded(scan: Document) -> None:
    decode = scan.meta["decode"]
    assert decode["regions"] == 2 and decode["tokens"] > 150 and decode["forwards"] < decode["tokens"] / 3
    assert scan.meta["model"] == "derender-compact" and scan.meta["source"]["size"] > 1000


def test_the_json_reads_back(scan: Document) -> None:
    assert Document.from_json(scan.to_json()) == scan


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_page_on_its_side_is_turned_and_its_boxes_mapped_back(turn: int) -> None:
    upright = page_picture((*PARAGRAPHS, *PARAGRAPHS, *PARAGRAPHS))
    document = derender.parse(pdf_of([upright.rotate(-turn, expand=True)]), threads=1)
    page = document.pages[0]
    assert page.content_rotation == (360 - turn) % 360
    assert PARAGRAPHS[0][0] in document.to_markdown()
    for region in page.regions:
        x0, y0, x1, y1 = region.box
        assert 0 <= x0 < x1 <= page.width + 1 and 0 <= y0 < y1 <= page.height + 1
        assert turn == 180 or not region.text or y1 - y0 > x1 - x0  # lines run along the page's height


def test_a_blank_page_stays_empty() -> None:
    document = derender.parse(pdf_of([Image.new("RGB", (850, 1100), "white")]), threads=1)
    assert document.status == "ok" and document.pages[0].regions == [] and document.to_markdown().strip() == ""


def test_text_mode_reads_no_picture() -> None:
    document = derender.parse(pdf_of([page_picture()]), mode="text", threads=1)
    assert not any(r.text for r in document.pages[0].regions)
    assert any("no text of its own" in w for w in document.pages[0].warnings)


def test_one_broken_page_does_not_lose_the_others() -> None:
    pipeline = Pipeline(ParseOptions(threads=1), Echo())
    document = pipeline.parse_source(Pictures(3, broken=2))
    assert document.status == "partial" and [p.status for p in document.pages] == ["ok", "failed", "ok"]
    assert document.errors == ["Page 2 cannot be loaded."]
    assert all(any(r.text.startswith("text") for r in document.pages[i].regions) for i in (0, 2))


def test_one_bad_region_makes_the_page_partial() -> None:
    pages: list[int] = []
    pipeline = Pipeline(ParseOptions(threads=1), Echo(bad=("1:0",)))
    document = pipeline.parse_source(Pictures(2), on_page=lambda page, done, total: pages.append(page.number))
    assert document.status == "partial" and [p.status for p in document.pages] == ["partial", "ok"]
    assert document.errors == ["page 1, region 1: unreadable"] and sorted(pages) == [1, 2]


def test_all_pages_failed_is_a_failed_document() -> None:
    assert Pipeline(ParseOptions(threads=1), Echo()).parse_source(Pictures(1, broken=1)).status == "failed"


def test_pages_are_streamed() -> None:
    source = Pictures(12)
    document = Pipeline(ParseOptions(threads=1), Echo()).parse_source(source)
    assert len(document.pages) == 12 and source.most_held == 1 and source.held == 0


def test_pages_can_be_chosen() -> None:
    document = Pipeline(ParseOptions(threads=1, pages="2,4-5"), Echo()).parse_source(Pictures(6))
    assert [p.number for p in document.pages] == [2, 4, 5] and document.page_count == 6


def test_figures_hold_no_text_but_keep_their_place() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (300, 500, 3), dtype=np.uint8)
    image = page_picture()
    image.paste(Image.fromarray(noise).resize((500, 300)), (150, 600))
    page: Page = derender.parse(pdf_of([image]), threads=1).pages[0]
    assert [r.text for r in page.regions if r.type is not RegionType.FIGURE and r.text][0] == " ".join(PARAGRAPHS[0])


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "empty"), (b"hello world", "neither|not|kind"), (b"%PDF-1.7 broken", "damaged|PDF")]
)
def test_what_is_no_document_is_one_clear_error(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        derender.parse(data)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="mode"):
        ParseOptions(mode="fast")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="dpi"):
        ParseOptions(dpi=5)


def test_read_takes_files_bytes_and_arrays(tmp_path: Path) -> None:
    line = page_picture((PARAGRAPHS[0][:1],)).crop((100, 112, 700, 152))
    line.save(tmp_path / "line.png")
    texts = {
        derender.read(tmp_path / "line.png").text,
        derender.read((tmp_path / "line.png").read_bytes()).text,
        derender.read(np.asarray(line)).text,
        derender.read(np.asarray(line.convert("L"))).text,
    }
    assert texts == {PARAGRAPHS[0][0]}


def reading(text: str, confidence: float, **more: Any) -> Result:
    return Result("1:0", text, [TokenOut("t", confidence, 1)], **more)


def filled(kind: RegionType, result: Result, width: float = 400) -> Region:
    line = Line(box=(50, 50, 50 + width, 70))
    region = Region(id="p1r1", type=kind, order=0, box=line.box, lines=[line])
    fill_region(region, result, PageWork(Page(number=1, width=600, height=800, dpi=150)), ParseOptions())
    return region


def test_a_formula_that_is_surely_words_becomes_text() -> None:
    region = filled(RegionType.FORMULA, reading("* Some report, p. 8.", 0.5, latex="O_{10}", text_confidence=0.97))
    assert (region.type, region.latex, region.confidence) == (RegionType.TEXT, None, 0.97)


def test_a_sure_formula_with_words_stays_a_formula() -> None:
    latex = reading("rate (before) / rate (after)", 0.86, latex="r_{b}/r_{a}", text_confidence=0.97)
    assert filled(RegionType.FORMULA, latex).latex == "r_{b}/r_{a}"


@pytest.mark.parametrize("text", ["", ". . [ . . . . . . ."])
def test_long_lines_without_letters_count_as_unread(text: str) -> None:
    region = filled(RegionType.TEXT, reading(text, 0.6))
    assert (region.text, region.status) == ("", "failed") and "not understood" in region.errors[0]


def test_a_speck_without_letters_is_no_failure() -> None:
    assert filled(RegionType.TEXT, reading("", 0.6), width=60).status == "ok"


def test_unread_text_is_kept_as_a_picture() -> None:
    assert wants_picture(filled(RegionType.TEXT, reading("", 0.6)))

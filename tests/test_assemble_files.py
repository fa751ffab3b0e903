"""Files: names, atomic writing, resuming; pictures and the layout PDF."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from derender.assemble import files
from derender.assemble.figures import crop_region
from derender.assemble.files import FORMATS, is_finished, safe_name, source_meta, unique_name, write_outputs
from derender.assemble.overlay import COLOURS, write_overlay_pages
from derender.document import Document, Page, Region, RegionType, load
from derender.errors import UsageError


def picture(number: int) -> np.ndarray:
    """A 600 x 800 white page with a red square where the sample's figure is."""
    image = np.full((800, 600, 3), 255, np.uint8)
    image[300:400, 100:200] = (255, 0, 0)
    return image


def sample(pages: int = 2, **fields: object) -> Document:
    made = []
    for number in range(1, pages + 1):
        figure = Region(id=f"p{number}-r1", type=RegionType.FIGURE, order=1, box=(100, 300, 200, 400))
        text = Region(
            id=f"p{number}-r0", type=RegionType.TEXT, order=0, box=(100, 100, 500, 200), text="Hello \ud800\x07!"
        )
        made.append(Page(number=number, width=600, height=800, dpi=72, regions=[text, figure]))
    return Document.model_validate({"name": "sample", "pages": made, "page_count": pages, **fields})


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_writes_all_files(tmp_path: Path) -> None:
    paths = write_outputs(sample(), tmp_path, FORMATS, picture)
    names = [
        "images/p1_r1.png",
        "images/p2_r1.png",
        "sample.html",
        "sample.json",
        "sample.md",
        "sample_chunks.jsonl",
        "sample_content_list.json",
        "sample_layout.pdf",
        "sample_tables.xlsx",
    ]
    assert tree(tmp_path) == [f"sample/{name}" for name in names] and {p.name for p in paths} == {
        Path(n).name for n in names
    }
    assert "![figure](images/p1_r1.png)" in (tmp_path / "sample/sample.md").read_text()
    assert load(tmp_path / "sample/sample.json").pages[1].regions[1].image == "images/p2_r1.png"
    assert "data:image/png;base64," in (tmp_path / "sample/sample.html").read_text()


def test_only_the_formats_asked_for(tmp_path: Path) -> None:
    write_outputs(sample(), tmp_path, ["md"], name="../x:y")
    assert tree(tmp_path) == ["_x_y/_x_y.md"]
    with pytest.raises(UsageError, match="unknown format 'docx'"):
        write_outputs(sample(), tmp_path, ["docx"])  # type: ignore[list-item]


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def broken(number: int) -> np.ndarray:
        if number == 2:
            raise RuntimeError("page 2 is gone")
        return picture(number)

    with pytest.raises(RuntimeError, match="page 2"):
        write_outputs(sample(), tmp_path / "out", FORMATS, broken)
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_earlier_output_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_outputs(sample(), tmp_path, FORMATS, picture)
    before = {name: (tmp_path / name).read_bytes() for name in tree(tmp_path)}
    monkeypatch.setattr(files, "to_content_list", lambda doc: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_outputs(sample(pages=1), tmp_path, FORMATS, picture)
    assert {name: (tmp_path / name).read_bytes() for name in tree(tmp_path)} == before
    assert not list(tmp_path.rglob(".writing*"))


@settings(deadline=None)
@given(st.text(max_size=200))
def test_safe_names_are_names(name: str) -> None:
    safe = safe_name(name)
    assert safe and len(safe.encode()) <= 151 and safe not in (".", "..") and safe_name(safe) == safe
    assert not set(safe) & set('/\\:*?"<>|\0\n') and safe.strip(". ") == safe


def test_reserved_and_equal_names() -> None:
    assert safe_name("CON.pdf") == "_CON.pdf" and safe_name("...") == "document"
    assert unique_name("a", ["A", "a_2"]) == "a_3" and unique_name("b", ["a"]) == "b"


def test_is_finished(tmp_path: Path) -> None:
    source = source_meta(b"%PDF-1.7 ...")
    assert not is_finished(tmp_path, "sample", source)
    write_outputs(sample(meta={"source": source}, status="partial"), tmp_path, ["json", "md"])
    assert is_finished(tmp_path, "sample", source) and is_finished(tmp_path, "sample")
    assert not is_finished(tmp_path, "sample", source_meta(b"other"))
    assert not is_finished(tmp_path, "sample", source, formats=["html"])
    write_outputs(sample(meta={"source": source}, status="failed"), tmp_path, ["json"])
    assert not is_finished(tmp_path, "sample", source)
    (tmp_path / "sample/sample.json").write_text('{"name": "sa')
    assert not is_finished(tmp_path, "sample", source)


def test_crop_has_the_figure_with_a_small_margin() -> None:
    page = sample().pages[0]
    crop = crop_region(picture(1), page.regions[1], page)
    assert crop is not None and crop.shape == (104, 104, 3)
    assert (crop[2:-2, 2:-2] == (255, 0, 0)).all() and (crop[0] == 255).all()


def test_crop_is_turned_upright() -> None:
    page = sample().pages[0].model_copy(update={"content_rotation": 90})
    image = picture(1)
    image[300, 100] = (0, 0, 255)  # left top in the viewer's frame is right top once turned clockwise
    crop = crop_region(image, page.regions[1], page)
    assert crop is not None and tuple(crop[2, -3]) == (0, 0, 255)


def test_crop_off_the_page_is_none() -> None:
    page = sample().pages[0]
    assert crop_region(picture(1), page.regions[1].model_copy(update={"box": (700, 0, 800, 10)}), page) is None


def test_layout_pdf_shows_page_boxes_and_labels(tmp_path: Path) -> None:
    write_outputs(sample(pages=3), tmp_path, ["overlay"], picture)
    pdf = pdfium.PdfDocument(tmp_path / "sample/sample_layout.pdf")
    assert len(pdf) == 3 and pdf[2].get_size() == (600, 800)
    assert pdf[0].get_textpage().get_text_bounded().split() == ["0", "text", "1", "figure"]
    image = np.asarray(pdf[0].render(scale=4).to_pil().convert("RGB")).astype(int)
    assert image[1400, 600, 0] > 200 and image[1400, 600, 1] < 60  # the figure shows through
    frame = 255 * np.array(COLOURS[RegionType.TEXT])
    assert np.abs(image[400, 1200] - frame).max() < 60


def test_layout_pdf_without_pictures_and_with_huge_pages(tmp_path: Path) -> None:
    huge = Page(number=1, width=100_000, height=200, dpi=5)
    write_overlay_pages([(huge, None)], tmp_path / "x.pdf")
    assert pdfium.PdfDocument(tmp_path / "x.pdf")[0].get_size() == pytest.approx((14_400, 28.8), abs=0.1)


def test_layout_pdf_memory_does_not_grow_with_pages(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 300, 3), np.uint8)
    page = sample().pages[0]
    peaks = []
    for count in (5, 100):
        tracemalloc.start()
        write_overlay_pages(((page, noise) for _ in range(count)), tmp_path / "x.pdf")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (tmp_path / "x.pdf").stat().st_size > 4_000_000 and peaks[1] - peaks[0] < 200_000


def test_saved_crop_is_a_picture(tmp_path: Path) -> None:
    write_outputs(sample(pages=1), tmp_path, ["md"], picture)
    with Image.open(tmp_path / "sample/images/p1_r1.png") as image:
        assert image.size == (104, 104)

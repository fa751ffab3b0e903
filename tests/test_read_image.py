"""Picture files: modes, orientation, alpha, truncation, size limits, pages, resolution; and the list of inputs."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from derender.errors import InputError, PageError
from derender.ingest.inputs import expand_inputs
from derender.ingest.page import PageInput
from derender.ingest.source import open_source
from derender.ingest.types import ReadOptions


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def first_page(data: bytes, **options: object) -> PageInput:
    return open_source(data, name="x", options=ReadOptions(**options)).page(1)  # type: ignore[arg-type]


def corner_picture(mode: str = "RGB") -> Image.Image:
    """40 x 20, white, with a black patch in the top-left corner."""
    image = Image.new("RGB", (40, 20), "white")
    image.paste((0, 0, 0), (0, 0, 10, 5))
    return image.convert(mode)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF"])
def test_formats(kind: str) -> None:
    page = first_page(saved(corner_picture(), kind))
    assert page.image.shape == (20, 40, 3) and page.image.dtype == np.uint8
    assert page.image[2, 4].max() < 60 and page.image[15, 30].min() > 220
    assert page.words() == [] and page.images() == [(0, 0, page.width_pt, page.height_pt)]


@pytest.mark.parametrize(
    ("mode", "kind"), [("CMYK", "JPEG"), ("CMYK", "TIFF"), ("1", "TIFF"), ("1", "PNG"), ("P", "PNG"), ("L", "PNG")]
)
def test_modes_keep_black_and_white(mode: str, kind: str) -> None:
    picture = first_page(saved(corner_picture(mode), kind)).image
    assert picture[2, 4].max() < 60 and picture[15, 30].min() > 220


@pytest.mark.parametrize(("top", "scaled"), [(65535, 128), (4095, 128), (255, 128)])
def test_16_bit_grey_is_scaled_by_its_range(top: int, scaled: int) -> None:
    values = np.full((20, 40), top // 2, dtype=np.uint16)
    values[:, :10] = top
    picture = first_page(saved(Image.fromarray(values), "PNG")).image
    assert picture[5, 5, 0] == 255 and abs(int(picture[5, 30, 0]) - scaled) <= 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int, kind: str) -> None:
    upright = corner_picture()
    undo = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90"}
    undo |= {7: "TRANSVERSE", 8: "ROTATE_270"}
    stored = upright.transpose(Image.Transpose[undo[orientation]]) if orientation in undo else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    page = first_page(saved(stored, kind, exif=exif))
    assert page.image.shape == (20, 40, 3)
    assert page.image[2, 4].max() < 60 and page.image[2, 35].min() > 220 and page.image[15, 4].min() > 220
    assert page.width_pt == 2 * page.height_pt


@pytest.mark.parametrize(("ink", "seen"), [((255, 255, 255), "light on dark"), ((0, 0, 0), "dark on light")])
def test_letters_on_transparency_stay_visible(ink: tuple[int, int, int], seen: str) -> None:
    image = Image.new("RGBA", (60, 40), (*ink, 0))
    for x in range(5, 55, 8):
        image.paste((*ink, 255), (x, 10, x + 3, 30))
    picture = first_page(saved(image, "PNG")).image
    assert abs(int(picture[20, 6, 0]) - int(picture[20, 10, 0])) == 255, seen


def test_black_and_white_letters_on_transparency_are_both_visible() -> None:
    image = Image.new("RGBA", (60, 40), (0, 0, 0, 0))
    for x in range(5, 55, 8):
        image.paste((0, 0, 0, 255) if x % 16 == 5 else (255, 255, 255, 255), (x, 10, x + 3, 30))
    picture = first_page(saved(image, "PNG")).image.astype(int)
    assert abs(picture[20, 6, 0] - picture[20, 10, 0]) > 100 and abs(picture[20, 14, 0] - picture[20, 10, 0]) > 100


def test_white_paper_with_transparent_margin_gets_a_white_margin() -> None:
    image = Image.new("RGBA", (400, 400), (0, 0, 0, 0))
    image.paste((255, 255, 255, 255), (20, 20, 380, 380))
    assert first_page(saved(image, "PNG")).image.min() == 255


def test_palette_with_transparent_entry() -> None:
    image = corner_picture("P")
    picture = first_page(saved(image, "PNG", transparency=image.getpixel((30, 15)))).image
    assert picture[2, 4].max() < 60 and picture[15, 30].min() > 220


def test_all_pages_of_a_tiff_in_any_order() -> None:
    frames = [Image.new("L", (30 + index, 20), 40 * index) for index in range(4)]
    data = saved(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    with open_source(data) as source:
        assert source.page_count == 4
        pages = {number: source.page(number) for number in (3, 1, 4, 2)}
        assert all(pages[n].image.shape == (20, 29 + n, 3) and pages[n].image[0, 0, 0] == 40 * (n - 1) for n in pages)


def test_a_tiff_whose_list_of_pages_leads_nowhere_gives_its_first_page_and_a_warning() -> None:
    frame = Image.new("L", (40, 30), 200)
    data = bytearray(saved(frame, "TIFF", save_all=True, append_images=[frame]))
    first = int.from_bytes(data[4:8], "little")
    link = first + 2 + 12 * int.from_bytes(data[first : first + 2], "little")
    data[link : link + 4] = (len(data) - 1).to_bytes(4, "little")  # one byte is no directory
    source = open_source(bytes(data))
    assert source.page_count == 1 and "list of pages is damaged" in source.warnings[0]
    assert source.page(1).image.shape == (30, 40, 3)


def test_only_the_first_frame_of_an_animation() -> None:
    frames = [corner_picture("L"), Image.new("L", (40, 20), 255)]
    with open_source(saved(frames[0], "GIF", save_all=True, append_images=frames[1:])) as source:
        assert source.page_count == 1 and source.page(1).image[2, 4].max() < 60


def test_truncated_picture_gives_what_is_there_and_a_warning() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8))
    for kind in ("JPEG", "PNG"):
        whole = saved(noise, kind)
        page = first_page(whole[: len(whole) // 2])
        assert page.image.shape == (200, 200, 3) and page.image[:60].std() > 20
        assert "truncated" in page.warnings[0]
        assert not first_page(whole).warnings


def test_picture_without_any_data_is_a_page_error() -> None:
    whole = saved(Image.new("RGB", (300, 300), "red"), "JPEG")
    data = whole[: whole.index(b"\xff\xda")]
    with pytest.raises((InputError, PageError)):
        _ = first_page(data).image


def test_decompression_bomb_is_refused_by_its_header() -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    for side in (12_000, 60_000):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
        with pytest.raises((InputError, PageError), match="too large"):
            first_page(data)


def test_large_jpeg_is_decoded_at_a_reduced_size() -> None:
    page = first_page(saved(Image.new("L", (15_000, 13_000), 200), "JPEG", dpi=(300, 300)), max_pixels=1_000_000)
    assert page.image.shape[0] * page.image.shape[1] <= 1_010_000
    assert page.width_pt == pytest.approx(15_000 / 300 * 72) and page.dpi < 300
    assert "because the picture is large" in page.warnings[0]


@pytest.mark.parametrize(("stored", "used"), [((300, 300), 300), (None, 150), ((1, 1), 150), ((2400, 2400), 150)])
def test_resolution_from_metadata_when_sane(stored: tuple[int, int] | None, used: float) -> None:
    options = {} if stored is None else {"dpi": stored}
    page = first_page(saved(corner_picture(), "PNG", **options))
    assert page.dpi == pytest.approx(used, rel=0.01) and page.width_pt == pytest.approx(40 * 72 / page.dpi)


def test_fax_pixels_are_made_square() -> None:
    page = first_page(saved(Image.new("L", (400, 200)), "TIFF", dpi=(200, 100)))
    assert page.image.shape == (400, 400, 3) and page.width_pt == page.height_pt == 144


def test_damaged_exif_does_not_stop_the_picture() -> None:
    data = saved(corner_picture(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert first_page(data).image.shape == (20, 40, 3)


def test_inputs_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.pdf", "a.PNG", "notes.txt", ".hidden.pdf", "sub/a.png", "a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert [i.name for i in expand_inputs([tmp_path])] == ["a", "a.jpg", "b"]
    assert [i.name for i in expand_inputs([tmp_path], recursive=True)] == ["a", "a.jpg", "b", "sub/a"]


def test_input_names_are_unique_and_missing_files_stay(tmp_path: Path) -> None:
    names = [i.name for i in expand_inputs(["x/a.pdf", "y/a.pdf", "z/A.pdf", "-"])]
    assert names == ["a", "a.pdf", "A-2", "stdin"]
    assert expand_inputs([tmp_path])[0].path == tmp_path

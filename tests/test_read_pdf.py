"""PDF reading: opening, passwords, broken pages, sizes, frames, words, memory. All files are made here."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from derender.errors import InputError, PageError, PasswordError, UsageError
from derender.ingest.lines import words_to_lines
from derender.ingest.source import open_source, page_ranges, parse_pages
from derender.ingest.types import ReadOptions
from pdf_helpers import make_pdf

PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def encrypted_pdf(user: bytes, owner: bytes) -> bytes:
    """One empty page under the standard security handler, revision 2 (PDF 1.7, 7.6.3)."""
    identifier = b"0123456789abcdef"
    entry_o = rc4(hashlib.md5((owner + PAD)[:32]).digest()[:5], (user + PAD)[:32])
    permissions = (-64).to_bytes(4, "little", signed=True)
    key = hashlib.md5((user + PAD)[:32] + entry_o + permissions + identifier).digest()[:5]
    entry_u = rc4(key, PAD)
    trailer = b"/ID [<%s> <%s>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -64 /O <%s> /U <%s> >> /Root" % (
        *(identifier.hex().encode(),) * 2,
        entry_o.hex().encode(),
        entry_u.hex().encode(),
    )
    return make_pdf([b""]).replace(b"/Root", trailer)


def text_at(x: float, y: float, text: str, size: float = 12, mode: int = 0) -> bytes:
    return f"BT /F1 {size} Tf {mode} Tr 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n".encode("latin-1")


def ink_box(image: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.where((image < 128).all(axis=2))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_word_boxes_lie_on_the_rendered_ink(rotation: int) -> None:
    extra = b"/CropBox [20 10 280 190] /Rotate %d" % rotation
    with open_source(make_pdf([text_at(60, 120, "HELM")], extra)) as source:
        page = source.page(1)
        (word,) = page.words()
        assert (page.width_pt, page.height_pt) == ((260, 180) if rotation % 180 == 0 else (180, 260))
        ink = [edge / page.px_per_pt for edge in ink_box(page.image)]
        assert word.box[0] - 1 <= ink[0] and word.box[1] - 1 <= ink[1]
        assert ink[2] <= word.box[2] + 1 and ink[3] <= word.box[3] + 1
        along = (0, 2) if rotation % 180 == 0 else (1, 3)
        assert all(abs(word.box[i] - ink[i]) < 1.0 for i in along)
        assert word.angle % 360 == rotation


def test_words_split_at_spaces_and_keep_size_and_style() -> None:
    pdf = make_pdf([text_at(20, 100, "two words", size=18)])
    with open_source(pdf) as source:
        words = source.page(1).words()
    assert [w.text for w in words] == ["two", "words"]
    assert all(w.font_size == pytest.approx(18) and w.font == "Helvetica" and w.visible for w in words)


def test_wide_gap_without_a_space_splits_words() -> None:
    with open_source(make_pdf([b"BT /F1 10 Tf 20 100 Td [(left) -5000 (right)] TJ ET"])) as source:
        assert [w.text for w in source.page(1).words()] == ["left", "right"]


def test_invisible_text_is_marked() -> None:
    with open_source(make_pdf([text_at(20, 100, "seen") + text_at(20, 50, "hidden", mode=3)])) as source:
        assert {w.text: w.visible for w in source.page(1).words()} == {"seen": True, "hidden": False}


IMAGE = (
    b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\n"
    b"stream\n\xff\nendstream"
)


def test_text_below_a_page_picture_is_invisible_and_above_it_is_not() -> None:
    content = text_at(20, 100, "below") + b"q 300 0 0 200 0 0 cm /Im Do Q\n" + text_at(20, 50, "above")
    with open_source(make_pdf([content], objects=[IMAGE])) as source:
        page = source.page(1)
        assert {w.text: w.visible for w in page.words()} == {"below": False, "above": True}
        assert page.images() == [pytest.approx((0, 0, 300, 200))]


def test_small_picture_box_follows_the_rotation_flag() -> None:
    content = b"q 30 0 0 20 50 150 cm /Im Do Q"
    with open_source(make_pdf([content], b"/Rotate 90", [IMAGE])) as source:
        assert source.page(1).images() == [pytest.approx((150, 50, 170, 80))]


def test_hyphen_at_the_line_end_is_flagged_and_other_hyphens_are_not() -> None:
    content = text_at(20, 100, "a well-known algo-") + text_at(20, 86, "rithm here")
    with open_source(make_pdf([content])) as source:
        lines = words_to_lines(source.page(1).words())
    assert [line.text for line in lines] == ["a well-known algo-", "rithm here"]
    assert [line.hyphen for line in lines] == [True, False]


def test_form_fields_are_rendered_and_their_text_is_among_the_words() -> None:
    form = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada) /Rect [50 50 150 80] /F 4 /AP << /N 101 0 R >> "
        b"/DA (/F1 12 Tf 0 g) >>"
    )
    drawn = b"0 0 0 rg 60 0 40 30 re f BT /F1 12 Tf 5 10 Td (Ada) Tj ET"
    look = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 100 30] /Resources << /Font << /F1 3 0 R >> >> "
        + b"/Length %d >>\nstream\n" % len(drawn)
        + drawn
    )
    pdf = make_pdf([b""], b"/Annots [100 0 R]", [form, look + b"\nendstream"])
    pdf = pdf.replace(b"/Pages 2 0 R >>", b"/Pages 2 0 R /AcroForm << /Fields [100 0 R] >> >>", 1)
    with open_source(pdf) as source:
        page = source.page(1)
        assert (page.image[:, : int(200 * page.px_per_pt)] < 128).any()
        (word,) = page.words()
        assert word.text == "Ada" and 50 <= word.box[0] < word.box[2] <= 150 and 120 <= word.box[1] < word.box[3] <= 150
        page.release()
        assert [w.text for w in page.words()] == ["Ada"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"%PDF-1.7\n", "damaged"),
        (b"hello, not a document at all", "neither a PDF nor a picture"),
        (make_pdf([]), "has no pages"),
        (make_pdf([text_at(20, 100, "x")])[:60], "truncated or damaged"),
    ],
)
def test_what_is_no_document_gives_one_clear_sentence(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_source(data, name="x")
    assert "\n" not in str(caught.value)


def test_encrypted_file_asks_for_the_password_and_takes_it() -> None:
    data = encrypted_pdf(b"secret", b"owner")
    with pytest.raises(PasswordError, match="x is encrypted: give --password"):
        open_source(data, name="x")
    with pytest.raises(PasswordError, match="wrong"):
        open_source(data, name="x", password="guess")
    with open_source(data, name="x", password="secret") as source:
        assert source.page_count == 1


def test_a_file_locked_for_its_owner_only_just_opens() -> None:
    with open_source(encrypted_pdf(b"", b"owner")) as source:
        assert source.page(1).image.shape[2] == 3


def test_missing_file_folder_and_wrong_suffix(tmp_path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_source(tmp_path / "no.pdf")
    with pytest.raises(InputError, match="folder"):
        open_source(tmp_path)
    (tmp_path / "fake.pdf").write_text("plain text")
    with pytest.raises(InputError, match="fake.pdf is neither"):
        open_source(tmp_path / "fake.pdf")
    (tmp_path / "really.png").write_bytes(make_pdf([b""]))
    with open_source(tmp_path / "really.png") as source:
        assert (source.kind, source.name, source.page_count) == ("pdf", "really", 1)


def test_a_broken_page_leaves_the_others_alone() -> None:
    pdf = make_pdf([text_at(20, 100, "one"), text_at(20, 100, "two"), text_at(20, 100, "three")])
    pdf = pdf.replace(b"12 0 R 14 0 R", b"92 0 R 14 0 R")
    with open_source(pdf) as source:
        assert source.page_count == 3
        assert [w.text for w in source.page(3).words()] == ["three"]
        with pytest.raises(PageError, match="page 2"):
            source.page(2)
        assert [w.text for w in source.page(1).words()] == ["one"]
        with pytest.raises(PageError, match="has no page 4"):
            source.page(4)


def test_huge_page_is_capped_with_a_warning() -> None:
    options = ReadOptions(max_pixels=1_000_000, max_side=2000)
    with open_source(make_pdf([b""], mediabox=b"0 0 14400 14400"), options=options) as source:
        page = source.page(1)
        height, width, _ = page.image.shape
        assert width * height <= 1.01e6 and page.dpi < 10
        assert "instead of 150" in page.warnings[0]


def test_hopelessly_long_page_is_a_page_error() -> None:
    with open_source(make_pdf([b""], mediabox=b"0 0 100 2000000")) as source, pytest.raises(PageError, match="legibly"):
        source.page(1)


def test_small_page_gets_a_moderately_higher_dpi() -> None:
    with open_source(make_pdf([b""], mediabox=b"0 0 100 100")) as source:
        page = source.page(1)
        assert page.dpi == pytest.approx(375) and not page.warnings
    with open_source(make_pdf([b""], mediabox=b"0 0 612 792")) as source:
        assert source.page(1).dpi == 150


def test_released_page_can_be_used_again() -> None:
    with open_source(make_pdf([text_at(20, 100, "again")])) as source:
        page = source.page(1)
        before = page.image.copy()
        page.release()
        assert np.array_equal(page.image, before)
        assert [w.text for w in page.words()] == ["again"]


@pytest.mark.parametrize(
    ("text", "pages"), [("1-3,7", [1, 2, 3, 7]), ("9-", [9, 10]), ("-2", [1, 2]), (" 3 , 1,3", [3, 1])]
)
def test_parse_pages(text: str, pages: list[int]) -> None:
    assert parse_pages(text, 10) == pages


@pytest.mark.parametrize("text", ["", "-", "0", "11", "3-1", "a", "1,,2", "1-2-3", "5-99", "\u0663"])
def test_parse_pages_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pages(text, 10)


def test_ranges_are_checked_without_listing_their_pages() -> None:
    assert page_ranges("1-, 2-999999999") == [(1, None), (2, 999999999)]
    with pytest.raises(UsageError):
        page_ranges("1-9999999999")


def test_memory_is_flat_over_300_pages(tmp_path) -> None:
    lines = b"".join(text_at(20, 190 - 4 * i, "the same old words again and again", 3) for i in range(4))
    file = tmp_path / "long.pdf"
    file.write_bytes(make_pdf([lines] * 300))
    script = (
        "import sys, resource\n"
        "from derender.ingest.source import open_source\n"
        "from derender.ingest.types import ReadOptions\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "with open_source(sys.argv[1], options=ReadOptions(dpi=72, small_page_px=1)) as source:\n"
        "    for number in range(1, 301):\n"
        "        page = source.page(number); page.image; assert page.words(); page.images(); page.release()\n"
        "        if number == 30: early = peak()\n"
        "print(peak() - early)\n"
    )
    # ru_maxrss is in KiB on Linux; other systems count differently, and the test would mean nothing there.
    if not sys.platform.startswith("linux"):
        pytest.skip("peak memory is read as on Linux")
    result = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 8, f"{result.stdout} MiB more after page 300 than after page 30"

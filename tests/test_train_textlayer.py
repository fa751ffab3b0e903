"""Lines of a page whose words may be other than what the picture shows are left out of the training data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest

from derender.train.pages import Line, group, page_lines
from derender.train.textlayer import has_small_capitals, is_spaced_out

X_HEIGHT, ASCENDER = 4.3, 6.9


def glyphs(text: str, small_capitals: bool = False, y: float = 0.0) -> list[tuple[float, float, float, float]]:
    """Boxes of letters on a line whose base is y + 10, as high as in Computer Modern."""
    out = []
    for i, ch in enumerate(text):
        high = ASCENDER if ch in "bdfhklt" or ch.isupper() else X_HEIGHT
        if small_capitals and ch.islower():
            high = 5.1
        out.append((6.0 * i, y + 10 - high, 6.0 * i + (0 if ch == " " else 5), y + 10))
    return out


@pytest.mark.parametrize("text", ["A P P E N D I X", "see Ä Ö Ü É here", "I N D E X"])
def test_letters_that_stand_alone_are_spaced_out(text: str) -> None:
    assert is_spaced_out(text)


@pytest.mark.parametrize("text", ["I am a b c", "1 2 3 4 5 6", "A B C", "A. B. C. D. E.", "in a b c-d e", ""])
def test_other_words_are_not_spaced_out(text: str) -> None:
    assert not is_spaced_out(text)


def test_small_capitals_show_in_the_heights_of_letters() -> None:
    assert has_small_capitals("The Bohr package", glyphs("The Bohr package", small_capitals=True))
    assert not has_small_capitals("The Bohr package", glyphs("The Bohr package"))
    # One word of a line is enough; capitals and words without a letter of each kind say nothing.
    mixed = glyphs("see ") + [(x + 24, *rest, x2 + 24, y) for x, *rest, x2, y in glyphs("bohr", small_capitals=True)]
    assert has_small_capitals("see bohr", [b for b in mixed])
    assert not has_small_capitals("CTAN acne", glyphs("CTAN acne"))


def test_a_doubtful_line_parts_its_neighbours_and_is_in_no_region() -> None:
    lines = [Line(t, glyphs(t, y=14.0 * i)) for i, t in enumerate(["one line", "I N D E X", "two lines", "more of it"])]
    found = list(group(lines, np.random.default_rng(1), most=12))
    assert [line.text for lines in found for line in lines] == ["one line", "two lines", "more of it"]
    assert all("one line" not in [line.text for line in lines] for lines in found if len(lines) > 1)


def a_page(path: Path, shown: str, differences: str = "") -> pdfium.PdfPage:
    """A PDF of one line of Helvetica, written by hand. shown: operand of TJ, strings and moves to the left in
    thousandths of an em. differences: an encoding of the font's own."""
    encoding = f"/Encoding << /Type /Encoding /Differences [{differences}] >>" if differences else ""
    content = f"BT /F1 12 Tf 20 40 Td [{shown}] TJ ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 80] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {encoding} >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    ]
    out = b"%PDF-1.4\n"
    places = []
    for i, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{i} 0 obj\n{body}\nendobj\n".encode()
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{p:010d} 00000 n \n".encode() for p in places)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF".encode()
    path.write_bytes(out)
    return pdfium.PdfDocument(path)[0]


def test_a_glyph_without_unicode_makes_a_line_doubtful(tmp_path: Path) -> None:
    (sound,) = page_lines(a_page(tmp_path / "a.pdf", "(helpful words)"))
    assert sound.text == "helpful words" and not sound.doubtful
    (odd,) = page_lines(a_page(tmp_path / "b.pdf", "(helpful words)", differences="104 /anglething"))
    assert odd.unmapped and odd.doubtful


def test_spaces_where_hardly_any_room_is_make_a_line_doubtful(tmp_path: Path) -> None:
    found = {}
    for gap in (0, 150, 280):
        (line,) = page_lines(a_page(tmp_path / f"{gap}.pdf", f"(modes) -{gap} (of it)"))
        found[gap] = (line.text, line.squeezed)
    assert found == {0: ("modesof it", False), 150: ("modes of it", True), 280: ("modes of it", False)}

"""Lines of a page whose words may be other than what the picture shows are left out of the training data."""

from __future__ import annotations

import numpy as np
import pypdfium2 as pdfium
import pytest

from derender.train.pages import Line, group, page_lines
from derender.train.textlayer import has_small_capitals, is_spaced_out
from pdf_helpers import make_pdf

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
    mixed = glyphs("see ") + [(x + 24, y, x2 + 24, y2) for x, y, x2, y2 in glyphs("bohr", small_capitals=True)]
    assert has_small_capitals("see bohr", mixed)
    assert not has_small_capitals("CTAN acne", glyphs("CTAN acne"))


def test_a_doubtful_line_parts_its_neighbours_and_is_in_no_region() -> None:
    lines = [Line(t, glyphs(t, y=14.0 * i)) for i, t in enumerate(["one line", "I N D E X", "two lines", "more of it"])]
    found = list(group(lines, np.random.default_rng(1), most=12))
    assert [line.text for lines in found for line in lines] == ["one line", "two lines", "more of it"]
    assert all("one line" not in [line.text for line in lines] for lines in found if len(lines) > 1)


def a_page(shown: str, encoding: bytes = b"/WinAnsiEncoding") -> pdfium.PdfPage:
    """A page of one line of Helvetica. shown: operand of TJ, strings and moves to the left in thousandths of an em."""
    return pdfium.PdfDocument(make_pdf([f"BT /F1 12 Tf 20 40 Td [{shown}] TJ ET".encode()], encoding=encoding))[0]


def test_a_glyph_without_unicode_makes_a_line_doubtful() -> None:
    (sound,) = page_lines(a_page("(helpful words)"))
    assert sound.text == "helpful words" and not sound.doubtful
    (odd,) = page_lines(a_page("(helpful words)", encoding=b"<< /Differences [104 /anglething] >>"))
    assert odd.unmapped and odd.doubtful


def test_spaces_where_hardly_any_room_is_make_a_line_doubtful() -> None:
    found = {}
    for gap in (0, 150, 280):
        (line,) = page_lines(a_page(f"(modes) -{gap} (of it)"))
        found[gap] = (line.text, line.squeezed)
    assert found == {0: ("modesof it", False), 150: ("modes of it", True), 280: ("modes of it", False)}

"""Trust in native words, blank pages, orientation and turning, tiles, and words to lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from derender.ingest.blank import is_blank
from derender.ingest.lines import words_to_lines
from derender.ingest.orient import content_rotation, turn, turn_box, unturn_box, words_rotation
from derender.ingest.textlayer import judge_words, near_page, trustworthy
from derender.ingest.tile import tiles
from derender.ingest.types import Word

PAGE = (0.0, 0.0, 300.0, 200.0)
PROSE = "The quick brown fox jumps over the lazy dog while the committee of seven looked on in silence".split()


def word(text: str, x: float, y: float, order: int = 0, size: float = 10, width: float | None = None, **rest) -> Word:
    """A word whose box is one font size high, with y at its top."""
    right = x + (width if width is not None else 0.5 * size * len(text))
    return Word(text, (x, y, right, y + size), order, size, **rest)


def row(text: str, x: float, y: float, order: int, gap: float = 3, **rest) -> list[Word]:
    words: list[Word] = []
    for part in text.split():
        words.append(word(part, x, y, order + len(words), **rest))
        x = words[-1].box[2] + gap
    return words


def printed(texts: list[tuple[str, float, float]], scale: float = 2.0) -> tuple[np.ndarray, list[Word]]:
    """A grey picture of PAGE with words printed at (x, y) points, and those words."""
    image = Image.new("L", (int(PAGE[2] * scale), int(PAGE[3] * scale)), 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(10 * scale)
    words = []
    for order, (text, x, y) in enumerate(texts):
        draw.text((x * scale, y * scale), text, font=font, fill=0)
        words.append(word(text, x, y, order, size=12, width=draw.textlength(text, font=font) / scale))
    return np.array(image), words


def layout(words: list[str]) -> list[tuple[str, float, float]]:
    return [(text, 20 + 90 * (i % 3), 20 + 20 * (i // 3)) for i, text in enumerate(words)]


def test_sound_words_are_trusted_also_against_their_picture() -> None:
    image, words = printed(layout(PROSE))
    assert judge_words(words, PAGE).ok
    assert trustworthy(words, image, PAGE) == (True, "")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no words"),
        ([word(t, 20, 20, visible=False) for t in PROSE], "invisible"),
        ([word(t, 20, 20, font_ok=False) for t in PROSE], "mapping"),
        ([word(t, 900, 20) for t in PROSE], "off the page"),
        ([word('"7+%-', 20, 20)], "symbols"),
        ([word("".join(chr(ord(c) - 29) for c in t), 20, 20) for t in PROSE], "."),
        ([word(t.translate(str.maketrans("aeiouy", "xqzwkj")), 20, 20) for t in PROSE], "form words"),
    ],
)
def test_bad_words_are_not_trusted(words: list[Word], reason: str) -> None:
    verdict = judge_words(words, PAGE)
    assert not verdict.ok
    if reason != ".":
        assert reason in verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "Table of contents ............................ 12",
        "1,234.50 (2.3%) $ 99.00",
        "日本語の文章です。",
        "مرحبا بالعالم كيف الحال",
        "Grüße aus Łódź, déjà vu; naïve façade",
        "f(x) = 2",
        "Strč prst skrz krk",
        "550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_unusual_but_sound_text_is_trusted(text: str) -> None:
    assert judge_words(row(text, 20, 20, 0), PAGE).ok


def test_words_over_empty_paper_are_not_trusted() -> None:
    image, _ = printed([])
    _, words = printed(layout(PROSE))
    assert trustworthy(words, image, PAGE) == (False, "nothing is printed where the words are")


def test_much_print_without_words_is_not_trusted() -> None:
    image, words = printed(layout(PROSE))
    ok, reason = trustworthy(words[:4], image, PAGE)
    assert not ok and "no words" in reason


def test_tight_crop_of_one_white_on_black_word_is_trusted() -> None:
    image, words = printed([("Heading", 20, 20)])
    x0, y0, x1, y1 = words[0].box
    crop = 255 - image[int(y0 * 2) : int(y1 * 2), int(x0 * 2) : int(x1 * 2)]
    assert trustworthy(words, crop, words[0].box) == (True, "")


def test_lines_do_not_bridge_a_gutter_in_either_writing_order() -> None:
    left, right = ["left one here", "left two here"], ["right one here", "right two here"]
    expected = set(left + right)
    by_column = [w for i, t in enumerate(left) for w in row(t, 20, 20 + 14 * i, 10 * i)]
    by_column += [w for i, t in enumerate(right) for w in row(t, 110, 20 + 14 * i, 100 + 10 * i)]
    assert {line.text for line in words_to_lines(by_column)} == expected
    by_row = [
        w for i in (0, 1) for w in row(left[i], 20, 20 + 14 * i, 20 * i) + row(right[i], 110, 20 + 14 * i, 20 * i + 3)
    ]
    assert {line.text for line in words_to_lines(by_row)} == expected


def test_justified_line_with_wide_spaces_stays_one_line() -> None:
    assert [line.text for line in words_to_lines(row("a b c d", 20, 20, 0, gap=14))] == ["a b c d"]


def test_superscript_joins_its_line_and_a_drop_cap_takes_one_line_only() -> None:
    words = [word("Ideas", 50, 20, 0), word("1", 75, 18, 1, size=6), *row("and more", 82, 20, 2)]
    assert [line.text for line in words_to_lines(words)] == ["Ideas1 and more"]
    cap = [
        word("T", 20, 20, 0, size=38),
        *row("he first", 48, 20, 1),
        *row("second line", 48, 34, 3),
        *row("third", 48, 48, 5),
    ]
    assert sorted(line.text for line in words_to_lines(cap)) == ["T he first", "second line", "third"]


def test_words_out_of_file_order_are_joined_by_place() -> None:
    words = row("one two three", 20, 20, 0, gap=3)
    shuffled = [Word(w.text, w.box, order, w.font_size) for w, order in zip(words, (40, 10, 25), strict=True)]
    assert [line.text for line in words_to_lines(shuffled)] == ["one two three"]


def test_sideways_words_form_lines_along_their_direction() -> None:
    up = [Word("up", (20, 100, 30, 120), 0, 10, angle=-90), Word("wards", (20, 60, 30, 97), 1, 10, angle=-90)]
    assert [(line.text, line.box) for line in words_to_lines(up)] == [("up wards", (20, 60, 30, 120))]


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 700), st.floats(4, 40)), max_size=25))
def test_every_word_is_in_exactly_one_line(places: list[tuple[float, float, float]]) -> None:
    words = [word("ab", x, y, i, size=size) for i, (x, y, size) in enumerate(places)]
    found = sorted(w.order for line in words_to_lines(words) for w in line.words)
    assert found == list(range(len(words)))


def page_of_text(lines: int = 24) -> np.ndarray:
    image = Image.new("RGB", (900, 1200), "white")
    draw = ImageDraw.Draw(image)
    for i in range(lines):
        draw.text((80, 80 + 42 * i), " ".join(PROSE[i % 5 :])[:62], font=ImageFont.load_default(24), fill="black")
    return np.array(image)


@pytest.mark.parametrize("lies", [0, 90, 180, 270])
def test_content_rotation_of_a_page_of_text(lies: int) -> None:
    assert content_rotation(turn(page_of_text(), lies)) == (360 - lies) % 360  # type: ignore[arg-type]


def test_blank_and_nearly_blank_pages_are_never_turned() -> None:
    blank = np.full((1200, 900, 3), 255, np.uint8)
    few = page_of_text(0)
    few[100:130, 100:110] = 0
    assert all(content_rotation(turn(page, k)) == 0 for page in (blank, few) for k in (0, 90, 180, 270))  # type: ignore[arg-type]


def test_rotation_from_words_needs_a_clear_majority() -> None:
    sideways = [word("sideways", 20, 20, i, angle=90) for i in range(8)]
    upright = [word("upright", 20, 20, i) for i in range(8)]
    assert words_rotation(sideways) == 270
    assert words_rotation(sideways + upright) == 0 and words_rotation(sideways[:1]) == 0 and words_rotation([]) == 0


@given(
    st.sampled_from([0, 90, 180, 270]),
    st.integers(10, 900),
    st.integers(10, 900),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_boxes_turn_back_to_where_they_were(degrees, width, height, f) -> None:
    box = (min(f[0], f[1]) * width, min(f[2], f[3]) * height, max(f[0], f[1]) * width, max(f[2], f[3]) * height)
    turned = turn_box(box, degrees, width, height)
    assert unturn_box(turned, degrees, width, height) == pytest.approx(box, abs=1e-6)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_turned_box_holds_the_turned_pixels(degrees) -> None:
    image = np.zeros((50, 80, 3), np.uint8)
    image[10:20, 30:60] = 255
    x0, y0, x1, y1 = (int(v) for v in turn_box((30, 10, 60, 20), degrees, 80, 50))
    turned = turn(image, degrees)
    assert turned[y0:y1, x0:x1].min() == 255 and turned.sum() == image.sum()


def test_blank_pages() -> None:
    rng = np.random.default_rng(0)
    white = np.full((1200, 900, 3), 255, np.uint8)
    noisy = (225 + 6 * rng.standard_normal((1200, 900, 1))).clip(0, 255).astype(np.uint8).repeat(3, axis=2)
    shaded = np.linspace(120, 250, 900).astype(np.uint8)[None, :, None].repeat(1200, 0).repeat(3, 2)
    edged = white.copy()
    edged[:, :5] = 0
    for page in (white, noisy, shaded, edged, 255 - white, white[:30, :30]):
        assert is_blank(page)


def test_one_digit_or_one_short_line_is_not_blank() -> None:
    for text, paper, ink in (
        ("7", 255, 0),
        ("one short line", 255, 120),
        ("White on black", 0, 255),
        ("faint", 220, 170),
    ):
        image = Image.new("RGB", (900, 1200), (paper,) * 3)
        ImageDraw.Draw(image).text((400, 1100), text, font=ImageFont.load_default(18), fill=(ink,) * 3)
        assert not is_blank(np.array(image)), text


def test_tiles_cover_a_strip_once_and_cut_between_lines() -> None:
    strip = np.full((4000, 300, 3), 255, np.uint8)
    for y in range(20, 3990, 50):
        strip[y : y + 20, 20:280] = 0
    pieces = tiles(strip)
    assert len(pieces) > 4
    assert np.array_equal(np.concatenate([p.image for p in pieces]), strip)
    assert all(strip[piece.y].min() == 255 for piece in pieces[1:])
    assert [p.y for p in pieces] == list(np.cumsum([0] + [p.image.shape[0] for p in pieces[:-1]]))


def test_tiles_of_a_wide_strip_and_of_a_page() -> None:
    strip = np.full((120, 2400, 3), 255, np.uint8)
    pieces = tiles(strip)
    assert len(pieces) == 4 and np.array_equal(np.concatenate([p.image for p in pieces], axis=1), strip)
    page = np.full((300, 200, 3), 255, np.uint8)
    assert len(tiles(page)) == 1 and tiles(page)[0].image is page
    assert len(tiles(page[:1, :])) >= 1
    assert len(tiles(np.full((40, 420, 3), 255, np.uint8))) == 1  # a single line is not cut


def test_words_far_off_the_page_are_left_out_and_huge_boxes_cut() -> None:
    """A damaged PDF placed words at billions of points; lines are found in bands of height, which took minutes."""
    good, near = word("good", 10, 10), word("near", -40, 20)
    far = Word("far", (-2e10, -5e8, -1e10, 1.5e9), 2, 10)
    huge = Word("huge", (10, -5e8, 90, 1.5e9), 3, 10)
    kept = near_page([good, near, far, huge], 600, 800)
    assert [w.text for w in kept] == ["good", "near", "huge"]
    assert kept[:2] == [good, near]
    assert kept[2].box == (10, -800, 90, 1600)
    assert sum(len(line.words) for line in words_to_lines(kept)) == 3

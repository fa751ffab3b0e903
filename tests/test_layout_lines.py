"""Claims about text lines: joining, splitting, native words, crops, ink, tiles, the detector on drawn pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PilImage
from PIL import ImageDraw, ImageFont

from derender.document import Box, RegionType
from derender.errors import UsageError
from derender.layout.analyse import skew_of
from derender.layout.crops import crop_line, crop_region, region_request
from derender.layout.detect_lines import LineDetector, is_vertical
from derender.layout.ink import Ink
from derender.layout.leaders import Leader, join_leaders, leader_spans
from derender.layout.letters import find_letters, lone_marks, take_in_bullets
from derender.layout.merge_lines import join_pieces, lines_from_words, split_bridges
from derender.layout.types import DetectedRegion, LayoutOptions, LayoutRegion, TextLineBox, overlap, quad_of


@dataclass(frozen=True)
class Word:
    box: Box
    text: str


def line(x0: float, y0: float, x1: float, y1: float) -> TextLineBox:
    return TextLineBox(quad=quad_of((x0, y0, x1, y1)), box=(x0, y0, x1, y1))


def draw(texts: list[tuple[float, float, str]], size: tuple[int, int] = (900, 700), points: float = 22) -> np.ndarray:
    """A white page with texts at (x, y)."""
    image = PilImage.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(points)
    for x, y, text in texts:
        pen.text((x, y), text, "black", font)
    return np.array(image)


def test_pieces_of_one_line_are_joined_and_other_rows_are_not() -> None:
    joined = join_pieces([line(0, 0, 100, 20), line(108, 1, 200, 21), line(0, 30, 100, 50)], [])
    assert sorted(p.box for p in joined) == [(0, 0, 200, 21), (0, 30, 100, 50)]


def test_pieces_are_not_joined_over_a_gutter() -> None:
    rows = [y for y in range(0, 200, 25)]
    pieces = [line(0, y, 100, y + 20) for y in rows] + [line(116, y, 220, y + 20) for y in rows]
    assert len(join_pieces(pieces, [])) == len(pieces)


def test_pieces_are_not_joined_over_a_region_border() -> None:
    regions = [
        DetectedRegion(RegionType.TEXT, (0, 0, 104, 60), 1),
        DetectedRegion(RegionType.TEXT, (106, 0, 220, 60), 1),
    ]
    assert len(join_pieces([line(0, 0, 100, 20), line(108, 0, 200, 20)], regions)) == 2


def test_touching_pieces_are_not_joined_where_columns_meet_elsewhere_on_the_page() -> None:
    regions = [
        DetectedRegion(RegionType.TEXT, (0, 100, 296, 400), 1),
        DetectedRegion(RegionType.TEXT, (304, 100, 600, 400), 1),
    ]
    pieces = [line(0, 0, 300, 20), line(300, 0, 600, 20)]
    assert len(join_pieces(pieces, regions)) == 2 and len(join_pieces(pieces, [])) == 1


def test_line_over_a_gutter_seen_elsewhere_on_the_page_is_split() -> None:
    texts = [(10.0, 10.0, "left column has text"), (280.0, 10.0, "right column has text")]
    regions = [
        DetectedRegion(RegionType.TEXT, (5, 80, 262, 300), 1),
        DetectedRegion(RegionType.TEXT, (278, 80, 560, 300), 1),
    ]
    page = draw(texts, (600, 320), 20)
    assert len(split_bridges([line(8, 8, 500, 36)], regions, Ink(page))) == 2


word = st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(1, 80), st.integers(5, 30)).map(
    lambda t: Word((t[0], t[1], t[0] + t[2], t[1] + t[3]), "word")
)


@given(st.lists(word, max_size=25))
@settings(max_examples=200, deadline=None)
def test_every_native_word_is_in_exactly_one_line(words: list[Word]) -> None:
    assert sorted(i for found in lines_from_words(words) for i in found.words) == list(range(len(words)))


def test_native_words_become_lines_with_words_in_order() -> None:
    words = [
        Word((60, 0, 100, 12), "b"),
        Word((0, 0, 55, 12), "a"),
        Word((0, 20, 50, 32), "c"),
        Word((50, 0, 58, 12), " "),
    ]
    assert sorted(found.words for found in lines_from_words(words)) == [(1, 0), (2,)]


def test_line_that_bridges_two_columns_is_split_at_the_blank() -> None:
    image = draw([(10, 10, "left column"), (200, 10, "right column")], (400, 60), 20)
    regions = [
        DetectedRegion(RegionType.TEXT, (5, 5, 150, 55), 1),
        DetectedRegion(RegionType.TEXT, (195, 5, 390, 55), 1),
    ]
    left, right = split_bridges([line(8, 8, 330, 36)], regions, Ink(image))
    assert left.box[2] < right.box[0] and 100 < left.box[2] < 200 and abs(right.box[0] - 200) < 4


def test_line_without_a_blank_at_the_border_stays_whole() -> None:
    image = draw([(10, 10, "one line that runs through without any wide blank")], (500, 60), 20)
    regions = [
        DetectedRegion(RegionType.TEXT, (5, 5, 200, 55), 1),
        DetectedRegion(RegionType.TEXT, (204, 5, 490, 55), 1),
    ]
    assert len(split_bridges([line(8, 8, 480, 36)], regions, Ink(image))) == 1


def test_bold_strokes_measure_heavier() -> None:
    image = PilImage.new("RGB", (500, 100), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    pen.text((10, 10), "minimum weight", "black", font)
    pen.text((10, 60), "minimum weight", "black", font, stroke_width=1, stroke_fill="black")
    ink = Ink(np.array(image))
    plain, bold = ink.measure(line(5, 8, 300, 42)), ink.measure(line(5, 58, 300, 92))
    assert bold.weight > 1.3 * plain.weight


def test_x_height_scales_with_the_type() -> None:
    text = [(10.0, 10.0 + 40 * k, "several words of ordinary text here") for k in range(4)]
    small, large = find_letters(draw(text, points=16)).x_height, find_letters(draw(text, points=32)).x_height
    assert small is not None and large is not None and 1.7 < large / small < 2.3


def test_white_on_black_text_is_measured_too() -> None:
    page = draw([(10.0, 10.0 + 40 * k, "several words of ordinary text here") for k in range(4)])
    plain, inverted = find_letters(page).x_height, find_letters(255 - page).x_height
    assert plain is not None and inverted is not None and abs(plain - inverted) <= 2


def test_detector_finds_each_drawn_line() -> None:
    rows = [60.0 + 50 * k for k in range(8)]
    page = draw([(80, y, "The quick brown fox jumps over it") for y in rows])
    found = LineDetector(LayoutOptions(threads=1)).detect(page, 2.0).lines
    lines = join_pieces(found, [])
    assert len(lines) == len(rows)
    for y, box in zip(rows, sorted((item.box for item in lines), key=lambda b: b[1]), strict=True):
        assert overlap(box[1], box[3], y + 4, y + 24) > 18 and box[0] < 84 and box[2] > 380


def test_detector_keeps_the_lean_of_a_skewed_page() -> None:
    page = draw([(80, 60 + 50 * k, "The quick brown fox jumps over the lazy dog") for k in range(8)])
    leaning = PilImage.fromarray(page).rotate(-4, fillcolor="white")  # clockwise
    found = LineDetector(LayoutOptions(threads=1)).detect(np.array(leaning), 2.0).lines
    assert abs(skew_of(found) - 4) < 0.7


def test_long_strip_is_cut_into_tiles_and_no_line_is_lost() -> None:
    rows = [20.0 + 60 * k for k in range(40)]
    page = draw([(20, y, "line of the strip") for y in rows], (300, 2460), 22)
    result = LineDetector(LayoutOptions(threads=1, max_side=640)).detect(page, 2.0)
    lines = join_pieces(result.lines, [])
    assert result.tiles > 1 and result.warnings == [] and len(lines) == len(rows)


def test_page_beyond_the_tile_cap_is_shrunk_with_a_warning() -> None:
    page = draw([(20, 20 + 60 * k, "line of the strip") for k in range(40)], (300, 2460), 22)
    result = LineDetector(LayoutOptions(threads=1, max_side=320, max_tiles=2)).detect(page, 2.0)
    assert result.tiles <= 2 and "shrunk" in result.warnings[0]


def test_blank_page_has_no_lines() -> None:
    assert LineDetector(LayoutOptions(threads=1)).detect(np.full((400, 300, 3), 255, np.uint8), 2.0).lines == []


def test_lone_digit_becomes_a_line_but_scattered_dirt_does_not() -> None:
    texts = [(60.0, 40.0 + 40 * k, "several words of ordinary text here") for k in range(6)]
    lines = [line(55, 40 + 40 * k, 460, 72 + 40 * k) for k in range(6)]
    marks = lone_marks(find_letters(draw([*texts, (300, 600, "7")])), lines, [])
    assert len(marks) == 1 and 290 < marks[0].box[0] < 305
    dirty = draw([*texts, *((40.0 + 90 * (k % 8), 400.0 + 80 * (k // 8), "x") for k in range(24))])
    assert lone_marks(find_letters(dirty), lines, []) == []


def test_bullet_left_of_a_line_is_taken_in() -> None:
    page = draw([(100, 40 + 40 * k, "several words of ordinary text") for k in range(4)], points=24)
    page[92:99, 70:77] = 0  # a square bullet level with the second line's small letters
    lines = [line(98, 40 + 40 * k, 460, 70 + 40 * k) for k in range(4)]
    found = take_in_bullets(find_letters(page), lines)
    assert [item.marker for item in found] == [False, True, False, False] and found[1].box[0] < 70


def test_crop_of_a_leaning_line_is_upright() -> None:
    page = np.full((200, 300, 3), 255, np.uint8)
    page[90:110, 50:250] = 0
    turned = np.array(PilImage.fromarray(page).rotate(-20, resample=PilImage.Resampling.BILINEAR, fillcolor="white"))
    angle, centre = np.radians(20), np.array([150.0, 100.0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = [centre + turn @ (np.array(p) - centre) for p in ((50, 90), (250, 90), (250, 110), (50, 110))]
    quad = tuple((float(x), float(y)) for x, y in corners)
    crop = crop_line(turned, quad, pad=5)  # type: ignore[arg-type]
    assert crop.shape == (30, 210, 3)
    assert crop[8:22, 8:202].mean() < 25 and crop[:3].mean() > 230 and crop[-3:].mean() > 230


def test_level_crop_is_the_plain_slice() -> None:
    page = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    assert np.array_equal(crop_line(page, quad_of((10, 20, 50, 40))), page[20:40, 10:50])


def test_region_crop_is_cut_at_the_page_edge_and_moves_quads_along() -> None:
    page = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    crop, origin = crop_region(page, (-4, 10, 50, 40), 5)
    assert origin == (0, 5) and np.array_equal(crop, page[5:45, 0:55])
    item = line(20, 20, 48, 36)
    request = region_request(page, LayoutRegion(RegionType.TEXT, (20, 20, 48, 36), lines=(item,)), "r1", "text", pad=4)
    assert request.lines is not None
    x, y = request.lines[0][0]
    assert np.array_equal(request.image[int(y) : int(y) + 16, int(x) : int(x) + 28], page[20:36, 20:48])


def test_line_much_taller_than_wide_is_vertical() -> None:
    assert is_vertical(quad_of((0, 0, 20, 100))) and not is_vertical(quad_of((0, 0, 20, 30)))


@pytest.mark.parametrize(
    "bad", [{"threads": 0}, {"x_height": 1.0}, {"line_threshold": 1.5}, {"max_tiles": 0}, {"deskew": 0.0}]
)
def test_senseless_options_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        LayoutOptions(**bad)  # type: ignore[arg-type]


def leader_page(dots: str, tail: str) -> np.ndarray:
    """A row "Power Counting", dots, and `tail` at the right edge, 22 points high."""
    image = draw([(40, 40, "Power Counting"), (840, 40, tail)])
    pen = ImageDraw.Draw(image_ := PilImage.fromarray(image))
    pen.text((220, 40), dots, "black", ImageFont.load_default(22))
    return np.array(image_)


def test_a_line_grows_over_a_dot_leader_and_takes_in_the_page_number() -> None:
    page = leader_page(" ." * 60, "17")
    (joined,) = join_leaders([line(40, 42, 200, 66), line(838, 42, 868, 66)], Ink(page))
    assert joined.box == (40, 42, 868, 66)


def test_a_leader_that_leads_nowhere_is_kept_with_its_line() -> None:
    page = leader_page("." * 60, "")
    (joined,) = join_leaders([line(40, 42, 200, 66)], Ink(page))
    assert joined.box[2] > 500 and joined.box[0] == 40


def test_a_line_that_ends_in_its_leader_grows_over_a_number_that_was_not_detected() -> None:
    page = leader_page(" ." * 50, "7")
    page[:, 835:] = np.roll(page, -100, axis=1)[:, 835:]  # no second digit at the old place
    last_dot = int(np.flatnonzero((page[40:70, :800] < 128).any(axis=(0, 2)))[-1])
    page[:, last_dot + 20 : last_dot + 60] = leader_page("", "7")[:, 835:875]
    (joined,) = join_leaders([line(40, 42, float(last_dot), 66)], Ink(page))
    assert last_dot + 30 < joined.box[2] < last_dot + 50


def spans_of(text: str, noise: float = 0.0, seed: int = 0) -> list[Leader]:
    """leader_spans of a line that shows `text`, 22 points high in a box of 32, greyed by noise."""
    picture = draw([(10, 4, text)], (900, 32)).astype(np.float32)
    picture += noise * np.random.default_rng(seed).standard_normal(picture.shape)
    return leader_spans(np.clip(picture, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("dots", ["." * 60, " ." * 40, " .  " * 12])
@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_leaders_of_a_line_are_found_between_its_letters(dots: str, noise: float) -> None:
    pen = ImageDraw.Draw(PilImage.new("L", (10, 10)))
    font = ImageFont.load_default(22)
    begin, end = (10 + pen.textlength(text, font) for text in ("Counting", f"Counting {dots}"))
    (found,) = spans_of(f"Counting {dots} 17", noise)
    assert begin <= found.x0 < begin + 25 and end - 15 < found.x1 <= end + 1
    assert abs(found.dots - dots.count(".")) <= 1 and found.apart == (" " in dots)


def test_two_leaders_of_one_line_are_two() -> None:
    first, second = spans_of("Power ........................ 17 Notes . . . . . . . . . 21")
    assert first.x1 < second.x0


@pytest.mark.parametrize(
    "text",
    ["Power counting... 17", "to be, i.e. 1.2.3.4.5.6.7", "nnnnnnnnnnnnnnn", "-" * 60, "_" * 40, "a.b.c.d.e.f.g.h", ""],
)
def test_what_is_no_leader_is_no_span(text: str) -> None:
    assert spans_of(text) == []


def test_rows_above_and_below_in_a_tall_box_do_not_hide_a_leader() -> None:
    rows = [(10.0, y, f"{word} {'.' * 50} {n}") for y, word, n in ((-14, "Ends", 6), (12, "Why", 7), (38, "Mill", 8))]
    picture = draw(rows, (500, 48))
    (found,) = leader_spans(picture)
    assert 55 < found.x0 < 75


@pytest.mark.parametrize("dots", ["", "...", "and other words", "-----------------"])
def test_what_is_no_leader_joins_nothing(dots: str) -> None:
    pieces = [line(40, 42, 200, 66), line(838, 42, 868, 66)]
    assert join_leaders(pieces, Ink(leader_page(dots, "17"))) == pieces


@pytest.mark.parametrize("points", [4, 5, 6, 7, 8, 10])
@pytest.mark.parametrize("height", [14, 20, 30])
def test_small_print_in_a_tall_box_is_no_leader(points: int, height: int) -> None:
    page = draw(
        [(2, height * 0.45, "Clinical presentation, moon, mummies and no ammonia in summer")], (400, height), points
    )
    assert leader_spans(page) == []

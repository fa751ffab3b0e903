"""Claims about the reading order: it is a permutation that depends on geometry alone, and it follows columns."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.document import Box, RegionType
from derender.layout import order as order_module
from derender.layout.order import line_order, reading_order
from derender.layout.types import TextLineBox, quad_of

PAGE = (600.0, 800.0)
TEXT, TITLE, FIGURE, TABLE = RegionType.TEXT, RegionType.TITLE, RegionType.FIGURE, RegionType.TABLE

coordinate = st.integers(0, 600)
size = st.integers(1, 300)
box = st.tuples(coordinate, coordinate, size, size).map(lambda t: (t[0], t[1], t[0] + t[2], t[1] + t[3]))
kind = st.sampled_from(list(RegionType))


@given(st.lists(st.tuples(box, kind), max_size=14))
@settings(max_examples=300, deadline=None)
def test_order_is_a_permutation(items: list[tuple[Box, RegionType]]) -> None:
    order = reading_order([b for b, _ in items], [k for _, k in items], PAGE)
    assert sorted(order) == list(range(len(items)))


@given(st.lists(st.tuples(box, kind), max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_order_does_not_depend_on_the_order_of_the_input(
    items: list[tuple[Box, RegionType]], rng: random.Random
) -> None:
    shuffled = list(items)
    rng.shuffle(shuffled)
    first = [items[i] for i in reading_order([b for b, _ in items], [k for _, k in items], PAGE)]
    second = [shuffled[i] for i in reading_order([b for b, _ in shuffled], [k for _, k in shuffled], PAGE)]
    assert first == second


@st.composite
def column_page(draw: st.DrawFn) -> list[Box]:
    """One to three columns of unequal length in the right order, perhaps with a spanning title and figure."""
    count = draw(st.integers(1, 3))
    width = (540 - 20 * (count - 1)) / count
    result: list[Box] = []
    y = 40.0
    if draw(st.booleans()):
        result.append((100.0, y, 500.0, y + 25))
        y += 45
    for part in range(draw(st.integers(1, 2))):
        if part:
            result.append((30.0, y, 570.0, y + 90))
            y += 110
        bottoms = []
        for c in range(count):
            x = 30 + c * (width + 20)
            at = y
            for _ in range(draw(st.integers(1, 4))):
                height = draw(st.integers(12, 90))
                result.append((x, at, x + width, at + height))
                at += height + draw(st.integers(8, 16))
            bottoms.append(at)
        y = max(bottoms) + 10
    return result


@given(column_page(), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_columns_come_out_one_by_one(boxes: list[Box], rng: random.Random) -> None:
    shuffled = list(boxes)
    rng.shuffle(shuffled)
    order = reading_order(shuffled, [TEXT] * len(shuffled), (600.0, max(b[3] for b in boxes) + 40))
    assert [shuffled[i] for i in order] == boxes


def test_level_gap_in_both_columns_does_not_interleave_them() -> None:
    boxes = [(30, 40, 290, 200), (30, 220, 290, 400), (310, 40, 570, 200), (310, 220, 570, 400)]
    assert reading_order(boxes, [TEXT] * 4, PAGE) == [0, 1, 2, 3]


def test_heading_in_the_right_column_does_not_part_the_columns() -> None:
    # Both columns start with two lines and a gap: columns are followed past the narrow heading that stands in it.
    boxes = [(35, 435, 576, 456), (36, 472, 305, 494), (35, 540, 303, 717)]
    boxes += [(305, 472, 576, 495), (309, 492, 433, 506), (309, 510, 576, 573)]
    assert reading_order(boxes, [TEXT, TEXT, TEXT, TEXT, TITLE, TEXT], (612.0, 792.0)) == [0, 1, 2, 3, 4, 5]


def test_short_heading_at_the_left_parts_the_columns_above_and_below_it() -> None:
    boxes = [(36, 60, 576, 80), (36, 100, 300, 200), (310, 100, 576, 200), (36, 230, 160, 245)]
    boxes += [(36, 275, 300, 400), (310, 275, 576, 400)]
    assert reading_order(boxes, [TEXT, TEXT, TEXT, TITLE, TEXT, TEXT], (612.0, 792.0)) == [0, 1, 2, 3, 4, 5]


def test_short_right_column_and_following_full_width_text() -> None:
    boxes = [(30, 40, 290, 200), (30, 215, 290, 500), (310, 40, 570, 120), (30, 530, 570, 700)]
    assert reading_order(boxes, [TEXT] * 4, PAGE) == [0, 1, 2, 3]


def test_side_notes_follow_the_main_column() -> None:
    notes = [(20, 200, 130, 260), (20, 270, 130, 300)]
    main = [(160, 100, 580, 140), (160, 160, 580, 400), (160, 420, 580, 700)]
    assert reading_order(notes + main, [TEXT, TEXT, TITLE, TEXT, TEXT], PAGE) == [2, 3, 4, 0, 1]


def test_date_at_the_right_above_a_letter_comes_first() -> None:
    boxes = [(40, 120, 300, 180), (380, 60, 560, 80), (40, 200, 560, 600)]
    assert reading_order(boxes, [TEXT] * 3, PAGE) == [1, 0, 2]


def test_labels_are_read_with_their_values() -> None:
    boxes = [(40, y, 120, y + 14) for y in (100, 130, 160)] + [(150, y, 400, y + 14) for y in (100, 130, 160)]
    assert reading_order(boxes, [TEXT] * 6, PAGE) == [0, 3, 1, 4, 2, 5]


def test_figure_wider_than_a_column_does_not_break_the_columns_above_it() -> None:
    # The figure reaches half into the second column and beside its last paragraph, so no straight cut parts them.
    boxes = [(20, 40, 190, 300), (205, 40, 380, 250), (205, 260, 380, 420), (395, 40, 580, 420), (10, 320, 230, 600)]
    order = reading_order(boxes, [TEXT, TEXT, TEXT, TEXT, FIGURE], PAGE)
    assert [i for i in order if i != 4] == [0, 1, 2, 3]


def test_picture_that_reaches_under_a_column_does_not_hide_the_columns() -> None:
    left, upper, lower = (20, 20, 140, 180), (150, 20, 290, 200), (150, 210, 290, 300)
    right = [(300, 20, 440, 150), (300, 155, 440, 290), (300, 295, 440, 390)]
    picture, title = (0, 190, 300, 480), (150, 400, 500, 440)
    boxes: list[Box] = [left, upper, lower, *right, picture, title]
    order = reading_order(boxes, [TEXT] * 6 + [FIGURE, TITLE], PAGE)
    assert [i for i in order if i != 6] == [0, 1, 2, 3, 4, 5, 7]


def test_headers_first_and_footnotes_footers_numbers_last() -> None:
    boxes = [(280, 770, 320, 785), (30, 750, 570, 765), (30, 700, 570, 740), (30, 10, 570, 25), (30, 50, 570, 600)]
    types = [RegionType.PAGE_NUMBER, RegionType.FOOTER, RegionType.FOOTNOTE, RegionType.HEADER, TEXT]
    assert reading_order(boxes, types, PAGE) == [3, 4, 2, 1, 0]


def test_caption_stays_beside_its_figure() -> None:
    # Two figures side by side over their captions.
    boxes = [(30, 50, 290, 200), (310, 50, 570, 200), (30, 210, 290, 225), (310, 210, 570, 225), (30, 260, 570, 600)]
    types = [FIGURE, FIGURE, RegionType.CAPTION, RegionType.CAPTION, TEXT]
    assert reading_order(boxes, types, PAGE) == [0, 2, 1, 3, 4]


def test_types_must_match_boxes() -> None:
    with pytest.raises(ValueError, match="1 boxes but 0 types"):
        reading_order([(0, 0, 1, 1)], [], PAGE)


def line(x0: float, y0: float, x1: float, y1: float, vertical: bool = False) -> TextLineBox:
    return TextLineBox(quad=quad_of((x0, y0, x1, y1)), box=(x0, y0, x1, y1), vertical=vertical)


def test_pieces_of_a_row_are_read_left_to_right_despite_a_small_lean() -> None:
    a, b, c = line(0, 12, 100, 32), line(110, 10, 200, 30), line(0, 40, 200, 60)
    assert line_order([c, b, a]) == [a, b, c]


def test_vertical_lines_are_read_from_right_to_left() -> None:
    a, b = line(100, 0, 120, 300, True), line(60, 0, 80, 300, True)
    assert line_order([b, a]) == [a, b]


def test_boxes_that_no_cut_parts_are_compared_once_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    precedes = order_module._Cutter._precedes

    def counted(self: order_module._Cutter, a: int, b: int) -> bool:
        nonlocal calls
        calls += 1
        return precedes(self, a, b)

    monkeypatch.setattr(order_module._Cutter, "_precedes", counted)
    rng, count = random.Random(1), 120
    corners = [(rng.uniform(0, 500), rng.uniform(0, 700)) for _ in range(count)]
    boxes = [(x, y, x + rng.uniform(40, 90), y + rng.uniform(40, 90)) for x, y in corners]  # as labels on a map
    assert sorted(reading_order(boxes, [RegionType.TEXT] * count, (600, 800))) == list(range(count))
    assert 0 < calls <= count * count

"""Claims about regions: no line is lost; headings, paragraphs, lists, figures, headers come out as drawn.

Pages are drawn here; the region detector's answer is given by hand except in the tests of the whole stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PilImage
from PIL import ImageDraw, ImageFont

from derender.document import Box, RegionType
from derender.layout.analyse import LayoutAnalyser, arrange
from derender.layout.detect_regions import drop_duplicates
from derender.layout.letters import find_letters
from derender.layout.split import split_columns
from derender.layout.types import DetectedRegion, LayoutOptions, LayoutRegion, TextLineBox, quad_of

TEXT, TITLE, FIGURE = RegionType.TEXT, RegionType.TITLE, RegionType.FIGURE
PITCH = 30
WORDS = (
    "plain words of body text set in many lines so that blocks look real and full of ink and wide enough again".split()
)


@dataclass(frozen=True)
class Word:
    box: Box
    text: str


class Paper:
    """A drawn page and the line boxes a good detector would give."""

    def __init__(self, width: int = 850, height: int = 1100) -> None:
        self.image = PilImage.new("RGB", (width, height), "white")
        self.pen = ImageDraw.Draw(self.image)
        self.lines: list[TextLineBox] = []

    def row(self, x: float, y: float, text: str, points: float = 20, bold: bool = False) -> Box:
        font = ImageFont.load_default(points)
        kwargs = {"stroke_width": 1, "stroke_fill": "black"} if bold else {}
        self.pen.text((x, y), text, "black", font, anchor="ls", **kwargs)  # type: ignore[arg-type]
        x0, _, x1, _ = self.pen.textbbox((x, y), text, font, anchor="ls")
        box = (x0 - 2.0, y - 0.85 * points, x1 + 2.0, y + 0.35 * points)
        self.lines.append(TextLineBox(quad=quad_of(box), box=box))
        return box

    def full(self, x: float, y: float, width: float, points: float = 20, start: int = 0) -> Box:
        """A row of body text about `width` wide, spaced out to end exactly there."""
        font = ImageFont.load_default(points)
        words, k = [], start
        while self.pen.textlength(" ".join([*words, WORDS[k % len(WORDS)]]), font) < width:
            words.append(WORDS[k % len(WORDS)])
            k += 1
        blank = (width - sum(self.pen.textlength(w, font) for w in words)) / (len(words) - 1)
        at = x
        for w in words:
            self.pen.text((at, y), w, "black", font, anchor="ls")
            at += self.pen.textlength(w, font) + blank
        box = (x - 2.0, y - 0.85 * points, x + width + 2.0, y + 0.35 * points)
        self.lines.append(TextLineBox(quad=quad_of(box), box=box))
        return box

    def block(
        self, x: float, y: float, width: float, rows: int, points: float = 20, indent: float = 0, last: float = 0.5
    ) -> Box:
        """A paragraph; its last row is `last` of the width, its first row begins `indent` further right."""
        first = len(self.lines)
        for k in range(rows):
            shift = indent if k == 0 else 0
            share = last if k == rows - 1 and rows > 1 else 1
            self.full(x + shift, y + k * PITCH, (width - shift) * share, points, start=k * 7)
        boxes = [item.box for item in self.lines[first:]]
        return (min(b[0] for b in boxes), boxes[0][1], max(b[2] for b in boxes), boxes[-1][3])

    def arrange(self, *regions: DetectedRegion) -> list[LayoutRegion]:
        image = np.array(self.image)
        found, count = arrange(image, self.lines, list(regions), find_letters(image))
        assert count == sum(len(r.lines) + len(r.inner_lines) for r in found)
        return found


def seen(kind: RegionType, box: Box, score: float = 0.9) -> DetectedRegion:
    return DetectedRegion(kind, box, score)


def kinds(regions: list[LayoutRegion]) -> list[tuple[str, int]]:
    return [(r.type.value, len(r.lines)) for r in regions]


line_boxes = st.tuples(st.integers(0, 560), st.integers(0, 780), st.integers(4, 400), st.integers(6, 40)).map(
    lambda t: (float(t[0]), float(t[1]), float(t[0] + t[2]), float(t[1] + t[3]))
)
region_boxes = st.tuples(st.integers(0, 500), st.integers(0, 700), st.integers(10, 500), st.integers(10, 600)).map(
    lambda t: (float(t[0]), float(t[1]), float(t[0] + t[2]), float(t[1] + t[3]))
)
detected_kind = st.sampled_from(
    [k for k in RegionType if k not in (RegionType.LIST, RegionType.FOOTNOTE, RegionType.PAGE_NUMBER)]
)


@given(st.lists(line_boxes, max_size=30), st.lists(st.tuples(detected_kind, region_boxes), max_size=8))
@settings(max_examples=250, deadline=None)
def test_every_line_belongs_to_exactly_one_region(lines: list[Box], regions: list[tuple[RegionType, Box]]) -> None:
    blank = np.full((820, 980, 3), 255, np.uint8)
    items = [TextLineBox(quad=quad_of(b), box=b, words=(i,)) for i, b in enumerate(lines)]
    found, _ = arrange(blank, items, [seen(k, b) for k, b in regions], None)
    held = sorted(i for r in found for item in (*r.lines, *r.inner_lines) for i in item.words)
    assert held == list(range(len(lines)))
    assert [r.order for r in found] == list(range(len(found)))


def test_a_sliver_before_a_line_is_no_column() -> None:
    items = [TextLineBox(quad=quad_of(b), box=b) for b in ((10.0, 10.0, 14.0, 20.0), (10.0, 30.0, 300.0, 40.0))]
    assert split_columns(items, 40.0) == [items]


@given(st.lists(line_boxes, min_size=1, max_size=20), st.lists(st.tuples(detected_kind, region_boxes), max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_region_box_is_the_hull_of_its_lines_or_holds_it(
    lines: list[Box], regions: list[tuple[RegionType, Box]]
) -> None:
    blank = np.full((820, 980, 3), 255, np.uint8)
    items = [TextLineBox(quad=quad_of(b), box=b) for b in lines]
    found, _ = arrange(blank, items, [seen(k, b) for k, b in regions], None)
    for region in found:
        for item in region.lines:
            assert region.box[0] <= item.box[0] and region.box[1] <= item.box[1]
            assert region.box[2] >= item.box[2] and region.box[3] >= item.box[3]


def test_bold_heading_swallowed_by_a_text_box_is_split_off() -> None:
    paper = Paper()
    paper.row(100, 200, "2 Related work", bold=True)
    paper.block(100, 200 + 1.2 * PITCH, 600, 5)
    assert kinds(paper.arrange(seen(TEXT, (95, 180, 705, 370)))) == [("title", 1), ("text", 5)]


def test_large_heading_between_two_paragraphs_of_one_box_is_split_off() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 4)
    paper.row(100, 310, "Results", points=30)
    paper.block(100, 350, 600, 4)
    assert kinds(paper.arrange(seen(TEXT, (95, 130, 705, 460)))) == [("text", 4), ("title", 1), ("text", 4)]


def test_short_first_row_over_justified_text_is_a_heading() -> None:
    paper = Paper()
    paper.row(100, 200, "Analysis strategy")
    paper.block(100, 230, 600, 5)
    assert kinds(paper.arrange(seen(TEXT, (95, 180, 705, 370)))) == [("title", 1), ("text", 5)]


def test_capitals_in_body_size_are_no_large_heading() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 5)
    paper.row(100, 340, "34A5C1B3DFFCC8902F7B248C3ABEFE2C")
    paper.block(100, 400, 600, 5)
    assert kinds(paper.arrange()) == [("text", 5), ("text", 1), ("text", 5)]


def test_paragraphs_are_split_at_an_indent() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 4)
    paper.block(100, 150 + 4 * PITCH, 600, 4, indent=30)
    assert kinds(paper.arrange(seen(TEXT, (95, 130, 705, 400)))) == [("text", 4), ("text", 4)]


def test_paragraphs_are_split_at_a_wider_gap() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 4, last=1)
    paper.block(100, 150 + 4.6 * PITCH, 600, 4)
    assert kinds(paper.arrange(seen(TEXT, (95, 130, 705, 400)))) == [("text", 4), ("text", 4)]


def test_one_plain_paragraph_is_not_split() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 9, indent=30)
    assert kinds(paper.arrange(seen(TEXT, (95, 130, 705, 420)))) == [("text", 9)]


def test_box_over_two_columns_is_split_into_columns() -> None:
    paper = Paper()
    paper.block(60, 150, 340, 6, last=1)
    paper.block(430, 150, 340, 6)
    left, right = paper.arrange(seen(TEXT, (55, 130, 780, 330)))
    assert left.box[2] < 410 < right.box[0] and len(left.lines) == len(right.lines) == 6


def test_references_are_split_into_entries() -> None:
    paper = Paper()
    y = 150
    for k in range(4):
        paper.row(100, y, f"[{k + 1}]")
        paper.full(140, y, 560)
        paper.full(140, y + PITCH, 560)
        paper.full(140, y + 2 * PITCH, 300)
        y += 3 * PITCH
    found = paper.arrange(seen(RegionType.REFERENCE, (95, 130, 705, 520)))
    assert [r.type.value for r in found] == ["reference"] * 4


def test_a_lone_reference_box_is_text() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 3)
    assert kinds(paper.arrange(seen(RegionType.REFERENCE, (95, 130, 705, 240)))) == [("text", 3)]


def test_unmarked_paragraphs_in_reference_boxes_are_text() -> None:
    paper = Paper()
    boxes = [paper.block(100, 150 + 6 * k * PITCH, 600, 4) for k in range(4)]
    found = paper.arrange(*(seen(RegionType.REFERENCE, b) for b in boxes))
    assert kinds(found) == [("text", 4)] * 4


def test_two_rows_of_touching_columns_are_split() -> None:
    paper = Paper()
    paper.block(60, 150, 348, 2, last=1)
    paper.block(412, 150, 348, 2, last=1)
    left, right = paper.block(60, 400, 348, 6), paper.block(412, 400, 348, 6)
    found = paper.arrange(seen(TEXT, (55, 130, 780, 200)), seen(TEXT, left), seen(TEXT, right))
    assert [len(r.lines) for r in found] == [2, 6, 2, 6]


def test_bulleted_rows_become_list_items() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 4)
    for k in range(3):
        y = 300 + 2 * k * PITCH
        paper.pen.ellipse((112, y - 10, 118, y - 4), fill="black")
        paper.full(135, y, 565)
        paper.full(135, y + PITCH, 250)
    found = paper.arrange(seen(TEXT, (95, 130, 705, 260)), seen(TEXT, (105, 280, 705, 480)))
    assert kinds(found) == [("text", 4), ("list", 2), ("list", 2), ("list", 2)]


def test_numbered_items_with_hanging_rows_become_list_items() -> None:
    paper = Paper()
    for k in range(3):
        y = 200 + 2 * k * PITCH
        paper.row(100, y, f"{k + 1}.")
        paper.full(135, y, 565)
        paper.full(135, y + PITCH, 250)
    assert [r.type.value for r in paper.arrange(seen(TEXT, (95, 180, 705, 390)))] == ["list"] * 3


def test_figure_keeps_its_labels_as_inner_lines() -> None:
    paper = Paper()
    paper.pen.polygon([(200, 200), (600, 250), (300, 500)], fill="black")
    paper.row(210, 520, "label")
    (figure,) = paper.arrange(seen(FIGURE, (190, 190, 610, 540)))
    assert figure.type is FIGURE and figure.lines == () and len(figure.inner_lines) == 1


def test_figure_full_of_paragraphs_becomes_text() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 12)
    found = paper.arrange(seen(FIGURE, (60, 100, 760, 700)))
    assert kinds(found) == [("text", 12)]


def test_figure_that_is_a_grid_of_words_becomes_a_table() -> None:
    paper = Paper()
    for r in range(6):
        for c in range(4):
            paper.row(110 + 150 * c, 150 + 26 * r, f"cell number {r}{c}"[: 8 + c])
    (table,) = paper.arrange(seen(FIGURE, (95, 125, 700, 295)))
    assert table.type is RegionType.TABLE and len(table.lines) == 24


def ruled_page(cells: list[list[str]]) -> Paper:
    """Labels at the left, three columns of numbers between rules that do not reach over the labels."""
    paper = Paper()
    for y in (300, 340, 340 + PITCH * len(cells)):
        for x in (400, 530, 660):
            paper.pen.line((x, y, x + 110, y), "black", 2)
    for i, row in enumerate(cells):
        for x, text in zip((100, 420, 550, 680), row, strict=True):
            paper.row(x, 330 + i * PITCH + (4 if i else 0), text)
    return paper


def test_rows_of_pieces_between_rules_are_a_table() -> None:
    paper = ruled_page([["Year", "2023", "2024", "2025"], *[[f"Cost {i}", "178", "141", "138"] for i in range(4)]])
    found = paper.arrange()
    assert kinds(found) == [("table", 20)]


def booktabs_page(first: float) -> Paper:
    """Two rows of a paragraph, a short one in type of the same size that begins at `first`, and a table below it."""
    paper = Paper()
    paper.full(100, 150, 600)
    paper.full(100, 150 + PITCH, 600, start=5)
    paper.row(first, 150 + 2 * PITCH, "last words")
    for y in (225, 265, 365):
        paper.pen.line((100, y, 500, y), "black", 2)
    for r in range(4):
        for c in range(3):
            paper.row(110 + 150 * c, 255 + r * PITCH + (5 if r else 0), f"cell {r}{c}")
    return paper


def test_the_last_row_of_a_paragraph_in_a_tables_box_is_given_back() -> None:
    seen_regions = (seen(TEXT, (95, 125, 705, 190)), seen(RegionType.TABLE, (95, 193, 505, 370)))
    text, table = booktabs_page(100).arrange(*seen_regions)
    assert kinds([text, table]) == [("text", 3), ("table", 12)]
    assert table.box[1] >= text.box[3] - 1
    found = booktabs_page(250).arrange(*seen_regions)  # not at the paragraph's edge: a title of the table
    assert kinds(found) == [("text", 2), ("table", 13)]


def remarks_page() -> Paper:
    """A title row and three of label, number and remark; two of the remarks go on in a second row."""
    paper = Paper()
    for y in (190, 228, 390):
        paper.pen.line((100, y, 700, y), "black", 2)
    paper.pen.line((230, 190, 230, 390), "black", 2)
    for k, (label, words) in enumerate([("Town", "Meters"), ("Ash", "12"), ("", ""), ("Brook", "8"), ("Cold", "21")]):
        y = 218 + k * PITCH + (10 if k else 0)
        if label:
            paper.row(110, y, label)
            paper.row(240, y, words)
            paper.row(330, y, "some remark of the writer on it")
    paper.row(330, 218 + 2 * PITCH + 10, "which goes on below")
    paper.row(330, 218 + 5 * PITCH + 10, "and on")
    return paper


def test_a_figure_that_is_nothing_but_a_table_between_rules_becomes_one() -> None:
    for kind in (FIGURE, RegionType.FORMULA):
        (table,) = remarks_page().arrange(seen(kind, (90, 180, 710, 410)))
        assert table.type is RegionType.TABLE


def test_a_figure_with_a_drawing_beside_its_words_stays_one() -> None:
    paper = remarks_page()
    paper.pen.ellipse((560, 230, 690, 380), fill="gray")
    (figure,) = paper.arrange(seen(FIGURE, (90, 180, 710, 410)))
    assert figure.type is FIGURE


def test_digits_of_a_table_do_not_hide_a_heading() -> None:
    paper = Paper()
    paper.row(100, 100, "Rain by station", 27)
    paper.full(100, 150, 600)
    for r in range(12):
        for c in range(5):
            paper.row(100 + 120 * c, 230 + r * PITCH, "408813")
    found = paper.arrange(seen(TEXT, (95, 70, 400, 112)), seen(RegionType.TABLE, (95, 205, 700, 580)))
    assert [kind for kind, _ in kinds(found)] == ["title", "text", "table"]


def test_prose_in_two_columns_between_rules_is_no_table() -> None:
    paper = Paper()
    for y in (100, 100 + 14 * PITCH):
        paper.pen.line((90, y, 760, y), "black", 2)
    paper.block(100, 140, 300, 12)
    paper.block(450, 140, 300, 12)
    assert "table" not in [k for k, _ in kinds(paper.arrange())]


def test_line_just_outside_a_tight_box_joins_the_region() -> None:
    paper = Paper()
    paper.block(100, 150, 600, 5)
    (text,) = paper.arrange(seen(TEXT, (98, 150, 704, 255)))
    assert len(text.lines) == 5


def test_lines_outside_every_region_become_regions_by_column() -> None:
    paper = Paper()
    paper.block(60, 150, 340, 5, last=1)
    paper.block(430, 150, 340, 5, last=1)
    assert kinds(paper.arrange()) == [("text", 5), ("text", 5)]


def page_with_body() -> Paper:
    paper = Paper()
    for k in range(4):
        paper.block(100, 160 + 7 * k * PITCH, 650, 6)
    return paper


def test_running_header_and_page_number_are_named() -> None:
    paper = page_with_body()
    paper.row(330, 60, "Running header of it")
    paper.row(420, 1070, "12")
    found = paper.arrange()
    assert kinds(found) == [("header", 1), *[("text", 6)] * 4, ("page_number", 1)]


def test_page_number_on_the_header_row_is_parted_from_it() -> None:
    paper = page_with_body()
    paper.row(100, 60, "Running header of it")
    paper.row(730, 60, "12")
    types = [r.type.value for r in paper.arrange(seen(RegionType.HEADER, (95, 40, 760, 70)))]
    assert types == ["header", "text", "text", "text", "text", "page_number"]


def test_running_head_close_above_the_body_is_named() -> None:
    paper = Paper()
    paper.row(100, 80, "400")
    head = paper.row(330, 80, "OLD HUSBANDRY.")
    paper.block(100, 112, 650, 12)
    assert kinds(paper.arrange(seen(RegionType.FORMULA, head))) == [("header", 1), ("text", 12), ("page_number", 1)]


def test_title_at_the_top_is_no_header() -> None:
    paper = page_with_body()
    paper.row(100, 80, "A title in large type", points=34)
    assert paper.arrange()[0].type is not RegionType.HEADER


def test_first_line_of_a_crop_is_no_header() -> None:
    paper = Paper(800, 320)
    paper.row(20, 25, "Heading of the crop")
    paper.block(20, 90, 740, 7)
    assert RegionType.HEADER not in [r.type for r in paper.arrange()]


def test_formula_at_the_foot_of_a_page_is_no_footer() -> None:
    paper = page_with_body()
    paper.row(300, 1010, "a = b + c")
    paper.row(715, 1010, "(7)")
    paper.row(560, 1050, "Article number 13 of 17")
    assert [r.type.value for r in paper.arrange()][4] == "formula"


def test_small_type_under_a_short_rule_is_a_footnote() -> None:
    paper = page_with_body()
    paper.pen.line((100, 970, 300, 970), fill="black", width=2)
    paper.full(100, 995, 650, points=14)
    paper.full(100, 1015, 400, points=14)
    assert kinds(paper.arrange())[-1] == ("footnote", 2)


def test_small_type_without_a_rule_is_no_footnote() -> None:
    paper = page_with_body()
    paper.full(100, 985, 650, points=14)
    paper.full(100, 1005, 400, points=14)
    assert RegionType.FOOTNOTE not in [r.type for r in paper.arrange()]


def test_equation_number_goes_to_its_formula_and_does_not_widen_it() -> None:
    paper = page_with_body()
    formula = paper.row(300, 1000, "a = b + c")
    paper.row(715, 1000, "(7)")
    found = [r for r in paper.arrange(seen(RegionType.FORMULA, formula)) if r.type is RegionType.FORMULA]
    assert len(found) == 1 and len(found[0].inner_lines) == 1 and found[0].box[2] < 500


def test_line_centred_under_a_figure_is_its_caption() -> None:
    paper = page_with_body()
    paper.pen.rectangle((200, 980, 650, 1040), fill="black")
    paper.row(320, 1065, "Figure 1: a black box")
    found = paper.arrange(seen(FIGURE, (200, 980, 650, 1041)))
    assert [r.type.value for r in found][-2:] == ["figure", "caption"]


def test_duplicates_keep_the_better_box() -> None:
    a, b = seen(TEXT, (0, 0, 100, 100), 0.6), seen(TITLE, (2, 2, 101, 101), 0.8)
    assert drop_duplicates([a, b]) == [b]


@pytest.fixture(scope="module")
def analyser() -> LayoutAnalyser:
    return LayoutAnalyser(LayoutOptions(threads=1))


def two_columns() -> Paper:
    paper = Paper(1240, 1600)
    paper.row(380, 140, "A title over two columns", points=40)
    for x in (100, 650):
        for k in range(5):
            paper.block(x, 240 + 8 * k * PITCH, 490, 7)
    return paper


def test_whole_stage_reads_two_columns_in_order(analyser: LayoutAnalyser) -> None:
    paper = two_columns()
    page = analyser.analyse(np.array(paper.image), 150 / 72)
    assert page.coverage == 1.0 and page.lines_found == len(paper.lines)
    body = [r for r in page.regions if r.type is TEXT]
    sides = [r.box[0] > 620 for r in body]
    assert page.regions[0].box[3] < 200 and sides == sorted(sides) and {True, False} == set(sides)


def test_a_short_display_is_a_formula_and_the_paragraphs_around_it_are_not(analyser: LayoutAnalyser) -> None:
    image = np.array(PilImage.open(Path(__file__).parent / "data" / "short_formula.png").convert("RGB"))
    page = analyser.analyse(image, 150 / 72)
    formulas = [r.box for r in page.regions if r.type is RegionType.FORMULA]
    assert any(box[1] < 455 < box[3] and box[0] < 640 < box[2] for box in formulas)  # a = b / c
    wide = [r for r in page.regions if r.box[2] - r.box[0] > 600]
    assert len(wide) == 2 and all(r.type is not RegionType.FORMULA for r in wide)


def test_whole_stage_maps_a_leaning_page_back(analyser: LayoutAnalyser) -> None:
    paper = two_columns()
    leaning = paper.image.rotate(-3, resample=PilImage.Resampling.BICUBIC, fillcolor="white")
    page = analyser.analyse(np.array(leaning), 150 / 72)
    assert abs(page.skew - 3) < 0.5 and page.lines_found == len(paper.lines)
    angle = np.radians(3)
    x, y = 380 + 250 - 620, 128 - 800  # the middle of the title, from the page's centre
    at = (620 + x * np.cos(angle) - y * np.sin(angle), 800 + x * np.sin(angle) + y * np.cos(angle))
    box = page.regions[0].box
    assert box[0] < at[0] < box[2] and box[1] < at[1] < box[3] and box[3] - box[1] < 110


def test_whole_stage_takes_native_words_in_place_of_the_detector(analyser: LayoutAnalyser) -> None:
    paper = two_columns()
    words = [
        Word((x, b[1], x + 40, b[3]), "word")
        for b in (i.box for i in paper.lines)
        for x in np.arange(b[0], b[2] - 40, 46.0)
    ]
    page = analyser.analyse(np.array(paper.image), 150 / 72, words)
    held = sorted(i for r in page.regions for item in (*r.lines, *r.inner_lines) for i in item.words)
    assert held == list(range(len(words))) and page.lines_found == len(paper.lines)


def test_blank_and_tiny_pictures_give_no_lines(analyser: LayoutAnalyser) -> None:
    for shape in ((600, 400, 3), (1, 1, 3), (20, 900, 3)):
        page = analyser.analyse(np.full(shape, 255, np.uint8), 2.0)
        assert page.lines_found == 0 and page.coverage == 1.0


def test_wrong_picture_shape_is_refused(analyser: LayoutAnalyser) -> None:
    with pytest.raises(ValueError, match="uint8"):
        analyser.analyse(np.zeros((10, 10), np.uint8), 2.0)

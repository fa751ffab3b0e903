"""Ruling lines, words and whole readings from drawn pictures."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from derender.layout.ink import Ink
from derender.layout.ruled_tables import rule_levels
from derender.layout.types import box_of, quad_of
from derender.recognise.types import Quad
from derender.table.level import level
from derender.table.read import CellText, TableReader
from derender.table.rules import find_rules
from derender.table.words import ink_words

FONT = ImageFont.load_default(16)
TEXTS = [["Name", "Size"], ["alpha", "12"], ["beta", "340"], ["gamma", "5"]]


def drawn(texts: list[list[str]], ruled: bool = True) -> tuple[np.ndarray, list[Quad], list[str]]:
    """A table picture, its lines' corners and their texts."""
    width, height = 120 * len(texts[0]), 40 * len(texts)
    image = Image.new("RGB", (width + 20, height + 20), "white")
    pen = ImageDraw.Draw(image)
    quads, said = [], []
    for r, row in enumerate(texts):
        for c, text in enumerate(row):
            place = (20 + 120 * c, 20 + 40 * r)
            pen.text(place, text, fill="black", font=FONT)
            x0, y0, x1, y1 = pen.textbbox(place, text, font=FONT)
            quads.append(quad_of((x0 - 2, y0 - 2, x1 + 2, y1 + 2)))
            said.append(text)
    if ruled:
        for r in range(len(texts) + 1):
            pen.line((10, 10 + 40 * r, width + 10, 10 + 40 * r), fill="black", width=2)
        for c in range(len(texts[0]) + 1):
            pen.line((10 + 120 * c, 10, 10 + 120 * c, height + 10), fill="black", width=2)
    return np.asarray(image), quads, said


def by_centre(quads: list[Quad], said: list[str]):  # type: ignore[no-untyped-def]
    """Reads a cell by looking up which drawn text each of its quads lies on."""

    def read(image: np.ndarray, cells: list[tuple[Quad, ...]]) -> list[CellText]:
        result: list[CellText] = []
        for cell in cells:
            texts = []
            for quad in cell:
                centre = np.mean(quad, axis=0)
                texts.append(said[int(np.argmin([np.hypot(*(np.mean(q, axis=0) - centre)) for q in quads]))])
            result.append((" ".join(texts), 1.0 if cell else None))
        return result

    return read


@pytest.mark.parametrize("lean", [0.0, 0.6, -1.0])
def test_rules_of_a_grid_are_found_also_when_they_lean(lean: float) -> None:
    image, quads, _ = drawn(TEXTS)
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), lean, 1.0)
    leaning = cv2.warpAffine(image, turn, (width, height), borderValue=(255, 255, 255))
    rules = find_rules(leaning, 20, [box_of(q) for q in quads])
    assert len([r for r in rules if r.horizontal]) == 5
    assert len([r for r in rules if not r.horizontal]) == 3


def test_a_dashed_rule_is_one_rule_and_a_double_one_too() -> None:
    image = np.full((100, 300, 3), 255, np.uint8)
    for x in range(10, 290, 8):
        image[30, x : x + 5] = 0
    image[60:62, 10:290] = 0
    image[65:67, 10:290] = 0
    rules = find_rules(image, 20)
    assert [round(r.at / 10) for r in rules] == [3, 6]


def test_white_rules_on_a_dark_fill_are_found() -> None:
    image = np.full((120, 300, 3), 60, np.uint8)
    image[40:43] = 255
    assert any(abs(r.at - 41.5) < 2 for r in find_rules(image, 20) if r.horizontal)


def test_text_makes_no_rules() -> None:
    image, quads, _ = drawn([["HILLTEETH", "illuminate"]] * 5, ruled=False)
    assert find_rules(image, 20, [box_of(q) for q in quads]) == []


def test_words_are_parted_at_gaps_and_rules_are_no_ink() -> None:
    image, quads, _ = drawn([["two words", "x"], ["a", "b"]])
    x0, y0, x1, y1 = box_of(quads[0])
    rules = find_rules(image, 20, [box_of(q) for q in quads])
    (line,) = ink_words(image, [(x0 - 12, y0 - 4, x1, y1)], rules)
    assert len(line.words) == 2
    assert line.box[0] > 15


def test_a_box_on_a_rule_holds_no_word_and_faint_text_is_kept() -> None:
    image = np.full((100, 300, 3), 255, np.uint8)
    image[40:42] = 0
    image[70:80, 20:60] = 245
    boxes = [(10.0, 32.0, 200.0, 50.0), (15.0, 66.0, 65.0, 84.0)]
    on_rule, faint = ink_words(image, boxes, find_rules(image, 18, boxes))
    assert on_rule.words == ()
    assert len(faint.words) == 1


def test_dot_leaders_are_no_words() -> None:
    image, quads, _ = drawn([["sum . . . . . . .", "7"]], ruled=False)
    (line,) = ink_words(image, [box_of(quads[0])], [])
    assert line.box[2] < 70


def test_a_table_is_read_into_cells_html_and_text() -> None:
    image, quads, said = drawn(TEXTS)
    reading = TableReader(by_centre(quads, said)).read(image, quads)
    assert [c.text for c in reading.cells] == said
    assert reading.text == "\n".join("\t".join(row) for row in TEXTS)
    assert "<td>340</td>" in reading.html
    assert reading.otsl.startswith("<fcel>Name<fcel>Size<nl>")
    assert all(c.box is not None and c.box[0] < c.box[2] for c in reading.cells)


@pytest.mark.parametrize("angle", [1.2, -2.5, 90.0])
def test_a_turned_table_is_read_the_same_and_its_boxes_lie_on_the_crop(angle: float) -> None:
    image, quads, said = drawn(TEXTS, ruled=False)
    height, width = image.shape[:2]
    size = 500
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
    turn[:, 2] += (size - width) / 2, (size - height) / 2
    turned = cv2.warpAffine(image, turn, (size, size), borderValue=(255, 255, 255))
    leaning = [tuple(map(tuple, np.asarray(q) @ turn[:, :2].T + turn[:, 2])) for q in quads]
    reading = TableReader(by_centre(leaning, said)).read(turned, leaning)  # type: ignore[arg-type]
    assert [c.text for c in reading.cells] == said
    for cell, quad in zip(reading.cells, leaning, strict=True):
        assert cell.box is not None
        x, y = np.mean(quad, axis=0)
        assert cell.box[0] <= x <= cell.box[2] and cell.box[1] <= y <= cell.box[3]


def test_a_level_table_is_not_turned_for_a_few_leaning_boxes() -> None:
    image = np.full((300, 300, 3), 255, np.uint8)
    level_ones = [quad_of((10, 20 * i, 120, 20 * i + 12)) for i in range(6)]
    leaning = [((10, 20 * i), (80, 20 * i + 2), (80, 20 * i + 14), (10, 20 * i + 12)) for i in range(6, 14)]
    assert level(image, [*level_ones, *leaning]).image is image


def test_a_table_without_lines_and_detector_is_an_error() -> None:
    with pytest.raises(ValueError, match="detector"):
        TableReader(by_centre([], [])).read(np.zeros((9, 9, 3), np.uint8))


def test_a_picture_without_lines_has_no_cells() -> None:
    assert TableReader(by_centre([], [])).read(np.zeros((9, 9, 3), np.uint8), []).cells == []


def test_lines_of_absurd_size_cost_no_memory() -> None:
    """A damaged PDF gave its words a height of millions of pixels, and the masks' kernels were as large."""
    image = np.full((200, 300, 3), 255, np.uint8)
    image[100:102, 10:290] = 0
    assert find_rules(image, 1e9) == []
    assert rule_levels(Ink(image), 1e9) == []
    assert len(rule_levels(Ink(image), 20.0)) == 1

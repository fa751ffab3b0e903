"""Tables on their way through the recogniser and the page: one request per cell and back, native words, cell boxes."""

from __future__ import annotations

import numpy as np

from derender.config import ParseOptions
from derender.document import Page, Region, RegionType
from derender.ingest.types import Word
from derender.layout.types import quad_of
from derender.page import PageWork, place_cells
from derender.pipeline import fill_region
from derender.recognise.structure import StructureRead
from derender.recognise.tables import TableSplitter
from derender.recognise.types import DecodeStats, Image, Quad, Request, Result, TokenOut
from derender.table.native import table_from_words
from derender.table.types import GridCell, TableGrid

WHITE = np.full((120, 300, 3), 255, np.uint8)


def ink(boxes: list[tuple[int, int, int, int]]) -> Image:
    """A picture with a dark bar, a "word", in every box."""
    image = WHITE.copy()
    for x0, y0, x1, y1 in boxes:
        image[y0:y1, x0:x1] = 0
    return image


BOXES = [(10, 10, 60, 20), (150, 10, 200, 20), (10, 50, 60, 60), (150, 50, 200, 60)]
QUADS = tuple(quad_of((x0 - 2, y0 - 4, x1 + 2, y1 + 4)) for x0, y0, x1, y1 in BOXES)


def nothing(image: Image) -> tuple[Quad, ...]:
    return ()


def answer(request: Request, text: str, status: str = "ok") -> Result:
    assert request.lines is not None
    return Result(
        request.id,
        text=text,
        tokens=[TokenOut(text, 0.5, 1)],
        line_texts=[text] * len(request.lines),
        lines=request.lines,
        status=status,  # type: ignore[arg-type]
        errors=[] if status == "ok" else ["the text goes round in circles"],
    )


def test_a_table_becomes_a_request_per_cell_and_one_result_again() -> None:
    splitter = TableSplitter(nothing)
    parts = list(splitter.split([Request("t", ink(BOXES), "table", QUADS), Request("x", WHITE, "text", ())]))
    assert [p.task for p in parts] == ["text"] * 5
    assert splitter.join(answer(parts[-1], "other")) is not None
    order = [parts[2], parts[0], parts[3]]
    texts = {parts[i].id: "abcd"[i] for i in range(4)}
    assert all(splitter.join(answer(p, texts[p.id])) is None for p in order)
    result = splitter.join(answer(parts[1], "b"))
    assert result is not None
    assert (result.id, result.text, result.status) == ("t", "a\tb\nc\td", "ok")
    assert [c.text for c in result.cells] == ["a", "b", "c", "d"]
    assert result.line_texts == ["a", "b", "c", "d"]
    assert result.confidence == 0.5
    assert result.html is not None and result.html.count("<td>") == 4


def test_a_doubtful_cell_makes_the_table_partial_and_says_where() -> None:
    splitter = TableSplitter(nothing)
    parts = list(splitter.split([Request("t", ink(BOXES), "table", QUADS)]))
    results = [splitter.join(answer(p, "a", "partial" if i == 2 else "ok")) for i, p in enumerate(parts)]
    assert results[-1] is not None
    assert results[-1].status == "partial"
    assert results[-1].errors == ["row 2, column 1: the text goes round in circles"]


class Merged:
    """A structure reader that makes one cell of everything and says so."""

    def read(self, grid: TableGrid, rules: object, size: object, decode: object = None) -> StructureRead:
        cell = GridCell(0, 0, 1, 1, False, tuple(range(len(grid.pieces))))
        whole = TableGrid(1, 1, (cell,), grid.pieces, (0.0, float(size[1])), (0.0, float(size[0])))  # type: ignore[index]
        return StructureRead(whole, status="partial", errors=["all is one"], stats=DecodeStats("exact", 2, 1, 0.5))


def test_a_tables_cells_are_those_of_the_structure_reader_and_its_errors_are_told() -> None:
    splitter = TableSplitter(nothing, Merged())
    (part,) = splitter.split([Request("t", ink(BOXES), "table", QUADS)])
    assert len(part.lines or ()) == 4
    result = splitter.join(answer(part, "a b c d"))
    assert result is not None
    assert [(c.text, c.rowspan, c.colspan) for c in result.cells] == [("a b c d", 1, 1)]
    assert (result.status, result.errors) == ("partial", ["all is one"])
    assert (result.stats.forwards, result.stats.seconds) == (1, 0.5)


def test_native_words_fill_the_cells_of_the_structure_reader() -> None:
    words = [word("left", 10, 10, 0), word("right", 90, 10, 1)]
    image = np.full((60, 200, 3), 255, np.uint8)
    plain = table_from_words(words, image, (0.0, 0.0), 1.0)
    merged = table_from_words(words, image, (0.0, 0.0), 1.0, lambda g, r, s: Merged().read(g, r, s).grid)
    assert [c.text for c in plain.cells] == ["left", "right"]
    assert [c.text for c in merged.cells] == ["left right"]


def test_a_table_without_text_is_an_empty_result() -> None:
    splitter = TableSplitter(nothing)
    assert list(splitter.split([Request("t", WHITE, "table", None)])) == []
    assert [(r.id, r.status, r.cells) for r in splitter.finished] == [("t", "ok", [])]


def test_a_line_over_two_cells_gets_the_text_of_both() -> None:
    bridging = quad_of((8, 46, 204, 64))
    splitter = TableSplitter(nothing)
    parts = list(splitter.split([Request("t", ink(BOXES), "table", (*QUADS[:2], bridging))]))
    assert len(parts) == 4
    result = [splitter.join(answer(p, f"w{i}")) for i, p in enumerate(parts)][-1]
    assert result is not None
    assert result.line_texts == ["w0", "w1", "w2 w3"]


def test_cells_of_a_read_table_lie_on_the_page() -> None:
    region = Region(id="r", type=RegionType.TABLE, order=0, box=(0, 0, 1, 1))
    work = PageWork(Page(number=1, width=100, height=100, dpi=72))
    work.to_page["1:0"] = lambda b: (b[0] + 5, b[1] + 7, b[2] + 5, b[3] + 7)
    splitter = TableSplitter(nothing)
    parts = list(splitter.split([Request("1:0", ink(BOXES), "table", QUADS)]))
    result = [splitter.join(answer(p, "a")) for p in parts][-1]
    assert result is not None
    fill_region(region, result, work, ParseOptions())
    assert len(region.cells) == 4
    before = result.cells[0].box
    assert before is not None
    assert region.cells[0].box == (before[0] + 5, before[1] + 7, before[2] + 5, before[3] + 7)
    assert place_cells([result.cells[0].model_copy(update={"box": None})], work.to_page["1:0"])[0].box is None


def word(text: str, x: float, y: float, order: int, width: float | None = None) -> Word:
    return Word(text, (x, y, x + (width or 5.0 * len(text)), y + 12), order, 10.0)


def test_native_words_make_cells_and_keep_every_word() -> None:
    rows = [["Name", "Number of", "Share"], ["alpha beta", "12", "3%"], ["gamma", "340", "97%"]]
    words: list[Word] = []
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            x = 20.0 + 90 * c
            for part in text.split():
                words.append(word(part, x, 20.0 + 18 * r, len(words)))
                x += 5.0 * len(part) + 3
    image = np.full((200, 640, 3), 255, np.uint8)
    image[74:76, 20:620] = 0  # under the heading: 37 pt
    reading = table_from_words(words, image, (10.0, 0.0), 2.0)
    assert [c.text for c in reading.cells] == [t for row in rows for t in row]
    assert [c.header for c in reading.cells] == [True] * 3 + [False] * 6
    box = reading.cells[4].box
    assert box is not None
    assert box[0] <= 110 and box[2] >= 120 and box[1] <= 38 + 3 and box[3] >= 50 - 3


def test_hyphens_at_line_ends_are_mended_in_native_cells() -> None:
    words = [word("a", 20, 20, 0), word("inter-", 100, 20, 1), word("national", 100, 32, 2), word("b", 20, 60, 3)]
    words.append(word("c", 100, 60, 4))
    image = np.full((200, 400, 3), 255, np.uint8)
    image[100:102] = 0
    image[20:190, 140:142] = 0
    image[30:32] = image[180:182] = 0
    reading = table_from_words(words, image, (0.0, 0.0), 2.0)
    assert [c.text for c in reading.cells] == ["a", "international", "b", "c"]

"""Chunks for retrieval: bounded, under their headings, nothing lost, and traceable to pages and boxes."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from derender.assemble.chunks import chunks_jsonl, count_tokens, to_chunks
from derender.document import Box, Cell, Document, Page, Region, RegionType

BOX: Box = (10.0, 20.0, 300.0, 60.0)


def document(*items: tuple[RegionType, str, int | None]) -> Document:
    regions = [
        Region(id=f"r{i}", type=kind, order=i, box=BOX, text=text, level=level, source="text_layer")
        for i, (kind, text, level) in enumerate(items)
    ]
    half = len(regions) // 2
    pages = [
        Page(number=n, width=600, height=800, dpi=150, regions=part)
        for n, part in ((1, regions[:half]), (2, regions[half:]))
    ]
    return Document(name="d", pages=pages)


TITLE, TEXT = RegionType.TITLE, RegionType.TEXT


def test_chunks_stand_under_their_headings() -> None:
    doc = document(
        (TITLE, "One", 1),
        (TEXT, "Alpha.", None),
        (TITLE, "One A", 2),
        (TEXT, "Beta.", None),
        (TITLE, "Two", 1),
        (TEXT, "Gamma.", None),
    )
    assert [(c.headings, c.text) for c in to_chunks(doc)] == [
        (("One",), "Alpha."),
        (("One", "One A"), "Beta."),
        (("Two",), "Gamma."),
    ]


def test_headings_with_nothing_under_them_are_not_lost() -> None:
    doc = document(
        (TITLE, "Cover", 1),
        (TITLE, "Part", 1),
        (TITLE, "Empty", 2),
        (TITLE, "Full", 2),
        (TEXT, "Alpha.", None),
        (TITLE, "Last", 3),
    )
    chunks = to_chunks(doc)
    assert [(c.headings, c.text) for c in chunks] == [
        ((), "# Cover"),
        (("Part",), "## Empty"),
        (("Part", "Full"), "Alpha."),
        (("Part", "Full"), "### Last"),
    ]
    assert [c.places[0][1] for c in chunks] == ["r0", "r2", "r4", "r5"]
    slides = document((TITLE, "Only", 1), (TITLE, "titles", 2))
    assert [(c.headings, c.text) for c in to_chunks(slides)] == [((), "# Only\n\n## titles")]


def test_a_chunk_says_where_it_is_from() -> None:
    doc = document((TEXT, "Alpha.", None), (TEXT, "Beta.", None))
    (line,) = chunks_jsonl(doc).splitlines()
    entry = json.loads(line)
    assert entry["pages"] == [1, 2] and entry["places"][1] == {"page": 2, "region": "r1", "box": list(BOX)}
    assert entry["id"] == "d-1" and entry["tokens"] == count_tokens(entry["text"]) == 4


def test_a_table_is_never_cut() -> None:
    cells = [Cell(row=r, col=c, text=f"cell {r} {c}") for r in range(30) for c in range(3)]
    doc = document((TEXT, "Before.", None), (TEXT, "After.", None))
    table = Region(id="t", type=RegionType.TABLE, order=5, box=BOX, cells=cells)
    doc.pages[0].regions.append(table)
    found = to_chunks(doc, max_tokens=50)
    assert [c for c in found if "cell 0 0" in c.text and "cell 29 2" in c.text]


def test_chinese_is_counted_by_characters() -> None:
    assert count_tokens("漢字 and 12.5%") == 2 + 1 + 3 + 1


@given(st.lists(st.text("ab. ", min_size=1, max_size=300).filter(str.strip), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_word_is_lost_and_no_chunk_too_large(texts: list[str]) -> None:
    doc = document(*[(TEXT, text, None) for text in texts])
    found = to_chunks(doc, max_tokens=40)
    letters = [c for c in " ".join(texts) if c in "ab"]
    assert [c for chunk in found for c in chunk.text if c in "ab"] == letters
    longest = max(count_tokens(s) for text in texts for s in [text])
    assert all(chunk.tokens <= max(40, longest) for chunk in found)

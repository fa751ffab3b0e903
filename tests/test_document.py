"""The document model: JSON round trip, boxes; and that all writers hold the same regions."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from derender.assemble.blocks import blocks
from derender.document import Cell, Document, Line, Page, Region, RegionType, Token, box_1000, load

T = RegionType


def sample() -> Document:
    """Two pages with every kind of region; each text is a word found nowhere else."""
    kinds = [
        T.HEADER,
        T.TITLE,
        T.TEXT,
        T.LIST,
        T.TABLE,
        T.CAPTION,
        T.FORMULA,
        T.FIGURE,
        T.FOOTNOTE,
        T.REFERENCE,
        T.FOOTER,
    ]
    pages = []
    for number in (1, 2):
        regions = []
        for order, kind in enumerate(kinds):
            word = f"word{kind.replace('_', '')}{number}"
            fields: dict[str, object] = {"text": f"- {word}" if kind is T.LIST else word}
            if kind is T.TABLE:
                fields = {"cells": [Cell(row=0, col=0, text=word), Cell(row=1, col=0, text="1", confidence=0.5)]}
            if kind is T.FORMULA:
                fields = {"latex": f"{word} = 1"}
            if kind is T.FIGURE:
                fields = {"image": f"images/{word}.png"}
            box = (50, 60 * order + 10, 550, 60 * order + 50)
            regions.append(
                Region.model_validate({"id": f"r{order}", "type": kind, "order": order, "box": box, **fields})
            )
        pages.append(Page(number=number, width=600, height=800, dpi=150, regions=regions))
    return Document(name="sample", pages=pages, page_count=2, meta={"mode": "ocr"})


WORDS = [
    f"word{kind}{n}"
    for n in (1, 2)
    for kind in ("title", "text", "list", "table", "caption", "formula", "figure", "footnote", "reference")
]


def test_all_writers_hold_the_same_regions_in_the_same_order() -> None:
    doc = sample()
    outputs = [doc.to_markdown(), doc.to_html(), json.dumps(doc.to_content_list())]
    for text in outputs:
        assert [text.count(word) for word in WORDS] == [1] * len(WORDS)
    solid = [word for word in WORDS if "caption" not in word]  # a caption is a field of its table in content_list.json
    orders = [sorted(solid, key=text.index) for text in outputs]
    assert orders == [solid] * 3


def test_paratext_is_left_out_unless_asked_for() -> None:
    doc = sample()
    assert "wordheader1" not in doc.to_markdown() and "wordheader1" not in doc.to_html()
    assert "wordheader1" in doc.to_markdown(keep_paratext=True) and "wordheader1" in doc.to_html(keep_paratext=True)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(T)), st.booleans(), st.integers(0, 5)), max_size=8))
def test_every_region_with_content_is_in_exactly_one_block(rows: list[tuple[RegionType, bool, int]]) -> None:
    regions = [
        Region(
            id=f"r{i}",
            type=kind,
            order=i,
            box=(0, 90 * i, 500, 90 * i + 80),
            text="x" if full else "",
            continues=f"r{to}",
        )
        for i, (kind, full, to) in enumerate(rows)
    ]
    doc = Document(name="d", pages=[Page(number=1, width=600, height=800, dpi=72, regions=regions)])
    found = blocks(doc, keep_paratext=True)
    parts = [region.id for block in found for b in (block, *block.captions) for _, region in b.parts]
    assert sorted(parts) == sorted(r.id for r in regions if r.text or r.type is T.FIGURE)


def test_content_list_has_mineru_fields() -> None:
    entries = sample().to_content_list()
    by_type = {entry["type"]: entry for entry in entries if entry["page_idx"] == 1}
    assert all(len(e["bbox"]) == 4 and all(0 <= v <= 1000 for v in e["bbox"]) for e in entries)
    title = next(e for e in entries if "text_level" in e)
    assert (title["type"], title["text_level"], title["page_idx"], title["bbox"]) == ("text", 1, 0, [83, 88, 917, 138])
    assert by_type["image"]["img_path"] == "images/wordfigure2.png" and by_type["image"]["image_footnote"] == []
    assert by_type["table"]["table_caption"] == ["wordcaption2"] and by_type["table"]["table_body"].startswith(
        "<table>"
    )
    assert (by_type["equation"]["text"], by_type["equation"]["text_format"]) == ("$$\nwordformula2 = 1\n$$", "latex")
    assert by_type["list"]["list_items"] and by_type["header"]["text"] == "wordheader2"


def test_json_round_trip(tmp_path) -> None:  # type: ignore[no-untyped-def]
    doc = sample()
    doc.pages[0].regions[2].lines = [Line(box=(1, 2, 3, 4), text="raw-")]
    doc.pages[0].regions[2].tokens = [Token(text="a", confidence=0.75, step=2)]
    path = tmp_path / "d.json"
    path.write_text(doc.to_json(), encoding="utf-8")
    assert load(path) == doc and json.loads(doc.to_json())["unit"] == "pt, origin top-left"


def test_unknown_fields_are_an_error() -> None:
    with pytest.raises(ValidationError):
        Document.from_json('{"name": "x", "pagse": []}')


SIDE = st.one_of(st.just(0.0), st.floats(0.01, 5000))


@settings(deadline=None)
@given(st.tuples(*[st.floats(-1e4, 1e4)] * 4), SIDE, SIDE)
def test_box_1000_stays_on_the_page(box: tuple[float, float, float, float], width: float, height: float) -> None:
    assert all(0 <= value <= 1000 for value in box_1000(box, width, height))


def test_box_1000_of_a_known_box() -> None:
    assert box_1000((50, 80, 300, 800), 600, 800) == (83, 100, 500, 1000)


def test_model_imports_nothing_heavy() -> None:
    code = (
        "import sys, derender.document; print([m for m in ('numpy', 'PIL', 'cv2', 'onnxruntime') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )

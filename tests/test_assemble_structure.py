"""The structure stages: each claim on a small document made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.assemble.blocks import blocks
from derender.assemble.captions import label, mark_captions, place_captions
from derender.assemble.flow import mark_continued, mark_references
from derender.assemble.headings import level_titles, numbered_depth
from derender.assemble.join import join_lines
from derender.assemble.lists import Item, mark_lists, parse_items
from derender.assemble.markdown import to_markdown
from derender.assemble.paratext import mark_paratext, page_number
from derender.assemble.structure import STAGES, structure
from derender.document import Document, Line, Page, Region, RegionType

T = RegionType
WIDTH, HEIGHT = 600.0, 800.0


def region(
    kind: RegionType, lines: str | list[str], x: float = 50, y: float = 100, size: float = 10, **more: object
) -> Region:
    """A region whose lines are `size` points high; a line's leading spaces indent it by 5 points each."""
    raw = [lines] if isinstance(lines, str) else lines
    width = float(more.pop("width", 240))  # type: ignore[arg-type]
    made = []
    for i, text in enumerate(raw):
        left = x + 5 * (len(text) - len(text.lstrip()))
        made.append(Line(box=(left, y + i * 1.2 * size, x + width, y + i * 1.2 * size + size), text=text.strip()))
    bottom = made[-1].box[3]
    fields = {"id": f"r{x:g}-{y:g}", "order": 0, "box": (x, y, x + width, bottom), "text": join_lines(raw), **more}
    return Region.model_validate({"type": kind, "lines": made, **fields})


def document(*pages: list[Region]) -> Document:
    """Pages of 600 x 800 points; reading order is the order given."""
    made = []
    for number, regions in enumerate(pages, start=1):
        ordered = [r.model_copy(update={"order": i, "id": f"p{number}-{r.id}"}) for i, r in enumerate(regions)]
        made.append(Page(number=number, width=WIDTH, height=HEIGHT, dpi=150, regions=ordered))
    return Document(name="d", pages=made, page_count=len(made))


def types(doc: Document) -> list[list[str]]:
    return [[str(r.type) for r in sorted(page.regions, key=lambda r: r.order)] for page in doc.pages]


def levels(doc: Document) -> list[int | None]:
    return [r.level for page in doc.pages for r in page.regions if r.type is T.TITLE]


# headings


def test_levels_follow_size() -> None:
    doc = document(
        [region(T.TITLE, "Paper", size=20), region(T.TITLE, "Abstract", y=140, size=14)],
        [
            region(T.TITLE, "Data", size=14.5),
            region(T.TITLE, "Cleaning", y=200, size=11),
            region(T.TITLE, "References", y=300, size=14),
        ],
    )
    assert levels(level_titles(doc)) == [1, 2, 2, 3, 2]


def test_numbering_rules_over_size() -> None:
    doc = document(
        [
            region(T.TITLE, "Paper", size=20),
            region(T.TITLE, "1 Intro", y=140, size=11),
            region(T.TITLE, "1.1 Old work", y=200, size=11),
            region(T.TITLE, "2.1.3 Deep", y=300, size=11),
        ]
    )
    assert levels(level_titles(doc)) == [1, 2, 3, 4]


def test_without_document_title_sections_are_level_one() -> None:
    doc = document([region(T.TITLE, "1 Intro", size=12), region(T.TITLE, "Methods", y=200, size=12)])
    assert levels(level_titles(doc)) == [1, 1]


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("2.1.3 Data", 3),
        ("4. End", 1),
        ("IV. Results", 1),
        ("A.1 Proof", 2),
        ("Appendix B", 1),
        ("A Study of", None),
        ("2024", None),
        ("Introduction", None),
        ("3D models", None),
    ],
)
def test_numbered_depth(text: str, depth: int | None) -> None:
    assert numbered_depth(text) == depth


# lists


def test_bullets_become_items() -> None:
    doc = mark_lists(document([region(T.TEXT, ["• first item", "goes on", "• second"])]))
    assert (types(doc), doc.pages[0].regions[0].text) == ([["list"]], "- first item goes on\n- second")


def test_numbers_stay_and_indentation_nests() -> None:
    doc = mark_lists(document([region(T.TEXT, ["1. one", "   a) inner", "   b) other", "2. two"])]))
    assert doc.pages[0].regions[0].text == "1. one\n    - a) inner\n    - b) other\n2. two"


def test_lead_before_the_first_item_stays_a_lead() -> None:
    doc = mark_lists(document([region(T.TEXT, ["We need:", "– salt", "– bread"])]))
    assert doc.pages[0].regions[0].text == "We need:\n- salt\n- bread"
    assert parse_items("We need:\n- salt")[0] == Item(0, None, "", "We need:", lead=True)


@pytest.mark.parametrize(
    "lines",
    [
        ["1. A sentence that", "opens with a number"],
        ["- 5 degrees at night", "and more"],
        ["Prose with", "2. no list"],
        ["5. in the", "3. wrong order"],
    ],
)
def test_prose_is_no_list(lines: list[str]) -> None:
    assert types(mark_lists(document([region(T.TEXT, lines)]))) == [["text"]]


def test_items_that_are_regions_of_their_own() -> None:
    parts = [region(T.TEXT, "1. one", y=100), region(T.TEXT, "2. two", y=140), region(T.LIST, "– a dash", x=80, y=180)]
    assert to_markdown(mark_lists(document(parts))) == "1. one\n2. two\n    - a dash\n"


def test_items_are_cut_from_the_better_reading() -> None:
    lines = ["• flrst itern of", "all", "• sec0nd one"]
    doc = mark_lists(document([region(T.TEXT, lines, text="• first item of all • second one")]))
    assert doc.pages[0].regions[0].text == "- first item of all\n- second one"


def test_rows_of_contents_in_a_list_are_text_and_bullets_on_lines_stay_a_list() -> None:
    rows = region(T.LIST, ["1 Rows ........ 2", "1.1 Why ........ 3"])
    bullets = region(T.LIST, ["\u2022 one", "\u2022 two"], y=300, text="\u2022 one\n\u2022 two")
    assert types(mark_lists(document([rows, bullets]))) == [["text", "list"]]


@settings(deadline=None)
@given(st.lists(st.text("ab •-1.)(", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=6))
def test_lists_lose_no_letter(lines: list[str]) -> None:
    before = document([region(T.TEXT, lines)])
    after = mark_lists(before).pages[0].regions[0].text
    assert [c for c in after if c.isalnum()] == [c for c in before.pages[0].regions[0].text if c.isalnum()]


# captions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Figure 3: A thing", "Figure 3"),
        ("Fig. 2. Things", "Fig. 2"),
        ("TABLE II. Runs", "TABLE II"),
        ("图 1 系统", "图 1"),
        ("Table 4", "Table 4"),
        ("Figure 3 shows that", None),
        ("Figures are nice", None),
        ("Tablets 3.", None),
    ],
)
def test_caption_label(text: str, found: str | None) -> None:
    assert label(text) == found


def test_caption_is_recognised_and_moved_to_its_figure() -> None:
    figure = Region(id="f", type=T.FIGURE, order=0, box=(50, 100, 290, 300))
    doc = document([figure, region(T.TEXT, "Body text.", y=500), region(T.TEXT, "Figure 1: A thing.", y=306)])
    assert types(place_captions(mark_captions(doc))) == [["figure", "caption", "text"]]


def test_each_caption_goes_to_its_own_kind() -> None:
    figure = Region(id="f", type=T.FIGURE, order=0, box=(50, 100, 290, 300))
    table = Region(id="t", type=T.TABLE, order=0, box=(50, 340, 290, 500), html="<table><tr><td>x</table>")
    doc = document(
        [figure, table, region(T.CAPTION, "Table 1: Runs.", y=318), region(T.CAPTION, "Figure 1: X.", y=303)]
    )
    owners = {b.region.id: [c.text for c in b.captions] for b in blocks(place_captions(doc))}
    assert owners == {"p1-f": ["Figure 1: X."], "p1-t": ["Table 1: Runs."]}


# paratext


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("- 7 -", 7),
        ("Page 3 of 9", 3),
        ("xiv", 14),
        ("Seite 4", 4),
        ("3 / 9", 3),
        ("第 5 页", 5),
        ("12 apes", None),
        ("civil", None),
        ("", None),
    ],
)
def test_page_number_texts(text: str, number: int | None) -> None:
    assert page_number(text) == number


def test_running_headers_and_page_numbers() -> None:
    pages = [
        [
            region(T.TITLE, f"Journal of Things {40 + n}", y=20),
            region(T.TEXT, f"Body {n * 'very '}long.", y=200),
            region(T.TEXT, str(100 + n), y=770),
        ]
        for n in range(1, 5)
    ]
    assert types(mark_paratext(document(*pages))) == [["header", "text", "page_number"]] * 4


def test_left_and_right_headers_differ() -> None:
    pages = [
        [region(T.TEXT, ["Jones et al.", "A study of apes"][n % 2], y=20), region(T.TEXT, "x", y=300)] for n in range(6)
    ]
    assert {row[0] for row in types(mark_paratext(document(*pages)))} == {"header"}


def test_page_numbers_of_a_small_page_on_large_paper() -> None:
    pages = [[region(T.TEXT, "Body.", y=200), region(T.TEXT, str(n), y=670)] for n in (1, 2, 3)]
    assert types(mark_paratext(document(*pages))) == [["text", "page_number"]] * 3


def test_what_does_not_repeat_stays_body() -> None:
    tops = ["An opening line", "Other words here", "Third thing said", "Fourth and last"]
    doc = document(*[[region(T.TEXT, text, y=20), region(T.TEXT, "x", y=300)] for text in tops])
    assert types(mark_paratext(doc)) == [["text", "text"]] * 4


def test_repeated_text_in_mid_page_stays_body() -> None:
    doc = document(*[[region(T.TITLE, "Results", y=300)] for _ in range(4)])
    assert types(mark_paratext(doc)) == [["title"]] * 4


def test_page_number_without_a_number_is_a_header() -> None:
    assert types(mark_paratext(document([region(T.PAGE_NUMBER, "Issue and view", y=20)]))) == [["header"]]


def test_lone_number_inside_the_page_stays_body() -> None:
    assert types(mark_paratext(document([region(T.TEXT, "42", y=400)]))) == [["text"]]


def test_centred_number_that_ends_a_short_page_is_its_number() -> None:
    body = [region(T.TEXT, text, y=y) for y, text in ((60, "One."), (100, "Two."), (140, "Three."))]
    number = region(T.TEXT, "62", y=500).model_copy(update={"box": (290.0, 500.0, 322.0, 512.0)})
    assert types(mark_paratext(document([*body, number]))) == [["text", "text", "text", "page_number"]]


def test_page_number_level_with_its_header_is_outermost() -> None:
    number, head = region(T.TEXT, "400", y=72), region(T.TEXT, "Husbandry", y=71)
    assert types(mark_paratext(document([number, head, region(T.TEXT, "Body.", y=200)])))[0][0] == "page_number"


# flow


def test_paragraph_over_a_page_break_is_joined() -> None:
    doc = mark_continued(
        document(
            [region(T.TEXT, "A line that breaks be-", y=700)],
            [region(T.TEXT, "tween pages.", y=60), region(T.TEXT, "New one.", y=100)],
        )
    )
    assert [r.continues for p in doc.pages for r in p.regions] == [None, "p1-r50-700", None]
    assert to_markdown(doc) == "A line that breaks between pages.\n\nNew one.\n"


def test_paragraph_over_a_column_break_and_a_figure_is_joined() -> None:
    figure = Region(id="f", type=T.FIGURE, order=0, box=(310, 60, 550, 200), image="images/f.png")
    doc = mark_continued(
        document(
            [region(T.TEXT, "one column ends", y=700), figure, region(T.TEXT, "and the next begins.", x=310, y=230)]
        )
    )
    assert to_markdown(doc) == "one column ends and the next begins.\n\n![figure](images/f.png)\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [("A full sentence.", "then lower case"), ("No full stop", "New sentence"), ("ends with colon:", "lower case")],
)
def test_finished_paragraphs_are_not_joined(first: str, second: str) -> None:
    doc = mark_continued(document([region(T.TEXT, first, y=700)], [region(T.TEXT, second, y=60)]))
    assert doc.pages[1].regions[0].continues is None


def test_neighbours_in_one_column_are_not_joined() -> None:
    doc = mark_continued(document([region(T.TEXT, "no stop here", y=100), region(T.TEXT, "lower case below", y=150)]))
    assert doc.pages[0].regions[1].continues is None


def test_a_heading_ends_the_paragraph() -> None:
    doc = mark_continued(
        document([region(T.TEXT, "cut off", y=700)], [region(T.TITLE, "B"), region(T.TEXT, "more", y=150)])
    )
    assert doc.pages[1].regions[1].continues is None


def test_chinese_goes_on_only_after_a_full_line() -> None:
    full = region(T.TEXT, ["第一行是满的", "第二行也是满的"], y=700)
    short = full.model_copy(update={"lines": [full.lines[0], Line(box=(50, 712, 100, 722), text="短")]})
    for first, joined in ((full, True), (short, False)):
        doc = mark_continued(document([first], [region(T.TEXT, "接着写下去。", y=60)]))
        assert (doc.pages[1].regions[0].continues is not None) == joined


def test_references_end_at_the_next_heading() -> None:
    doc = mark_references(
        document(
            [region(T.TITLE, "5. References"), region(T.TEXT, "[1] A. B.", y=150)],
            [region(T.TEXT, "[2] C. D."), region(T.TITLE, "Appendix", y=200), region(T.TEXT, "E", y=250)],
        )
    )
    assert types(doc) == [["title", "reference"], ["reference", "title", "text"]]


def test_reference_entries_get_a_line_each() -> None:
    doc = structure(
        document([region(T.TITLE, "References"), region(T.TEXT, ["[1] A. B. Work,", "1999.", "[2] C."], y=150)])
    )
    assert doc.pages[0].regions[1].text == "[1] A. B. Work, 1999.\n[2] C."


# all together

KINDS = st.sampled_from([T.TITLE, T.TEXT, T.LIST, T.CAPTION, T.FIGURE, T.TABLE, T.REFERENCE, T.FOOTNOTE, T.FORMULA])
REGION = st.builds(
    lambda kind, lines, x, y, size: region(kind, lines, x=x, y=y, size=size),
    KINDS,
    st.lists(
        st.sampled_from(
            ["Figure 1: x", "• a", "1. b", "References", "word-", "tail", "The end.", "7", "[1] z", "中文"]
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([50.0, 320.0]),
    st.sampled_from([10.0, 200.0, 400.0, 760.0]),
    st.sampled_from([8.0, 12.0, 20.0]),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(REGION, max_size=5), min_size=1, max_size=4))
def test_no_stage_drops_a_region_or_a_letter(pages: list[list[Region]]) -> None:
    doc = document(*[[r.model_copy(update={"id": f"{i}"}) for i, r in enumerate(page)] for page in pages])
    frozen = doc.to_json()

    def content(d: Document) -> list[list[tuple[str, str]]]:
        return [sorted((r.id, "".join(c for c in r.text if c.isalnum())) for r in page.regions) for page in d.pages]

    for stage in STAGES:
        after = stage(doc)
        assert content(after) == content(doc)
        doc = after
    assert all(sorted(r.order for r in page.regions) == list(range(len(page.regions))) for page in doc.pages)
    assert structure(Document.from_json(frozen)).to_json() == doc.to_json()

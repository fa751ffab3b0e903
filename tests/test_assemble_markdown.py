"""markdown.py and html.py: what is written renders back to the same text. markdown-it is the CommonMark reader used."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from derender.assemble.html import to_html
from derender.assemble.markdown import to_markdown
from derender.assemble.tables import html_to_cells
from derender.document import Cell, Document, Page, Region, RegionType

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
T = RegionType


def make(*regions: Region, pages: int = 1) -> Document:
    """A document whose regions all lie on page 1, in the given order."""
    placed = [region.model_copy(update={"order": i}) for i, region in enumerate(regions)]
    first = Page(number=1, width=600, height=800, dpi=150, regions=placed)
    rest = [Page(number=n, width=600, height=800, dpi=150) for n in range(2, pages + 1)]
    return Document(name="doc", pages=[first, *rest])


def region(kind: RegionType, text: str = "", **fields: object) -> Region:
    fields.setdefault("id", f"r{abs(hash((kind, text))) % 10_000}")
    fields.setdefault("source", "text_layer")
    return Region.model_validate({"type": kind, "order": 0, "box": (50, 100, 550, 200), "text": text, **fields})


def rendered(markdown: str) -> str:
    """The text that a reader of the rendered page sees, white space folded."""
    html = READER.render(markdown)
    assert not re.search(r"<(?:em|strong|code|a|img|s|pre|blockquote|hr)\b", html), html
    return " ".join(unescape(re.sub(r"<(?!<)[^<>]*>", " ", re.sub(r"<br ?/?>", " ", html))).split())


nasty = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab1 \\`*_~<>[](){}#+-.!|&;:=$^/\n"),
        st.characters(codec="utf-8", exclude_categories=["C", "Z"]),
    ),
    min_size=1,
    max_size=30,
)
MARKUP = """# a|1. b|- |**b**|_c_|`d`|<b>|&amp;|[x](y)|![i](j)|[r]: u|---|===|> q|+ |~~s~~|\\| |<!--|http://a_b_c|$x$ $5
***|a*b*c|10) |[^1]|    code|[ ] t|\\*|<http://a.b>|a_b_|``|*a|b*|__|]("""
snippets = st.lists(
    st.sampled_from([*MARKUP.replace("\n", "|").split("|"), "| a |", "|-|", "\n"]), min_size=1, max_size=6
).map("".join)


def folded(text: str) -> str:
    return " ".join(text.split())


@settings(max_examples=200, deadline=None)
@given(st.one_of(nasty, snippets))
def test_paragraph_renders_back(text: str) -> None:
    assert rendered(to_markdown(make(region(T.TEXT, text)))) == folded(text)


@settings(deadline=None)
@given(st.one_of(nasty, snippets))
def test_heading_renders_back(text: str) -> None:
    if folded(text):
        markdown = to_markdown(make(region(T.TITLE, text, level=2)))
        assert READER.render(markdown).startswith("<h2>") and rendered(markdown) == folded(text)


@settings(deadline=None)
@given(st.lists(st.one_of(nasty, snippets).map(folded).filter(bool), min_size=1, max_size=3))
def test_list_items_render_back(items: list[str]) -> None:
    html = READER.render(to_markdown(make(region(T.LIST, "\n".join(f"- {item}" for item in items)))))
    assert html.count("<li>") == len(items)
    assert rendered(to_markdown(make(region(T.LIST, "\n".join(f"- {item}" for item in items))))) == folded(
        " ".join(items)
    )


@settings(deadline=None)
@given(st.lists(st.one_of(nasty, snippets).map(folded), min_size=4, max_size=4))
def test_pipe_table_renders_back(texts: list[str]) -> None:
    cells = [Cell(row=i // 2, col=i % 2, text=text) for i, text in enumerate(texts)]
    html = READER.render(to_markdown(make(region(T.TABLE, cells=cells))))
    assert [cell.text for cell in html_to_cells(html)] == texts


@pytest.mark.parametrize(
    "text",
    [
        "5 * 3 = 15",
        "snake_case_name",
        "costs $5",
        "a < b",
        "AT&T",
        "see [1] and [2]",
        "3.14 is pi",
        "a|b",
        "#hashtag",
        "~5",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert to_markdown(make(region(T.TEXT, text))) == text + "\n"


def test_inline_math_of_a_recogniser_stays_and_money_does_not() -> None:
    assert to_markdown(make(region(T.TEXT, "so $x_1^2$ holds", source="ocr"))) == "so $x_1^2$ holds\n"
    assert to_markdown(make(region(T.TEXT, "from $5 to $10", source="ocr"))) == "from \\$5 to \\$10\n"


def test_every_kind_of_block() -> None:
    doc = make(
        region(T.HEADER, "Running head"),
        region(T.TITLE, "A study", level=1),
        region(T.TEXT, "Hello."),
        region(T.LIST, "We need:\n- one\n    - inner\n3. three"),
        region(T.FORMULA, "x = 1 (2.1)", latex="x = 1"),
        region(T.FIGURE, id="f", image="images/p1 f.png", box=(50, 300, 550, 400)),
        region(T.CAPTION, "Figure 1: A thing.", box=(50, 405, 550, 420)),
        region(T.FOOTNOTE, "1 A note."),
        region(T.REFERENCE, "[1] First.\n[2] Second."),
    )
    assert to_markdown(doc) == (
        "# A study\n\nHello.\n\nWe need:\n\n- one\n    - inner\n3. three\n\n$$\nx = 1 \\tag{2.1}\n$$\n\n"
        "![Figure 1](images/p1%20f.png)\n\nFigure 1: A thing.\n\n1 A note.\n\n[1] First.\n\n[2] Second.\n"
    )
    assert to_markdown(doc, keep_paratext=True).startswith("Running head\n\n# A study")


def test_page_markers_name_every_page() -> None:
    markdown = to_markdown(make(region(T.TEXT, "x"), pages=3), page_markers=True)
    assert markdown == "<!-- page 1 -->\n\nx\n\n<!-- page 2 -->\n\n<!-- page 3 -->\n"


def test_table_with_spans_is_one_html_block() -> None:
    cells = [Cell(row=0, col=0, colspan=2, text="a\n\nb"), Cell(row=1, col=0), Cell(row=1, col=1, text="<i>")]
    markdown = to_markdown(make(region(T.TABLE, cells=cells), region(T.TEXT, "after")))
    table, after = markdown.strip().split("\n\n")
    assert table.startswith("<table>") and table.endswith("</table>") and after == "after"
    assert [cell.text for cell in html_to_cells(table)] == ["a\n\nb", "", "<i>"]


def test_a_list_cut_into_regions_is_one_and_new_numbers_open_a_new_one() -> None:
    cut = make(region(T.LIST, "1. a"), region(T.LIST, "    - b"), region(T.LIST, "2. c"))
    assert to_markdown(cut) == "1. a\n    - b\n2. c\n"
    again = to_markdown(make(region(T.LIST, "1. a\n2. b"), region(T.LIST, "1. c")))
    assert READER.render(again).count("<ol>") == 2


def test_a_region_that_failed_is_named() -> None:
    markdown = to_markdown(make(region(T.TABLE, status="failed", errors=["no cells --> found"])))
    assert markdown == "<!-- page 1, table: no cells - found -->\n"


def test_unread_table_shows_picture_and_text() -> None:
    markdown = to_markdown(make(region(T.TABLE, "a 1 b 2", image="images/p1_t.png")))
    assert markdown == "![table](images/p1_t.png)\n\na 1 b 2\n"


def test_html_that_is_no_table_does_not_hide_the_text() -> None:
    doc = make(region(T.TABLE, "a 1 b 2", html="<p>broken"))
    assert to_markdown(doc) == "a 1 b 2\n" and "a 1 b 2" in to_html(doc)


class _Checker(HTMLParser):
    """Collects text, ids and tags; fails on tags closed in the wrong order."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@settings(deadline=None)
@given(nasty)
def test_html_holds_the_text_and_is_well_formed(text: str) -> None:
    for kind in (T.TEXT, T.TITLE, T.LIST, T.FOOTNOTE, T.REFERENCE, T.CAPTION):
        page = _Checker(to_html(make(region(kind, "x " + text.replace("\n", " ")))))
        assert "".join(text.replace("$", "").split()) in "".join(page.text.replace("$", "").split())


def test_html_loads_nothing_and_has_unique_ids() -> None:
    doc = make(region(T.TEXT, "a <script> b", id="r1"), region(T.FIGURE, id="r2", image="images/p1_r2.png"), pages=2)
    html = to_html(doc)
    page = _Checker(html)
    assert "<script" not in html and not re.search(r"""(?:src|href)=["'](?:https?:)?//""", html)
    assert len(set(page.ids)) == len(page.ids) and {"page-1", "page-2", "p1-r1", "p1-r2"} <= set(page.ids)
    assert [a["href"] for tag, a in page.tags if tag == "a"] == ["#page-1", "#page-2"]
    assert all(a.get("alt") for tag, a in page.tags if tag == "img")


def test_html_marks_direction_and_language() -> None:
    html = to_html(make(region(T.TEXT, "שלום עולם", id="a"), region(T.TEXT, "hello world", id="b")))
    assert 'id="p1-a" lang="he" dir="rtl"' in html and 'id="p1-b" dir="ltr"' in html


def test_html_nests_lists_and_keeps_numbers() -> None:
    html = to_html(make(region(T.LIST, "3. a\n    - b\n4. c")))
    assert '<ol start="3"><li value="3">a<ul><li>b</li></ul></li><li value="4">c</li></ol>' in html


def test_html_embeds_pictures(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"png")
    html = to_html(make(region(T.FIGURE, image="images/a.png")), image_root=tmp_path)
    assert 'src="data:image/png;base64,cG5n"' in html


def test_rows_of_contents_that_go_on_on_the_next_page_keep_their_lines_and_get_short_leaders() -> None:
    first = region(RegionType.TEXT, "1 Rows ........ 2\n1.1 Why . . . . . 3", id="a")
    second = region(RegionType.TEXT, "2 Hidden ends ........ 17", id="b", continues="a")
    markdown = to_markdown(make(first, second))
    assert markdown == "1 Rows ... 2  \n1.1 Why ... 3  \n2 Hidden ends ... 17\n"

"""What the live page is given to show: nothing of a document becomes markup, and doubtful tokens are found again."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest

pytest.importorskip("markdown_it", reason="the extra serve is not installed")
pytest.importorskip("nh3", reason="the extra serve is not installed")

from derender.assemble.mathml import mathml
from derender.document import Cell, Document, Page, Region, RegionType, Token
from derender.serve.outcome import Outcome
from derender.serve.view import block_views, markdown_html

HOSTILE = [
    r"\text{<script>alert(1)</script>}",
    r"\text{<img src=x onerror=alert(1)>}",
    r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
    r"\href{javascript:alert(1)}{x}",
    r"\style{background:red}{x}",
    r"\class{a onclick=b}{x}",
    r"\text{</math><script>}",
]


class Seen(HTMLParser):
    """The elements and attributes of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("latex", HOSTILE)
def test_a_formula_brings_no_markup_along(latex: str) -> None:
    for html in (mathml(latex), markdown_html(f"a ${latex}$ b"), markdown_html(f"$${latex}$$")):
        seen = Seen(html)
        assert "math" in seen.tags and not seen.tags & {"script", "img", "a"}
        assert not seen.attributes & {"href", "style", "class", "onerror", "onclick"}


def test_signs_of_formulas_stay() -> None:
    html = mathml(r"\sum_{i=1}^n \alpha_i < \text{A & B}")
    assert "<mo>∑</mo>" in html and "<mo>&lt;</mo>" in html and "A\xa0&amp;\xa0B" in html


def test_a_formula_too_long_for_one_is_its_source_and_takes_no_time() -> None:
    began = time.monotonic()
    assert mathml("x+" * 50_000).startswith('<code class="latex">')
    markdown_html("$$" + "{" * 100_000)
    assert time.monotonic() - began < 5


def test_markdown_in_code_attributes_and_links() -> None:
    assert markdown_html("`$x^2$`") == "<p><code>$x^2$</code></p>\n"
    assert "<code>$x^2$\n</code>" in markdown_html("```\n$x^2$\n```")
    assert 'title="$x^2$"' in markdown_html('<a title="$x^2$">b</a>')
    assert "<msup>" in markdown_html("<table><tr><td>$x^2$</td></tr></table>")
    pictures = markdown_html("![a](https://elsewhere.example/a.png) ![b](data:image/png;base64,AAAA)")
    assert "elsewhere" not in pictures and "AAAA" in pictures
    links = markdown_html('<a href="data:text/html,x">a</a> [b](https://e.example/)')
    assert "data:" not in links and "https://e.example/" in links


def region(id: str, text: str, doubtful: str, kind: RegionType = RegionType.TEXT, **more: object) -> Region:
    """A region whose tokens are its letters; the first `doubtful` in it is one of doubt."""
    at = text.index(doubtful)
    tokens = [Token(text=c, confidence=0.5 if i == at else 0.99) for i, c in enumerate(text)]
    values = {"id": id, "type": kind, "order": int(id[-1]), "box": (0, 0, 9, 9), "text": text, "tokens": tokens, **more}
    return Region.model_validate(values)


def views(*pages: list[Region]) -> list[tuple[str, int]]:
    made = [Page(number=n, width=100, height=100, dpi=72, regions=regions) for n, regions in enumerate(pages, 1)]
    found = block_views(Outcome(Document(name="d", pages=made), {}))
    return [(view.html, view.doubtful) for view in found]


def test_doubt_is_marked_in_every_part_of_a_paragraph() -> None:
    ((html, count),) = views(
        [region("p1r1", "Water rose in the val-", "W")], [region("p2r1", "ley at noon.", "n", continues="p1r1")]
    )
    assert count == 2 and html.count("<mark") == 2
    assert '<mark class="doubt" title="50% sure">W</mark>ater' in html and ">n</mark>oon" in html


def test_doubt_is_marked_in_the_cells_of_a_table() -> None:
    cells = [Cell(row=0, col=0, text="a<b"), Cell(row=0, col=1, text="12"), Cell(row=1, col=0, text="12")]
    ((html, count),) = views([region("p1r1", "a<b1213", "3", RegionType.TABLE, cells=cells)])
    assert count == 1 and "<mark" not in html  # a letter that the table does not have
    table = region("p1r1", "a<b1212", "b", RegionType.TABLE, cells=cells)
    ((html, count),) = views([table])
    assert '<td>a&lt;<mark class="doubt" title="50% sure">b</mark></td><td>12</td>' in html


def test_a_formula_in_the_text_is_shown_and_counted_but_not_marked() -> None:
    ((html, count),) = views([region("p1r1", "so $x^2$ holds", "2")])
    assert count == 1 and "<msup>" in html and "<mark" not in html


def test_a_list_is_a_list_with_doubt_in_its_items() -> None:
    text = "We need:\n- a well\n- two\n    - deep $x^2$"
    ((html, _),) = views([region("p1r1", text, "t", RegionType.LIST)])
    assert html.startswith("<p>We need:</p><ul><li>a well</li>") and "<ul><li>deep <math" in html
    assert '<li><mark class="doubt" title="50% sure">t</mark>wo' in html

"""Cells of a table <-> HTML, and -> a Markdown pipe table. Uses only the standard library's HTML parser.

Does not know OTSL (otsl.py) and keeps no formatting inside cells: a cell is plain text, line breaks kept as <br>.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from html.parser import HTMLParser

from derender.document import Cell

_MAX_SPAN = 1000  # what browsers allow for colspan; a wrong number must not fill the memory


def cells_to_html(cells: Sequence[Cell], pretty: bool = False, text_of: Callable[[Cell], str] | None = None) -> str:
    """One `<table>`: leading rows in which every cell is a header go into <thead>; other header cells are row headers.

    pretty puts each row on a line of its own (never an empty line, which would end an HTML block in Markdown).
    text_of: a cell's text as HTML, where it is to be more than escaped.
    """
    rows: list[list[Cell]] = [[] for _ in range(max((cell.row + cell.rowspan for cell in cells), default=0))]
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.col)):
        rows[cell.row].append(cell)
    head = _header_rows(cells, len(rows))
    parts = ["<table>"]
    for start, stop, tag in ((0, head, "thead"), (head, len(rows), "tbody")):
        if start < stop:
            parts += [
                f"<{tag}>",
                *(_row_html(row, tag == "thead", text_of or _escaped) for row in rows[start:stop]),
                f"</{tag}>",
            ]
    parts.append("</table>")
    return ("\n" if pretty else "").join(parts)


def _header_rows(cells: Sequence[Cell], rows: int) -> int:
    """How many rows from the top hold nothing but header cells that end above the body."""
    first_body = min((cell.row for cell in cells if not cell.header), default=rows)
    crossing = [cell.row for cell in cells if cell.row < first_body < cell.row + cell.rowspan]
    return min([first_body, *crossing])


def _escaped(cell: Cell) -> str:
    return escape(cell.text, quote=False).replace("\n", "<br>")


def _row_html(row: list[Cell], in_head: bool, text_of: Callable[[Cell], str]) -> str:
    parts = []
    for cell in row:
        tag = "th" if cell.header else "td"
        attributes = "" if in_head or not cell.header else ' scope="row"'
        attributes += f' rowspan="{cell.rowspan}"' if cell.rowspan > 1 else ""
        attributes += f' colspan="{cell.colspan}"' if cell.colspan > 1 else ""
        parts.append(f"<{tag}{attributes}>{text_of(cell)}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def cells_to_markdown(cells: Sequence[Cell], escape_cell: Callable[[str], str]) -> str | None:
    """A pipe table, its first row as header (Markdown has no table without one).

    None when Markdown cannot hold the table: a span, more than one header row, or no cell at all.
    """
    if not cells or any(cell.rowspan > 1 or cell.colspan > 1 for cell in cells):
        return None
    if any(cell.header and cell.row > 0 and cell.col > 0 for cell in cells):
        return None
    rows = max(cell.row for cell in cells) + 1
    cols = max(cell.col for cell in cells) + 1
    grid = [[""] * cols for _ in range(rows)]
    for cell in cells:
        grid[cell.row][cell.col] = "<br>".join(escape_cell(line) for line in cell.text.split("\n"))
    lines = [f"| {' | '.join(row)} |" for row in grid]
    return "\n".join([lines[0], f"|{' --- |' * cols}", *lines[1:]])


def html_to_cells(html: str) -> list[Cell]:
    """The cells of the first table in `html`, placed as a browser does. White space is folded, <br> is a line feed.

    Any HTML is accepted, unclosed tags too; text of nested tables stays in their cell. No table gives [].
    """
    parser = _TableParser()
    parser.feed(html)
    parser.close()
    parser.end_cell()
    return parser.cells


class _TableParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[Cell] = []
        self._taken: set[tuple[int, int]] = set()
        self._row = -1
        self._depth = 0
        self._done = False
        self._in_head = False
        self._text: list[str] | None = None
        self._spans = (1, 1)
        self._header = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._done:
            return
        if tag == "table":
            self._depth += 1
        if self._depth > 1:
            if tag in ("tr", "td", "th", "br") and self._text is not None:
                self._text.append(" ")
            return
        if tag in ("thead", "tbody", "tfoot"):
            self.end_cell()
            self._in_head = tag == "thead"
        elif tag == "tr":
            self.end_cell()
            self._row += 1
        elif tag in ("td", "th"):
            self.end_cell()
            self._row = max(self._row, 0)
            values = dict(attrs)
            self._spans = (_span(values.get("rowspan")), _span(values.get("colspan")))
            self._header = tag == "th" or self._in_head
            self._text = []
        elif tag == "br" and self._text is not None:
            self._text.append("\n")
        elif tag in ("p", "div", "li") and self._text:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._done:
            return
        if tag == "table":
            self._depth = max(0, self._depth - 1)
            if self._depth == 0:
                self.end_cell()
                self._done = True
        elif self._depth <= 1 and tag in ("td", "th", "tr", "thead", "tbody", "tfoot"):
            self.end_cell()
            if tag == "thead":
                self._in_head = False

    def handle_data(self, data: str) -> None:
        if self._text is not None and not self._done:
            self._text.append(data.replace("\n", " "))

    def end_cell(self) -> None:
        """Places the open cell, if any, at the next free column of its row."""
        if self._text is None:
            return
        text = "\n".join(" ".join(line.split()) for line in "".join(self._text).split("\n")).strip()
        self._text = None
        col = 0
        while (self._row, col) in self._taken:
            col += 1
        rowspan, colspan = self._spans
        while colspan > 1 and any((self._row, col + k) in self._taken for k in range(colspan)):
            colspan -= 1  # a span that would run over a cell from above ends before it
        self.cells.append(
            Cell(row=self._row, col=col, rowspan=rowspan, colspan=colspan, header=self._header, text=text)
        )
        self._taken.update((self._row + i, col + k) for i in range(rowspan) for k in range(colspan))


def _span(value: str | None) -> int:
    digits = (value or "1").strip()
    return min(max(int(digits), 1), _MAX_SPAN) if digits.isdecimal() and len(digits) < 9 else 1

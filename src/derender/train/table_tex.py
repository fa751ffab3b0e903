"""A share of the tables as TeX sets them and the real line detector finds them: what papers print.

    structure -> LaTeX -> PDF -> picture -> detector, rules, rule-based grid -> which piece stands in which cell

Each cell is set in a black of its own, by which its letters are known in the PDF; table_seen.py does the rest. Needs
pdflatex with booktabs, multirow, colortbl and the fonts below. Deterministic for one version of them. Trains nothing.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from PIL import Image

from derender.document import Box
from derender.errors import UsageError
from derender.formula.tex import tex_present, typeset_pages
from derender.layout.types import hull
from derender.table.types import TableGrid
from derender.train.table_boxes import Style, draw_style, runs
from derender.train.table_data import TableSample, tokens_of
from derender.train.table_seen import draw_typical, draw_words, seen
from derender.train.table_structure import CellPlan, Structure

BATCH = 20  # tables a run of TeX, all in one font
WIDEST = 2400  # pixels
_FONTS = ("", r"\usepackage{lmodern}", r"\usepackage{mathptmx}", r"\usepackage{mathpazo}", r"\usepackage{helvet}"
          r"\renewcommand\familydefault{\sfdefault}")  # fmt: skip
_HEAD = r"""\documentclass{article}
\usepackage[table]{xcolor}
\usepackage{array,booktabs,multirow}
%s
\usepackage[active,tightpage]{preview}
\setlength{\PreviewBorder}{4pt}
\hbadness=10000 \vbadness=10000
\begin{document}
"""


class TableTypesetter:
    """pdflatex and a line detector. Raises UsageError where pdflatex is missing or fails on a whole batch."""

    def __init__(self, threads: int = 1) -> None:
        from derender.layout.detect_lines import LineDetector
        from derender.layout.types import LayoutOptions

        if not tex_present():
            raise UsageError("typesetting tables needs pdflatex (Debian: texlive-latex-extra)")
        self._detector = LineDetector(LayoutOptions(threads=threads))
        self._batch: tuple[int, int] | None = None
        self._drawn: list[tuple[Image.Image, list[list[Box]]] | None] = []

    def sample(self, seed: int, index: int) -> TableSample:
        """Table `index` of `seed`, with the rule-based grid of its picture; its boxes are the grid's pieces. A table
        in which nothing is found, or that TeX complained of, has none."""
        batch = (seed, index // BATCH)
        if batch != self._batch:
            self._drawn = _draw(seed, index // BATCH)
            self._batch = batch
        rng, table, style = _plan(seed, index)
        drawn = self._drawn[index % BATCH]
        if drawn is None:
            size = (0.0, 0.0)
            tokens = tokens_of(table, [])
            return TableSample(size, (), (), tokens, table.rows, table.cols, table.head, style, grid=TableGrid(0, 0))
        return seen(rng, *drawn, table, style, self._detector)


def _plan(seed: int, index: int) -> tuple[np.random.Generator, Structure, Style]:
    rng = np.random.default_rng((seed, index, 8))
    return rng, draw_typical(rng), draw_style(rng)


def _draw(seed: int, batch: int) -> list[tuple[Image.Image, list[list[Box]]] | None]:
    """Pictures of a batch and where each cell's text stands in them; None for what TeX complained of."""
    import pypdfium2

    rng = np.random.default_rng((seed, batch, 9))
    plans = [_plan(seed, index) for index in range(batch * BATCH, (batch + 1) * BATCH)]
    sources = [table_tex(rng, table, style) for _, table, style in plans]
    result = typeset_pages(_HEAD % _FONTS[int(rng.integers(len(_FONTS)))], sources, 120.0)
    if result is None:
        raise UsageError("TeX set none of the tables: are booktabs, multirow and the fonts installed?")
    out: list[tuple[Image.Image, list[list[Box]]] | None] = []
    document = pypdfium2.PdfDocument(result.pdf)
    try:
        for page, good, (_, table, _) in zip(document, result.good, plans, strict=True):
            dpi = min(float(rng.integers(90, 221)), 72 * WIDEST / page.get_width())
            if not good or dpi < 72:
                out.append(None)
                continue
            picture = page.render(scale=dpi / 72).to_pil().convert("RGB")
            out.append((picture, _rectangles(page, len(table.cells), dpi / 72)))
    finally:
        document.close()
    return out


def black(cell: int) -> tuple[int, int, int]:
    """The colour of a cell's letters, each part below 16; for fewer than 4,096 cells."""
    return cell % 16, cell // 16 % 16, cell // 256


def _rectangles(page: Any, cells: int, scale: float) -> list[list[Box]]:
    """Lines of letters of each cell, in pixels of the page's picture."""
    import pypdfium2.raw as raw

    left, _, _, top = page.get_mediabox()
    number = {black(k): k for k in range(cells)}
    out: list[list[Box]] = [[] for _ in range(cells)]
    textpage = page.get_textpage()
    x0, x1, y0, y1 = (ctypes.c_double() for _ in range(4))
    parts = [ctypes.c_uint() for _ in range(4)]
    for i in range(textpage.count_chars()):
        if raw.FPDFText_IsGenerated(textpage, i) == 1 or not raw.FPDFText_GetFillColor(textpage, i, *parts):
            continue
        cell = number.get((parts[0].value, parts[1].value, parts[2].value))
        if cell is None or not raw.FPDFText_GetCharBox(textpage, i, x0, x1, y0, y1) or x1.value <= x0.value:
            continue
        box = (
            (x0.value - left) * scale,
            (top - y1.value) * scale,
            (x1.value - left) * scale,
            (top - y0.value) * scale,
        )
        lines = out[cell]
        if lines and min(lines[-1][3], box[3]) > max(lines[-1][1], box[1]) and box[0] >= lines[-1][0]:
            lines[-1] = hull([lines[-1], box])
        else:
            lines.append(box)
    return out


def table_tex(rng: np.random.Generator, table: Structure, style: Style) -> str:
    """A structure as a tabular of LaTeX; the letters of cell k are black(k)."""
    size = int(rng.integers(8, 13))
    booktabs = style == "half" and rng.random() < 0.75
    bold = r"\bfseries " if rng.random() < 0.4 else ""
    stacked = rng.random() < 0.4  # headings of several words are broken
    top = rng.random() < 0.25  # row headings stand at the top of their rows
    wide = _wide_columns(table)
    widths = {c: int(rng.integers(6, 17)) for c in sorted(wide)}
    ragged = r">{\raggedright\arraybackslash}" if rng.random() < 0.7 else ""
    bars = "|" if style == "ruled" else ""
    edge = bars if rng.random() < 0.8 else ""
    decimal = "r" if rng.random() < 0.6 else "c"
    letters = {"left": "l", "centre": "c", "right": "r", "decimal": decimal}
    columns = [f"{ragged}p{{{widths[c]}em}}" if c in wide else letters[a] for c, a in enumerate(table.aligns)]
    if edge or rng.random() < 0.5 or style == "ruled":
        spec = edge + bars.join(columns) + edge
    else:  # no white space outside the table
        spec = "@{}" + "".join(columns) + "@{}"

    def content(number: int, cell: CellPlan) -> str:
        wrapped = cell.col in wide and cell.colspan == 1 and cell.rowspan == 1
        text = _text(rng, table, cell, wrapped, stacked)
        red, green, blue = black(number)
        inked = rf"{{\color[RGB]{{{red},{green},{blue}}}{bold if cell.header else ''}{text}}}" if text else ""
        if wrapped and inked:
            inked = r"\leavevmode" + inked
        if cell.rowspan > 1:
            inked = rf"\multirow{'[t]' if top and not cell.header else ''}{{{cell.rowspan}}}{{*}}{{{inked}}}"
        return inked

    owner = table.owner()
    rows = []
    for r in range(table.rows):
        parts = []
        c = 0
        while c < table.cols:
            number = int(owner[r, c])
            cell = table.cells[number]
            inked = content(number, cell) if cell.row == r else ""
            if cell.colspan > 1 or (cell.header and c not in wide and rng.random() < 0.5):
                left = edge if c == 0 else ""
                right = edge if c + cell.colspan == table.cols else bars
                inked = rf"\multicolumn{{{cell.colspan}}}{{{left}c{right}}}{{{inked}}}"
            parts.append(inked)
            c += cell.colspan
        spanned = any(table.cells[int(n)].rowspan > 1 for n in owner[r])  # a colour would paint over their letters
        colour = r"\rowcolor[gray]{.9}" if style == "zebra" and r % 2 and r >= table.head and not spanned else ""
        rows.append(colour + " & ".join(parts) + r" \\")
    lines = _lines(rng, table, style, owner, booktabs, closed=bool(edge) or rng.random() < 0.8)
    body = " ".join(f"{line} {row}" for line, row in zip(lines, [*rows, ""], strict=True))
    return (
        rf"\fontsize{{{size}}}{{{size * 1.2:.1f}}}\selectfont\setlength{{\tabcolsep}}{{{rng.uniform(2.5, 12):.1f}pt}}"
        rf"\renewcommand{{\arraystretch}}{{{rng.uniform(0.9, 1.6):.2f}}}"
        rf"\begin{{tabular}}{{{spec}}} {body} \end{{tabular}}"
    )


def _wide_columns(table: Structure) -> set[int]:
    """Columns whose text is set in paragraphs."""
    return {
        cell.col
        for cell in table.cells
        if cell.colspan == cell.rowspan == 1 and not cell.header and (sum(cell.words) > 14 or cell.items)
    }


def _text(rng: np.random.Generator, table: Structure, cell: CellPlan, wrapped: bool, stacked: bool) -> str:
    words = [w.replace("%", r"\%").replace("−", "$-$") for w in draw_words(rng, table, cell)]
    if cell.items:
        items = [r"\textbullet\ " + " ".join(part) for part in np.array_split(words, cell.items)]
        return r"\newline ".join(items) if wrapped else r"\shortstack[l]{" + r" \\ ".join(items) + "}"
    if cell.header and stacked and len(words) > 1 and not wrapped:
        return r"\shortstack{" + r" \\ ".join(words) + "}"
    return " ".join(words) + (r"\textsuperscript{a}" if cell.mark else "")


def _lines(
    rng: np.random.Generator, table: Structure, style: Style, owner: np.ndarray, booktabs: bool, closed: bool
) -> list[str]:
    """The rules above each row, and below the last."""
    out = [""] * (table.rows + 1)
    if style in ("unruled", "zebra"):
        return out
    if closed:
        out[0], out[-1] = (r"\toprule", r"\bottomrule") if booktabs else (r"\hline", r"\hline")
    for border in range(1, table.rows):
        if style == "half":
            if border == table.head or rng.random() < 0.03:
                out[border] = r"\midrule" if booktabs else r"\hline"
            elif border < table.head:
                rule = r"\cmidrule(lr)" if booktabs else r"\cline"
                groups = [x for x in table.cells if x.row + x.rowspan == border and x.colspan > 1]
                out[border] = "".join(f"{rule}{{{x.col + 1}-{x.col + x.colspan}}}" for x in groups)
            continue
        free = owner[border - 1] != owner[border]
        out[border] = r"\hline" if free.all() else "".join(rf"\cline{{{a + 1}-{b}}}" for a, b in runs(free))
    return out

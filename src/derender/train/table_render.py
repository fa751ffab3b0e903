"""A share of the tables as a browser sets them and the real line detector finds them: what inference will see.

    structure -> HTML -> Chromium -> picture -> detector, rules, rule-based grid -> which piece stands in which cell

The browser says where each cell's text stands; table_seen.py does the rest.
Needs Chromium with its driver and the package selenium (not an extra: only this uses it). Deterministic for one version
of the browser and its fonts. Trains nothing.
"""

from __future__ import annotations

import io
import shutil
from html import escape
from typing import Any

import numpy as np
from PIL import Image

from derender.document import Box
from derender.errors import UsageError
from derender.train.table_boxes import Style, draw_style
from derender.train.table_data import TableSample
from derender.train.table_seen import draw_typical, draw_words, seen
from derender.train.table_structure import CellPlan, Structure

_FONTS = ("serif", "sans-serif", "DejaVu Sans", "Liberation Serif", "Liberation Sans", "Carlito", "Latin Modern Roman")
_RECTANGLES = """
const frame = document.getElementById('t').getBoundingClientRect();
return [...document.querySelectorAll('td, th')].map(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return [...range.getClientRects()].map(r =>
    [r.left - frame.left, r.top - frame.top, r.right - frame.left, r.bottom - frame.top]);
});"""


class TableRenderer:
    """A browser and a line detector. Use as a context manager. Raises UsageError where the browser or selenium is
    missing."""

    def __init__(self, threads: int = 1) -> None:
        from derender.layout.detect_lines import LineDetector
        from derender.layout.types import LayoutOptions

        self._driver = _browser()
        self._detector = LineDetector(LayoutOptions(threads=threads))

    def __enter__(self) -> TableRenderer:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.quit()

    def sample(self, seed: int, index: int) -> TableSample:
        """Table `index` of `seed`, with the rule-based grid of its picture; its boxes are the grid's pieces. A table
        in which nothing is found has none."""
        rng = np.random.default_rng((seed, index, 7))
        table = draw_typical(rng)
        style = draw_style(rng)
        return seen(rng, *self._draw(table_html(rng, table, style)), table, style, self._detector)

    def _draw(self, html: str) -> tuple[Image.Image, list[list[Box]]]:
        from selenium.webdriver.common.by import By

        self._driver.execute_script("document.body.innerHTML = arguments[0]", html)
        element = self._driver.find_element(By.ID, "t")
        rectangles = self._driver.execute_script(_RECTANGLES)
        picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
        return picture, [[(r[0], r[1], r[2], r[3]) for r in cell] for cell in rectangles]


def table_html(rng: np.random.Generator, table: Structure, style: Style) -> str:
    """A structure as HTML with inline styles, in a frame called t; cells in the order of `table.cells`."""
    em = int(rng.integers(10, 24))
    pad_y = float(rng.uniform(0.02, 0.5) if rng.random() < 0.8 else rng.uniform(0.5, 1.2))
    pad_x = float(rng.uniform(0.2, 0.6) if style == "ruled" else rng.uniform(0.4, 1.4))
    valign = str(rng.choice(["top", "middle", "bottom"], p=[0.55, 0.35, 0.1]))
    width = f"width:{int(rng.integers(18, 60))}em;" if rng.random() < 0.4 else ""
    room = min(75.0, 8 + table.cols * float(rng.uniform(3, 10)))
    stroke = f"{int(rng.integers(1, 3))}px solid {rng.choice(['#000', '#000', '#666', '#aaa'])}"
    outer = stroke if rng.random() < 0.8 else "none"
    bold = rng.random() < 0.6
    rows: list[list[str]] = [[] for _ in range(table.rows)]
    for cell in table.cells:
        css = [f"text-align:{_align(table, cell)}"]
        last = cell.row + cell.rowspan == table.rows
        if style == "ruled":
            css.append(f"border:{stroke}")
        elif style == "rows" and not last:
            css.append(f"border-bottom:{stroke}")
        elif style == "half" and cell.header and (cell.row + cell.rowspan == table.head or cell.colspan > 1):
            css.append(f"border-bottom:{stroke}")
        if style == "zebra" and cell.row % 2 and not cell.header:
            css.append("background:#e8e8ee")
        if cell.header and not bold:
            css.append("font-weight:normal")
        spans = "".join(f' {name}="{n}"' for name, n in (("rowspan", cell.rowspan), ("colspan", cell.colspan)) if n > 1)
        tag = "th" if cell.header else "td"
        rows[cell.row].append(f'<{tag}{spans} style="{";".join(css)}">{_content(rng, table, cell)}</{tag}>')
    edges = {
        "ruled": "" if outer != "none" else "border-style:hidden;",
        "rows": f"border-top:{outer};border-bottom:{outer};",
        "half": f"border-top:{stroke};border-bottom:{stroke};",
    }.get(style, "")
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f"<style>td,th{{padding:{pad_y:.2f}em {pad_x:.2f}em;vertical-align:{valign};"
        f"line-height:{rng.uniform(1.0, 1.35):.2f}}} body{{margin:0;background:#fff}}</style>"
        f'<div style="width:{room * em:.0f}px">'
        f'<div id="t" style="width:fit-content;padding:{int(rng.integers(1, 8))}px;'
        f'font:{em}px {_quoted(str(rng.choice(_FONTS)))};color:#000">'
        f'<table style="border-collapse:collapse;{width}{edges}">{body}</table></div></div>'
    )


def _quoted(font: str) -> str:
    return f"'{font}',serif" if " " in font else font


def _align(table: Structure, cell: CellPlan) -> str:
    align = table.aligns[cell.col]
    if cell.colspan > 1 or (cell.header and align != "left"):
        return "center"
    return {"left": "left", "centre": "center", "right": "right", "decimal": "right"}[align]


def _content(rng: np.random.Generator, table: Structure, cell: CellPlan) -> str:
    words = draw_words(rng, table, cell)
    if cell.items:
        return "<br>".join("• " + escape(" ".join(part)) for part in np.array_split(words, cell.items))
    return escape(" ".join(words)) + ("<sup>a</sup>" if cell.mark else "")


def _browser() -> Any:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        raise UsageError("drawing tables in a browser needs selenium: pip install selenium") from None
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        raise UsageError("drawing tables needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=2400,2400", "--hide-scrollbars"):
        options.add_argument(argument)
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.get("data:text/html;charset=utf-8,<!doctype html><html><body></body></html>")
    return made

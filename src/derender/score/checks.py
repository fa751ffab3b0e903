"""Yes/no checks on a page's Markdown in the manner of olmOCR-bench: present, absent, order, table, math.

The fuzzy threshold follows that benchmark: 1 - max_diffs / length, compared with rapidfuzz's partial ratio. The math
check differs: the benchmark renders both formulas in a browser, here the wanted formula's canonical tokens must occur
in a formula of the page. Numbers are therefore comparable between readers scored here, not with its leaderboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

from rapidfuzz import fuzz

from derender.score.evalset import Check
from derender.score.formula import contains_formula
from derender.score.markup import html_to_text, markdown_to_text
from derender.score.normalise import page_text

Grid = list[list[str]]  # spanned cells repeat their text in every place they cover
_SIDES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "−": "-"})
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|\$([^$\n]+?)\$", re.S)
_PIPE_ROW = re.compile(r"^\s*\|(.*)\|\s*$")
_PIPE_RULE = re.compile(r"^[\s|:-]+$")


@dataclass(frozen=True)
class CheckResult:
    id: str
    type: str
    passed: bool
    why: str = ""


def run_check(check: Check, markdown: str, plain: bool = False) -> CheckResult:
    """Runs one check on a page's Markdown; plain=True says that the text is not Markdown (its signs are literal).

    Raises ValueError for a type that is not one of the five.
    """
    text = _fold(markdown if plain else markdown_to_text(markdown))
    spec = check.spec
    if check.type in ("present", "absent"):
        passed, why = _presence(spec, text, check.type == "present")
    elif check.type == "order":
        passed, why = _order(spec, text)
    elif check.type == "table":
        passed, why = _table(spec, [] if plain else list(tables(markdown)))
    elif check.type == "math":
        found = [next(g for g in m if g) for m in _FORMULA.findall(markdown) if any(m)]
        passed = any(contains_formula(f, str(spec["math"])) for f in found)
        why = "" if passed else f"none of {len(found)} formulas has it"
    else:
        raise ValueError(f"Unknown type of check {check.type!r}.")
    return CheckResult(check.id, check.type, passed, why)


def tables(markdown: str) -> Iterator[Grid]:
    """All tables of the page, HTML ones first, then pipe tables."""
    for match in re.finditer(r"<table\b.*?</table>", markdown, re.S | re.I):
        yield _html_grid(match.group(0))
    rows: Grid = []
    for line in [*markdown.splitlines(), ""]:
        match_row = _PIPE_ROW.match(line)
        if match_row:
            if not _PIPE_RULE.match(line):
                cells = re.split(r"(?<!\\)\|", match_row.group(1))
                rows.append([_fold(markdown_to_text(c.replace("\\|", "|"))) for c in cells])
        elif rows:
            yield rows
            rows = []


def _fold(text: str) -> str:
    return page_text(text).translate(_QUOTES)


def _threshold(text: str, max_diffs: int) -> float:
    return 100.0 * (1.0 - max_diffs / max(1, len(text)))


def _presence(spec: dict[str, object], text: str, wanted: bool) -> tuple[bool, str]:
    needle = _fold(str(spec["text"]))
    first, last = _int(spec, "first_n"), _int(spec, "last_n")
    if first or last:
        text = (text[:first] if first else "") + (text[-last:] if last else "")
    if spec.get("case_sensitive") is False:
        needle, text = needle.casefold(), text.casefold()
    ratio = fuzz.partial_ratio(needle, text) if len(text) >= len(needle) else fuzz.ratio(needle, text)
    found = ratio >= _threshold(needle, _int(spec, "max_diffs"))
    return found == wanted, "" if found == wanted else f"best match {ratio:.0f}%"


def _order(spec: dict[str, object], text: str) -> tuple[bool, str]:
    slack = _int(spec, "max_diffs")
    before, after = (_fold(str(spec[k])) for k in ("before", "after"))
    if not before or not after:
        return False, "empty text"
    first = [fuzz.partial_ratio_alignment(n, text, score_cutoff=_threshold(n, slack)) for n in (before, after)]
    if len(text) < max(len(before), len(after)) or None in first:
        return False, "not both found"
    start = first[0].dest_start if first[0] else 0
    rest = text[start + 1 :]
    later = fuzz.partial_ratio(after, rest) if len(rest) >= len(after) else 0.0
    return later >= _threshold(after, slack), "the second does not follow the first"


def _table(spec: dict[str, object], grids: list[Grid]) -> tuple[bool, str]:
    cell, slack = str(spec["cell"]), _int(spec, "max_diffs")
    relations = [k for k in (*_SIDES, "top_heading", "left_heading") if spec.get(k)]
    seen = False
    for grid in grids:
        for r, row in enumerate(grid):
            for c, text in enumerate(row):
                if _same(text, cell, slack):
                    seen = True
                    if all(_related(grid, r, c, k, str(spec[k]), slack) for k in relations):
                        return True, ""
    return False, "no such neighbour" if seen else f"no such cell in {len(grids)} tables"


def _related(grid: Grid, r: int, c: int, relation: str, wanted: str, slack: int) -> bool:
    if relation in _SIDES:
        dr, dc = _SIDES[relation]
        here, (r, c) = grid[r][c], (r + dr, c + dc)
        while _at(grid, r, c) == here and here:  # inside the same spanned cell
            r, c = r + dr, c + dc
        return _same(_at(grid, r, c), wanted, slack)
    if relation == "top_heading":
        return any(_same(_at(grid, above, c), wanted, slack) for above in range(r))
    return any(_same(grid[r][left], wanted, slack) for left in range(c))


def _at(grid: Grid, r: int, c: int) -> str:
    return grid[r][c] if 0 <= r < len(grid) and 0 <= c < len(grid[r]) else ""


def _same(have: str, wanted: str, slack: int) -> bool:
    wanted = _fold(wanted)
    return bool(have) and fuzz.ratio(have, wanted) >= max(50.0, _threshold(wanted, slack))


def _int(spec: dict[str, object], name: str) -> int:
    value = spec.get(name) or 0
    return int(value) if isinstance(value, int | float) else 0


class _GridParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: dict[tuple[int, int], str] = {}
        self.row = -1
        self.open: tuple[int, int, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._close()
            self.row += 1
        elif tag in ("td", "th"):
            self._close()
            self.row = max(0, self.row)
            spans = {k: int(v) for k, v in attrs if v and v.isdigit()}
            self.open = (min(spans.get("rowspan", 1), 500), min(spans.get("colspan", 1), 500), "")
        elif self.open:
            self.open = (*self.open[:2], self.open[2] + " " * (tag == "br"))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._close()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open = (*self.open[:2], self.open[2] + data)

    def _close(self) -> None:
        if self.open:
            rows, cols, text = self.open
            self.open = None
            col = 0
            while (self.row, col) in self.cells:
                col += 1
            for r in range(max(1, rows)):
                for c in range(max(1, cols)):
                    self.cells[self.row + r, col + c] = text


def _html_grid(source: str) -> Grid:
    parser = _GridParser()
    parser.feed(source)
    parser.close()
    if not parser.cells:
        return []
    height, width = (1 + max(place[axis] for place in parser.cells) for axis in (0, 1))
    return [[_fold(html_to_text(parser.cells.get((r, c), ""))) for c in range(width)] for r in range(height)]

"""A folder of Markdown against OmniDocBench's annotation JSON (the format of v1.5; v1.6 has the same fields).

Matching, as done here (the benchmark's own differs in details, so figures are not those of its leaderboard):
1. The prediction is cut, in order, into HTML or pipe tables, display formulas ($$..$$ or \\[..\\]), and paragraphs
   (separated by blank lines), the latter stripped of markup. Blocks marked `ignore` and page furniture are no truth.
2. Truth blocks linked by a "truncated" relation are joined into one, at the place of the first.
3. Paragraphs: every pair of 1-4 neighbouring paragraphs with one true block, or of one paragraph with 2-4 true blocks
   neighbouring in reading order, has a cost: the normalised edit distance by page_text. Pairs are taken from the
   cheapest up, each paragraph and block once, up to a cost of 0.7.
4. Tables and formulas: pairs one to one, the cheapest first.
A page's `text_edit` is the sum of edits over the sum of the longer lengths of its pairs; an unmatched true block counts
wholly, an unmatched paragraph not at all (it may be furniture), but its characters make up `text_extra`.
`order_edit` compares the order of the matched blocks. Tables score `teds`, `teds_s` (0 if unmatched), formulas `edit`
on canonical tokens (1 if unmatched). No CDM and therefore no "overall" is computed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Levenshtein

from derender.errors import InputError
from derender.score.formula import formula_score
from derender.score.markup import html_to_text, markdown_to_text
from derender.score.metrics import ned
from derender.score.normalise import page_text
from derender.score.order import order_edit
from derender.score.teds import teds, teds_s
from derender.score.types import Row, Sample, ScoreReport, Skipped, summarise

TEXT_TYPES = frozenset(
    """title text_block figure_caption figure_footnote table_caption table_footnote equation_caption code_txt
    code_txt_caption code_algorithm reference""".split()
)
MAX_COST = 0.7
MAX_RUN = 4
_CUT = re.compile(
    r"(?P<html><table\b.*?</table>)|\$\$(?P<dollars>.+?)\$\$|\\\[(?P<brackets>.+?)\\\]"
    r"|(?P<pipes>(?:^[ \t]*\|[^\n]*\|[ \t]*$\n?){2,})",
    re.S | re.I | re.M,
)


@dataclass(frozen=True)
class OmniPage:
    """The truth of one page: text blocks in reading order (markup stripped, normalised), tables, formulas."""

    image: str
    language: str
    layout: str
    texts: tuple[str, ...]
    tables: tuple[str, ...]
    formulas: tuple[str, ...]


def load_annotations(path: Path) -> list[OmniPage]:
    """Pages of an annotation file. Raises InputError when it is not such a file."""
    try:
        return [_page(entry) for entry in json.loads(path.read_text("utf-8"))]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path.name} is not an OmniDocBench annotation file: {error!r}.") from error


def score_omnidocbench(pred: Path, annotations: Path) -> ScoreReport:
    """Scores pred/STEM.md for every page (STEM of its image's name). A missing file scores as an empty one."""
    report = ScoreReport(pred.name, annotations.name)
    for page in load_annotations(annotations):
        file = pred / f"{Path(page.image).stem}.md"
        if not file.is_file():
            report.skipped.append(Skipped("pages", page.image, "no prediction: scored as an empty one"))
        rows, sample = score_page(page, file.read_text("utf-8") if file.is_file() else "")
        report.rows += rows
        report.samples.append(sample)
    report.totals = summarise(report.rows)
    return report


def score_page(page: OmniPage, markdown: str) -> tuple[list[Row], Sample]:
    """Rows and sample of one page: see the module's head."""
    texts, tables, formulas = split_markdown(markdown)
    rows: list[Row] = []

    def add(task: str, metric: str, value: float) -> None:
        rows.append(Row(task, page.image, metric, value, page.layout))

    pairs = match_texts(texts, page.texts)
    used_p, used_t = {i for p, _ in pairs for i in p}, {i for _, t in pairs for i in t}
    edits = longest = 0
    for p, t in pairs:
        a, b = _join(texts, p), _join(page.texts, t)
        edits += Levenshtein.distance(a, b)
        longest += max(len(a), len(b))
    lost = sum(len(t) for i, t in enumerate(page.texts) if i not in used_t)
    edit = (edits + lost) / (longest + lost) if longest + lost else 0.0
    if page.texts:
        add("pages", "text_edit", edit)
        total = sum(map(len, texts))
        add(
            "pages", "text_extra", sum(len(t) for i, t in enumerate(texts) if i not in used_p) / total if total else 0.0
        )
        in_order = [t[0] for _, t in sorted(pairs)]
        add("pages", "order_edit", order_edit(in_order, sorted(in_order)) if in_order else 1.0)
    for i, j in _assign(page.tables, tables, lambda t, p: ned(page_text(html_to_text(p)), page_text(html_to_text(t)))):
        add("table", "teds", teds(tables[j], page.tables[i]) if j is not None else 0.0)
        add("table", "teds_s", teds_s(tables[j], page.tables[i]) if j is not None else 0.0)
    for i, j in _assign(page.formulas, formulas, lambda t, p: formula_score(p, t).edit):
        add("formula", "edit", formula_score(formulas[j], page.formulas[i]).edit if j is not None else 1.0)
    return rows, Sample("pages", page.image, "\n".join(texts), "\n".join(page.texts), edit, page.image)


def split_markdown(markdown: str) -> tuple[list[str], list[str], list[str]]:
    """(paragraphs without markup and normalised, tables as HTML, display formulas), each in order."""
    tables: list[str] = []
    formulas: list[str] = []

    def cut(match: re.Match[str]) -> str:
        html, dollars, brackets, pipes = match.groups()
        if html or pipes:
            tables.append(html or _pipes_to_html(pipes))
        else:
            formulas.append(dollars or brackets)
        return "\n\n"

    rest = _CUT.sub(cut, markdown)
    paragraphs = (page_text(markdown_to_text(p)) for p in re.split(r"\n\s*\n", rest))
    return [p for p in paragraphs if p], tables, formulas


def match_texts(pred: Sequence[str], truth: Sequence[str]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of (indices of neighbouring paragraphs, indices of neighbouring true blocks), sorted by place in pred."""
    runs = [(tuple(range(i, i + n)), n) for n in range(1, MAX_RUN + 1) for i in range(max(len(pred), len(truth)))]
    candidates = []
    for p, n in runs:
        if p[-1] < len(pred):
            for t, m in runs:
                if t[-1] < len(truth) and (n == 1 or m == 1):
                    a, b = _join(pred, p), _join(truth, t)
                    cost = Levenshtein.normalized_distance(a, b, score_cutoff=MAX_COST)
                    if cost <= MAX_COST:
                        candidates.append((cost, p, t))
    taken_p: set[int] = set()
    taken_t: set[int] = set()
    pairs = []
    for _, p, t in sorted(candidates):
        if not (taken_p.intersection(p) or taken_t.intersection(t)):
            taken_p.update(p)
            taken_t.update(t)
            pairs.append((p, t))
    return sorted(pairs)


def _join(texts: Sequence[str], indices: Sequence[int]) -> str:
    return page_text("\n".join(texts[i] for i in indices))


def _assign(
    truth: Sequence[str], pred: Sequence[str], cost: Callable[[str, str], float]
) -> list[tuple[int, int | None]]:
    """For each truth the prediction it is matched to, cheapest pairs first, or None."""
    costs = sorted((cost(t, p), i, j) for i, t in enumerate(truth) for j, p in enumerate(pred))
    out: dict[int, int] = {}
    for _, i, j in costs:
        if i not in out and j not in out.values():
            out[i] = j
    return [(i, out.get(i)) for i in range(len(truth))]


def _pipes_to_html(source: str) -> str:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").render(source)


def _page(entry: dict[str, Any]) -> OmniPage:
    blocks = [b for b in entry["layout_dets"] if not b.get("ignore")]
    blocks.sort(key=lambda b: (b.get("order") is None, b.get("order") or 0))
    joined: dict[int, int] = {}
    for link in (entry.get("extra") or {}).get("relation", []):
        if link.get("relation_type") == "truncated":
            joined[link["target_anno_id"]] = joined.get(link["source_anno_id"], link["source_anno_id"])
    texts: dict[int, str] = {}
    for number, block in enumerate(blocks):
        if block["category_type"] in TEXT_TYPES and (block.get("text") or "").strip():
            own = block.get("anno_id", -1 - number)
            key = joined.get(own, own)
            texts[key] = (texts[key] + "\n" if key in texts else "") + block["text"]
    info = entry["page_info"]
    attribute = info.get("page_attribute") or {}
    return OmniPage(
        image=info["image_path"],
        language=str(attribute.get("language", "")),
        layout=str(attribute.get("layout", "")),
        texts=tuple(t for t in (page_text(markdown_to_text(v)) for v in texts.values()) if t),
        tables=tuple(b["html"] for b in blocks if b["category_type"] == "table" and "<table" in (b.get("html") or "")),
        formulas=tuple(b["latex"] for b in blocks if b["category_type"] == "equation_isolated" and b.get("latex")),
    )

"""A folder of Markdown against OmniDocBench's annotation JSON (v1.5 and v1.6: omnidocbench_format.py).

Matching, as done here (the benchmark's own differs in details, so figures are not those of its leaderboard):
1. The prediction is cut, in order, into HTML or pipe tables, display formulas ($$..$$ or \\[..\\]), and paragraphs
   (separated by blank lines), the latter stripped of markup.
2. Paragraphs: every pair of 1-4 neighbouring paragraphs with one true block, or of one paragraph with 2-4 true blocks
   neighbouring in reading order, has a cost: the normalised edit distance by page_text. Pairs are taken from the
   cheapest up, each paragraph and block once, up to a cost of 0.7.
3. Tables and formulas: pairs one to one, the cheapest first.
A page's `text_edit` is the sum of edits over the sum of the longer lengths of its pairs; an unmatched true block counts
wholly, an unmatched paragraph not at all (it may be furniture), but its characters make up `text_extra`.
`order_edit` compares the order of the matched blocks. Tables score `teds`, `teds_s` (0 if unmatched), formulas `edit`
on canonical tokens (1 if unmatched) and, on request, `cdm` (cdm_rows.py); with it goes the `overall` of all three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from derender.score.formula import formula_score
from derender.score.markup import html_to_text, markdown_to_text
from derender.score.metrics import ned
from derender.score.normalise import page_text
from derender.score.omnidocbench_format import OmniPage, load_annotations, version_of
from derender.score.order import order_edit
from derender.score.teds import teds, teds_s
from derender.score.types import Row, Sample, ScoreReport, Skipped, Total, summarise

MAX_COST = 0.7
MAX_RUN = 4
_CUT = re.compile(
    r"(?P<html><table\b.*?</table>)|\$\$(?P<dollars>.+?)\$\$|\\\[(?P<brackets>.+?)\\\]"
    r"|(?P<pipes>(?:^[ \t]*\|[^\n]*\|[ \t]*$\n?){2,})",
    re.S | re.I | re.M,
)


def score_omnidocbench(pred: Path, annotations: Path) -> ScoreReport:
    """Scores pred/STEM.md, or pred/STEM/STEM.md as `derender parse` writes it, for every page (STEM of its image's
    name). A missing file scores as an empty one. Raises InputError when `annotations` is not an annotation file.
    """
    pages = load_annotations(annotations)
    report = ScoreReport(pred.name, f"{annotations.name} (OmniDocBench {version_of(pages)})")
    for page in pages:
        markdown = _prediction(pred, Path(page.image).stem)
        if markdown is None:
            report.skipped.append(Skipped("pages", page.image, "no prediction: scored as an empty one"))
        for kind in page.unknown:
            report.skipped.append(Skipped("pages", page.image, f"blocks of the unknown type {kind!r} are left out"))
        rows, samples = score_page(page, markdown or "")
        report.rows += rows
        report.samples += samples
    report.totals = summarise(report.rows)
    return report


def add_overall(report: ScoreReport) -> None:
    """Adds the total `overall` = (1 - text_edit + CDM + TEDS) / 3, where all three were measured."""
    values = {(t.task, t.metric): t for t in report.totals}
    parts = [values.get(key) for key in (("pages", "text_edit"), ("formula", "cdm"), ("table", "teds"))]
    if all(parts):
        text, cdm, teds_ = (part.value for part in parts if part is not None)
        pages = values["pages", "text_edit"].n
        report.totals.append(Total("overall", "overall", (1 - text + cdm + teds_) / 3, pages))


def _prediction(folder: Path, stem: str) -> str | None:
    for file in (folder / f"{stem}.md", folder / stem / f"{stem}.md"):
        if file.is_file():
            return file.read_text("utf-8")
    return None


def score_page(page: OmniPage, markdown: str) -> tuple[list[Row], list[Sample]]:
    """Rows and samples of one page: see the module's head. The page's text is one sample, each table and formula one.

    Tables and formulas are named IMAGE#table-1, IMAGE#formula-1, ... in the truth's order.
    """
    texts, tables, formulas = split_markdown(markdown)
    rows: list[Row] = []

    def add(task: str, metric: str, value: float, file: str = page.image) -> None:
        rows.append(Row(task, file, metric, value, page.layout, subset=page.subset))

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
        extra = sum(len(t) for i, t in enumerate(texts) if i not in used_p)
        add("pages", "text_extra", extra / total if total else 0.0)
        in_order = [t[0] for _, t in sorted(pairs)]
        add("pages", "order_edit", order_edit(in_order, sorted(in_order)) if in_order else 1.0)
    samples = [Sample("pages", page.image, "\n".join(texts), "\n".join(page.texts), edit, page.image)]
    found_tables = assign(
        [b.source for b in page.tables],
        tables,
        lambda t, p: ned(page_text(html_to_text(p)), page_text(html_to_text(t))),
    )
    for i, j in found_tables:
        file, truth, table = f"{page.image}#table-{i + 1}", page.tables[i], tables[j] if j is not None else ""
        value = teds(table, truth.source) if table else 0.0
        add("table", "teds", value, file)
        add("table", "teds_s", teds_s(table, truth.source) if table else 0.0, file)
        samples.append(Sample("table", file, table, truth.source, 1 - value, page.image, box=truth.box))
    sources = [b.source for b in page.formulas]
    for i, j in assign(sources, formulas, lambda t, p: formula_score(p, t).edit):
        file, formula = f"{page.image}#formula-{i + 1}", formulas[j] if j is not None else ""
        value = formula_score(formula, sources[i]).edit if j is not None else 1.0
        add("formula", "edit", value, file)
        samples.append(Sample("formula", file, formula, sources[i], value, page.image, box=page.formulas[i].box))
    return rows, samples


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


def assign(
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

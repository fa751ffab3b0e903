"""Scores two files or two folders of files with equal names: .txt, .tex, .html, .md, or our own .json (Document).

What each ending is measured by: .txt `cer` (join_block), `ned`, `exact`; .tex `edit`, `exact` on canonical tokens;
.html `teds`, `teds_s`; .md `text_edit`, `word_precision`, `word_recall`, `bleu4` on the text without markup; .json
the same on the text of the body regions, and `page_iou`, `order_edit`, `order_found` of each pair of pages.
"""

from __future__ import annotations

from pathlib import Path

from derender.document import PARATEXT, Document, Page, load
from derender.errors import InputError
from derender.score.formula import formula_score
from derender.score.markup import markdown_to_text
from derender.score.metrics import bleu4, count_errors, exact, ned, word_scores
from derender.score.normalise import join_block, page_text
from derender.score.order import reading_order
from derender.score.pageiou import page_iou
from derender.score.teds import teds, teds_s
from derender.score.types import NormBox, Row, Sample, ScoreReport, Skipped, summarise

SUFFIXES = (".txt", ".tex", ".html", ".md", ".json")


def score_pairs(pred: Path, truth: Path) -> ScoreReport:
    """Two files of one kind, or two folders (searched recursively) whose files have the same relative names.

    A truth without a prediction scores as an empty one and is listed. Raises InputError when a path is missing, the
    kinds differ, or there is nothing to compare.
    """
    for path in (pred, truth):
        if not path.exists():
            raise InputError(f"{path} does not exist.")
    if pred.is_dir() != truth.is_dir():
        raise InputError("Give two files or two folders, not one of each.")
    report = ScoreReport(pred.name, truth.name)
    if truth.is_dir():
        found = sorted(p for p in truth.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        jobs = [(str(p.relative_to(truth)), pred / p.relative_to(truth), p) for p in found]
    else:
        if pred.suffix != truth.suffix:
            raise InputError(f"{pred.name} and {truth.name} are of different kinds.")
        jobs = [(truth.name, pred, truth)]
    if not jobs or jobs[0][2].suffix not in SUFFIXES:
        raise InputError(f"Nothing to compare: expected files ending in {', '.join(SUFFIXES)}.")
    for name, pred_file, truth_file in jobs:
        missing = not pred_file.is_file()
        if missing:
            report.skipped.append(Skipped("pairs", name, "no prediction: scored as an empty one"))
        rows, sample = _score(name, None if missing else pred_file, truth_file)
        report.rows += rows
        report.samples.append(sample)
    report.totals = summarise(report.rows)
    return report


def _score(name: str, pred_file: Path | None, truth_file: Path) -> tuple[list[Row], Sample]:
    suffix = truth_file.suffix
    if suffix == ".json":
        return _documents(name, load(pred_file) if pred_file else Document(name=name), load(truth_file))
    p = pred_file.read_text("utf-8") if pred_file else ""
    t = truth_file.read_text("utf-8")
    if suffix == ".txt":
        p, t = join_block(p), join_block(t)
        count = count_errors(p, t)
        rows = [Row("text", name, "cer", count.rate, weight=float(count.length))]
        return rows + _rows("text", name, ned=ned(p, t), exact=exact(p, t)), Sample("text", name, p, t, count.rate)
    if suffix == ".tex":
        s = formula_score(p, t)
        return _rows("formula", name, edit=s.edit, exact=float(s.exact)), Sample("formula", name, p, t, s.edit)
    if suffix == ".html":
        value = teds(p, t)
        return _rows("table", name, teds=value, teds_s=teds_s(p, t)), Sample("table", name, p, t, 1 - value)
    return _texts("pages", name, markdown_to_text(p), markdown_to_text(t))


def _texts(task: str, name: str, pred: str, truth: str) -> tuple[list[Row], Sample]:
    p, t = page_text(pred), page_text(truth)
    edit, words = ned(p, t), word_scores(p, t)
    values = {"text_edit": edit, "word_precision": words.precision, "word_recall": words.recall, "bleu4": bleu4(p, t)}
    return _rows(task, name, **values), Sample(task, name, p, t, edit)


def _documents(name: str, pred: Document, truth: Document) -> tuple[list[Row], Sample]:
    rows, sample = _texts("pages", name, *("\n".join(map(_body, d.pages)) for d in (pred, truth)))
    by_number = {page.number: page for page in pred.pages}
    for page in truth.pages:
        other = by_number.get(page.number)
        order = reading_order(_body(other) if other else "", _texts_of(page), min_chars=1)
        iou = page_iou(_boxes(other) if other else [], _boxes(page))
        label = f"{name}#page={page.number}"
        rows += _rows("pages", label, page_iou=iou, order_edit=order.edit, order_found=order.found)
    return rows, sample


def _texts_of(page: Page) -> list[str]:
    regions = sorted((r for r in page.regions if r.type not in PARATEXT), key=lambda r: r.order)
    return [r.text for r in regions if r.text.strip()]


def _body(page: Page) -> str:
    return "\n".join(_texts_of(page))


def _boxes(page: Page) -> list[NormBox]:
    w, h = page.width, page.height
    return [(r.box[0] / w, r.box[1] / h, r.box[2] / w, r.box[3] / h) for r in page.regions]


def _rows(task: str, name: str, **values: float) -> list[Row]:
    return [Row(task, name, metric, value) for metric, value in values.items()]

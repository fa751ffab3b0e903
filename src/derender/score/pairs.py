"""Scores two files or two folders of files with equal names: .txt, .tex, .html, .md, or our own .json (Document).

What each ending is measured by: .txt `cer` (join_block), `ned`, `exact`; .tex `edit`, `exact` on canonical tokens;
.html `teds`, `teds_s`; .md `text_edit`, `word_precision`, `word_recall`, `bleu4` on the text without markup; .json,
for each page of the truth: the same on the text of the body regions, `page_iou`, `order_edit`, `order_found`, and for
each of its tables and formulas what .html and .tex have (matched by content, cheapest first; unmatched ones as empty).

A picture (or PDF) beside the truth with the same name and another ending is what the report shows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from derender.document import PARATEXT, Document, Page, Region, RegionType, load
from derender.errors import InputError
from derender.score.formula import formula_score
from derender.score.markup import html_to_text, markdown_to_text
from derender.score.metrics import bleu4, count_errors, exact, ned, word_scores
from derender.score.normalise import join_block, page_text
from derender.score.omnidocbench import assign
from derender.score.order import reading_order
from derender.score.page_images import find_picture
from derender.score.pageiou import page_iou
from derender.score.teds import teds, teds_s
from derender.score.types import NormBox, Row, Sample, ScoreReport, Skipped, summarise

SUFFIXES = (".txt", ".tex", ".html", ".md", ".json")
Scored = tuple[list[Row], list[Sample]]


def score_pairs(pred: Path, truth: Path, images: Path | None = None) -> ScoreReport:
    """Two files of one kind, or two folders (searched recursively) whose files have the same relative names.

    images: folder in which pictures are looked for by those names; by default the truth's own. A truth without a
    prediction scores as an empty one and is listed. Raises InputError when a path is missing, the kinds differ, a file
    cannot be read as what its ending says, or there is nothing to compare.
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
        rows, samples = _score(name, None if missing else pred_file, truth_file)
        report.rows += rows
        picture = find_picture(images or (truth if truth.is_dir() else truth.parent), str(Path(name).with_suffix("")))
        report.samples += [replace(sample, image=picture) for sample in samples]
    report.totals = summarise(report.rows)
    return report


def _score(name: str, pred_file: Path | None, truth_file: Path) -> Scored:
    suffix = truth_file.suffix
    if suffix == ".json":
        return _documents(name, _load(pred_file) if pred_file else Document(name=name), _load(truth_file))
    p = _read(pred_file) if pred_file else ""
    t = _read(truth_file)
    if suffix == ".txt":
        p, t = join_block(p), join_block(t)
        count = count_errors(p, t)
        rows = [Row("text", name, "cer", count.rate, weight=float(count.length))]
        return rows + _rows("text", name, ned=ned(p, t), exact=exact(p, t)), [Sample("text", name, p, t, count.rate)]
    if suffix == ".tex":
        return _formula(name, p, t)
    if suffix == ".html":
        return _table(name, p, t)
    return _texts("pages", name, markdown_to_text(p), markdown_to_text(t))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as UTF-8 text: {error}.") from error


def _load(path: Path) -> Document:
    try:
        return load(path)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path.name} is not a document that derender wrote: {first}.") from error


def _formula(name: str, pred: str, truth: str) -> Scored:
    s = formula_score(pred, truth)
    return _rows("formula", name, edit=s.edit, exact=float(s.exact)), [Sample("formula", name, pred, truth, s.edit)]


def _table(name: str, pred: str, truth: str) -> Scored:
    try:
        value = teds(pred, truth)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error
    return _rows("table", name, teds=value, teds_s=teds_s(pred, truth)), [Sample("table", name, pred, truth, 1 - value)]


def _texts(task: str, name: str, pred: str, truth: str) -> Scored:
    p, t = page_text(pred), page_text(truth)
    edit, words = ned(p, t), word_scores(p, t)
    values = {"text_edit": edit, "word_precision": words.precision, "word_recall": words.recall, "bleu4": bleu4(p, t)}
    return _rows(task, name, **values), [Sample(task, name, p, t, edit)]


def _documents(name: str, pred: Document, truth: Document) -> Scored:
    by_number = {page.number: page for page in pred.pages}
    rows: list[Row] = []
    samples: list[Sample] = []
    for page in truth.pages:
        other = by_number.get(page.number)
        label = f"{name}#page={page.number}"
        scored = [_texts("pages", label, _body(other) if other else "", _body(page))]
        scored += _regions(label, other, page, RegionType.TABLE) + _regions(label, other, page, RegionType.FORMULA)
        for more, found in scored:
            rows += more
            samples += [replace(sample, page=page.number) for sample in found]
        order = reading_order(_body(other) if other else "", _texts_of(page), min_chars=1)
        iou = page_iou(_boxes(other) if other else [], _boxes(page))
        rows += _rows("pages", label, page_iou=iou, order_edit=order.edit, order_found=order.found)
    return rows, samples


def _regions(label: str, pred: Page | None, truth: Page, kind: RegionType) -> list[Scored]:
    """Tables or formulas of one page, each with the place of its truth."""
    table = kind is RegionType.TABLE

    def sources(page: Page | None) -> list[tuple[str, Region]]:
        found = [(r.html if table else r.latex, r) for r in (page.regions if page else []) if r.type is kind]
        return [(source, region) for source, region in found if source]

    def cost(t: str, p: str) -> float:
        return ned(page_text(html_to_text(p)), page_text(html_to_text(t))) if table else formula_score(p, t).edit

    have, wanted = [s for s, _ in sources(pred)], sources(truth)
    out = []
    for i, j in assign([s for s, _ in wanted], have, cost):
        source, region = wanted[i]
        name = f"{label}#{kind}-{i + 1}"
        rows, samples = (_table if table else _formula)(name, have[j] if j is not None else "", source)
        out.append((rows, [replace(s, box=_box(region, truth)) for s in samples]))
    return out


def _texts_of(page: Page) -> list[str]:
    regions = sorted((r for r in page.regions if r.type not in PARATEXT), key=lambda r: r.order)
    return [r.text for r in regions if r.text.strip()]


def _body(page: Page) -> str:
    return "\n".join(_texts_of(page))


def _boxes(page: Page) -> list[NormBox]:
    return [_box(region, page) for region in page.regions]


def _box(region: Region, page: Page) -> NormBox:
    x0, y0, x1, y1 = region.box
    return (x0 / page.width, y0 / page.height, x1 / page.width, y1 / page.height)


def _rows(task: str, name: str, **values: float) -> list[Row]:
    return [Row(task, name, metric, value) for metric, value in values.items()]

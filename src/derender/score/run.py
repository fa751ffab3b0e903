"""Scores a reader on an evaluation set: text, formula and table crops, and whole pages.

What is measured, by task (weights: characters of the truth for the rates, files for the rest):
- text: `cer` (line crops with white space folded, receipts case-folded too, block crops by join_block), `exact`,
  `cer_nospace` (all white space removed; Chinese truths have spaces that come from typesetting);
- formula: `edit` (canonical tokens, 0-1), `exact`. Not CDM, which needs TeX: formula.py;
- table: `teds`, `teds_s` (normalised: teds.py);
- pages: `text_edit` (text in reading order, edits / longer side, 0-1), `word_precision`, `word_recall`; for truths of
  kind "blocks" also `order_edit`, `order_found` and `line_cer` (each true line where it is found best, order ignored);
  for kind "tests" `checks` (1 for each check passed) by type. Files whose truth is another system's output have
  `text_edit_silver` and `word_recall_silver` instead, so that no total mixes them with real ground truth.

Reading is timed and one reader runs at a time. Files that cannot be scored are listed with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from derender.errors import DerenderError
from derender.score.checks import run_check
from derender.score.evalset import CropItem, Item, PageItem, load_evalset, load_image
from derender.score.formula import formula_score
from derender.score.markup import markdown_to_text, strip_bullets, tex_document_to_text
from derender.score.metrics import ErrorCount, count_errors, exact, ned, word_scores
from derender.score.normalise import drop_space, fold_case, fold_space, join_block, page_text
from derender.score.order import reading_order
from derender.score.teds import teds, teds_s
from derender.score.types import Reader, Reading, Row, Sample, ScoreReport, Skipped, summarise

Progress = Callable[[int, int, str], None]
Scored = tuple[list[Row], Sample]
FAILED = "failed:"
"""How the reason begins of a file that the reader could not read: its score is that of an empty text."""
NON_BODY_TYPES = frozenset({"formula", "table", "figure", "header", "footer", "page_number"})


def score_evalset(
    folder: Path,
    tasks: Sequence[str],
    reader: Reader,
    limit: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Reads and scores every item of the tasks ("text", "formula", "table", "pages").

    limit: at most so many items of each (task, group), the manifest's first. progress(done, total, file) is called
    before each item. A reader's DerenderError on one file scores as an empty reading and is listed in `skipped` as
    "failed: ..."; other exceptions are bugs and pass through. Raises InputError for a folder that is no evaluation set.
    """
    items = _limited(load_evalset(folder, tasks), limit)
    report = ScoreReport(reader.name, str(folder.name))
    for done, item in enumerate(items):
        if progress:
            progress(done, len(items), item.file)
        if isinstance(item, PageItem) and item.kind == "tex" and r"\lipsum" in item.text:
            report.skipped.append(Skipped(item.task, item.file, r"the LaTeX source has \lipsum in place of its text"))
        elif isinstance(item, CropItem):
            _add(report, *score_crop(item, _read(report, reader, item)))
        elif isinstance(item, PageItem):
            _add(report, *score_page(item, _parse(report, reader, item)))
        else:
            report.skipped.append(Skipped(item.task, item.file, "this task has expectations, not a score"))
    report.totals = summarise(report.rows)
    return report


def _limited(items: Sequence[Item], limit: int | None) -> list[Item]:
    seen: dict[tuple[str, str], int] = {}
    out = []
    for item in items:
        key = (item.task, item.group)
        seen[key] = seen.get(key, 0) + 1
        if limit is None or seen[key] <= limit:
            out.append(item)
    return out


def _add(report: ScoreReport, rows: list[Row], sample: Sample) -> None:
    report.rows += rows
    report.samples.append(sample)


def _read(report: ScoreReport, reader: Reader, item: CropItem) -> str:
    image = load_image(item.path)
    start = time.perf_counter()
    try:
        return reader.read_crops([image], item.kind, item.lang)[0]
    except DerenderError as error:
        report.skipped.append(Skipped(item.task, item.file, f"{FAILED} {error}"))
        return ""
    finally:
        report.seconds[item.task] = report.seconds.get(item.task, 0.0) + time.perf_counter() - start


def _parse(report: ScoreReport, reader: Reader, item: PageItem) -> Reading:
    start = time.perf_counter()
    try:
        reading = reader.parse_page(item.path, item.lang)
        report.pages += len(reading.pages)
        return reading
    except DerenderError as error:
        report.skipped.append(Skipped(item.task, item.file, f"{FAILED} {error}"))
        return Reading()
    finally:
        report.seconds[item.task] = report.seconds.get(item.task, 0.0) + time.perf_counter() - start


def score_crop(item: CropItem, pred: str) -> Scored:
    """Rows and sample of one crop: see the module's head for the metrics."""
    if item.kind == "formula":
        s = formula_score(pred, item.truth)
        rows = _rows(item, edit=s.edit, exact=float(s.exact))
        return rows, Sample(item.task, item.file, pred, item.truth, s.edit, item.file)
    if item.kind == "table":
        value = teds(pred, item.truth)
        rows = _rows(item, teds=value, teds_s=teds_s(pred, item.truth))
        return rows, Sample(item.task, item.file, pred, item.truth, 1.0 - value, item.file)
    fold = join_block if item.kind == "block" else fold_space
    p, t = fold(pred), fold(item.truth)
    if item.group == "receipt":
        p, t = fold_case(p), fold_case(t)
    count, bare = count_errors(p, t), count_errors(drop_space(p), drop_space(t))
    rows = [_rate(item, "cer", count), _rate(item, "cer_nospace", bare), *_rows(item, exact=exact(p, t))]
    return rows, Sample(item.task, item.file, p, t, count.rate, item.file)


def score_page(item: PageItem, reading: Reading) -> Scored:
    """Rows and sample of one document: see the module's head for the metrics."""
    if item.kind == "tests":
        return _score_checks(item, reading)
    pred = plain_text(reading, body_only=item.kind == "blocks")
    p, t = page_text(pred), page_text(truth_text(item))
    edit, words = ned(p, t), word_scores(p, t)
    if item.silver:
        rows = _rows(item, text_edit_silver=edit, word_recall_silver=words.recall)
    else:
        rows = _rows(item, text_edit=edit, word_precision=words.precision, word_recall=words.recall)
    if item.kind == "blocks":
        units = [line for block in item.blocks if block.body for line in block.text.splitlines()]
        order = reading_order(pred, units)
        rows += _rows(item, order_edit=order.edit, order_found=order.found)
        rows.append(_rate(item, "line_cer", order.text))
    return rows, Sample(item.task, item.file, p, t, edit, item.file)


def truth_text(item: PageItem) -> str:
    """Plain text of a page's truth in reading order, markup stripped, not yet normalised."""
    if item.kind == "markdown":
        return markdown_to_text(item.text)
    if item.kind == "tex":
        return tex_document_to_text(item.text)
    return strip_bullets("\n".join(b.text for b in item.blocks if b.body))


def plain_text(reading: Reading, body_only: bool = False) -> str:
    """Plain text of a reading: its Markdown stripped, or its blocks joined by line breaks.

    body_only leaves out blocks that the reader itself calls formula, table, figure or page furniture, for truths that
    leave those out too; readers without types are taken whole.
    """
    if body_only and any(b.type for b in reading.blocks):
        return strip_bullets("\n".join(b.text for b in reading.blocks if b.type not in NON_BODY_TYPES))
    if reading.markdown is not None:
        return markdown_to_text(reading.markdown)
    return strip_bullets("\n".join(b.text for b in reading.blocks))


def _score_checks(item: PageItem, reading: Reading) -> Scored:
    rows: list[Row] = []
    failed: list[str] = []
    for check in item.checks:
        page = reading.pages[check.page - 1] if check.page <= len(reading.pages) else None
        plain = page is None or page.markdown is None
        text = "" if page is None else page.markdown or "\n".join(b.text for b in page.blocks)
        result = run_check(check, text, plain)
        rows.append(Row(item.task, item.file, "checks", float(result.passed), result.type))
        if not result.passed:
            failed.append(f"{result.type} {result.id}: {result.why}")
    error = len(failed) / len(rows) if rows else 0.0
    return rows, Sample(item.task, item.file, plain_text(reading), "\n".join(failed), error, item.file)


def _rows(item: Item, **values: float) -> list[Row]:
    return [Row(item.task, item.file, name, value, item.group) for name, value in values.items()]


def _rate(item: Item, name: str, count: ErrorCount) -> Row:
    return Row(item.task, item.file, name, count.rate, item.group, float(count.length))


def worst(report: ScoreReport, n: int = 10) -> Iterator[Sample]:
    """The n samples with the highest error, worst first."""
    yield from sorted(report.samples, key=lambda s: -s.error)[:n]

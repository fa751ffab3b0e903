"""CDM for a finished report: `cdm` and `cdm_exact` rows of every formula that was compared, all rendered together.

Needs pdflatex and scipy; without them `require_cdm` says so before anything is read. Compares no formula itself
(cdm.py).
"""

from __future__ import annotations

from derender.errors import MissingExtraError
from derender.score.cdm import cdm_all
from derender.score.cdm_boxes import require_tex
from derender.score.types import Row, ScoreReport, Skipped, summarise


def require_cdm() -> None:
    """Raises MissingExtraError when formulas cannot be rendered or matched here."""
    require_tex()
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("CDM needs scipy: pip install 'derender[score]'.") from error


def add_cdm(report: ScoreReport) -> None:
    """Adds rows `cdm` (0-1) and `cdm_exact` (1 when every token matches) for each sample of task "formula", and renews
    the totals. A truth that TeX does not accept is listed as not scored. Raises MissingExtraError as require_cdm.
    """
    require_cdm()
    samples = [s for s in report.samples if s.task == "formula"]
    known = {(r.task, r.file): r for r in report.rows}
    if not samples:
        report.skipped.append(Skipped("formula", report.evalset, "there is no formula that CDM could compare"))
    for sample, result in zip(samples, cdm_all([(s.pred, s.truth) for s in samples]), strict=True):
        if result is None:
            report.skipped.append(Skipped("formula", sample.file, "TeX does not accept the true formula: no CDM"))
            continue
        like = known.get((sample.task, sample.file))
        group, subset = (like.group, like.subset) if like else ("", "")
        for metric, value in (("cdm", result.f1), ("cdm_exact", float(result.exact))):
            report.rows.append(Row(sample.task, sample.file, metric, value, group, subset=subset))
    report.totals = summarise(report.rows)

"""`derender parse --ray`: from the command line's settings to a run on a cluster. Option checks and exit codes only."""

from __future__ import annotations

import json
from collections.abc import Sequence

from derender.cli_batch import BatchOptions, settings_of
from derender.config import ParseOptions
from derender.scale.plan import expand_uris
from derender.scale.progress import ScaleReporter
from derender.scale.run import ScaleOptions, run_scale
from derender.scale.work import Job

INTERRUPTED = 130


def parse_on_ray(
    inputs: Sequence[str],
    out: str,
    options: ParseOptions,
    batch: BatchOptions,
    scale: ScaleOptions,
    *,
    recursive: bool = False,
    quiet: bool = False,
) -> int:
    """Reads the inputs on a Ray cluster and writes to the path or URI `out` (batch.out is not looked at); returns the
    exit code. Raises UsageError,
    MissingExtraError, ModelError and, when the cluster fails, DerenderError.
    """
    settings = json.dumps({**settings_of(options, batch), "formats": batch.formats}, sort_keys=True)
    job = Job(out, options, batch.formats, settings, batch.keep_paratext, batch.page_markers)
    documents = expand_uris(inputs, recursive)
    report = ScaleReporter(quiet)
    try:
        code = run_scale(documents, job, scale, report)
    except KeyboardInterrupt:
        report.interrupted()
        return INTERRUPTED
    report.summary(out)
    return code

"""The command `derender score`: two files or folders against each other, or a reader on an evaluation set.

Only arguments, messages and files; measuring is in run.py and pairs.py. Raises DerenderError subclasses, which the
main command line turns into one line and an exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from derender.cli_options import DecodeChoice
from derender.errors import UsageError


def score(
    pred: Annotated[
        Path | None, typer.Argument(help="Predictions: a file or folder (.txt, .tex, .html, .md, .json)")
    ] = None,
    truth: Annotated[
        Path | None, typer.Argument(help="Ground truth: same names and endings, or OmniDocBench's .json")
    ] = None,
    evalset: Annotated[
        Path | None, typer.Option(help="Evaluation-set folder (with manifest.jsonl) to read and score")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks of the set: text,formula,table,pages")] = "text",
    reader: Annotated[str, typer.Option(help="derender, tesseract, rapidocr or rapidocr-full")] = "derender",
    decode: Annotated[
        DecodeChoice | None,
        typer.Option(
            metavar="exact|sliding|block|ar",
            help="How the reader derender decodes [default: exact]",
            show_default=False,
        ),
    ] = None,
    cdm: Annotated[bool, typer.Option("--cdm", help="Render formulas with pdflatex and add CDM")] = False,
    images: Annotated[
        Path | None, typer.Option(help="Folder with the pictures of the pages or crops, for --html")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows and totals to this file")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page with crops and differences")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many files of each task and group")] = None,
    files: Annotated[bool, typer.Option(help="Print one line for each file too")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no tables")] = False,
) -> None:
    """Scores predictions against ground truth, or a reader on an evaluation set."""
    from rich.console import Console
    from rich.progress import Progress

    from derender.score.report import print_report, write_json

    if (evalset is None) == (pred is None or truth is None):
        raise UsageError("Give either PRED and TRUTH, or --evalset FOLDER.")
    if images is not None and evalset is not None:
        raise UsageError("--images goes with PRED and TRUTH: an evaluation set has its own pictures.")
    if decode is not None and (evalset is None or reader != "derender"):
        raise UsageError("--decode is for the reader derender on an --evalset.")
    if cdm:
        from derender.score.cdm_rows import require_cdm

        require_cdm()  # before anything is read
    folder = evalset
    against_annotations = pred is not None and pred.is_dir() and truth is not None and truth.suffix == ".json"
    if evalset is not None:
        from derender.score.readers import make_reader
        from derender.score.run import score_evalset

        system = make_reader(reader, decode)
        with Progress(console=Console(stderr=True), disable=quiet or not Console(stderr=True).is_terminal) as bar:
            job = bar.add_task("scoring", total=None)

            def show(done: int, total: int, file: str) -> None:
                bar.update(job, completed=done, total=total, description=file)

            wanted = [t.strip() for t in tasks.split(",") if t.strip()]
            report = score_evalset(evalset, wanted, system, limit=limit, progress=show)
    else:
        from derender.score.omnidocbench import score_omnidocbench
        from derender.score.pairs import score_pairs

        assert pred is not None and truth is not None
        folder = images
        if against_annotations:
            folder = folder or (truth.parent / "images" if (truth.parent / "images").is_dir() else None)
            report = score_omnidocbench(pred, truth)
        else:
            folder = folder or (truth if truth.is_dir() else truth.parent)
            report = score_pairs(pred, truth, folder)
    if cdm:
        from derender.score.cdm_rows import add_cdm

        add_cdm(report)
    if against_annotations:
        from derender.score.omnidocbench import add_overall

        add_overall(report)
    if not quiet:
        print_report(report, Console(), files=files)
    if json_file is not None:
        write_json(report, json_file)
    if html_file is not None:
        from derender.score.html_report import write_html

        write_html(report, html_file, folder)

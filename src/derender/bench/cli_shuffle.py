"""The command `derender bench shuffle`: arguments, messages and files. Measuring is in shuffle.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from derender.errors import UsageError

if TYPE_CHECKING:
    from derender.bench.shuffle_sheet import Sheet


def shuffle(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for shuffle.md, shuffle.png and shuffle.json.")],
    source: Annotated[
        Path | None,
        typer.Argument(help="A PDF with a text layer, or a text file; without it, prose that comes with Python."),
    ] = None,
    pages: Annotated[str | None, typer.Option(help="Pages of the PDF, such as 1-3,7.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Pages made from text.")] = 8,
    words: Annotated[int, typer.Option(min=20, help="Words on a page made from text.")] = 200,
    font: Annotated[Path | None, typer.Option(help="Font file for pages made from text.")] = None,
    fractions: Annotated[str, typer.Option(help="Shares of permuted words.")] = "0,.2,.4,.6,.8,1",
    modes: Annotated[str, typer.Option(help="Decode modes.")] = "ar,block,sliding,exact",
    no_draft: Annotated[
        str, typer.Option(help="Modes read again without the tower's reading as a draft.")
    ] = "ar,block",
    peers: Annotated[str, typer.Option(help="Other programs: rapidocr, tesseract.")] = "rapidocr,tesseract",
    dpi: Annotated[float, typer.Option(help="Resolution of the pictures that are read.")] = 100.0,
    blur: Annotated[float, typer.Option(help="Blur of the pictures: sigma in pixels.")] = 0.0,
    noise: Annotated[float, typer.Option(help="Grain of the pictures: standard deviation, 1 = full scale.")] = 0.0,
    rule: Annotated[str, typer.Option(help="Commit rule of block and sliding.")] = "threshold:0.95",
    threads: Annotated[int, typer.Option(min=1, help="Processor threads.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of pages, permutations and grain.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Permute the words of pages and see how much worse each decode mode, and each other program, reads them."""
    from rich.console import Console

    from derender.bench.cli import model_hashes, numbers, words_of
    from derender.bench.machine import describe_machine
    from derender.bench.shuffle import ShuffleOptions, run_shuffle
    from derender.bench.shuffle_report import write_shuffle

    options = ShuffleOptions(
        modes=words_of(modes),
        no_draft=words_of(no_draft),
        peers=words_of(peers),
        fractions=numbers(fractions),
        dpi=dpi,
        blur=blur,
        noise=noise,
        rule=rule,
        threads=threads,
        seed=seed,
    )
    is_pdf = source is not None and _is_pdf(source)
    if pages and not is_pdf:
        raise UsageError("--pages chooses pages of a PDF")
    sheets: Iterator[Sheet]
    if is_pdf and source is not None:
        from derender.bench.shuffle_source import pdf_sheets

        sheets, name = pdf_sheets(source, pages), source.name
    else:
        from derender.bench.shuffle_source import built_in_prose, prose_of_file, prose_sheets

        paragraphs = prose_of_file(source) if source else built_in_prose()
        name = f"text of {source.name}" if source else "prose of Python's language reference"
        sheets = prose_sheets(paragraphs, count, words, seed, font)
        name += f" in {font.name}" if font else ""
    machine = describe_machine(threads, "wall")
    with Console(stderr=True).status("composing pages") as line:
        report = run_shuffle(sheets, options, name, (lambda _text: None) if quiet else line.update)
    write_shuffle(report, machine, model_hashes(None, None), out)


def _is_pdf(path: Path) -> bool:
    from derender.errors import InputError

    try:
        with path.open("rb") as file:
            return b"%PDF-" in file.read(1024)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror or error}.") from error

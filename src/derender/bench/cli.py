"""`derender bench`: arguments, messages and files of the benchmarks. Measuring is in speed.py, sweep.py, memory.py
and score/peers.py; shuffle has its own cli_shuffle.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from derender.bench.cli_shuffle import shuffle
from derender.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Measure decode modes, and derender beside other readers.")


@app.callback()
def bench() -> None:
    """Measure decode modes, and derender beside other readers."""


@app.command()
def speed(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for speed.md, speed.png, speed.json (a list of rows) and speed_more.json."
        ),
    ],
    inputs: Annotated[
        list[Path] | None, typer.Argument(help="Crops (with their truth beside them as .txt), pages, or folders.")
    ] = None,
    evalset: Annotated[Path | None, typer.Option(help="Evaluation-set folder (with manifest.jsonl).")] = None,
    tasks: Annotated[str, typer.Option(help="Tasks of the set: text, pages or both.")] = "text",
    modes: Annotated[str, typer.Option(help="Modes beside ar.")] = "ar,block,sliding,exact",
    thresholds: Annotated[str, typer.Option(help="Confidence thresholds.")] = ".5,.6,.75,.85,.9,.95,.97,.99",
    regimes: Annotated[str, typer.Option(help="How regions are batched.")] = "region,page,saturated",
    runtime: Annotated[str, typer.Option(help="Runtimes: onnx, torch.")] = "onnx,torch",
    checkpoint: Annotated[
        Path | None, typer.Option(help="checkpoint.pt for torch, instead of the same weights.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Folder of an export, instead of the packaged weights.")] = None,
    float32: Annotated[Path | None, typer.Option(help="Folder of a float32 export, to compare int8 with.")] = None,
    block: Annotated[int, typer.Option(min=1, help="Block and window, in tokens.")] = 32,
    threads: Annotated[int, typer.Option(min=1, help="Processor threads.")] = 2,
    repeat: Annotated[int, typer.Option(min=1, help="How often each configuration runs; medians count.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="Most files of each kind.")] = None,
    clock: Annotated[str, typer.Option(help="wall, or cpu: processor time, for machines with other work.")] = "wall",
    sweep: Annotated[bool, typer.Option(help="Sweep block size, steps and rule instead; writes sweep.md.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Time ar, block, sliding and exact on the same regions, weights and threads."""
    from rich.console import Console

    from derender.bench.samples import load_samples
    from derender.bench.speed import SpeedOptions, make_runtimes, measure_speed

    if not inputs and evalset is None:
        raise UsageError("give crops, pages or folders to measure on, or --evalset FOLDER")
    names = words_of(runtime)
    options = SpeedOptions(words_of(modes), numbers(thresholds), words_of(regimes), block, threads, repeat, clock)
    status = Console(stderr=True)
    with status.status("reading") as line:
        say = (lambda _text: None) if quiet else (lambda text: line.update(text))
        found, tower = load_samples(inputs or [], evalset, words_of(tasks), limit, threads, say)
        runtimes, notes = make_runtimes(names, tower.vocab, threads, checkpoint, float32, weights)
        for note in notes:
            status.print(note)
        out.mkdir(parents=True, exist_ok=True)
        if sweep:
            from derender.bench.machine import describe_machine
            from derender.bench.report import write_sweep
            from derender.bench.sweep import run_sweep

            rows = run_sweep(found, tower.vocab, next(iter(runtimes.values())), progress=say)
            write_sweep(rows, describe_machine(threads, clock), model_hashes(weights, None), out)
            return
        report = measure_speed(found, tower.vocab, runtimes, options, say)
    report.notes += notes
    _write(report, threads, clock, model_hashes(weights, checkpoint), out)


@app.command()
def overlap(
    batches: Annotated[str, typer.Option(help="Sequences decoded together.")] = "1,8",
    steps: Annotated[str, typer.Option(help="Denoising forwards of a block.")] = "4,8,16",
    tokens: Annotated[int, typer.Option(min=32, help="Length of each text.")] = 256,
    repeat: Annotated[int, typer.Option(min=1, help="How often each configuration runs; medians count.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Processor threads.")] = 2,
    clock: Annotated[str, typer.Option(help="wall, or cpu: processor time, for machines with other work.")] = "wall",
    device: Annotated[str | None, typer.Option(help="cuda, cpu or mps.", show_default=False)] = None,
    dtype: Annotated[str | None, typer.Option(help="bfloat16, float16 or float32.", show_default=False)] = None,
) -> None:
    """Time MinerU-Diffusion's decoder with and without the overlapped commit, on random weights of a middling size."""
    import torch

    from derender.bench.machine import processor_name
    from derender.mineru.bench import MIDDLING, OverlapOptions, measure_overlap, table
    from derender.mineru.checkpoint import place

    torch.set_num_threads(threads)
    counts = [tuple(int(n) for n in numbers(text)) for text in (batches, steps)]
    options = OverlapOptions(counts[0], counts[1], tokens, repeat=repeat, clock=clock, device=device, dtype=dtype)
    where = place(device, dtype)
    typer.echo(
        f"{MIDDLING.parameters / 1e6:.0f}M random weights, {where}, {processor_name()}, {threads} threads, "
        f"{'processor' if clock == 'cpu' else 'wall'} time, torch {torch.__version__}"
    )
    typer.echo(table(measure_overlap(options, say=lambda text: typer.echo(text, err=True))))


@app.command()
def peers(
    evalset: Annotated[Path, typer.Argument(help="Evaluation-set folder (with manifest.jsonl).")],
    tasks: Annotated[str, typer.Option(help="Tasks of the set: text,pages,formula,table.")] = "text,pages",
    readers: Annotated[
        str, typer.Option(help="derender, tesseract (the program), rapidocr, rapidocr-full.")
    ] = "derender,rapidocr,tesseract",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many files of each task and group.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table to this file too.")] = None,
) -> None:
    """Read the same files with derender and with other programs: accuracy, time and memory in one table.

    Readers run one after another, each in a process of its own; one that is not installed is named and left out.
    """
    from rich.console import Console

    from derender.errors import InputError
    from derender.score.peers import bench_peers, print_peers, write_peers

    if not (evalset / "manifest.jsonl").is_file():
        raise InputError(f"{evalset.name} is no evaluation set: it has no manifest.jsonl")
    results = bench_peers(evalset, words_of(tasks), words_of(readers), limit)
    print_peers(results, Console())
    if json_file is not None:
        write_peers(results, json_file)
    if all(r.report is None for r in results):
        raise InputError("no reader could be run")


@app.command()
def memory(
    document: Annotated[Path, typer.Argument(help="A PDF, whose pages are repeated.")],
    pages: Annotated[int, typer.Option(min=1, help="Pages to read.")] = 300,
    every: Annotated[int, typer.Option(min=1, help="Pages between two looks.")] = 50,
    threads: Annotated[int, typer.Option(min=1, help="Processor threads.")] = 2,
) -> None:
    """Read a document repeated to many pages, in OCR mode, and print the memory of the process as it goes on."""
    from derender.bench.memory import memory_over_pages, repeat_pages

    typer.echo("pages   MiB   seconds")
    memory_over_pages(
        repeat_pages(document, pages),
        every,
        threads,
        lambda p: typer.echo(f"{p.pages:5} {p.mib:5.0f} {p.seconds:9.1f}"),
    )


app.command()(shuffle)


def model_hashes(weights: Path | None, checkpoint: Path | None) -> dict[str, object]:
    """sha256 of the files of the weights that are measured, for reports."""
    from derender.bench.machine import file_hashes
    from derender.model.runtime_onnx import FILES
    from derender.model.tower import WEIGHTS

    hashes = file_hashes(weights or WEIGHTS, FILES) | file_hashes(WEIGHTS, ("tower.onnx",))
    if checkpoint is not None:
        hashes |= file_hashes(checkpoint.parent, (checkpoint.name,))
    return {"sha256": hashes}


def _write(report: object, threads: int, clock: str, model: dict[str, object], out: Path) -> None:
    from derender.bench.chart import draw_speed
    from derender.bench.machine import describe_machine
    from derender.bench.report import write_speed_json, write_speed_md
    from derender.bench.speed import SpeedReport

    assert isinstance(report, SpeedReport)
    machine = describe_machine(threads, clock)
    write_speed_json(report, machine, model, out / "speed.json")
    write_speed_md(report, machine, model, out / "speed.md")
    draw_speed(report.rows, f"{machine['processor']}, {threads} thread{'s' if threads != 1 else ''}").save(
        out / "speed.png"
    )


def words_of(text: str) -> tuple[str, ...]:
    """Parts of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(text: str) -> tuple[float, ...]:
    """Numbers of a list with commas. Raises UsageError for anything else."""
    try:
        return tuple(float(word) for word in words_of(text))
    except ValueError:
        raise UsageError(f"{text!r} is not a list of numbers such as .5,.9") from None

"""`derender train table`: samples, encoder, features, decoder, export, eval, each a thin command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from derender.train.table_encoder import Source


class Setter(StrEnum):
    """Who sets the generated tables."""

    none = "none"
    browser = "browser"
    tex = "tex"


_MARK = {Setter.none: "", Setter.browser: "b", Setter.tex: "t"}
app = typer.Typer(
    no_args_is_help=True,
    help="Train the table reader: tables are generated as boxes, an encoder says which stand in one row or column, and "
    "the decoder writes the structure.",
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")]
Threads = Annotated[int, typer.Option(help="Processor threads.")]
Seconds = Annotated[float | None, typer.Option(help="Stop after this time; a later run goes on.")]
Count = Annotated[int, typer.Option(help="Tables a file.")]
First = Annotated[int, typer.Option(help="Seed of the first file.")]
By = Annotated[
    Setter,
    typer.Option(
        help="Who sets them: none (boxes alone), a browser (needs Chromium, selenium), or tex (pdflatex); the "
        "last two are drawn, and found by the line detector."
    ),
]
Files = Annotated[int, typer.Option(help="How many files; one that exists is kept.")]


@contextmanager
def _source(by: Setter) -> Iterator[Source]:
    from derender.train.table_encoder import training_sample

    if by is Setter.browser:
        from derender.train.table_render import TableRenderer

        with TableRenderer() as renderer:
            yield renderer.sample
    elif by is Setter.tex:
        from derender.train.table_tex import TableTypesetter

        yield TableTypesetter().sample
    else:
        yield training_sample


@app.command()
def samples(out: Out, count: Count = 2600, first: First = 1, files: Files = 4, by: By = Setter.none) -> None:
    """Generate tables for the encoder: boxes, ruling lines, the rule-based grid, and which cell each box is of."""
    from derender.train.table_encoder import write_tables

    out.mkdir(parents=True, exist_ok=True)
    with _source(by) as source:
        for seed in range(first, first + files):
            path = out / f"tables-{_MARK[by]}{seed:05d}.npz"
            if not path.exists():
                typer.echo(f"{path.name}: {write_tables(seed, count, path, source=source)} tables")


@app.command()
def encoder(
    out: Out,
    inputs: Annotated[list[Path] | None, typer.Argument(help="Files of samples; without any, only exports.")] = None,
    steps: Annotated[int, typer.Option(help="Steps in all.")] = 5000,
    pairs: Annotated[int, typer.Option(help="Pairs of boxes a batch.")] = 30_000,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    seconds: Seconds = None,
    threads: Threads = 2,
) -> None:
    """Train the encoder, and export it as lines.onnx."""
    import torch

    from derender.model.table_export import export_table_encoder, load_table_encoder
    from derender.train.table_encoder import TableTrainer, load_tables

    torch.set_num_threads(threads)
    if inputs:
        TableTrainer([t for path in inputs for t in load_tables(path)], out, steps, pairs, lr).run(seconds)
    export_table_encoder(load_table_encoder(out / "checkpoint.pt"), out)


@app.command()
def features(
    out: Out,
    encoder: Annotated[Path, typer.Option(help="Folder of lines.onnx.")],
    count: Count = 2600,
    first: Annotated[int, typer.Option(help="Seed of the first file: tables that the encoder was not trained on.")] = (
        101
    ),
    files: Files = 2,
    by: By = Setter.none,
) -> None:
    """Run generated tables through the encoder: the decoder's training shards."""
    from derender.table.tower import TableTower
    from derender.train.table_decoder import write_features

    out.mkdir(parents=True, exist_ok=True)
    tower = TableTower(encoder, threads=1)
    with _source(by) as source:
        for seed in range(first, first + files):
            path = out / f"shard-{_MARK[by]}{seed:05d}.npz"
            if not path.exists():
                typer.echo(f"{path.name}: {write_features(seed, count, tower, path, source=source)} tables")


@app.command()
def decoder(
    shards: Annotated[Path, typer.Argument(help="Folder of `features`.")],
    out: Out,
    steps: Annotated[int, typer.Option(help="Steps in all.")] = 1500,
    rows: Annotated[int, typer.Option(help="Clean tokens a batch.")] = 1024,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    init: Annotated[Path | None, typer.Option(help="checkpoint.pt to start from.")] = None,
    hard: Annotated[Path | None, typer.Option(help="Stage II: hard set of `mine`; with --init.")] = None,
    below: Annotated[float, typer.Option(help="Stage II: consistency under which a table is hard.")] = 0.98,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Stage II: share of hard tables.")] = 0.67,
    seconds: Seconds = None,
    threads: Threads = 2,
) -> None:
    """Train the decoder."""
    from derender.train.mine import HardSet
    from derender.train.table_decoder import train, train_config

    found = HardSet.read(hard, below, share=share) if hard else None
    train(shards, out, train_config(steps, rows, threads, lr), seconds, found, init)


@app.command()
def mine(
    shards: Annotated[Path, typer.Argument(help="Folder of `features`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file to write.")],
    weights: Annotated[Path | None, typer.Option(help="Folder of an export; default: the packaged weights.")] = None,
    mode: Annotated[str, typer.Option(help="Decode mode: block or sliding.")] = "block",
    draws: Annotated[int, typer.Option(min=2, help="Stochastic readings of each table.")] = 4,
    threads: Threads = 1,
) -> None:
    """Stage II, first part: decode every table several times at temperature 1; how consistent they are by TEDS-S."""
    from derender.errors import InputError
    from derender.model.runtime_onnx import OnnxRuntime
    from derender.table.tower import TABLE_WEIGHTS
    from derender.table.vocabulary import TableVocab
    from derender.train.mine import hard_counts, mine_files
    from derender.train.table_mine import mine_tables

    runtime = OnnxRuntime(TableVocab(), weights or TABLE_WEIGHTS, threads)
    files = sorted(shards.glob("shard-*.npz"))
    if not files:
        raise InputError(f"no shards in {shards.name}; make some with `derender train table features`")
    found = mine_files(files, lambda path: mine_tables(path, runtime, mode, draws), out)
    typer.echo(hard_counts(found, "tables"))


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint.pt of the decoder.")],
    out: Out,
    encoder: Annotated[Path, typer.Option(help="Folder of lines.onnx, which is copied.")],
    shards: Annotated[Path, typer.Option(help="Folder of `features`, to calibrate on.")],
    float32: Annotated[bool, typer.Option(help="No int8.")] = False,
) -> None:
    """Write the folder that `derender` reads tables with."""
    from derender.train.reader_export import export_reader
    from derender.train.table_decoder import calibrate

    export_reader(checkpoint, out, None if float32 else calibrate, shards, encoder, ["lines.onnx"])


@app.command(name="eval")
def evaluate(
    weights: Annotated[Path | None, typer.Option(help="Folder of an export; default: the packaged weights.")] = None,
    modes: Annotated[str, typer.Option(help="Decode modes, ar first to have something to compare with.")] = (
        "ar,exact,sliding,block"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the tables; 9000 and above are never trained on.")] = 9001,
    count: Annotated[int, typer.Option(help="How many tables.")] = 200,
    by: By = Setter.none,
    threads: Threads = 1,
) -> None:
    """TEDS, TEDS-S and speed on generated tables, one at a time, with the rule-based grid and the encoder's draft."""
    from derender.decode.config import DecodeConfig
    from derender.recognise.structure import StructureReader
    from derender.train import table_eval

    configs = [DecodeConfig(mode=m.strip()) for m in modes.split(",")]  # type: ignore[arg-type]
    readers: dict[str, StructureReader] = {c.mode: StructureReader(c, threads, weights) for c in configs}
    with _source(by) as source:
        typer.echo("\n".join(table_eval.report(table_eval.evaluate(seed, count, readers, source))))

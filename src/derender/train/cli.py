"""`derender train`: data, run, export, each a thin command over the module of its name. Needs derender[train]."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Train the compact decoder: make data, train, export. Needs `pip install derender[train]`.",
)

Root = Annotated[Path, typer.Option(help="Folder that runs/sources.sh filled: PDFs, texts and word lists.")]
Shards = Annotated[Path, typer.Option(help="Folder of training shards.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of this run: checkpoint.pt and log.csv.")]
Threads = Annotated[int, typer.Option(help="Processor threads.")]


@app.command()
def data(
    root: Root,
    out: Shards,
    first: Annotated[int, typer.Option(help="Number of the first shard; shards are independent and resumable.")] = 0,
    shards: Annotated[int, typer.Option(help="How many shards to make.")] = 40,
    regions: Annotated[int, typer.Option(help="Regions a shard holds.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed; a region depends on it and its number only.")] = 0,
    held_out: Annotated[bool, typer.Option(help="Use only the fonts and PDFs that training never sees.")] = False,
    clean: Annotated[bool, typer.Option(help="No degradation at all (for measuring).")] = False,
    threads: Threads = 1,
) -> None:
    """Render, degrade and encode text regions into shards."""
    from derender.model.tower import Tower
    from derender.train.faces import list_faces
    from derender.train.features import DataConfig, RegionStream, make_shard
    from derender.train.text import load_corpus

    tower = Tower(threads=threads)
    faces, held_faces = list_faces(0.08)
    pdfs = sorted(root.rglob("*.pdf"))
    chosen = [p for i, p in enumerate(pdfs) if (i % 20 == 0) == held_out]
    config = DataConfig(seed=seed, regions_per_shard=regions, clean_share=1.0 if clean else 0.35)
    stream = RegionStream(config, chosen, load_corpus(root), held_faces if held_out else faces, tower.vocab)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + shards):
        if (out / f"shard-{number:05d}.npz").exists():
            continue
        made, columns = make_shard(stream, tower, number, out)
        typer.echo(f"shard {number}: {made} regions, {columns} columns")


@app.command()
def sheet(
    root: Root,
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    regions: Annotated[int, typer.Option(help="How many regions to draw.")] = 24,
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 0,
) -> None:
    """Draw a sheet of samples with their targets, to look at the data."""
    from derender.model.tower import Tower
    from derender.train.faces import list_faces
    from derender.train.features import DataConfig, RegionStream
    from derender.train.sheet import draw_sheet
    from derender.train.text import load_corpus

    pdfs = sorted(root.rglob("*.pdf"))
    stream = RegionStream(DataConfig(seed=seed), pdfs, load_corpus(root), list_faces()[0], Tower(threads=1).vocab)
    found = [region for i in range(regions) for region in stream.draw(i)[:2]]
    draw_sheet(found[:regions]).save(out)


@app.command()
def run(
    shards: Shards,
    out: Out,
    steps: Annotated[int, typer.Option(help="Optimiser steps in all; a rerun resumes.")] = 4000,
    seconds: Annotated[float | None, typer.Option(help="Stop after this long and save.")] = None,
    rows: Annotated[int, typer.Option(help="Target tokens a batch.")] = 1024,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-3,
    objective: Annotated[str, typer.Option(help="hybrid, or paper (masked prediction only).")] = "hybrid",
    certainty: Annotated[float, typer.Option(help="Weight of the certainty term in the last fifth.")] = 0.0,
    init: Annotated[Path | None, typer.Option(help="Checkpoint whose EMA weights to start from.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and noise.")] = 0,
    threads: Threads = 2,
) -> None:
    """Train the decoder on shards; resumes where the folder holds a checkpoint."""
    import torch

    from derender.model.config import DecoderConfig
    from derender.model.tower import WEIGHTS, Tower
    from derender.train.build_tower import ctc_head
    from derender.train.loop import ShardSet, TrainConfig, Trainer, load_decoder, new_decoder

    vocab = Tower(threads=1).vocab
    if init is None:
        model = new_decoder(DecoderConfig(), vocab, torch.from_numpy(ctc_head(WEIGHTS / "tower.onnx")), seed)
    else:
        model = load_decoder(init)
    config = TrainConfig(
        steps=steps, rows=rows, lr=lr, objective=objective, certainty=certainty, seed=seed, threads=threads
    )
    Trainer(model, ShardSet(shards, vocab), config, out).run(seconds)


@app.command("export")
def export_weights(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint.pt of a run.")],
    out: Annotated[Path, typer.Argument(help="Folder for decoder.onnx, prefill.onnx, tables.npz, config.json.")],
    shards: Annotated[Path | None, typer.Option(help="Shards to calibrate int8 with; without: float32.")] = None,
    threads: Threads = 2,
) -> None:
    """Write a checkpoint's EMA weights as the files that ONNX Runtime runs: int8 when calibrated."""
    import torch

    from derender.model.export import export
    from derender.model.tower import Tower
    from derender.train.calibrate import calibrate_on_shards
    from derender.train.loop import load_decoder

    torch.set_num_threads(threads)
    model = load_decoder(checkpoint).eval()
    scales = calibrate_on_shards(model, shards, Tower(threads=1).vocab) if shards else None
    export(model, out, scales)
    typer.echo(f"{'int8' if scales else 'float32'} weights in {out.name}{os.sep}")

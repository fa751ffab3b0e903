"""`derender train`: data, run, export, each a thin command over the module of its name. Needs derender[train]."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from derender.train.cli_formula import app as formula
from derender.train.cli_table import app as table

app = typer.Typer(
    no_args_is_help=True,
    help="Train the compact decoder: make data, train, export. Needs `pip install derender[train]`.",
)

app.add_typer(formula, name="formula")
app.add_typer(table, name="table")

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
    page_share: Annotated[float, typer.Option(min=0, max=1, help="Share of draws from pages of PDFs.")] = 0.6,
    chinese: Annotated[float, typer.Option(min=0, max=1, help="Share of Chinese in what is not from pages.")] = 0.2,
    held_out: Annotated[bool, typer.Option(help="Use only the fonts and PDFs that training never sees.")] = False,
    clean: Annotated[bool, typer.Option(help="No degradation at all (for measuring).")] = False,
    threads: Threads = 1,
) -> None:
    """Render, degrade and encode text regions into shards."""
    from derender.model.tower import Tower
    from derender.train.faces import list_faces
    from derender.train.features import DataConfig, RegionStream, make_shard
    from derender.train.render import Shares
    from derender.train.text import load_corpus

    tower = Tower(threads=threads)
    faces, held_faces = list_faces(0.08)
    pdfs = sorted(root.rglob("*.pdf"))
    chosen = [p for i, p in enumerate(pdfs) if (i % 20 == 0) == held_out]
    config = DataConfig(
        seed=seed,
        page_share=page_share,
        shares=Shares(chinese=chinese),
        regions_per_shard=regions,
        clean_share=1.0 if clean else 0.35,
    )
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
    warmup: Annotated[int, typer.Option(help="Steps until the peak learning rate.")] = 150,
    init: Annotated[Path | None, typer.Option(help="Checkpoint, or exported folder, to start from.")] = None,
    stage: Annotated[int, typer.Option(min=1, max=2, help="1: all regions; 2: hard ones and a replay.")] = 1,
    hard: Annotated[Path | None, typer.Option(help="Hard set of `derender train mine`, for stage 2.")] = None,
    below: Annotated[float, typer.Option(help="Stage 2: consistency under which a region is hard.")] = 0.98,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Stage 2: share of hard regions.")] = 0.67,
    clusters: Annotated[int, typer.Option(help="Stage 1: balance by so many clusters of regions (0: do not).")] = 0,
    objective: Annotated[str, typer.Option(help="hybrid, or paper (masked prediction only).")] = "hybrid",
    weighting: Annotated[str, typer.Option(help="Masked losses: mean, or inverse (times 1/t).")] = "mean",
    certainty: Annotated[float, typer.Option(help="Weight of the certainty term in the last fifth.")] = 0.0,
    blocks: Annotated[str, typer.Option(help="Block lengths drawn, as 8,16,32.")] = "8,16,32,32,32,48",
    counted: Annotated[bool, typer.Option(help="Character-count positions, or positions by place.")] = True,
    copying: Annotated[bool, typer.Option(help="Start with an output that copies the draft, or at random.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of weights and noise.")] = 0,
    micro: Annotated[int, typer.Option(help="Target tokens of one accumulation step.")] = 320,
    device: Annotated[str, typer.Option(help="cpu, or cuda (bfloat16 products).")] = "cpu",
    threads: Threads = 2,
) -> None:
    """Train the decoder on shards; resumes where the folder holds a checkpoint."""
    import torch

    from derender.errors import UsageError
    from derender.model.config import DecoderConfig
    from derender.model.restore import restore
    from derender.model.tower import WEIGHTS, Tower
    from derender.train.build_tower import ctc_head
    from derender.train.dataset import NoiseConfig
    from derender.train.loop import ShardSet, TrainConfig, Trainer, load_decoder, new_decoder
    from derender.train.mine import HardSet

    if (stage == 2) != (hard is not None):
        raise UsageError("stage 2 needs the hard set of `derender train mine` (--hard), and only stage 2 takes one")
    if objective not in ("hybrid", "paper") or weighting not in ("mean", "inverse"):
        raise UsageError("the objective is hybrid or paper, the weighting mean or inverse")
    if device != "cpu" and not torch.cuda.is_available():
        raise UsageError(f"this PyTorch has no device {device!r}: use cpu")
    lengths = tuple(int(b) for b in blocks.split(","))
    vocab = Tower(threads=1).vocab
    if init is None:
        head = torch.from_numpy(ctc_head(WEIGHTS / "tower.onnx"))
        shape = DecoderConfig(max_window=max(DecoderConfig.max_window, *lengths))
        model = new_decoder(shape, vocab, head, seed, copying)
    else:
        model = restore(init) if init.is_dir() else load_decoder(init)
    config = TrainConfig(
        steps=steps,
        rows=rows,
        lr=lr,
        warmup=warmup,
        objective=objective,
        weighting=weighting,
        clusters=clusters,
        certainty=certainty,
        seed=seed,
        micro=micro,
        device=device,
        threads=threads,
        noise=NoiseConfig(blocks=lengths),
    )
    found = HardSet.read(hard, below, share=share) if hard else None
    Trainer(model, ShardSet(shards, vocab, counted=counted, hard=found), config, out).run(seconds)


@app.command()
def mine(
    shards: Shards,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file to write.")],
    weights: Annotated[Path | None, typer.Option(help="Exported weights. [default: the shipped ones]")] = None,
    mode: Annotated[str, typer.Option(help="Decode mode: block or sliding.")] = "block",
    draws: Annotated[int, typer.Option(min=2, help="Stochastic readings of each region.")] = 4,
    limit: Annotated[int, typer.Option(min=1, help="At most so many shards.")] = 1000,
    threads: Threads = 1,
) -> None:
    """Stage II, first part: read every region several times at temperature 1 and write how consistent the texts are."""
    from derender.errors import InputError
    from derender.model.runtime_onnx import OnnxRuntime
    from derender.model.tower import Tower
    from derender.train.mine import hard_counts, mine_files, mine_shard

    vocab = Tower(threads=1).vocab
    runtime = OnnxRuntime(vocab, weights, threads=threads)
    files = sorted(shards.glob("shard-*.npz"))[:limit]
    if not files:
        raise InputError(f"no shards in {shards.name}; make some with `derender train data`")
    found = mine_files(files, lambda path: mine_shard(path, runtime, vocab, mode, draws), out)
    typer.echo(hard_counts(found, "regions"))


@app.command("eval")
def evaluate(
    shards: Shards,
    checkpoint: Annotated[Path | None, typer.Option(help="checkpoint.pt, run in PyTorch.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Exported folder, run in ONNX. [default: the shipped]")] = None,
    modes: Annotated[str, typer.Option(help="Decode modes.")] = "ar,exact,sliding,block",
    rule: Annotated[str, typer.Option(help="Commit rule of sliding and block.")] = "threshold:0.95",
    block: Annotated[int, typer.Option(help="Block or window length.")] = 32,
    limit: Annotated[int, typer.Option(min=1, help="At most so many regions.")] = 256,
    counted: Annotated[bool, typer.Option(help="Character-count positions, or positions by place.")] = True,
    threads: Threads = 1,
) -> None:
    """CER and tokens per forward on shards, with the bare CTC reading in the first row."""
    from dataclasses import replace

    import torch

    from derender.decode.config import DecodeConfig
    from derender.model.runtime_onnx import OnnxRuntime
    from derender.model.runtime_torch import TorchRuntime
    from derender.model.tower import Tower
    from derender.train.dataset import proportional
    from derender.train.evaluate import held_regions, read_regions
    from derender.train.loop import load_decoder

    torch.set_num_threads(threads)
    vocab = Tower(threads=1).vocab
    regions = held_regions(shards, vocab, limit)
    if not counted:
        regions = [replace(r, prefix=replace(r.prefix, position_P=proportional(r.prefix))) for r in regions]
    configs = [DecodeConfig(mode=m, rule=rule, block=block, window=block) for m in modes.split(",")]  # type: ignore[arg-type]
    runtime = TorchRuntime(load_decoder(checkpoint), vocab) if checkpoint else OnnxRuntime(vocab, weights, threads)
    for score in read_regions(runtime, regions, configs, vocab):
        typer.echo(
            f"{score.name:8s} CER {100 * score.cer:6.2f}%  tokens a forward {score.tokens_per_forward:5.1f}  "
            f"{score.seconds:6.1f} s  {score.regions} regions, {score.partial} partial"
        )


@app.command("clusters")
def show_clusters(
    shards: Shards,
    groups: Annotated[int, typer.Option(min=1, help="How many clusters.")] = 24,
    limit: Annotated[int, typer.Option(min=1, help="At most so many regions.")] = 4000,
) -> None:
    """Show the clusters that stage I balances by: size, chance to be drawn, kinds, CTC's errors, two readings."""
    from collections import Counter

    from derender.model.tower import Tower
    from derender.train.clusters import cluster
    from derender.train.evaluate import held_regions, micro_cer

    vocab = Tower(threads=1).vocab
    regions = held_regions(shards, vocab, limit)
    found = cluster([r.prefix for r in regions], groups)
    typer.echo("| regions | chance | kinds | CTC's CER | for example |\n|---|---|---|---|---|")
    for k in range(len(found.sizes)):
        inside = [i for i, c in enumerate(found.of_N) if c == k]
        kinds = Counter(regions[i].kind for i in inside).most_common(2)
        pairs = [(vocab.decode(regions[i].target), vocab.decode(regions[i].prefix.draft_D)) for i in inside]
        chance = float(found.chance_N[inside].mean())
        shown = " / ".join(truth[:24].replace("\n", " ").replace("|", "\\|") for truth, _ in pairs[:2])
        named = ", ".join(f"{kind} {n}" for kind, n in kinds)
        typer.echo(f"| {len(inside)} | {chance:.2f} | {named} | {100 * micro_cer(pairs):.1f}% | {shown} |")


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

"""`derender train formula`: pictures, samples, encoder, features, decoder, export, eval, each a thin command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Train the formula reader: TeX draws pictures, pieces of ink are the samples, an encoder reads them, and the "
    "decoder corrects the reading. Pictures need pdflatex.",
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")]
Init = Annotated[Path | None, typer.Option(help="Folder of an export to start from, such as the packaged weights.")]
Threads = Annotated[int, typer.Option(help="Processor threads.")]
Seconds = Annotated[float | None, typer.Option(help="Stop after this time; a later run goes on.")]


@app.command()
def sources(
    folders: Annotated[list[Path], typer.Argument(help="Folders of .tex, .tex.gz, .py, .rst and .txt files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, one formula a line.")],
) -> None:
    """Collect the formulas of TeX documentation and docstrings, for --sources of `pictures`."""
    from derender.train.formula_sources import collect

    found = collect(folders)
    out.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    typer.echo(f"{len(found)} formulas")


@app.command()
def pictures(
    out: Out,
    count: Annotated[int, typer.Option(help="Pictures a file.")] = 3000,
    first: Annotated[int, typer.Option(help="Seed of the first file.")] = 1,
    files: Annotated[int, typer.Option(help="How many files; one that exists is kept.")] = 1,
    held_out: Annotated[bool, typer.Option(help="Held-out formulas, in all fonts, to measure on.")] = False,
    sources: Annotated[Path | None, typer.Option(help="A file of `sources`.")] = None,
    share: Annotated[float, typer.Option(help="Share of the pictures that are of --sources.")] = 0.5,
    mathtext: Annotated[bool, typer.Option("--mathtext", help="Set by matplotlib in place of TeX.")] = False,
) -> None:
    """Write formulas by a grammar and have TeX draw them, each symbol in a colour that names its token."""
    import numpy as np

    from derender.train.formula_render import draw_pictures, save_pictures

    out.mkdir(parents=True, exist_ok=True)
    lines = sources.read_text("utf-8").splitlines() if sources else []
    for seed in range(first, first + files):
        path = out / f"pictures-{seed:05d}.npz"
        if not path.exists():
            drawn = list(draw_pictures(np.random.default_rng(seed), count, held_out, lines, share, mathtext))
            save_pictures(drawn, path)
            typer.echo(f"{path.name}: {len(drawn)} pictures")


@app.command()
def samples(
    inputs: Annotated[list[Path], typer.Argument(help="Files of pictures.")],
    out: Out,
    clean: Annotated[float, typer.Option(help="Share of pictures that are not degraded.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the degradations: the same pictures give other samples.")] = 5,
) -> None:
    """Degrade pictures, cut them into pieces of ink and say what each piece is."""
    import numpy as np

    from derender.train.formula_pieces import draw_sample, save_samples
    from derender.train.formula_render import load_pictures

    out.mkdir(parents=True, exist_ok=True)
    for path in inputs:
        target = out / path.name.replace("pictures", "samples")
        if not target.exists():
            rng = np.random.default_rng((int("".join(filter(str.isdigit, path.stem)) or 0), seed))
            drawn = [draw_sample(picture, rng, clean) for picture in load_pictures(path)]
            save_samples([s for s in drawn if len(s.rank_N)], target)
            typer.echo(f"{target.name}: {len(drawn)} samples")


@app.command()
def encoder(
    out: Out,
    inputs: Annotated[list[Path] | None, typer.Argument(help="Files of samples; without any, only exports.")] = None,
    steps: Annotated[int, typer.Option(help="Steps in all.")] = 3200,
    pieces: Annotated[int, typer.Option(help="Pieces of ink a batch.")] = 700,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1.5e-3,
    init: Init = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seconds: Seconds = None,
    threads: Threads = 2,
) -> None:
    """Train the encoder, and export it as pieces.onnx and gaps.onnx."""
    import torch

    from derender.model.formula_export import export_encoder, load_encoder
    from derender.train.formula_pieces import load_samples
    from derender.train.formula_reader import ReaderTrainer

    torch.set_num_threads(threads)
    if inputs:
        found = [s for path in inputs for s in load_samples(path)]
        ReaderTrainer(found, out, steps, pieces, lr, device, init).run(seconds)
    export_encoder(*load_encoder(out / "checkpoint.pt"), out)


@app.command()
def features(
    inputs: Annotated[list[Path], typer.Argument(help="Files of samples that the encoder was not trained on.")],
    out: Out,
    encoder: Annotated[Path, typer.Option(help="Folder of pieces.onnx and gaps.onnx.")],
) -> None:
    """Run samples through the encoder: the decoder's training shards."""
    from derender.formula.tower import FormulaTower
    from derender.train.formula_decoder import write_features

    out.mkdir(parents=True, exist_ok=True)
    tower = FormulaTower(encoder, threads=1)
    for path in inputs:
        shard = out / f"shard-{path.stem}.npz"
        if not shard.exists():
            typer.echo(f"{shard.name}: {write_features(path, tower, shard)} formulas")


@app.command()
def decoder(
    shards: Annotated[Path, typer.Argument(help="Folder of `features`.")],
    out: Out,
    steps: Annotated[int, typer.Option(help="Steps in all.")] = 2000,
    rows: Annotated[int, typer.Option(help="Clean tokens a batch.")] = 1024,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    init: Init = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seconds: Seconds = None,
    threads: Threads = 2,
) -> None:
    """Train the decoder."""
    from derender.train.formula_decoder import train, train_config

    train(shards, out, train_config(steps, rows, threads, device, lr), seconds, init)


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(help="checkpoint.pt of the decoder.")],
    out: Out,
    encoder: Annotated[Path, typer.Option(help="Folder of pieces.onnx and gaps.onnx, which are copied.")],
    shards: Annotated[Path, typer.Option(help="Folder of `features`, to calibrate on.")],
    float32: Annotated[bool, typer.Option(help="No int8.")] = False,
) -> None:
    """Write the folder that `derender` reads formulas with."""
    from derender.train.formula_decoder import calibrate
    from derender.train.reader_export import export_reader

    export_reader(checkpoint, out, None if float32 else calibrate, shards, encoder, ["pieces.onnx", "gaps.onnx"])


@app.command(name="eval")
def evaluate(
    inputs: Annotated[Path, typer.Argument(help="A file of held-out pictures.")],
    weights: Annotated[Path | None, typer.Option(help="Folder of an export; default: the packaged weights.")] = None,
    modes: Annotated[str, typer.Option(help="Decode modes, ar first to have something to compare with.")] = (
        "ar,exact,sliding"
    ),
    degraded: Annotated[bool, typer.Option(help="Degrade every picture first.")] = False,
    harder: Annotated[float, typer.Option(help="Share of those that are blurred by their height.")] = 0.0,
    limit: Annotated[int | None, typer.Option(help="At most so many pictures.")] = None,
    threads: Threads = 2,
) -> None:
    """Exact match, edit distance and speed on rendered pictures, by length and font."""
    from derender.decode.config import DecodeConfig
    from derender.recognise.formulas import FormulaReader
    from derender.train import formula_eval
    from derender.train.formula_render import load_pictures

    configs = [DecodeConfig(mode=m.strip()) for m in modes.split(",")]  # type: ignore[arg-type]
    found = load_pictures(inputs)[:limit]
    found = formula_eval.degraded(found, harder=harder) if degraded else found
    readers: dict[str, FormulaReader] = {c.mode: FormulaReader(c, threads, folder=weights) for c in configs}
    typer.echo("\n".join(formula_eval.report(formula_eval.evaluate(found, readers))))

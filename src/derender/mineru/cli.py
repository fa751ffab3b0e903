"""`derender models`: list, download and verify. The work is in store.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from derender.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Models on this machine: list, download, verify.")


@app.callback()
def models() -> None:
    """Models on this machine: list, download, verify."""


Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model's id (owner/name), or its folder.")]


@app.command("list")
def list_models() -> None:
    """Show which models there are, where they lie, and their size."""
    from derender.mineru.store import KNOWN, MANIFEST, cache_folder, model_files, read_manifest

    packaged = Path(__file__).resolve().parent.parent / "weights"
    size = sum(path.stat().st_size for path in packaged.rglob("*") if path.is_file())
    typer.echo(f"derender-compact\tpackaged\t{_size(size)}")
    cache = cache_folder()
    found = {path.name.replace("--", "/", 1): path for path in sorted(cache.glob("*--*")) if path.is_dir()}
    for model in [*KNOWN, *(name for name in found if name not in KNOWN)]:
        folder = found.get(model)
        if folder is None:
            typer.echo(f"{model}\tnot downloaded\t-")
            continue
        if folder.name.endswith(".part"):
            typer.echo(f"{model.removesuffix('.part')}\tdownload interrupted\t-")
            continue
        size = sum(path.stat().st_size for path in model_files(folder))
        manifest = read_manifest(folder)
        note = f"{len(manifest.files)} files" if manifest else f"no {MANIFEST}"
        typer.echo(f"{model}\t{folder}\t{_size(size)}, {note}")


@app.command()
def download(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's id, owner/name.")],
    revision: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Branch, tag or commit. [default: the newest]", show_default=False),
    ] = None,
) -> None:
    """Download a model into the model cache, and check it against the sums that the hub publishes."""
    from derender.mineru.store import download as fetch

    typer.echo(fetch(model, revision, lambda text: typer.echo(text, err=True)))


@app.command()
def verify(
    model: Model,
    write: Annotated[bool, typer.Option("--write", help="Record the files as they are now instead.")] = False,
) -> None:
    """Compare a model's files with the sizes and SHA-256 sums in its manifest."""
    from derender.mineru.store import find_model, read_manifest, write_manifest
    from derender.mineru.store import verify as check

    folder = find_model(model)
    if write:
        old = read_manifest(folder)
        if old is not None and old.model:
            raise UsageError(f"{folder} has the manifest of its download; delete it first to record other files")
        typer.echo(f"{len(write_manifest(folder).files)} files recorded in {folder}")
        return
    wrong = check(folder)
    for line in wrong:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)
    typer.echo("all files are as recorded")


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

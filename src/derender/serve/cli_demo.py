"""`derender demo`: the service on a free local port with its page in the browser, and nothing kept afterwards.

    derender demo paper.pdf

Jobs lie in a temporary folder that goes with the command. Settings for others are those of `derender serve`.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from derender.errors import InputError

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="A PDF or picture to begin with.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads of each model.")]


def demo(file: File = None, port: Port = 0, no_browser: NoBrowser = False, threads: Threads = None) -> None:
    """Opens a page to drop documents on, and to watch regions being read. Only this machine can reach it."""
    data = None if file is None else _read(file)
    from derender.serve.cli import run
    from derender.serve.limits import ServeSettings, token_from_environment

    def started(app: Any, address: str) -> None:
        if file is not None and data is not None:
            address += f"/#job={_submit(app, file.name, data)}"
        typer.echo(f"{address}\nCtrl-C ends it.")
        if not no_browser:
            # A browser may take its time, and the service must answer it meanwhile.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    # Otherwise a SIGTERM, which uvicorn raises again when it is done, would leave the folder behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given: dict[str, Any] = {} if threads is None else {"threads": threads}
    with tempfile.TemporaryDirectory(prefix="derender-demo-") as folder:
        settings = ServeSettings(
            port=port, token=token_from_environment(), state=Path(folder, "jobs.sqlite"), grace=1.0, **given
        )
        try:
            run(settings, started)
        except KeyboardInterrupt:
            typer.echo("Ended.")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None


def _submit(app: Any, name: str, data: bytes) -> str:
    """The document as a job, as the page would have sent it; returns the job's id."""
    from derender.serve.options import ParseParameters

    wanted = ParseParameters(tokens=True)
    return str(app.state.service.jobs.accept(name, data, wanted, keep_input=True).id)

"""`derender serve`: arguments into settings, and the server that runs the app."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from derender.errors import UsageError

Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")]
State = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Database of jobs, which outlive a restart. [default: in the user's folder]"),
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    state: State = None,
    max_mb: Annotated[int, typer.Option(min=1, help="Largest request, in megabytes.")] = 64,
    max_pages: Annotated[int, typer.Option(min=1, help="Most pages of one document.")] = 500,
    max_megapixels: Annotated[int, typer.Option(min=1, help="Largest picture, in megapixels.")] = 150,
    seconds: Annotated[float, typer.Option(min=1, help="Longest time for one document.")] = 900.0,
    page_seconds: Annotated[float, typer.Option(min=1, help="Longest time for opening it or rendering a page.")] = 30.0,
    worker_mb: Annotated[int, typer.Option(min=512, help="Memory of a rendering process, in megabytes.")] = 2048,
    waiting: Annotated[int, typer.Option(min=1, help="Most clients that wait for an answer; others get 429.")] = 16,
    max_jobs: Annotated[int, typer.Option(min=1, help="Most unfinished jobs; others get 429.")] = 256,
    documents: Annotated[int, typer.Option(min=1, help="Documents read at once, in one shared batch.")] = 2,
    keep_hours: Annotated[float, typer.Option(min=0, help="How long results of jobs are kept.")] = 24.0,
    allow_urls: Annotated[bool, typer.Option(help="Fetch documents from public URLs.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads of each model.")] = None,
) -> None:
    """Serves the HTTP API. A token, if clients must send one, is taken from the variable DERENDER_TOKEN."""
    settings = _settings(
        host=host,
        port=port,
        state=state or default_state(),
        max_bytes=max_mb * 1_000_000,
        max_pages=max_pages,
        max_pixels=max_megapixels * 1_000_000,
        seconds=seconds,
        page_seconds=page_seconds,
        worker_mb=worker_mb,
        waiting=waiting,
        max_jobs=max_jobs,
        documents=documents,
        keep_hours=keep_hours,
        allow_urls=allow_urls,
        **({} if threads is None else {"threads": threads}),
    )
    if settings.token is None and host not in ("127.0.0.1", "::1", "localhost"):
        typer.echo("Warning: no DERENDER_TOKEN is set: whoever reaches this address can use the service.", err=True)
    run(settings)


def default_state() -> Path:
    """Where jobs are kept: $XDG_STATE_HOME/derender/jobs.sqlite."""
    import os

    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "derender" / "jobs.sqlite"


def _settings(**given: Any) -> Any:
    from derender.serve.limits import ServeSettings, token_from_environment

    return ServeSettings(token=token_from_environment(), **given)


def run(settings: Any, started: Callable[[Any, str], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM, then finishes or hands back what is being read. Raises UsageError when the port
    is taken. started: called with the app and its address, such as http://127.0.0.1:8000, once it answers."""
    import socket

    import uvicorn

    from derender.serve.app import create_app

    app = create_app(settings)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started is not None and self.started:
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                started(app, f"http://{host}:{sock.getsockname()[1]}")

        def handle_exit(self, sig: int, frame: Any) -> None:
            # Streams of events would hold the shutdown up, and no new work may begin.
            app.state.service.dispatcher.stopping = True
            app.state.service.broker.close()
            super().handle_exit(sig, frame)

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        raise UsageError(f"cannot listen on {settings.host} port {settings.port}: {error.strerror}") from None
    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=int(settings.grace) + 1, server_header=False
    )
    Server(config).run(sockets=[sock])

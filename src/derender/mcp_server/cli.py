"""`derender mcp`: arguments into a library of documents, and the server over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Roots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="FOLDER",
        help="A folder whose documents may be read, with the folders in it; may be given more than once. "
        "[default: the current folder]",
        show_default=False,
    ),
]


def mcp(
    root: Roots = None,
    max_pages: Annotated[int, typer.Option(min=1, help="Most pages read by one call.")] = 50,
    max_mb: Annotated[int, typer.Option(min=1, help="Largest file, in megabytes.")] = 200,
    keep: Annotated[int, typer.Option(min=1, help="Documents that stay open; the longest unused is closed first.")] = 8,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads of each model.")] = None,
) -> None:
    """Serves documents to agents over the Model Context Protocol, on standard input and output."""
    from derender.cli_batch import quiet_libraries
    from derender.config import ParseOptions
    from derender.mcp_server.access import Roots
    from derender.mcp_server.library import Library
    from derender.mcp_server.server import make_server

    given: dict[str, Any] = {} if threads is None else {"threads": threads}
    roots = Roots(root or [Path.cwd()], max_mb * 1_000_000)
    with quiet_libraries(0):
        make_server(Library(roots, ParseOptions(**given), keep, max_pages)).run("stdio")

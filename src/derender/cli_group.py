"""The top command: subcommands that live in other modules, and errors as one sentence and an exit code.

Exit codes: 1 failed, 2 wrong usage, 130 interrupted; others are the command's own. Knows no command's options.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup

from derender.cli_options import VERBOSE
from derender.errors import DerenderError, UsageError

LAZY = {
    "score": ("derender.score.cli_score", "score"),
    "train": ("derender.train.cli", "app"),
    "bench": ("derender.bench.cli", "app"),
    "models": ("derender.mineru.cli", "app"),
    "serve": ("derender.serve.cli", "serve"),
    "demo": ("derender.serve.cli_demo", "demo"),
    "mcp": ("derender.mcp_server.cli", "mcp"),
}
"""Command -> module and its function or typer app. Loaded when the command runs or is listed."""
EXTRAS = {"score": "score", "train": "train", "bench": "score", "serve": "serve", "demo": "serve", "mcp": "mcp"}
"""Command -> the extra that installs what it needs."""


class Commands(TyperGroup):
    """Adds the LAZY commands, and turns exceptions into messages and exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *(name for name, (module, _) in LAZY.items() if _exists(module))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in LAZY and cmd_name not in self.commands and _exists(LAZY[cmd_name][0]):
            module, attribute = LAZY[cmd_name]
            self.commands[cmd_name] = _as_command(getattr(import_module(module), attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            _stop(ctx, error, 2)
        except DerenderError as error:
            _stop(ctx, error, 1)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):  # `derender ... | head`: typer ends quietly
            raise
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(ctx.invoked_subcommand or "")
            if extra is None or (error.name or "").startswith("derender"):
                raise
            _stop(
                ctx, error, 1, f"derender {ctx.invoked_subcommand} needs {error.name}: pip install 'derender[{extra}]'"
            )
        except Exception as error:
            if VERBOSE not in ctx.meta or type(error).__module__.startswith(("typer", "click")):
                raise
            _stop(ctx, error, 1, f"internal error, {type(error).__name__}: {error}")


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that holds it
        return False


def _as_command(target: Any, name: str) -> Any:
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(target, typer.Typer):
        holder.add_typer(target, name=name)
        return typer.main.get_group(holder).commands[name]
    holder.command(name)(target)
    return typer.main.get_command(holder)


def _stop(ctx: Any, error: Exception, code: int, text: str = "") -> None:
    if ctx.meta.get(VERBOSE, 0) > 1:
        import traceback

        typer.echo("".join(traceback.format_exception(error)), err=True)
    typer.echo(f"Error: {' '.join((text or str(error)).split())}", err=True)
    raise typer.Exit(code) from None

"""Writes docs/cli.md from the command line's own definitions, so that it cannot drift from them.

    python docs/generate_cli.py

Describes what is registered; explains nothing that the help texts do not say. tests/test_cli_docs.py fails when the
file is not what this script would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from derender.cli import app

TARGET = Path(__file__).with_name("cli.md")
TOP = """# Command line

<!-- Written by docs/generate_cli.py from the code. Change the help texts there, then run it again. -->
"""


def render() -> str:
    """The whole of docs/cli.md."""
    parts = [TOP]
    for words, command in _commands("derender", typer.main.get_command(app)):
        parts.append(_section(words, command))
    return "\n".join(parts)


def _commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _commands(f"{words} {name}", command.get_command(None, name))


def _section(words: str, command: Any) -> str:
    # typer's own options for shell completion come from typer and change with it.
    params = [p for p in command.params if not getattr(p, "hidden", False) and "completion" not in p.name]
    arguments = [p for p in params if p.param_type_name == "argument"]
    options = [p for p in params if p.param_type_name == "option"]
    usage = " ".join([words, *(["[OPTIONS]"] if options else []), *(_argument(p) for p in arguments)])
    if hasattr(command, "list_commands"):
        usage += " COMMAND ..."
    text = f"## {words}\n\n{_flow(command.help or '')}\n\n```sh\n{usage}\n```\n"
    rows = [(f"`{_argument(p)}`", p) for p in arguments]
    headings = dict.fromkeys(getattr(p, "rich_help_panel", None) or "" for p in options)
    groups = [("Arguments", rows)] if rows else []
    groups += [(h or "Options", [(_names(p), p) for p in options if (p.rich_help_panel or "") == h]) for h in headings]
    for heading, found in groups:
        text += f"\n| {heading} | |\n|---|---|\n"
        text += "".join(f"| {names} | {_cell(_meaning(param))} |\n" for names, param in found)
    return text + _epilog(command.epilog or "")


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _names(param: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted([*param.opts, *param.secondary_opts], key=len))
    if param.is_flag or param.count:
        return names
    # A bar would end the table's cell, also inside a code span.
    return f"{names} `{param.metavar or param.name.upper()}`".replace("|", "\\|")


def _meaning(param: Any) -> str:
    text = _flow(param.help or "")
    if param.required and param.param_type_name == "option":
        return f"{text} [required]"
    default = param.default
    if default is None or default is False or param.show_default is False or callable(default):
        return text
    return f"{text} [default: {default.value if isinstance(default, Enum) else default}]"


def _flow(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _epilog(text: str) -> str:
    """Indented lines are commands, the rest is prose; a line of "\\b" only tells typer to keep line breaks."""
    out = ""
    lines = [line for line in text.splitlines() if line.strip("\b ")]
    for is_code, group in groupby(lines, key=lambda line: line.startswith(" ")):
        body = "\n".join(line.strip() for line in group)
        out += f"\n```sh\n{body}\n```\n" if is_code else f"\n{body}\n"
    return out


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8", newline="\n")

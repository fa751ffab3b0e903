"""docs/cli.md is what the code says, and the help says what the settings classes say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from derender import cli, cli_options, config
from derender.assemble.files import FORMATS
from derender.config import ParseOptions
from derender.decode import config as decode
from derender.decode.config import DecodeConfig
from derender.recognise.types import TASKS

SCRIPT = Path(__file__).parents[1] / "docs/generate_cli.py"


def options(command: str) -> dict[str, Any]:
    top: Any = typer.main.get_command(cli.app)
    return {param.name: param for param in top.get_command(None, command).params}


def test_docs_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate_cli", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = script.TARGET.read_text(encoding="utf-8")
    assert written == script.render(), "the command line changed: run python docs/generate_cli.py"


@pytest.mark.parametrize("command", ["parse", "read"])
def test_every_option_has_help(command: str) -> None:
    assert [name for name, param in options(command).items() if not param.help] == []


def test_choices_are_those_of_the_settings() -> None:
    assert tuple(cli_options.ModeChoice) == config.MODES
    assert {*cli_options.DecodeChoice, "full"} == set(decode.MODES)
    assert {*cli_options.TaskChoice, "layout"} == set(TASKS)
    assert set(cli_options.DEFAULT_FORMATS.split(",")) < set(FORMATS)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("mode", cli_options.ModeChoice),
        ("decode", cli_options.DecodeChoice),
        ("task", cli_options.TaskChoice),
        ("format", cli_options.ReadFormat),
    ],
)
def test_help_names_the_choices(name: str, choices: Any) -> None:
    param = options("read" if name in ("task", "format") else "parse")[name]
    assert param.metavar == "|".join(choices)


def test_help_names_every_format() -> None:
    text = options("parse")["formats"].help
    assert all(re.search(rf"\b{fmt}\b", text) for fmt in FORMATS)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("dpi", f"{ParseOptions().dpi:g}"),
        ("decode", DecodeConfig().mode),
        ("threshold", DecodeConfig().rule.removeprefix("threshold:")),
        ("block", str(DecodeConfig().block)),
        ("formats", cli_options.DEFAULT_FORMATS),
    ],
)
def test_help_names_the_default_that_holds(name: str, default: str) -> None:
    assert options("parse")[name].help.endswith(f"[default: {default}]")


def test_one_number_is_the_default_block_and_window() -> None:
    assert DecodeConfig().block == DecodeConfig().window


def test_mode_defaults_to_that_of_the_settings() -> None:
    assert options("parse")["mode"].default == ParseOptions().mode

"""Starting up: what the command line imports before it knows what to do, --version, and commands from elsewhere."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import derender
from derender import cli, cli_group

HEAVY = ["numpy", "torch", "cv2", "onnxruntime", "rapidocr", "rapid_layout", "PIL", "pypdfium2", "pydantic", "rich"]
REPORT = f"import sys; print(*(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    code = f"import sys, atexit; atexit.register(lambda: exec({REPORT!r})); sys.argv = ['derender', {argument!r}]; "
    run = subprocess.run(
        [sys.executable, "-c", code + "from derender.cli import main; main()"], capture_output=True, text=True
    )
    assert run.returncode == 0
    assert run.stdout
    assert run.stderr.strip() == ""


def test_help_takes_less_than_half_a_second_of_processor_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "derender.cli", "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, because a busy machine stretches the other kind.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"derender {derender.__version__}\n")


def test_help_lists_the_commands_of_other_modules() -> None:
    stdout = CliRunner().invoke(cli.app, ["--help"]).stdout
    assert all(f"  {name} " in stdout for name in ("parse", "read", "score"))


def test_command_whose_module_is_missing_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli_group.LAZY, "ghost", ("derender.no_such_package.cli", "app"))
    assert "ghost" not in CliRunner().invoke(cli.app, ["--help"]).stdout
    assert CliRunner().invoke(cli.app, ["ghost"]).exit_code == 2


def test_missing_extra_of_another_command_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def need_torch() -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("derender.score.cli_score.score", need_torch)
    result = CliRunner().invoke(cli.app, ["score"])
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: derender score needs torch: pip install 'derender[score]'\n",
    )


def test_errors_of_other_commands_become_exit_codes() -> None:
    result = CliRunner().invoke(cli.app, ["score"])
    assert (result.exit_code, result.stderr) == (2, "Error: Give either PRED and TRUTH, or --evalset FOLDER.\n")

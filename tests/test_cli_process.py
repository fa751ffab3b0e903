"""The command line as a process of its own: a terminal, Ctrl-C, a closed pipe, and the real pipeline from end to end.

The real pipeline runs in mode text, which needs the packaged layout model and no weights of ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli_helpers import text_pdf
from derender import cli
from derender.assemble.files import source_meta

DICTATED = """from cli_helpers import DictatedPipeline
from derender import cli
cli.make_pipeline = DictatedPipeline
cli.main()"""


def start(folder: Path, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """`derender ARGUMENTS` with the dictated pipeline."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", DICTATED, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **streams)


def test_real_pipeline_reads_a_pdf_and_resume_skips_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = text_pdf("The first page says this.", "The second page says that.")
    Path("paper.pdf").write_bytes(data)
    command = ["parse", "paper.pdf", "empty.pdf", "--mode", "text"]
    Path("empty.pdf").write_bytes(b"")

    result = CliRunner().invoke(cli.app, command)
    assert (result.exit_code, result.stdout) == (1, "")
    first, last = result.stderr.splitlines()
    assert first == "Error: empty.pdf is empty."
    assert "1 document, 2 pages" in last and "2 text_layer" in last
    assert sorted(path.name for path in Path("out").iterdir()) == ["paper"]
    assert "The first page says this." in Path("out/paper/paper.md").read_text()
    document = json.loads(Path("out/paper/paper.json").read_text())
    texts = [[region["text"] for region in page["regions"]] for page in document["pages"]]
    assert texts == [["The first page says this."], ["The second page says that."]]
    meta = document["meta"]
    assert meta["source"] == source_meta(data)
    assert meta["settings"]["mode"] == "text"
    assert Path("out/paper/paper_layout.pdf").read_bytes().startswith(b"%PDF-")

    again = CliRunner().invoke(cli.app, [*command, "--resume"])
    assert "1 skipped, finished earlier" in again.stderr


def test_ctrl_c_ends_with_one_sentence(tmp_path: Path) -> None:
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # a shell that runs the tests in the background has them ignore SIGINT, and their children inherit that
    streams["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with start(tmp_path, "parse", "none.pdf", "-", **streams) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "Error: none.pdf does not exist.\n"  # now it waits for standard input
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1].startswith("Interrupted: 0 of 2 inputs finished")
    assert "Traceback" not in stderr


def test_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("ok 2000")
    with start(tmp_path, "parse", "a.pdf", "--stdout", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.parametrize(("flags", "shown"), [([], True), (["-q"], False)])
def test_progress_shows_on_a_terminal_unless_quiet(tmp_path: Path, flags: list[str], shown: bool) -> None:
    pty = pytest.importorskip("pty")
    (tmp_path / "a.pdf").write_text("slow 2")
    terminal, other_end = pty.openpty()
    with start(tmp_path, "parse", "a.pdf", *flags, stderr=other_end) as process:
        os.close(other_end)
        seen = b""
        try:
            while chunk := os.read(terminal, 4096):
                seen += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
    os.close(terminal)
    assert process.returncode == 0
    assert (b"a, pages" in seen and b"1/2" in seen) is shown
    assert (b"no problems" in seen) is shown


def test_no_progress_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("slow 2")
    with start(tmp_path, "parse", "a.pdf", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = process.stderr.read().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("1 document, 2 pages")

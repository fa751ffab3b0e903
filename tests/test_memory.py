"""Memory that does not grow with the pages: how models are opened, and the command that watches a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import derender
from cli_helpers import text_pdf
from derender.bench.cli import app
from derender.bench.memory import repeat_pages
from derender.errors import InputError
from derender.model.tower import WEIGHTS
from derender.onnx_session import open_session


def test_sessions_keep_no_arena() -> None:
    options = open_session(WEIGHTS / "prefill.onnx", threads=1).get_session_options()
    assert not options.enable_cpu_mem_arena
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_models_are_opened_in_one_place() -> None:
    root = Path(derender.__file__).parent
    found = [p.name for p in root.rglob("*.py") if "InferenceSession(" in p.read_text("utf-8")]
    assert found == ["onnx_session.py"]


def test_pages_are_repeated_up_to_the_number(tmp_path: Path) -> None:
    import pypdfium2

    (tmp_path / "two.pdf").write_bytes(text_pdf("one", "two"))
    pages = [
        p.get_textpage().get_text_range().strip() for p in pypdfium2.PdfDocument(repeat_pages(tmp_path / "two.pdf", 5))
    ]
    assert pages == ["one", "two", "one", "two", "one"]


def test_what_is_no_pdf_cannot_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_text("no")
    with pytest.raises(InputError, match="x.pdf cannot be opened"):
        repeat_pages(tmp_path / "x.pdf", 3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_prints_a_line_for_each_look(tmp_path: Path) -> None:
    (tmp_path / "two.pdf").write_bytes(text_pdf("A line to read", "And another"))
    result = CliRunner().invoke(app, ["memory", str(tmp_path / "two.pdf"), "--pages", "4", "--every", "2"])
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.output.splitlines()[1:]]
    assert [r[0] for r in rows] == ["1", "2", "4"] and all(float(r[1]) > 100 for r in rows)

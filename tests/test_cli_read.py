"""`derender read`: what is printed for each task and format, and the exit codes. The reading itself is given."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from cli_helpers import text_pdf
from derender import cli
from derender.decode.config import DecodeConfig
from derender.recognise.types import Result, TokenOut


class Reading:
    """Gives `result` and remembers what was asked."""

    def __init__(self) -> None:
        self.result = Result("crop", text="Grüße", tokens=[TokenOut("Grüße", 0.75, 1)])
        self.asked: tuple[np.ndarray, str, DecodeConfig, int] | None = None

    def __call__(self, image: np.ndarray, task: str, decode: DecodeConfig, threads: int) -> Result:
        self.asked = (image, task, decode, threads)
        return self.result


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    given = Reading()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "read_crop", given)
    Image.new("RGB", (60, 20), (255, 0, 0)).save("line.png")
    return given


def run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, ["read", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_prints_the_text_and_nothing_else(reading: Reading) -> None:
    assert run("line.png") == (0, "Grüße\n", "")


def test_picture_and_options_reach_the_reader(reading: Reading) -> None:
    run("line.png", "--task", "formula", "--decode", "exact", "--threads", "3")
    assert reading.asked is not None
    image, task, decode, threads = reading.asked
    assert image.shape == (20, 60, 3)
    assert tuple(image[0, 0]) == (255, 0, 0)
    assert (task, decode, threads) == ("formula", DecodeConfig(mode="exact"), 3)


def test_standard_input_is_a_picture(reading: Reading) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (30, 10)).save(buffer, "PNG")
    assert run("-", stdin=buffer.getvalue())[0] == 0
    assert reading.asked is not None and reading.asked[0].shape == (10, 30, 3)


def test_formula_prints_latex(reading: Reading) -> None:
    reading.result.latex = r"\frac{1}{2}"
    assert run("line.png", "--task", "formula")[1] == "\\frac{1}{2}\n"


def test_json_has_the_confidence_of_each_token(reading: Reading) -> None:
    data = json.loads(run("line.png", "--format", "json")[1])
    assert data["text"] == "Grüße"
    assert data["tokens"] == [{"text": "Grüße", "confidence": 0.75, "step": 1}]
    assert "html" not in data


def test_html_of_a_table(reading: Reading) -> None:
    reading.result.html = "<table></table>"
    assert run("line.png", "--task", "table", "--format", "html")[1] == "<table></table>\n"


def test_html_of_another_task_is_wrong_usage_before_anything_is_read(reading: Reading) -> None:
    code, stdout, stderr = run("line.png", "--format", "html")
    assert (code, stdout, reading.asked) == (2, "", None)
    assert "--format html is for tables" in stderr


def test_table_without_html_says_so(reading: Reading) -> None:
    code, stdout, stderr = run("line.png", "--task", "table", "--format", "html")
    assert (code, stdout) == (1, "")
    assert "has no HTML" in stderr


def test_partial_reading_is_printed_and_exits_3(reading: Reading) -> None:
    reading.result.status, reading.result.errors = "partial", ["the text repeats itself"]
    assert run("line.png") == (3, "Grüße\n", "Error: the text repeats itself\n")


def test_failed_reading_prints_nothing_and_exits_1(reading: Reading) -> None:
    reading.result.status, reading.result.errors = "failed", ["the crop cannot be read"]
    assert run("line.png") == (1, "", "Error: the crop cannot be read\n")


def test_document_of_several_pages_is_refused(reading: Reading) -> None:
    Path("two.pdf").write_bytes(text_pdf("one", "two"))
    code, _, stderr = run("two.pdf")
    assert (code, reading.asked) == (2, None)
    assert "two has 2 pages" in stderr


def test_missing_or_empty_picture_is_one_sentence(reading: Reading) -> None:
    assert run("none.png") == (1, "", "Error: none.png does not exist.\n")
    assert run("-", stdin=b"") == (1, "", "Error: standard input is empty.\n")


def test_fault_in_the_code_is_one_line_and_a_traceback_with_vv(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object) -> Result:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cli, "read_crop", broken)
    assert run("line.png") == (1, "", "Error: internal error, ZeroDivisionError: division by zero\n")
    assert "Traceback" in run("line.png", "-vv")[2]

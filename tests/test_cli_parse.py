"""`derender parse`: exit codes, files, messages, --resume, --stdout. The pipeline is dictated by the inputs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from cli_helpers import Derender
from derender import cli_batch, cli_report
from derender.decode.config import DecodeConfig


@pytest.fixture
def derender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Derender:
    return Derender(tmp_path, monkeypatch)


def test_good_input_gives_the_default_files_and_exit_0(derender: Derender) -> None:
    code, stdout, stderr = derender("parse", derender.file("a.pdf", "ok 2"))
    assert (code, stdout) == (0, "")
    names = {"a", "a/a.md", "a/a.json", "a/a_content_list.json", "a/a_layout.pdf", "a/images"}
    assert names <= derender.outputs()
    assert stderr.count("\n") == 1
    assert "1 document, 2 pages" in stderr
    assert "2 ocr, 2 none" in stderr
    assert stderr.endswith("no problems; written to out\n")


def test_one_failed_input_does_not_stop_the_others_and_exits_1(derender: Derender) -> None:
    good, late = derender.file("good.pdf", "ok"), derender.file("late.pdf", "ok")
    code, _, stderr = derender("parse", good, "none.pdf", late)
    assert code == 1
    assert {"good/good.md", "late/late.md"} <= derender.outputs()
    assert "Error: none.pdf does not exist.\n" in stderr
    assert "1 failed" in stderr


def test_partial_exits_3_and_failed_beats_partial(derender: Derender) -> None:
    partial = derender.file("p.pdf", "partial")
    code, _, stderr = derender("parse", partial)
    assert code == 3
    assert "Error: p, page 1: it is broken\n" in stderr
    assert "p/p.md" in derender.outputs()
    assert derender("parse", partial, "none.pdf")[0] == 1


def test_document_of_which_no_page_could_be_read_is_a_failure_and_writes_nothing(derender: Derender) -> None:
    code, _, stderr = derender("parse", derender.file("f.pdf", "failed 2"))
    assert code == 1
    assert "page 2: it is broken" in stderr
    assert "none of its 2 pages could be read" in stderr
    assert not (derender.tmp / "out").exists()


def test_fault_in_the_code_is_one_line_and_the_next_input_is_read(derender: Derender) -> None:
    code, _, stderr = derender("parse", derender.file("b.pdf", "bug"), derender.file("c.pdf", "ok"))
    assert code == 1
    assert "Error: b: internal error, ZeroDivisionError: division by zero\n" in stderr
    assert "Traceback" not in stderr
    assert "c/c.md" in derender.outputs()


def test_vv_shows_the_traceback(derender: Derender) -> None:
    assert "Traceback" in derender("parse", derender.file("b.pdf", "bug"), "-vv")[2]


def test_missing_weights_end_the_batch_with_one_sentence(derender: Derender) -> None:
    code, _, stderr = derender("parse", derender.file("m.pdf", "model"), derender.file("c.pdf", "ok"))
    assert (code, stderr) == (1, "Error: the weights are missing.\n")


def test_pages_that_an_input_lacks_are_wrong_usage_unless_others_came_out(derender: Derender) -> None:
    short = derender.file("s.pdf", "usage")
    code, _, stderr = derender("parse", short, "--pages", "9")
    assert code == 2
    assert "Error: s: pages 9 were asked for" in stderr
    assert derender("parse", short, derender.file("c.pdf", "ok"), "--pages", "9")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "docx"], "unknown format 'docx'"),
        (["--format", ","], "unknown format"),
        (["--pages", "3-x"], "not a list of pages"),
        (["--pages", "0"], "pages 0 were asked for"),
        (["--mode", "magic"], "magic"),
        (["--dpi", "5"], "dpi must lie between"),
        (["--threads", "0"], "threads"),
        (["--threshold", "1.5"], "not between 0 and 1"),
        (["--threshold", "0.9", "--rule", "factor:1.0"], "give one of them"),
        (["--rule", "luck"], "commit rule"),
        (["--decode", "ar", "--threshold", "0.9"], "no commit rule"),
        (["--decode", "ar", "--block", "8"], "leave out --block"),
        (["--stdout", "-o", "x"], "either --out or --stdout"),
        (["--stdout", "--format", "md,json"], "prints one format"),
        (["--stdout", "--format", "overlay"], "prints one format"),
        (["--stdout", "--resume"], "--stdout writes none"),
        (["--resume", "--format", "md"], "needs json"),
        (["--tokens", "--format", "md"], "add json"),
        (["--page-markers", "--format", "json"], "add md"),
        (["-o", "a.pdf"], "is a file"),
        (["--no-such-option"], "--no-such-option"),
        (["-", "-"], "only once"),
    ],
)
def test_wrong_usage_exits_2_with_a_sentence_and_reads_nothing(
    derender: Derender, arguments: list[str], said: str
) -> None:
    code, stdout, stderr = derender("parse", derender.file("a.pdf", "ok"), *arguments)
    assert (code, stdout) == (2, "")
    assert said in stderr
    assert "Traceback" not in stderr
    assert not any(pipeline.opened for pipeline in derender.pipelines)


def test_interrupt_keeps_finished_documents_and_exits_130(derender: Derender) -> None:
    code, _, stderr = derender("parse", derender.file("a.pdf", "ok"), derender.file("i.pdf", "interrupt"), "rest.pdf")
    assert code == 130
    assert stderr == "Interrupted: 1 of 3 inputs finished: the same command with --resume goes on from there.\n"
    assert "a/a.json" in derender.outputs()
    assert not any(name.startswith("i") for name in derender.outputs())


def test_interrupt_while_writing_leaves_no_half_written_file(derender: Derender) -> None:
    derender.interrupt_picture = True
    assert derender("parse", derender.file("a.pdf", "ok"))[0] == 130
    assert not (derender.tmp / "out").exists()


def test_source_is_closed_after_success_and_failure(derender: Derender) -> None:
    derender("parse", derender.file("a.pdf", "ok"), derender.file("b.pdf", "bug"))
    assert [opened.closed for opened in derender.pipelines[0].opened] == [True, True]


def test_stdout_prints_markdown_and_nothing_else_there(derender: Derender) -> None:
    code, stdout, stderr = derender("parse", derender.file("a.pdf", "ok"), "--stdout", "-v")
    assert code == 0
    assert stdout.startswith("a 1")
    assert "pages/s" not in stdout
    assert "pages/s" in stderr
    assert not (derender.tmp / "out").exists()


def test_stdout_prints_json_of_several_one_line_each(derender: Derender) -> None:
    files = [derender.file("a.pdf", "ok"), derender.file("b.pdf", "ok")]
    lines = derender("parse", *files, "--stdout", "--format", "json")[1].splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]


@pytest.mark.parametrize(("form", "start"), [("html", "<!"), ("content-list", "["), ("json", "{")])
def test_stdout_prints_the_one_format_asked_for(derender: Derender, form: str, start: str) -> None:
    assert derender("parse", derender.file("a.pdf", "ok"), "--stdout", "--format", form)[1].lower().startswith(start)


def test_standard_input_is_read(derender: Derender) -> None:
    code, stdout, _ = derender("parse", "-", "--stdout", stdin=b"ok")
    assert (code, stdout.split("\n")[0]) == (0, "stdin 1")


def test_inputs_of_equal_names_do_not_overwrite_each_other(derender: Derender) -> None:
    derender("parse", derender.file("a.pdf", "ok"), derender.file("b/A.pdf", "ok"))
    folders = {name for name in derender.outputs() if "/" not in name}
    assert len(folders) == 2


def test_folder_is_read_and_inner_folders_with_r(derender: Derender) -> None:
    derender.file("in/a.pdf", "ok")
    derender.file("in/deep/b.pdf", "ok")
    assert "1 document," in derender("parse", "in")[2]
    assert "2 documents," in derender("parse", "in", "-r")[2]
    assert "deep_b/deep_b.md" in derender.outputs()


def test_resume_skips_what_is_finished_and_reads_what_changed(derender: Derender) -> None:
    files = [derender.file("a.pdf", "ok"), derender.file("b.pdf", "ok")]
    derender("parse", *files)
    derender.file("b.pdf", "ok 2")
    code, _, stderr = derender("parse", *files, "--resume")
    assert code == 0
    assert [opened.name for opened in derender.pipelines[1].opened] == ["b"]
    assert "1 skipped" in stderr


@pytest.mark.parametrize("changed", [["--pages", "1"], ["--mode", "ocr"], ["--threshold", "0.5"], ["--keep-paratext"]])
def test_resume_reads_again_when_settings_changed(derender: Derender, changed: list[str]) -> None:
    name = derender.file("a.pdf", "ok")
    derender("parse", name)
    derender("parse", name, "--resume", *changed)
    assert len(derender.pipelines[1].opened) == 1


def test_password_is_not_written(derender: Derender) -> None:
    derender("parse", derender.file("a.pdf", "ok"), "--password", "sesame")
    assert derender.pipelines[0].options.password == "sesame"
    assert "sesame" not in (derender.tmp / "out/a/a.json").read_text()


def test_options_reach_the_pipeline(derender: Derender) -> None:
    flags = "--mode ocr --pages 1-2 --dpi 200 --threads 3 --tokens --trace --decode block --threshold 0.7 --block 16"
    derender("parse", derender.file("a.pdf", "ok"), *flags.split())
    options = derender.pipelines[0].options
    assert (options.mode, options.pages, options.dpi, options.threads, options.tokens) == ("ocr", "1-2", 200.0, 3, True)
    assert options.decode == DecodeConfig(mode="block", rule="threshold:0.7", block=16, window=16, trace=True)


def test_without_decode_options_the_defaults_of_the_engine_hold(derender: Derender) -> None:
    derender("parse", derender.file("a.pdf", "ok"))
    assert derender.pipelines[0].options.decode == DecodeConfig()


def test_writer_options_reach_the_files(derender: Derender) -> None:
    derender("parse", derender.file("a.pdf", "ok 2"), "--page-markers", "--format", "md")
    assert "<!-- page 2 -->" in (derender.tmp / "out/a/a.md").read_text()


def test_unwritable_folder_fails_that_input_only(derender: Derender) -> None:
    (derender.tmp / "out").mkdir()
    (derender.tmp / "out/a").write_text("in the way")
    code, _, stderr = derender("parse", derender.file("a.pdf", "ok"), derender.file("b.pdf", "ok"))
    assert code == 1
    assert "Error: a could not be written: " in stderr
    assert "b/b.md" in derender.outputs()


def test_quiet_shows_errors_only(derender: Derender) -> None:
    assert derender("parse", derender.file("w.pdf", "warned"), "-q")[2] == ""
    assert derender("parse", derender.file("p.pdf", "partial"), "-q")[2] == "Error: p, page 1: it is broken\n"


def test_same_warning_of_many_pages_is_one_line(derender: Derender) -> None:
    stderr = derender("parse", derender.file("w.pdf", "warned 9"))[2]
    assert "Warning: w, pages 1-9: the page is large\n" in stderr


def test_many_page_errors_are_cut_unless_verbose(derender: Derender) -> None:
    name = derender.file("p.pdf", "partial 30")
    short, long = derender("parse", name)[2], derender("parse", name, "-v")[2]
    assert short.count("it is broken") == cli_report.SHOWN
    assert "and 25 more like these" in short
    assert "30 problems" in short
    assert long.count("it is broken") == 30


def test_ranges_of_page_numbers() -> None:
    assert cli_report.ranges([3, 1, 2, 7, 7]) == "1-3,7"


def test_messages_of_libraries_are_silenced_unless_verbose(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("SomeLibrary")
    for verbose in (0, 1):
        with cli_batch.quiet_libraries(verbose):
            logger.warning("loud %d", verbose)
    logger.warning("after")
    assert [record.getMessage() for record in caplog.records] == ["loud 1", "after"]

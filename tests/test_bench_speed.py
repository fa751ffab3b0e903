"""The speed benchmark on a tiny random decoder: what rows hold, how figures follow from one another, what is written.

Nothing here looks at how long anything took.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from derender.bench.chart import draw_speed, nice_ticks
from derender.bench.measure import groups_of, row_times, run_once
from derender.bench.positions import error_places, position_table, token_positions
from derender.bench.report import write_speed_json, write_speed_md
from derender.bench.speed import SpeedOptions, SpeedReport, make_runtimes, measure_speed
from derender.bench.sweep import run_sweep
from derender.bench.types import BenchSet, Case, Row, Sample, Unit
from derender.decode.config import DecodeConfig
from derender.errors import UsageError
from derender.model.export import export
from derender.model.runtime_onnx import OnnxRuntime
from derender.score.metrics import count_errors
from derender.score.normalise import fold_space, join_block
from model_fixtures import tiny_decoder, tiny_prefix, tiny_vocab

TEXT = "the quick brown fox jumps over the lazy dog. a second line, not quite the same"
KEYS = [
    *("regime", "runtime", "mode", "rule", "threshold", "block", "tokens", "forwards", "tokens_per_forward", "rowcost"),
    *("seconds", "tokens_per_second", "speedup", "cer", "relative_accuracy"),
]


def made_up_set(pages: bool = False) -> BenchSet:
    samples = [
        Sample(
            f"s{i}",
            tiny_prefix(TEXT[: 12 + 9 * i], seed=i, lines=1 + i % 2),
            TEXT[: 10 + 9 * i],
            i // 2 if pages else -1,
        )
        for i in range(4)
    ]
    units = [Unit(s.name, (i,), TEXT[: 12 + 9 * i], fold_space) for i, s in enumerate(samples)]
    return BenchSet(samples, units, tower_seconds=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("weights")
    export(tiny_decoder(noise=0.1), out, None)
    return out


@pytest.fixture(scope="module")
def runtime(folder: Path) -> OnnxRuntime:
    return OnnxRuntime(tiny_vocab(), folder, threads=1)


@pytest.fixture(scope="module")
def report(runtime: OnnxRuntime, folder: Path) -> SpeedReport:
    hidden = OnnxRuntime(tiny_vocab(), folder, threads=1, use_draft=False)
    runtimes = {"onnx": runtime, "onnx/no draft": hidden}
    options = SpeedOptions(thresholds=(0.3, 0.9), block=8, repeat=1)
    return measure_speed(made_up_set(), tiny_vocab(), runtimes, options)


def test_rows_have_exactly_the_promised_keys() -> None:
    assert [f.name for f in fields(Row)] == KEYS


def test_every_regime_has_ar_once_and_each_mode_at_each_threshold(report: SpeedReport) -> None:
    expected = [
        ("ar", None),
        *((mode, t) for t in (0.3, 0.9) for mode in ("block", "sliding", "exact")),
        ("exact", None),
    ]
    for regime in ("region", "page", "saturated"):
        assert [(r.mode, r.threshold) for r in report.rows if r.regime == regime] == expected


def test_the_baseline_is_its_own_measure(report: SpeedReport) -> None:
    for row in report.rows:
        if row.mode == "ar":
            assert (row.speedup, row.relative_accuracy, row.rowcost, row.block) == (1.0, 1.0, 1.0, 1)


def test_ar_takes_one_forward_a_token_and_one_for_the_end(report: SpeedReport) -> None:
    for row in report.rows:
        if row.mode == "ar":
            assert row.tokens < row.forwards <= row.tokens + 4


def test_figures_of_a_row_agree(report: SpeedReport) -> None:
    ar = {r.regime: r for r in report.rows if r.mode == "ar"}
    for row in report.rows:
        assert row.tokens_per_forward == pytest.approx(row.tokens / row.forwards)
        assert row.tokens_per_second == pytest.approx(row.tokens / row.seconds)
        assert row.speedup == pytest.approx(row.tokens_per_second / ar[row.regime].tokens_per_second)
        assert row.cer is not None and row.relative_accuracy is not None
        base = ar[row.regime].cer
        assert base is not None and row.relative_accuracy == pytest.approx((1 - row.cer) / (1 - base))


def test_regimes_change_no_text(report: SpeedReport) -> None:
    by_case: dict[tuple[str, float | None], set[tuple[int, float | None]]] = {}
    for row in report.rows:
        by_case.setdefault((row.mode, row.threshold), set()).add((row.tokens, row.cer))
    assert all(len(seen) == 1 for seen in by_case.values())


def test_exact_is_ar(report: SpeedReport) -> None:
    rows = [r for r in report.rows if r.regime == "region" and r.mode in ("ar", "exact")]
    assert report.exact_differs == 0 and len({(r.tokens, r.cer) for r in rows}) == 1


def test_riding_along_saves_forwards(report: SpeedReport) -> None:
    assert report.overlap is not None and report.overlap[0] < report.overlap[1]


def test_hiding_the_draft_is_measured_beside_the_table(report: SpeedReport) -> None:
    hidden = {e.row.mode: e.row for e in report.extras if e.variant == "no draft"}
    assert set(hidden) == {"ar", "sliding"} and hidden["ar"].speedup == 1.0
    assert hidden["ar"].cer != next(r.cer for r in report.rows if r.mode == "ar")


def test_the_bare_reading_is_scored(report: SpeedReport) -> None:
    # each made-up reading lacks its text's last two characters, of which some are spaces at the end
    found = made_up_set()
    counts = [
        count_errors(fold_space(s.ctc), fold_space(u.truth)) for s, u in zip(found.samples, found.units, strict=True)
    ]
    assert report.ctc_cer == pytest.approx(sum(c.edits for c in counts) / sum(c.length for c in counts))


@pytest.mark.parametrize("mode", ["ar", "block", "sliding"])
def test_errors_by_position_add_up_to_the_errors(runtime: OnnxRuntime, mode: str) -> None:
    found, vocab = made_up_set(), tiny_vocab()
    case = Case("region", "onnx", DecodeConfig(mode=mode, rule="threshold:0.3", block=8, window=8))  # type: ignore[arg-type]
    outcome = run_once(case, runtime, groups_of("region", found.samples), found.samples, lambda: 0.0)
    table = position_table(case, outcome, found.units, vocab)
    edits = [
        count_errors(fold_space(vocab.decode(outcome.tokens[i])), fold_space(unit.truth)).edits
        for i, unit in enumerate(found.units)
    ]
    assert table.total == sum(edits) > 0
    assert sum(table.tokens.values()) == outcome.token_count
    assert max(table.tokens) < 8
    assert sum(e for _, _, e in table.bins(8)) == table.total - table.unplaced


def test_positions_restart_with_each_forward_or_block() -> None:
    steps = [1, 1, 1, 2, 3, 3]
    sliding, block = (Case("region", "onnx", DecodeConfig(mode=m, block=4)) for m in ("sliding", "block"))  # type: ignore[arg-type]
    assert token_positions(sliding, steps) == [0, 1, 2, 0, 0, 1]
    assert token_positions(block, steps) == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("hypothesis", "truth", "places"),
    [
        ("abXd", "abcd", [2]),  # replaced
        ("abd", "abcd", [2]),  # missing: charged to what follows
        ("abc", "abcd", [2]),  # missing at the end: charged to the last
        ("a  bXc", "a bc", [4]),  # folding removes a space before it
        ("", "ab", [-1, -1]),
    ],
)
def test_edits_fall_on_characters_of_the_raw_text(hypothesis: str, truth: str, places: list[int]) -> None:
    assert error_places(hypothesis, truth, fold_space) == places


def test_a_hyphen_that_folding_forgives_is_no_error() -> None:
    assert error_places("meta-data is", "meta-\ndata is", join_block) == []


def test_groups_follow_pages_or_take_eight() -> None:
    crops, paged = made_up_set().samples, made_up_set(pages=True).samples
    assert [g.samples for g in groups_of("page", paged)] == [(0, 1), (2, 3)]
    assert [len(g.samples) for g in groups_of("page", [*crops, *crops, *crops])] == [8, 4]
    assert [(g.samples, g.batch) for g in groups_of("region", crops)] == [((i,), 1) for i in range(4)]
    assert [(len(g.samples), g.batch) for g in groups_of("saturated", crops)] == [(4, 40)]


def test_timing_rows_leaves_nothing_behind(runtime: OnnxRuntime) -> None:
    """Each forward of row_times starts from the same cache: after it a fresh decoding gives what it gave before."""
    found = made_up_set()
    case = Case("region", "onnx", DecodeConfig(mode="ar"))
    groups = groups_of("region", found.samples)
    before = run_once(case, runtime, groups, found.samples, lambda: 0.0)
    ticks = iter(range(10**6))
    times = row_times(runtime, [s.prefix for s in found.samples[:2]], [1, 8], lambda: float(next(ticks)))
    assert times == {1: 1.0, 8: 1.0}
    assert run_once(case, runtime, groups, found.samples, lambda: 0.0).tokens == before.tokens


def test_written_rows_are_the_measured_ones(report: SpeedReport, tmp_path: Path) -> None:
    machine = {"processor": "some processor", "cores": 2, "threads": 1, "clock": "wall", "load": 0.5, "system": "Linux"}
    write_speed_json(report, machine, {"sha256": {"decoder.onnx": "0" * 64}}, tmp_path / "speed.json")
    rows = json.loads((tmp_path / "speed.json").read_text("utf-8"))
    assert [list(row) for row in rows] == [KEYS] * len(report.rows)
    assert rows == [row.as_dict() for row in report.rows]
    more = json.loads((tmp_path / "speed_more.json").read_text("utf-8"))
    assert more["machine"]["processor"] == "some processor" and more["model"]["sha256"]["decoder.onnx"] == "0" * 64


def test_the_report_names_machine_and_regimes(report: SpeedReport, tmp_path: Path) -> None:
    machine = {"processor": "some processor", "cores": 2, "threads": 1, "clock": "cpu", "load": None, "system": "Linux"}
    write_speed_md(report, machine, {"sha256": {"decoder.onnx": "0" * 64}}, tmp_path / "speed.md")
    text = (tmp_path / "speed.md").read_text("utf-8")
    for words in ("some processor", "One region at a time (onnx)", "40 regions", "processor time", "bare CTC reading"):
        assert words in text


def test_the_chart_draws_every_mode(report: SpeedReport) -> None:
    image = draw_speed(report.rows, "caption")
    assert isinstance(image, Image.Image)
    colours = {colour for _, colour in image.getcolors(image.width * image.height)}
    assert {(0xD9, 0x77, 0x06), (0x25, 0x63, 0xEB), (0x05, 0x96, 0x69)} <= colours


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 1000) == [0, 200, 400, 600, 800, 1000]
    assert nice_ticks(97.13, 100.2) == [98.0, 99.0, 100.0]


def test_the_sweep_counts_forwards(runtime: OnnxRuntime) -> None:
    found = made_up_set()
    rows = run_sweep(found, tiny_vocab(), runtime, blocks=(4, 8))
    assert rows[0]["rule"] == "next-token" and rows[0]["relative_accuracy"] == 1.0
    one_step = [r for r in rows if r["steps"] == 1]
    # one step a block: as many forwards as blocks, the one that holds only the end counted too
    lengths = {b: next(r for r in one_step if r["block"] == b) for b in (4, 8)}
    for block, row in lengths.items():
        assert row["tokens"] / block <= row["forwards"] <= row["tokens"] / block + len(found.samples)
    with pytest.raises(UsageError, match="48"):
        run_sweep(found, tiny_vocab(), runtime, blocks=(64,))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SpeedOptions(modes=("greedy",)),
        lambda: SpeedOptions(regimes=()),
        lambda: SpeedOptions(regimes=("book",)),
        lambda: SpeedOptions(clock="sun"),
        lambda: make_runtimes(("cuda",), tiny_vocab(), 1),
    ],
)
def test_nonsense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()


def test_the_command_asks_for_inputs() -> None:
    from derender.bench.cli import app

    result = CliRunner().invoke(app, ["speed", "-o", "x"])
    assert isinstance(result.exception, UsageError) and "--evalset" in str(result.exception)


def test_torch_runs_the_weights_of_an_export_without_a_checkpoint(folder: Path) -> None:
    runtimes, notes = make_runtimes(["torch"], tiny_vocab(), 1, weights=folder)
    assert list(runtimes) == ["torch"] and not notes
    found = made_up_set()
    case = Case("region", "torch", DecodeConfig(mode="ar"))
    plain = Case("region", "onnx", DecodeConfig(mode="ar"))
    groups = groups_of("region", found.samples)
    torch_tokens = run_once(case, runtimes["torch"], groups, found.samples, lambda: 0.0).tokens
    onnx = OnnxRuntime(tiny_vocab(), folder, threads=1)
    assert torch_tokens == run_once(plain, onnx, groups, found.samples, lambda: 0.0).tokens

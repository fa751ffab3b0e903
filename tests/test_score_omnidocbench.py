"""OmniDocBench annotations: loading and matching, on a hand-written page."""

import base64
import io
import json
import re
from pathlib import Path

import pytest
from PIL import Image

from derender.errors import InputError
from derender.score.cdm import Cdm
from derender.score.cdm_rows import add_cdm
from derender.score.html_report import write_html
from derender.score.omnidocbench import add_overall, match_texts, score_omnidocbench, split_markdown
from derender.score.omnidocbench_format import OmniBlock, load_annotations, version_of

A, B, C = "The first block of text here.", "A second block that goes on", "over the column break at last."
POLY = [0, 0, 10, 0, 10, 10, 0, 10]
TABLE = "<table><tr><td>one</td><td>two</td></tr></table>"


def _det(kind: str, number: int, **fields: object) -> dict[str, object]:
    return {"category_type": kind, "poly": POLY, "ignore": False, "order": number, "anno_id": number, **fields}


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    dets = [
        _det("text_block", 2, text=B),
        _det("title", 1, text=A),
        _det("text_block", 3, text=C),
        _det("header", 4, text="Journal of Ships"),
        {**_det("text_block", 5, text="not readable"), "ignore": True},
        _det("table", 6, html=TABLE),
        _det("equation_isolated", 7, latex=r"$$x^{2}$$"),
    ]
    page = {
        "layout_dets": dets,
        "page_info": {"image_path": "p1.jpg", "page_attribute": {"language": "english", "layout": "double_column"}},
        "extra": {"relation": [{"source_anno_id": 2, "target_anno_id": 3, "relation_type": "truncated"}]},
    }
    path = tmp_path / "omni.json"
    path.write_text(json.dumps([page]))
    (tmp_path / "pred").mkdir()
    return path


def test_loading_sorts_joins_and_leaves_out(annotations: Path) -> None:
    (page,) = load_annotations(annotations)
    assert page.texts == (A, f"{B} {C}")
    assert page.layout == "double_column"
    assert ([b.source for b in page.tables], [b.source for b in page.formulas]) == ([TABLE], ["$$x^{2}$$"])


def test_a_perfect_prediction(annotations: Path) -> None:
    markdown = f"# {A}\n\n{B}\n{C}\n\n| one | two |\n|---|---|\n\n$$x^2$$\n"
    (annotations.parent / "pred" / "p1.md").write_text(markdown)
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    values = {(t.task, t.metric): t.value for t in report.totals if "." not in t.metric}
    assert values == {
        ("pages", "text_edit"): 0.0,
        ("pages", "text_extra"): 0.0,
        ("pages", "order_edit"): 0.0,
        ("table", "teds"): 1.0,
        ("table", "teds_s"): 1.0,
        ("formula", "edit"): 0.0,
    }


def test_wrong_order_and_furniture_do_not_count_as_text_errors(annotations: Path) -> None:
    (annotations.parent / "pred" / "p1.md").write_text(f"{B} {C}\n\n{A}\n\n12345678901234567890 xyz")
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    assert report.total("pages", "text_edit") == 0.0
    assert report.total("pages", "order_edit") == 1.0
    assert report.total("pages", "text_extra") == pytest.approx(24 / (24 + len(A) + len(f"{B} {C}")))
    assert (report.total("table", "teds"), report.total("formula", "edit")) == (0.0, 1.0)


def test_a_lost_block_counts_wholly(annotations: Path) -> None:
    (annotations.parent / "pred" / "p1.md").write_text(A)
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    lost = len(f"{B} {C}")
    assert report.total("pages", "text_edit") == pytest.approx(lost / (lost + len(A)))


def test_a_missing_page_is_listed(annotations: Path) -> None:
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    assert report.total("pages", "text_edit") == 1.0
    assert report.skipped[0].file == "p1.jpg"


def test_split_and_merged_paragraphs_match() -> None:
    assert match_texts([B, C, A], [A, f"{B} {C}"]) == [((0, 1), (1,)), ((2,), (0,))]
    assert match_texts([f"{A} {B}"], [A, B]) == [((0,), (0, 1))]
    assert match_texts(["qqqq wwww zzzz"], [A]) == []


def test_split_markdown_keeps_the_order_of_kinds() -> None:
    texts, tables, formulas = split_markdown(f"a\n\n{TABLE}\n\n\\[y\\] tail $z$\n\n$$q$$")
    assert (texts, tables, formulas) == (["a", "tail z"], [TABLE], ["y", "q"])


def test_split_markdown_takes_neighbouring_pipe_rows_only() -> None:
    texts, tables, _ = split_markdown("| a | b |\n|---|---|\n| c | d |\n\nwords | and\n\n| e | f |\n|---|---|\n")
    assert (texts, len(tables), tables[0].count("<tr>")) == (["words | and"], 2, 2)


def test_another_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"pages": []}')
    with pytest.raises(InputError, match="not an OmniDocBench annotation file"):
        load_annotations(tmp_path / "x.json")


def _page(subset: str | None, *dets: dict[str, object]) -> dict[str, object]:
    attribute: dict[str, object] = {"language": "english", "layout": "single_column"}
    if subset is not None:
        attribute["subset"] = subset
    info = {"image_path": f"{subset}.jpg", "width": 200, "height": 100, "page_attribute": attribute}
    return {"layout_dets": list(dets), "page_info": info, "extra": {"relation": []}}


def _write(path: Path, *pages: dict[str, object]) -> Path:
    path.write_text(json.dumps(pages))
    return path


def test_the_version_is_told_by_the_subset(annotations: Path, tmp_path: Path) -> None:
    newer = _write(tmp_path / "new.json", _page("v1.5", _det("title", 1, text=A)))
    assert [version_of(load_annotations(path)) for path in (annotations, newer)] == ["v1.5", "v1.6"]
    assert score_omnidocbench(tmp_path / "pred", newer).evalset == "new.json (OmniDocBench v1.6)"


def test_totals_are_broken_down_by_layout_and_by_subset(tmp_path: Path) -> None:
    pages = [_page(s, _det("text_block", 1, text=A)) for s in ("v1.5", "layout_hard")]
    (tmp_path / "v1.5.md").write_text(A)
    report = score_omnidocbench(tmp_path, _write(tmp_path / "a.json", *pages))
    assert report.total("pages", "text_edit.v1.5") == 0.0
    assert report.total("pages", "text_edit.layout_hard") == 1.0
    assert report.total("pages", "text_edit.single_column") == report.total("pages", "text_edit") == 0.5


def test_blocks_of_newer_types_count_as_what_they_are(tmp_path: Path) -> None:
    kinds = ["list_group", "page_footnote", "table_mask", "equation_semantic"]
    dets = [_det(kind, i, text=f"the text of {kind}", anno_id=i) for i, kind in enumerate(kinds)]
    path = _write(tmp_path / "a.json", _page("v1.5", *dets, _det("hologram", 9, text="new")))
    (page,) = load_annotations(path)
    assert (page.texts, page.unknown) == (("the text of list_group",), ("hologram",))
    reasons = [s.reason for s in score_omnidocbench(tmp_path, path).skipped]
    assert "blocks of the unknown type 'hologram' are left out" in reasons


def test_blocks_know_their_place_as_shares_of_the_page(tmp_path: Path) -> None:
    det = {**_det("table", 1, html=TABLE), "poly": [20, 10, 120, 12, 120, 50, 20, 50]}
    (page,) = load_annotations(_write(tmp_path / "a.json", _page("v1.5", det)))
    assert page.tables == (OmniBlock(TABLE, (0.1, 0.1, 0.6, 0.5)),)


def test_predictions_are_found_where_parse_writes_them(annotations: Path) -> None:
    folder = annotations.parent / "pred" / "p1"
    folder.mkdir()
    (folder / "p1.md").write_text(f"{A}\n\n{B} {C}")
    assert score_omnidocbench(annotations.parent / "pred", annotations).total("pages", "text_edit") == 0.0


def test_each_table_and_formula_has_a_row_and_a_sample_of_its_own(annotations: Path) -> None:
    other = TABLE.replace("two", "six")
    (annotations.parent / "pred" / "p1.md").write_text(f"{other}\n\n$$y^2$$\n")
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    samples = {s.file: s for s in report.samples}
    assert set(samples) == {"p1.jpg", "p1.jpg#table-1", "p1.jpg#formula-1"}
    assert (samples["p1.jpg#table-1"].pred, samples["p1.jpg#table-1"].error) == (other, pytest.approx(1 / 3))
    assert samples["p1.jpg#formula-1"].error == pytest.approx(1 / 5)


def test_the_report_shows_the_block_that_is_meant(tmp_path: Path) -> None:
    det = {**_det("table", 1, html=TABLE), "poly": [20, 10, 120, 10, 120, 50, 20, 50]}
    path = _write(tmp_path / "a.json", _page("x", det))
    (tmp_path / "images").mkdir()
    Image.new("RGB", (200, 100), "white").save(tmp_path / "images/x.jpg")
    write_html(score_omnidocbench(tmp_path, path), tmp_path / "r.html", tmp_path / "images")
    text = (tmp_path / "r.html").read_text("utf-8")
    pictures = re.findall(r"data:image/png;base64,([^']+)", text)
    sizes = sorted(Image.open(io.BytesIO(base64.b64decode(p))).size for p in pictures)
    assert sizes == [(100, 40), (200, 100)]


def test_overall_needs_all_three_and_is_their_mean(annotations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (annotations.parent / "pred" / "p1.md").write_text(f"{A}\n\n{B} {C}\n\n{TABLE}\n\n$$x^2$$")
    report = score_omnidocbench(annotations.parent / "pred", annotations)
    add_overall(report)
    assert not [t for t in report.totals if t.task == "overall"]
    monkeypatch.setattr("derender.score.cdm_rows.cdm_all", lambda pairs: [Cdm(1, 2, 2) for _ in pairs])
    monkeypatch.setattr("derender.score.cdm_rows.require_cdm", lambda: None)
    add_cdm(report)
    add_overall(report)
    assert report.total("formula", "cdm.double_column") == 0.5
    assert report.total("overall", "overall") == pytest.approx((1 + 1 + 0.5) / 3)

"""OmniDocBench annotations: loading and matching, on a hand-written page."""

import json
from pathlib import Path

import pytest

from derender.errors import InputError
from derender.score.omnidocbench import load_annotations, match_texts, score_omnidocbench, split_markdown

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
    assert (page.layout, page.tables, page.formulas) == ("double_column", (TABLE,), ("$$x^{2}$$",))


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

"""Runs on a cluster, the parts that need no cluster: names, units of work, the store, and what a worker does."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import pytest

from cli_helpers import text_pdf
from derender.config import ParseOptions
from derender.document import Page, load
from derender.errors import UsageError
from derender.scale.plan import DocumentInput, cut_unit, expand_uris, page_ranges
from derender.scale.store import Store
from derender.scale.work import Job, Piece, Worker

fsspec = pytest.importorskip("fsspec", reason="the extra `ray` is not installed: no fsspec")


def _memory_root(name: str) -> str:
    return f"memory://derender-test-{name}"


def test_a_folder_gives_its_documents_with_unique_names_in_a_fixed_order(tmp_path: Path) -> None:
    for file in ("b.pdf", "a.pdf", "A.png", "notes.txt", ".hidden.pdf", "deep/a.pdf"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(b"x")
    found = [d.name for d in expand_uris([str(tmp_path)])]
    assert found == ["A", "a.pdf", "b"]
    deep = [d.name for d in expand_uris([str(tmp_path)], recursive=True)]
    assert sorted(deep) == ["A", "a.pdf", "b", "deep_a"]


def test_a_missing_input_stays_in_the_list_and_a_pattern_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "one.pdf").write_bytes(b"x")
    found = expand_uris([str(tmp_path / "none.pdf"), str(tmp_path / "*.pdf")])
    assert [(d.name, d.size) for d in found] == [("none", -1), ("one", 1)]


def test_an_unknown_kind_of_uri_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no path or URI"):
        expand_uris(["nosuch://bucket/file.pdf"])


def test_a_changed_file_or_other_settings_have_another_key() -> None:
    document = DocumentInput("a", "a", 10, "v1")
    keys = {document.key("s"), document.key("t"), DocumentInput("a", "a", 10, "v2").key("s")}
    assert len(keys) == 3 and document.key("s") == DocumentInput("a", "a", 10, "v1").key("s")


def test_only_missing_pages_are_planned_and_units_mix_documents_without_losing_a_page() -> None:
    backlog = deque(page_ranges(0, range(1, 11), {3, 4}) + page_ranges(1, [2, 1]))
    units = []
    while backlog:
        units.append(cut_unit(backlog, 3))
    assert [unit.pages for unit in units] == [3, 3, 3, 1]
    pages = [(r.document, n) for unit in units for r in unit.ranges for n in range(r.first, r.last + 1)]
    assert sorted(pages) == [(0, n) for n in (1, 2, 5, 6, 7, 8, 9, 10)] + [(1, 1), (1, 2)]
    assert len(units[2].ranges) == 2  # the last pages of one document and the first of the next


def test_a_page_kept_twice_counts_once_and_half_a_part_does_not_count() -> None:
    store = Store(_memory_root("twice"))
    pages = [Page(number=n, width=1, height=1, dpi=72) for n in (1, 2, 3)]
    store.add_pages("k", pages)
    store.add_pages("k", pages[1:2])
    store.fs.pipe_file(f"{store.root}/.derender/pages/k/000004-000004.jsonl.1234.new", b'{"num')
    assert store.pages_done("k") == {1, 2, 3}
    assert sorted(store.load_pages("k")) == [1, 2, 3]


def test_a_write_that_fails_on_a_file_system_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(store.fs, "mv", full)
    with pytest.raises(OSError, match="no space"):
        store.add_pages("k", [Page(number=1, width=1, height=1, dpi=72)])
    monkeypatch.undo()
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_worker_reads_pages_of_several_documents_and_puts_each_together(tmp_path: Path, remote: bool) -> None:
    inputs = []
    for name, count in (("long", 3), ("short", 1)):
        data = text_pdf(*[f"Sentence {n} stands in the {name} file" for n in range(1, count + 1)])
        uri = f"{_memory_root('in')}/{name}.pdf" if remote else str(tmp_path / f"{name}.pdf")
        with fsspec.open(uri, "wb") as file:
            file.write(data)
        inputs.append(uri)
    documents = expand_uris(inputs)
    out = _memory_root("out") if remote else str(tmp_path / "out")
    worker = Worker(Job(out, ParseOptions(mode="text", threads=1), ("md", "json", "overlay"), "settings"))
    assert [p.numbers for p in worker.probe(documents)] == [(1, 2, 3), (1,)]

    assert worker.read([Piece(documents[0], 2, 3), Piece(documents[1], 1, 1)]) == 0
    assert worker.finish(documents[0], (1, 2, 3)) is None  # page 1 is missing
    assert worker.probe(documents)[0].done == {2, 3}
    worker.read([Piece(documents[0], 1, 1)])
    done = worker.finish(documents[0], (1, 2, 3))

    assert done is not None and done.pages == 3 and done.status == "ok"
    assert worker.store.finished() == {documents[0].key("settings")}
    assert worker.store.pages_done(documents[0].key("settings")) == set()
    text = worker.store.fs.cat_file(f"{worker.store.root}/long/long.md").decode()
    assert [f"Sentence {n} stands" in text for n in (1, 2, 3)] == [True] * 3
    assert worker.store.fs.exists(f"{worker.store.root}/long/long_layout.pdf")


def test_what_went_wrong_is_in_the_table_and_an_unreadable_document_writes_nothing(tmp_path: Path) -> None:
    blank = text_pdf("good", "bad").replace(b"/MediaBox [0 0 300 200] /Contents 6", b"/MediaBox [0 0 0.1 90000] /C 6")
    (tmp_path / "part.pdf").write_bytes(blank)
    (document,) = expand_uris([str(tmp_path / "part.pdf")])
    worker = Worker(Job(str(tmp_path / "out"), ParseOptions(mode="text", threads=1), ("json",), "s"))
    worker.read([Piece(document, 1, 2)])
    done = worker.finish(document, (1, 2))
    assert done is not None and done.status == "partial"
    assert worker.store.write_failures({document.key("s")}) == 1
    (row,) = [json.loads(line) for line in (tmp_path / "out" / "failures.jsonl").read_text().splitlines()]
    assert (row["name"], row["page"], row["status"]) == ("part", 2, "failed") and row["error"]
    assert load(tmp_path / "out" / "part" / "part.json").status == "partial"

    (tmp_path / "none.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    (gone,) = expand_uris([str(tmp_path / "none.pdf")])
    assert worker.probe([gone])[0].error
    assert not (tmp_path / "out" / "none").exists()

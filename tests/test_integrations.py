"""The loaders for LangChain and LlamaIndex, with the real base classes, on real documents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_helpers import text_pdf
from derender.errors import InputError, MissingExtraError, UsageError
from derender.integrations.pieces import Loading, Piece, load_pieces
from serve_helpers import EXAMPLES

PAPER = EXAMPLES / "groundwater.pdf"


def pieces(*paths: Path, **given: Any) -> list[Piece]:
    from derender.config import ParseOptions

    return list(load_pieces(Loading(paths, **given), ParseOptions(mode="text", threads=1)))


@pytest.fixture(scope="module")
def chunks() -> list[Piece]:
    return pieces(PAPER, max_tokens=200)


def test_chunks_say_where_they_stand(chunks: list[Piece]) -> None:
    found = next(c for c in chunks if "Summary" in c.metadata["headings"])
    metadata = found.metadata
    assert metadata["source"] == str(PAPER) and metadata["page_count"] == 4
    assert metadata["page"] == metadata["pages"][0] == metadata["places"][0]["page"]
    assert len(metadata["places"][0]["box"]) == 4
    assert len({c.id for c in chunks}) == len(chunks) > 4
    assert json.loads(json.dumps([c.metadata for c in chunks]))


def test_pages_and_the_whole_hold_the_same_text() -> None:
    (whole,) = pieces(PAPER, by="document")
    by_page = pieces(PAPER, by="page")
    assert [p.metadata["page"] for p in by_page] == [1, 2, 3, 4] == whole.metadata["pages"]
    words = set(whole.text.split())
    assert len(words & set(" ".join(p.text for p in by_page).split())) > 0.95 * len(words)


@pytest.mark.parametrize("by", ["chunk", "page", "document"])
def test_no_two_files_share_an_id(tmp_path: Path, by: str) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "report.pdf").write_bytes(text_pdf(f"This is the report of folder {folder}."))
    found = pieces(tmp_path, by=by, recursive=True)
    assert len({piece.id for piece in found}) == len(found) == 2
    assert [piece.id for piece in pieces(tmp_path, by=by, recursive=True)] == [piece.id for piece in found]


def test_a_bad_file_is_raised_or_skipped_and_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 broken")
    (tmp_path / "b.pdf").write_bytes(text_pdf("This second file is whole and can be read."))
    with pytest.raises(InputError):
        pieces(tmp_path)
    told: list[str] = []
    found = pieces(tmp_path, on_error="skip", failed=lambda path, error: told.append(path.name))
    assert told == ["a.pdf"] and {Path(p.metadata["source"]).name for p in found} == {"b.pdf"}
    for wrong in ({"by": "line"}, {"on_error": "ignore"}, {"max_tokens": 0}):
        with pytest.raises(UsageError):
            Loading((tmp_path,), **wrong)


def test_files_are_read_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(text_pdf("This first file is whole and can be read."))
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 broken")
    from derender.config import ParseOptions

    stream = load_pieces(Loading((tmp_path,), by="document"), ParseOptions(mode="text", threads=1))
    assert "first file" in next(stream).text
    with pytest.raises(InputError):
        next(stream)


def test_langchain_loads_and_filters(chunks: list[Piece]) -> None:
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    from derender.integrations.langchain import DerenderLoader

    loader = DerenderLoader(PAPER, max_tokens=200, mode="text", threads=1)
    assert isinstance(loader, BaseLoader)
    documents = loader.load()
    assert [(d.id, d.page_content, d.metadata) for d in documents] == [(c.id, c.text, c.metadata) for c in chunks]
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_documents(documents)
    found = store.similarity_search(documents[3].page_content, k=1, filter=lambda d: d.metadata["page"] >= 1)
    assert found[0].id == documents[3].id
    with pytest.raises(UsageError):
        DerenderLoader(PAPER, mode="magic")
    with pytest.raises(TypeError):
        DerenderLoader(PAPER, no_such_option=1)


def test_llamaindex_loads_and_works_in_a_directory_reader(chunks: list[Piece], tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core", reason="the extra llamaindex is not installed")
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.schema import MetadataMode

    from derender.integrations.llamaindex import DerenderReader

    reader = DerenderReader(max_tokens=200, mode="text", threads=1)
    documents = reader.load_data(PAPER)
    assert [(d.id_, d.text, d.metadata) for d in documents] == [(c.id, c.text, c.metadata) for c in chunks]
    seen = documents[-1].get_content(MetadataMode.EMBED)
    assert "headings" in seen and "places" not in seen and "box" not in seen
    (tmp_path / "a.pdf").write_bytes(text_pdf("A file that a directory reader finds by itself."))
    found = SimpleDirectoryReader(str(tmp_path), file_extractor={".pdf": reader}).load_data()
    assert "directory reader finds" in found[0].text and found[0].metadata["page"] == 1
    assert found[0].metadata["file_name"] == "a.pdf"


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("langchain", "langchain_core", "langchain"), ("llamaindex", "llama_index", "llamaindex")],
)
def test_a_missing_framework_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"derender.integrations.{module}", raising=False)
    with pytest.raises((MissingExtraError, ModuleNotFoundError)) as raised:
        __import__(f"derender.integrations.{module}")
    assert f"pip install 'derender[{extra}]'" in str(raised.value)

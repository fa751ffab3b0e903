"""The MCP server, asked by the SDK's own client: in memory, and once as the real command over standard input."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cli_helpers import text_pdf
from serve_helpers import EXAMPLES, EchoRecogniser, pdf, picture

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, StdioServerParameters, stdio_client

from derender.config import ParseOptions
from derender.document import Document, Line, Page, Region, RegionType
from derender.errors import InputError, UsageError
from derender.mcp_server.access import Roots
from derender.mcp_server.library import Library
from derender.mcp_server.search import search
from derender.mcp_server.server import make_server
from derender.mcp_server.show import encode, piece

Call = Callable[..., Coroutine[Any, Any, Any]]


def library(folder: Path, **given: Any) -> Library:
    return Library(Roots([folder], 50_000_000), ParseOptions(threads=1), recogniser=EchoRecogniser(), **given)


def talk(asked: Library, conversation: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """What the conversation with a server in this process returns."""

    async def run() -> Any:
        async with Client(make_server(asked)) as client:
            return await conversation(client)

    return asyncio.run(run())


async def ask(client: Client, tool: str, **arguments: Any) -> tuple[Any, list[Any]]:
    """(facts, the other parts of the answer)."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    first, *rest = answer.content
    return json.loads(first.text), rest


def refusal(asked: Library, tool: str, **arguments: Any) -> str:
    async def conversation(client: Client) -> Any:
        return await client.call_tool(tool, arguments)

    answer = talk(asked, conversation)
    assert answer.is_error
    return str(answer.content[0].text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"Page {n} tells of the number {n * 111} and of nothing else." for n in range(1, 4)]
    (tmp_path / "three.pdf").write_bytes(text_pdf(*lines))
    (tmp_path / "scan.pdf").write_bytes(pdf(1))
    return tmp_path


def test_a_document_is_read_and_asked_about(folder: Path) -> None:
    async def conversation(client: Client) -> None:
        told: list[tuple[float, float | None]] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append((done, total))

        answer = await client.call_tool("parse_document", {"path": "three.pdf"}, progress_callback=progress)
        facts = json.loads(answer.content[0].text)
        handle = facts["document"]
        assert (facts["status"], facts["page_count"], facts["pages_read"]) == ("ok", 3, "1-3")
        assert "<!-- page 2 -->\n\n# Page 2 tells of the number 222" in answer.content[1].text
        assert told == [(1, 3), (2, 3), (3, 3)]

        found, _ = await ask(client, "search", document=handle, query="the nunber 222")
        best = found["passages"][0]
        assert best["places"][0]["page"] == 2 and "number 222" in best["text"]

        regions, _ = await ask(client, "list_regions", document=handle, page=2)
        region = regions["regions"][0]
        assert region["region"] == best["places"][0]["region"] and region["start"].startswith("Page 2 tells")

        facts, (text, image) = await ask(client, "read_region", document=handle, page=2, region=region["region"])
        assert text.text.strip() == "# Page 2 tells of the number 222 and of nothing else."
        crop = Image.open(io.BytesIO(base64.b64decode(image.data)))
        assert image.mime_type == "image/png"
        wide, high = region["box"][2] - region["box"][0], region["box"][3] - region["box"][1]
        assert crop.width / crop.height == pytest.approx((wide + 4) / (high + 4), rel=0.1)  # clipped at the page's edge
        assert crop.convert("L").getextrema()[0] < 100

        whole, (text, image) = await ask(client, "read_region", document=handle, page=2)
        assert whole["width"] == 300 and "Page 2 tells" in text.text
        _, rest = await ask(client, "read_region", document=handle, page=2, picture=False)
        assert [part.type for part in rest] == ["text"]

    talk(library(folder), conversation)


def test_long_texts_come_in_pieces_that_join_to_the_whole(folder: Path) -> None:
    async def conversation(client: Client) -> tuple[str, str, int]:
        facts, (first,) = await ask(client, "parse_document", path="three.pdf", limit=60)
        text, calls = first.text, 1
        while (offset := facts.get("next_offset")) is not None:
            assert len(text) == offset
            last = facts
            facts, (more,) = await ask(
                client, "read_text", document=last.get("document") or handle, offset=offset, limit=60
            )
            text, calls = text + more.text, calls + 1
        return text, facts["characters"], calls

    asked = library(folder)
    handle = asked.parse("three.pdf").handle
    text, total, calls = talk(asked, conversation)
    assert text == asked.get(handle).markdown and len(text) == total and calls > 3


def test_a_scan_is_read_once_and_found_again_by_content(folder: Path) -> None:
    asked = library(folder, keep=2)
    recogniser = asked._pipeline.recogniser
    assert isinstance(recogniser, EchoRecogniser)
    first = asked.parse("scan.pdf", mode="ocr")
    assert "read text" in first.markdown and len(recogniser.batches) > 0
    batches = len(recogniser.batches)
    assert asked.parse(str(folder / "scan.pdf"), mode="ocr").handle == first.handle
    assert len(recogniser.batches) == batches
    others = {asked.parse("three.pdf", pages=str(n)).handle for n in (1, 2)}
    assert len(others) == 2
    with pytest.raises(InputError, match="call parse_document again"):
        asked.get(first.handle)  # two are kept, and this was the longest unused


def test_a_file_that_changed_gives_its_text_but_no_picture(folder: Path) -> None:
    async def conversation(client: Client) -> None:
        facts, _ = await ask(client, "parse_document", path="three.pdf", pages="1")
        (folder / "three.pdf").write_bytes(text_pdf("Something else altogether stands here now."))
        region, rest = await ask(client, "read_region", document=facts["document"], page=1)
        assert "has changed" in region["no_picture"] and [part.type for part in rest] == ["text"]
        assert "Page 1 tells" in rest[0].text
        again, (text,) = await ask(client, "parse_document", path="three.pdf", pages="1")
        assert again["document"] != facts["document"] and "Something else" in text.text

    talk(library(folder), conversation)


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("parse_document", {"path": "none.pdf"}, "none.pdf does not exist."),
        ("parse_document", {"path": "three.pdf", "pages": "9"}, "the document has pages 1 to 3"),
        ("parse_document", {"path": "three.pdf", "pages": "x"}, "not a list of pages"),
        ("parse_document", {"path": "."}, "is not a file"),
        ("parse_document", {"path": "notes.txt"}, "neither a PDF nor a picture"),
        ("read_text", {"document": "gone"}, "call parse_document again"),
        ("list_documents", {"folder": "three.pdf"}, "is not a folder"),
        ("parse_document", {"path": "three.pdf", "mode": "magic"}, "mode"),
    ],
)
def test_errors_are_sentences(folder: Path, tool: str, arguments: dict[str, str], sentence: str) -> None:
    (folder / "notes.txt").write_text("no document")
    text = refusal(library(folder), tool, **arguments)
    assert sentence in text and "Traceback" not in text


def test_too_many_pages_say_how_to_choose(folder: Path) -> None:
    assert "choose with pages, such as 1-2" in refusal(library(folder, max_pages=2), "parse_document", path="three.pdf")


def test_regions_and_pages_that_are_not_there_name_those_that_are(folder: Path) -> None:
    asked = library(folder)
    handle = asked.parse("three.pdf", pages="1,3").handle
    assert "those read are 1,3" in refusal(asked, "list_regions", document=handle, page=2)
    assert "it has p1r1" in refusal(asked, "read_region", document=handle, page=1, region="p9")
    assert "offset must lie" in refusal(asked, "read_text", document=handle, offset=10_000)


def test_nothing_outside_the_roots_is_read_or_told_of(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.pdf").write_bytes(text_pdf("A secret that must not be read by anybody."))
    (inside / "link.pdf").symlink_to(outside / "secret.pdf")
    (inside / "folder").symlink_to(outside)
    (inside / "loop.pdf").symlink_to(inside / "loop.pdf")
    os.mkfifo(inside / "pipe.pdf")
    roots = Roots([inside], 50_000_000)
    for path in ("link.pdf", "folder/secret.pdf", "../outside/secret.pdf", str(outside / "secret.pdf"), "/none.pdf"):
        with pytest.raises(InputError, match="lies outside the folders"):
            roots.read(path)
    for path in ("pipe.pdf", "loop.pdf", "a\0b"):
        with pytest.raises(InputError):
            roots.read(path)
    assert roots.list() == ([], True)
    (inside / "mine.pdf").write_bytes(text_pdf("This one may be read by everybody here."))
    assert [Path(found.path).name for found in roots.list()[0]] == ["mine.pdf"]
    with pytest.raises(InputError, match="larger than"):
        Roots([inside], 10).read("mine.pdf")
    with pytest.raises(UsageError):
        Roots([inside / "mine.pdf"], 10)


def test_a_list_that_is_cut_off_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def conversation(client: Client) -> tuple[Any, Any]:
        whole, _ = await ask(client, "list_documents")
        monkeypatch.setattr("derender.mcp_server.access.MOST_SEEN", 1)
        part, _ = await ask(client, "list_documents")
        return whole, part

    whole, part = talk(library(folder), conversation)
    assert whole["total"] == 2 and "warning" not in whole
    assert part["total"] == 1 and "name a folder" in part["warning"]


def test_pieces_end_at_lines_and_never_stand_still() -> None:
    text = "one two three\n" * 100
    assert piece(text, 0, 100).text.endswith("\n")
    assert piece("x" * 50, 0, 10).text == "x" * 10
    assert piece("", 0, 10).next_offset is None
    with pytest.raises(UsageError):
        piece("abc", 3)


def block(page: int, order: int, text: str, kind: RegionType = RegionType.TEXT, **more: Any) -> Region:
    line = Line(box=(10, 20, 200, 40), text=text)
    return Region(
        id=f"p{page}r{order}",
        type=kind,
        order=order,
        box=(10, 20, 200, 40),
        text=text,
        lines=[line],
        source="ocr",
        **more,
    )


def test_search_forgives_letters_and_finds_over_page_breaks() -> None:
    pages = [
        [block(1, 1, "The café was closed"), block(1, 2, "Water levels rose in every well of the val-")],
        [block(2, 1, "ley that was measured.", continues="p1r2"), block(2, 2, "The")],
    ]
    document = Document(
        name="d", pages=[Page(number=n + 1, width=300, height=400, dpi=150, regions=r) for n, r in enumerate(pages)]
    )
    (hit,) = search(document, "Cafe  WAS")
    assert (hit.score, hit.text) == (100.0, "The café was closed")
    (hit,) = search(document, "well of the valley that was meesured")
    assert [(page.number, region.id) for page, region in hit.parts] == [(1, "p1r2"), (2, "p2r1")]
    assert search(document, "measured water") and not search(document, "entirely different matters")
    assert search(document, "   ") == []


def test_pictures_are_bounded_in_pixels_and_bytes() -> None:
    import numpy as np

    noise = np.random.default_rng(0).integers(0, 256, (2000, 3000, 3), np.uint8)
    data, kind = encode(noise)
    assert kind == "jpeg" and max(Image.open(io.BytesIO(data)).size) == 1568 and len(data) < 2_500_000


def test_the_command_speaks_over_standard_input_and_nothing_else_goes_out(tmp_path: Path) -> None:
    (tmp_path / "line.png").write_bytes(picture("A line that is really read"))
    arguments = ["-m", "derender.cli", "mcp", "--root", str(tmp_path), "--root", str(EXAMPLES), "--threads", "1"]
    source = str(Path(__file__).parents[1] / "src")
    server = StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, "PYTHONPATH": source})

    async def run() -> None:
        async with Client(stdio_client(server)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {
                "list_documents", "parse_document", "read_text", "list_regions", "read_region", "search"
            }  # fmt: skip
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
            listed, _ = await ask(client, "list_documents")
            assert {Path(f["path"]).name for f in listed["files"]} >= {"line.png", "groundwater.pdf"}
            # The models are loaded here, with all that their libraries like to print.
            facts, (text,) = await ask(client, "parse_document", path="line.png")
            assert "really read" in text.text
            facts, _ = await ask(client, "parse_document", path="groundwater.pdf", pages="1", mode="text")
            found, _ = await ask(client, "search", document=facts["document"], query="decision support")
            assert found["total"] > 0
            answer = await client.call_tool("parse_document", {"path": "/etc/hostname"})
            assert answer.is_error and "lies outside" in str(answer.content[0])

    asyncio.run(run())

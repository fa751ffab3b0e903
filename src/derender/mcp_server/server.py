"""The tools, as the protocol shows them. Each answers with facts as JSON, then text, then a picture where there is one;
what goes wrong is one sentence, as a tool's error. Needs the extra `mcp`; what the tools do is in the other modules.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, ParamSpec

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from derender import __version__
from derender.errors import DerenderError, InputError
from derender.mcp_server import search as searching
from derender.mcp_server import show
from derender.mcp_server.library import Library, Opened, Stopped

P = ParamSpec("P")

INSTRUCTIONS = """\
Reads PDFs, scans and photos. parse_document gives a document's Markdown and a handle for the other tools. Long texts
come in pieces: while next_offset is there, call read_text with it. Scans take seconds a page: choose pages when you
need only some. Boxes are x0, y0, x1, y1 in points (1/72 inch) from the page's top-left corner. Where a reading is in
doubt (low confidence, status partial), look at the picture that read_region gives."""
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

Handle = Annotated[str, Field(description="The handle that parse_document gave", max_length=200)]
Offset = Annotated[int, Field(ge=0, description="Character to begin at: next_offset of the answer before")]
Limit = Annotated[int, Field(ge=1, le=show.MOST, description="Most characters to answer with")]
Number = Annotated[int, Field(ge=1, description="Page number in the file, from 1")]


def sentences(tool: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """Errors raised on purpose reach the agent as they are; the SDK hides the text of all others."""

    @functools.wraps(tool)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return await tool(*args, **kwargs)
        except DerenderError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)

    return guarded


def make_server(library: Library) -> MCPServer:
    """The server; `run("stdio")` serves until standard input ends."""
    server = MCPServer("derender", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    def tool(title: str) -> Callable[[Callable[..., Awaitable[Any]]], Any]:
        def add(function: Callable[..., Awaitable[Any]]) -> Any:
            return server.tool(title=title, annotations=READ_ONLY, structured_output=False)(sentences(function))

        return add

    @tool("List documents")
    async def list_documents(
        folder: Annotated[str, Field(description="A folder that this server may read; all of them if empty")] = "",
        offset: Annotated[int, Field(ge=0, description="Files to skip")] = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> list[Any]:
        """Lists the PDFs and pictures that can be read, with their sizes in bytes, folders inside included."""
        found, whole = await anyio.to_thread.run_sync(library.roots.list, folder)
        shown = found[offset : offset + limit]
        more = offset + len(shown)
        facts = {
            "folders": [str(f) for f in library.roots.folders],
            "files": [{"path": f.path, "bytes": f.size} for f in shown],
            "total": len(found),
            "next_offset": more if more < len(found) else None,
            "warning": None if whole else "the folders hold too much to look at all of it: name a folder inside them",
        }
        return [_json(facts)]

    @tool("Read a document")
    async def parse_document(
        path: Annotated[str, Field(description="A PDF or picture in a folder that this server may read")],
        ctx: Context[Any, Any],
        pages: Annotated[str | None, Field(description='Such as "1-3,7" or "5-"; all if left out')] = None,
        mode: Annotated[
            Literal["auto", "ocr", "text"],
            Field(
                description="auto: a PDF's own words where sound, else the picture; ocr: the picture; text: own words"
            ),
        ] = "auto",
        password: Annotated[str | None, Field(description="Of an encrypted PDF")] = None,
        limit: Limit = show.LIMIT,
    ) -> list[Any]:
        """Reads a document and answers with its Markdown and a handle for the other tools. The same file with the same
        options is read once and then remembered for a while."""
        opened = await _parse(library, ctx, path, mode, pages, password)
        part = show.piece(opened.markdown, 0, limit)
        return [_json({**show.document_facts(opened.handle, opened.document), **part.facts()}), part.text]

    @tool("Read on")
    async def read_text(
        document: Handle,
        page: Annotated[int | None, Field(ge=1, description="One page alone, with headers and footers")] = None,
        offset: Offset = 0,
        limit: Limit = show.LIMIT,
    ) -> list[Any]:
        """More of a document's Markdown, from an offset on, or that of one page. `<!-- page 3 -->` marks where pages
        begin."""
        opened = library.get(document)
        text = opened.markdown
        if page is not None:
            text = show.page_markdown(opened.document, show.find_page(opened.document, page))
        part = show.piece(text, offset, limit)
        return [_json(part.facts()), part.text]

    @tool("List a page's regions")
    async def list_regions(
        document: Handle,
        page: Number,
        offset: Annotated[int, Field(ge=0, description="Regions to skip")] = 0,
        limit: Annotated[int, Field(ge=1, le=500)] = 100,
    ) -> list[Any]:
        """The regions of a page in reading order: ids for read_region, types, boxes, confidences, how each begins."""
        found = show.find_page(library.get(document).document, page)
        regions = show.in_order(found)
        shown = regions[offset : offset + limit]
        more = offset + len(shown)
        facts = {
            **show.page_facts(found),
            "regions": [{**show.region_facts(found, r), "start": show.start_of(r)} for r in shown],
            "next_offset": more if more < len(regions) else None,
        }
        return [_json(facts)]

    @tool("Read a region")
    async def read_region(
        document: Handle,
        page: Number,
        region: Annotated[
            str | None, Field(description="Region id from list_regions or search; the whole page if left out")
        ] = None,
        picture: Annotated[bool, Field(description="Whether to send the picture of it, too")] = True,
        offset: Offset = 0,
        limit: Limit = show.LIMIT,
    ) -> list[Any]:
        """One region, or a whole page: its Markdown, where it stands, how sure the reading is, and its picture."""
        opened = library.get(document)
        found = show.find_page(opened.document, page)
        chosen = show.find_region(found, region) if region else None
        if chosen is None:
            facts, text = show.page_facts(found), show.page_markdown(opened.document, found)
        else:
            facts, text = show.region_facts(found, chosen), show.region_markdown(found, chosen)
        part = show.piece(text, offset, limit)
        facts |= part.facts()
        image = None
        if picture:
            try:
                image = await anyio.to_thread.run_sync(_picture, library, opened, found, chosen)
            except InputError as error:  # the text is still worth having
                facts["no_picture"] = str(error)
        return [_json(facts), part.text, *([image] if image else [])]

    @tool("Search in a document")
    async def search(
        document: Handle,
        query: Annotated[str, Field(min_length=1, max_length=500, description="Words or a phrase, not a question")],
        offset: Annotated[int, Field(ge=0, description="Passages to skip")] = 0,
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> list[Any]:
        """Passages that hold the query or nearly so (case, accents and a few wrong letters do not matter), best first,
        with page, region and box. score 100: exactly as asked."""
        opened = library.get(document)
        hits = await anyio.to_thread.run_sync(searching.search, opened.document, query)
        shown = hits[offset : offset + limit]
        more = offset + len(shown)
        facts = {
            "total": len(hits),
            "passages": [
                {
                    "score": hit.score,
                    "text": hit.text,
                    "places": [
                        {"page": p.number, "region": r.id, "type": str(r.type), "box": [round(v, 1) for v in r.box]}
                        for p, r in hit.parts
                    ],
                }
                for hit in shown
            ],
            "next_offset": more if more < len(hits) else None,
        }
        return [_json(facts)]

    return server


async def _parse(library: Library, ctx: Context[Any, Any], path: str, mode: str, pages: Any, password: Any) -> Opened:
    """Reads in a thread, tells of each page, and ends after the page under way when the client takes the call back."""
    gone = threading.Event()

    def on_page(done: int, count: int) -> None:
        if gone.is_set():
            raise Stopped("the call was taken back")
        anyio.from_thread.run(ctx.report_progress, done, count, f"page {done} of {count}")

    def read() -> Opened:
        return library.parse(path, mode, pages, password, on_page)

    try:
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        gone.set()
        raise


def _picture(library: Library, opened: Opened, page: Any, region: Any) -> Image:
    data, kind = show.encode(show.region_picture(library.picture(opened, page), page, region))
    return Image(data=data, format=kind)


def _json(facts: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in facts.items() if value is not None}, ensure_ascii=False)

"""POST /file_parse as MinerU's clients call it: files in a form, for each its Markdown, content list and pictures out.

output_dir, backend, lang_list, formula_enable and server_url are taken and have no effect here; what derender does not
make (middle JSON, model output) is refused and not faked.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zipfile
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from derender import __version__
from derender.assemble.files import unique_name
from derender.serve.options import ParseParameters
from derender.serve.outcome import Outcome, render
from derender.serve.problems import ApiError
from derender.serve.reader import clean_name
from derender.serve.routes_parse import run_document
from derender.serve.service import Service
from derender.serve.uploads import Upload, problems, read_form, validate

_METHODS = {"auto": "auto", "ocr": "ocr", "txt": "text"}


class FileParse(BaseModel):
    """The form's fields that matter; others are ignored, as MinerU does."""

    model_config = ConfigDict(extra="ignore")
    parse_method: str = Field(default="auto", pattern="^(auto|ocr|txt)$")
    return_md: bool = True
    return_content_list: bool = False
    return_images: bool = False
    return_middle_json: bool = False
    return_model_output: bool = False
    response_format_zip: bool = False
    start_page_id: int = Field(default=0, ge=0, le=1_000_000)
    end_page_id: int = Field(default=99999, ge=0, le=1_000_000)


class FileResult(BaseModel):
    """One file's reading; fields that were not asked for are left out."""

    md_content: str | None = None
    content_list: str | None = None
    images: dict[str, str] | None = None


class FileParseAnswer(BaseModel):
    backend: str = "derender"
    version: str = __version__
    results: dict[str, FileResult]


def mineru_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["mineru"])
    form = FileParse.model_json_schema()
    files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    schema = {"type": "object", "required": ["files"], "properties": {"files": files, **form["properties"]}}

    @router.post(
        "/file_parse",
        response_model=FileParseAnswer,
        response_model_exclude_none=True,
        responses={
            200: {"content": {"application/zip": {}}, "description": "JSON, or a zip if that was asked for"},
            **problems(415, 429, 500),
        },
        openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}},
        summary="Read files, in the form of MinerU's API",
    )
    async def file_parse(request: Request) -> Any:
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise ApiError(415, "unsupported_body", "send multipart/form-data with files")
        with service.dispatcher.seat():
            uploads, fields = await read_form(request)
            wanted = validate(FileParse, fields)
            if wanted.return_middle_json or wanted.return_model_output:
                raise ApiError(422, "bad_option", "derender makes no middle JSON and no model output")
            if not uploads:
                raise ApiError(422, "bad_form", "the form must hold at least one file")
            if wanted.end_page_id < wanted.start_page_id:
                raise ApiError(422, "bad_option", "end_page_id lies before start_page_id")
            found: dict[str, Outcome] = {}
            for file in uploads:
                name = unique_name(clean_name(file.filename or "document"), found)
                # MinerU counts pages from 0 and takes an end beyond the last page for the last.
                pages = f"{wanted.start_page_id + 1}-"
                options = ParseParameters(mode=_METHODS[wanted.parse_method], pages=pages)  # type: ignore[arg-type]
                upload = Upload(await file.read(), name, options, last_page=wanted.end_page_id + 1)
                found[name] = await run_document(service, request, upload)
            if wanted.response_format_zip:
                return Response(await asyncio.to_thread(_zip, found), media_type="application/zip")
            return FileParseAnswer(results={name: _result(o, wanted) for name, o in found.items()})

    return router


def _result(outcome: Outcome, wanted: FileParse) -> FileResult:
    document = outcome.document
    result = FileResult()
    if wanted.return_md:
        result.md_content = render(outcome, "md", ParseParameters()).decode()
    if wanted.return_content_list:
        result.content_list = json.dumps(document.to_content_list(), ensure_ascii=False)
    if wanted.return_images:
        result.images = {
            name.removeprefix("images/"): f"data:image/png;base64,{base64.b64encode(data).decode()}"
            for name, data in outcome.pictures.items()
        }
    return result


def _zip(found: dict[str, Outcome]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, outcome in found.items():
            archive.writestr(f"{name}/{name}.md", render(outcome, "md", ParseParameters()))
            archive.writestr(f"{name}/{name}_content_list.json", render(outcome, "content-list", ParseParameters()))
            for path, data in outcome.pictures.items():
                archive.writestr(f"{name}/{path}", data)
    return buffer.getvalue()

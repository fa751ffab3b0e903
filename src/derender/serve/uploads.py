"""From a request's body to a document and its options: multipart forms and JSON with base64, checked and bounded.

Handlers call `read_upload` only after they have a seat or room, so that a busy service reads no bodies.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from derender.serve.fetch import fetch
from derender.serve.limits import ServeSettings
from derender.serve.options import ParseParameters
from derender.serve.problems import ApiError, Problem

M = TypeVar("M", bound=BaseModel)


class JsonUpload(ParseParameters):
    """A document in JSON: its bytes as base64, or, where the service allows it, a URL; and the options beside it."""

    file: str | None = Field(default=None, description="The document, base64 (a data: URI is fine too)")
    url: str | None = Field(default=None, description="Where to fetch it; only where --allow-urls was given")
    name: str = Field(default="document", max_length=255)


class JobUpload(JsonUpload):
    """As JsonUpload, for a job."""

    keep_input: bool = Field(default=False, description="Keep the document with the result, for pages and replays")


@dataclass(frozen=True)
class Upload:
    """A document that came in. last_page: the last to read, or the document's own last if that comes first."""

    data: bytes
    name: str
    wanted: ParseParameters
    keep_input: bool = False
    last_page: int | None = None


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of the body that read_upload takes."""
    schema = model.model_json_schema()
    options = {k: v for k, v in schema["properties"].items() if k not in ("file", "url", "name")}
    form = {
        "type": "object",
        "required": ["file"],
        "properties": {"file": {"type": "string", "format": "binary"}, **options},
    }
    content = {"multipart/form-data": {"schema": form}, "application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers beside success, for OpenAPI."""
    return {status: {"model": Problem} for status in sorted({401, 403, 404, 408, 413, 422, 503, *statuses})}


def validate(model: type[M], values: Any) -> M:
    """Raises ApiError 422 with the first fault in words."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        message = f"{where}: {first['msg']}".encode("utf-8", "replace").decode()
        raise ApiError(422, "bad_option", message[:500]) from None


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises ApiError 422."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ApiError(422, "bad_json", "the body is not JSON") from None


async def read_form(request: Request) -> tuple[list[UploadFile], dict[str, str]]:
    """The files and the fields of a multipart form. Raises ApiError 422."""
    try:
        form = await request.form(max_files=64, max_fields=100)
    except HTTPException as error:
        raise ApiError(422, "bad_form", f"the form cannot be read: {error.detail}") from None
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    return files, {key: value for key, value in form.multi_items() if isinstance(value, str)}


async def read_upload(request: Request, settings: ServeSettings, model: type[JsonUpload] = JsonUpload) -> Upload:
    """Raises ApiError 413, 415 and 422."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        files, fields = await read_form(request)
        if len(files) != 1:
            raise ApiError(422, "bad_form", f"the form must hold one file, not {len(files)}")
        named = {k: v for k, v in fields.items() if k not in ("file", "url", "name")}
        body: JsonUpload = validate(model, named)
        data, name = await files[0].read(), files[0].filename or "document"
    elif kind == "application/json":
        body = validate(model, await read_json(request))
        data, name = await _bytes_of(body, settings), body.name
    else:
        raise ApiError(415, "unsupported_body", "send multipart/form-data with a file, or application/json with base64")
    if not data:
        raise ApiError(422, "unreadable_document", "the document is empty")
    wanted = ParseParameters.model_validate(body.model_dump(include=set(ParseParameters.model_fields)))
    return Upload(data, name, wanted, getattr(body, "keep_input", False))


async def _bytes_of(body: JsonUpload, settings: ServeSettings) -> bytes:
    if (body.file is None) == (body.url is None):
        raise ApiError(422, "bad_option", "give either file (base64) or url")
    if body.url is not None:
        return await fetch_url(body.url, settings)
    assert body.file is not None
    return decode_base64(body.file)


async def fetch_url(url: str, settings: ServeSettings) -> bytes:
    """The bytes behind an http(s) URL or in a data: URI. Raises ApiError 413 and 422."""
    if url.startswith("data:"):
        return decode_base64(url)
    if not settings.allow_urls:
        raise ApiError(422, "urls_not_allowed", "this service fetches nothing from URLs: send the bytes")
    return await run_in_threadpool(fetch, url, settings.max_bytes)


def decode_base64(text: str) -> bytes:
    """Raises ApiError 422 for anything but base64, alone or in a data: URI."""
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise ApiError(422, "bad_base64", "a data: URI must hold base64")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(422, "bad_base64", "the document is not valid base64") from None

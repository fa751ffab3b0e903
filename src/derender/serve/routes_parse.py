"""POST /v1/parse: a document in, its reading out, while the client waits. Errors and limits are problems.py's."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from derender.document import Document
from derender.serve.dispatch import Dispatcher, Work
from derender.serve.engine_host import Deadline
from derender.serve.outcome import MEDIA, Outcome, render
from derender.serve.problems import ApiError
from derender.serve.reader import check_parameters
from derender.serve.service import Service
from derender.serve.uploads import JsonUpload, Upload, problems, read_upload, upload_body

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The reading, in the format asked for; X-Derender-Status says ok or partial",
        "model": Document,
        "content": {kind.partition(";")[0]: {} for kind in MEDIA.values()},
    }
}


def parse_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["parse"])

    @router.post(
        "/v1/parse",
        responses={**_ANSWERS, **problems(415, 429)},
        response_class=Response,
        openapi_extra=upload_body(JsonUpload),
        summary="Read a document and wait for the result",
    )
    async def parse(request: Request) -> Response:
        with service.dispatcher.seat():
            upload = await read_upload(request, service.settings)
            check_parameters(upload.wanted, service.settings)
            outcome = await run_document(service, request, upload)
            data = await asyncio.to_thread(render, outcome, upload.wanted.format, upload.wanted)
        return document_response(data, outcome.document, upload.wanted.format)

    return router


def document_response(data: bytes, document: Document, format: Any) -> Response:
    headers: dict[str, str] = {"X-Derender-Status": document.status}
    if format == "zip":
        headers["Content-Disposition"] = 'attachment; filename="document.zip"'
    if format == "html":  # shown on our own origin if someone opens it there: it gets no rights on it
        headers["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return Response(data, media_type=MEDIA[format], headers=headers)


async def run_document(service: Service, request: Request, upload: Upload) -> Outcome:
    """Reads the upload in a dispatcher's thread; ends it when the client goes."""

    def run(work: Work) -> Outcome:
        check = Deadline(service.settings.seconds, work.cancelled)
        return service.reader.read(upload.data, upload.name, upload.wanted, check, last_page=upload.last_page)

    outcome: Outcome = await wait_for(service.dispatcher, request, Work(run))
    return outcome


async def wait_for(dispatcher: Dispatcher, request: Request, work: Work) -> Any:
    """The work's result. Cancels it when the client is gone."""
    dispatcher.put(work, waits=True)
    future = asyncio.wrap_future(work.future)
    try:
        while True:
            done, _ = await asyncio.wait({future}, timeout=0.5)
            if done:
                return future.result()
            if await request.is_disconnected():
                raise ApiError(499, "client_gone", "the client closed the connection")
    finally:
        if not future.done():
            work.cancelled.set()
            future.add_done_callback(lambda f: f.cancelled() or f.exception())

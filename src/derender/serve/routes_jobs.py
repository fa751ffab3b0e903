"""/v1/jobs: submit, look, listen, fetch, delete; and what a viewer asks of a job (pages, blocks, replays)."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from derender.serve.jobs import Job, JobStatus
from derender.serve.options import DecodeMode, ResultFormat
from derender.serve.outcome import render
from derender.serve.problems import ApiError, ProblemDetail
from derender.serve.reader import check_parameters
from derender.serve.replay import Replay, page_picture, replay_region
from derender.serve.routes_parse import _ANSWERS, document_response
from derender.serve.service import Service
from derender.serve.uploads import JobUpload, problems, read_json, read_upload, upload_body, validate
from derender.serve.view import BlockView, block_views

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="As POST /v1/jobs gave it")]


class JobView(BaseModel):
    """A job as clients see it. document_status: ok or partial, once it is done."""

    id: str
    name: str
    status: JobStatus
    created: float = Field(description="Seconds since 1970")
    updated: float
    pages_done: int
    page_count: int | None = Field(description="Pages that will be read; null until the document is open")
    attempts: int
    document_status: str | None
    error: ProblemDetail | None


class ReplayRequest(BaseModel):
    """Which region to read again, and how."""

    model_config = ConfigDict(extra="forbid")
    region: str = Field(max_length=64, description="Region id, such as p1r3")
    modes: list[DecodeMode] = Field(default=["sliding", "ar"], min_length=1, max_length=4)


def job_view(job: Job) -> JobView:
    error = None
    if job.error_code:
        error = ProblemDetail(message=job.error or "", code=job.error_code)
    return JobView(error=error, **{key: getattr(job, key) for key in JobView.model_fields if key != "error"})


def job_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    def find(id: str) -> Job:
        job = service.store.get(id)
        if job is None:
            raise ApiError(404, "no_job", "there is no such job (any more)")
        return job

    def done(id: str) -> Job:
        job = find(id)
        if not job.finished:
            raise ApiError(409, "not_finished", f"the job is {job.status}")
        if job.status != "done":
            raise ApiError(job.error_status or 422, job.error_code or "failed", job.error or "the job failed")
        return job

    @router.post(
        "/v1/jobs",
        status_code=202,
        response_model=JobView,
        responses=problems(415, 429),
        openapi_extra=upload_body(JobUpload),
        summary="Submit a document and come back later",
    )
    async def submit(request: Request, response: Response) -> JobView:
        await run_in_threadpool(service.jobs.check_room)
        upload = await read_upload(request, service.settings, JobUpload)
        check_parameters(upload.wanted, service.settings)
        job = await run_in_threadpool(service.jobs.accept, upload.name, upload.data, upload.wanted, upload.keep_input)
        response.headers["Location"] = f"/v1/jobs/{job.id}"
        return job_view(job)

    @router.get("/v1/jobs/{id}", response_model=JobView, responses=problems(), summary="How far a job is")
    async def show(id: JobId) -> JobView:
        return job_view(await run_in_threadpool(find, id))

    @router.get(
        "/v1/jobs/{id}/result",
        responses={**_ANSWERS, **problems(409, 410, 415, 500)},
        response_class=Response,
        summary="The result, in the format that the job asked for or another",
    )
    async def result(id: JobId, format: Annotated[ResultFormat | None, Query()] = None) -> Response:
        def make() -> Response:
            job = done(id)
            outcome = service.jobs.outcome(job)
            kind = format or job.wanted.format
            return document_response(render(outcome, kind, job.wanted), outcome.document, kind)

        return await run_in_threadpool(make)

    @router.delete("/v1/jobs/{id}", status_code=204, responses=problems(), summary="Cancel and forget a job")
    async def delete(id: JobId) -> Response:
        def remove() -> None:
            find(id)
            service.jobs.cancel(id)
            service.store.delete(id)
            service.broker.changed(id)

        await run_in_threadpool(remove)
        return Response(status_code=204)

    @router.get(
        "/v1/jobs/{id}/events",
        responses={200: {"content": {"text/event-stream": {}}, "description": "Events `job`"}, **problems()},
        response_class=StreamingResponse,
        summary="Progress as server-sent events",
    )
    async def events(id: JobId) -> StreamingResponse:
        await run_in_threadpool(find, id)

        def state() -> tuple[JobView | None, bool]:
            job = service.store.get(id)
            return (None, True) if job is None else (job_view(job), job.finished)

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(service.broker.stream(id, state), media_type="text/event-stream", headers=headers)

    @router.get(
        "/v1/jobs/{id}/pages/{number}",
        responses={200: {"content": {"image/jpeg": {}}}, **problems(409, 410, 415, 429, 500)},
        response_class=Response,
        summary="The picture of a page, for jobs with keep_input",
    )
    async def page(id: JobId, number: Annotated[int, Path(ge=1, le=1_000_000)]) -> Response:
        def make() -> bytes:
            from PIL import Image

            buffer = io.BytesIO()
            Image.fromarray(page_picture(service, done(id), number)).save(buffer, "JPEG", quality=85)
            return buffer.getvalue()

        with service.dispatcher.seat():
            data = await run_in_threadpool(make)
        return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})

    @router.get(
        "/v1/jobs/{id}/blocks",
        response_model=list[BlockView],
        responses=problems(409, 410, 415, 500),
        summary="The document's blocks as Markdown and as HTML with doubtful tokens marked",
    )
    async def show_blocks(id: JobId) -> list[BlockView]:
        return await run_in_threadpool(lambda: block_views(service.jobs.outcome(done(id))))

    @router.post(
        "/v1/jobs/{id}/replay",
        response_model=list[Replay],
        responses=problems(409, 410, 415, 429, 500),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": ReplayRequest.model_json_schema()}},
            }
        },
        summary="Read one region again, alone in the engine, and say when each token was committed",
    )
    async def replay(id: JobId, request: Request) -> Any:
        with service.dispatcher.seat():
            wanted = validate(ReplayRequest, await read_json(request))
            job = await run_in_threadpool(done, id)
            gone = threading.Event()
            work = asyncio.to_thread(replay_region, service, job, wanted.region, wanted.modes, gone)
            return await _while_connected(request, work, gone)

    return router


async def _while_connected(request: Request, work: Awaitable[Any], gone: threading.Event) -> Any:
    """The work's result. Sets `gone` when the client leaves before it is there."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=0.25))[0]:
            if await request.is_disconnected():
                raise ApiError(499, "client_gone", "the client closed the connection")
        return task.result()
    finally:
        if not task.done():
            gone.set()
            task.add_done_callback(lambda t: t.cancelled() or t.exception())

"""The FastAPI app: routes, health, errors in one shape, start and stop. `create_app` is the entry point for servers.

Needs the extra `serve`. Reading is in service.py and what it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from derender import __version__
from derender.errors import DerenderError
from derender.serve.gate import Gate
from derender.serve.limits import ServeSettings
from derender.serve.metrics import Metrics
from derender.serve.mineru_api import mineru_routes
from derender.serve.openai_api import openai_routes
from derender.serve.problems import ApiError, as_api_error
from derender.serve.routes_jobs import job_routes
from derender.serve.routes_parse import parse_routes
from derender.serve.service import Service
from derender.serve.static_page import page_routes
from derender.serve.uploads import problems, read_json, validate
from derender.serve.view import markdown_html


class Health(BaseModel):
    """status: ok, or what is missing."""

    status: str
    version: str = __version__


class MarkdownText(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = Field(max_length=1_000_000)


class MarkdownHtml(BaseModel):
    html: str


def create_app(settings: ServeSettings, make_recogniser: Any = None) -> FastAPI:
    """The app; its parts start and stop with its lifespan. make_recogniser: in place of derender-compact, for tests."""
    service = Service(settings, make_recogniser)
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.broker.bind(asyncio.get_running_loop())
        service.start()
        yield
        service.broker.close()
        await run_in_threadpool(service.stop)

    app = FastAPI(
        title="derender",
        version=__version__,
        description="Reads PDFs, scans and photos. Every error is {error: {message, type, code}}.",
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    _errors(app)
    _health(app, service, metrics)
    for routes in (parse_routes, job_routes, openai_routes, mineru_routes):
        app.include_router(routes(service))
    _markdown(app, service)
    app.include_router(page_routes())
    return app


def _errors(app: FastAPI) -> None:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, HTTPException):
            code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
            problem = ApiError(error.status_code, code, str(error.detail))
            return JSONResponse(problem.body().model_dump(), error.status_code, headers=error.headers)
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            problem = ApiError(422, "bad_request", f"{where}: {first['msg']}"[:500])
        else:
            problem = as_api_error(error)
        return JSONResponse(problem.body().model_dump(), problem.status, headers=problem.headers)

    for kind in (HTTPException, RequestValidationError, DerenderError, Exception):
        app.add_exception_handler(kind, answer)


def _health(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/health", response_model=Health, tags=["state"], summary="Whether the process lives")
    async def health() -> Any:
        if not service.host.alive:
            raise ApiError(503, "engine_dead", "the engine's thread has ended")
        return Health(status="ok")

    @app.get("/ready", response_model=Health, responses=problems(), tags=["state"], summary="Whether it can read now")
    async def ready() -> Any:
        if service.dispatcher.stopping:
            raise ApiError(503, "stopping", "the service is stopping", 30)
        if service.host.broken is not None:
            raise ApiError(503, "model", str(service.host.broken))
        if not service.host.warmed.is_set():
            raise ApiError(503, "loading", "the weights are being loaded", 2)
        return Health(status="ready")

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **problems()},
        tags=["state"],
        summary="Prometheus metrics",
    )
    def show_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _markdown(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/markdown", response_model=MarkdownHtml, responses=problems(429), tags=["view"], summary="Edited text"
    )
    async def markdown(request: Request) -> MarkdownHtml:
        with service.dispatcher.seat():
            wanted = validate(MarkdownText, await read_json(request))
            return MarkdownHtml(html=await run_in_threadpool(markdown_html, wanted.text))

"""The live page: the files in static/, at `/` and `/static/`, under a policy that loads nothing from elsewhere.

The files are found once, by name: what a client asks for is looked up and never made into a path. The page itself holds
no secret and is given to anyone; what it asks for needs the token like every other client. Reads no document.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from derender.serve.problems import ApiError

FOLDER = Path(__file__).with_name("static")
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# blob: and data: are pictures of pages, fetched with the token, and figures inside the service's own HTML.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
NAMES = tuple(sorted(path.name for path in FOLDER.iterdir() if path.suffix in MEDIA))
PAGE_PATHS = frozenset({"/", *(f"/static/{name}" for name in NAMES if name != "index.html")})
"""What a browser may ask for before its user has entered the token."""


@dataclass(frozen=True)
class _File:
    data: bytes
    media: str
    tag: str


def page_routes() -> APIRouter:
    """The routes of the page; its files are read here, once."""
    router = APIRouter(include_in_schema=False)
    files = {name: _load(FOLDER / name) for name in NAMES}

    def answer(file: _File | None, request: Request) -> Response:
        if file is None:
            raise ApiError(404, "not_found", "there is no such file")
        headers = {**HEADERS, "ETag": file.tag}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.data, media_type=file.media, headers=headers)

    @router.get("/")
    async def index(request: Request) -> Response:
        return answer(files["index.html"], request)

    @router.get("/static/{name}")
    async def static(name: str, request: Request) -> Response:
        return answer(files.get(name) if f"/static/{name}" in PAGE_PATHS else None, request)

    return router


def _load(path: Path) -> _File:
    data = path.read_bytes()
    return _File(data, MEDIA[path.suffix], f'"{hashlib.sha256(data).hexdigest()[:32]}"')

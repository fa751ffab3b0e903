"""POST /v1/chat/completions in OpenAI's form: one picture and one of the four prompts in, the reading out; streamed as
it is committed where `stream` is set. Answers as MinerU-Diffusion does: tables are OTSL, layout is a line a
region. Not a chat: only the last user message counts."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from derender.document import box_1000
from derender.recognise.types import Image, Result, Task
from derender.recognise.types import Request as Region
from derender.serve.dispatch import Work
from derender.serve.engine_host import Deadline
from derender.serve.options import DecodeMode, ParseParameters
from derender.serve.problems import ApiError, as_api_error
from derender.serve.routes_parse import wait_for
from derender.serve.service import Service
from derender.serve.uploads import fetch_url, problems, read_json, validate

MODEL = "derender-compact"
PROMPTS: dict[str, Task] = {
    "Text Recognition": "text",
    "Formula Recognition": "formula",
    "Table Recognition": "table",
    "Layout Detection": "layout",
}


class ImageUrl(BaseModel):
    url: str


class Part(BaseModel):
    """A piece of a message: text, or a picture as a data: URI (or a URL, where the service fetches)."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: ImageUrl | None = None


class Message(BaseModel):
    role: Literal["system", "user", "assistant", "developer"]
    content: str | list[Part]


class ChatRequest(BaseModel):
    """What is taken of OpenAI's request. decode is ours; sampling settings of others are ignored: reading is greedy."""

    model_config = ConfigDict(extra="ignore")
    messages: list[Message] = Field(min_length=1, max_length=32)
    model: str = MODEL
    stream: bool = False
    decode: DecodeMode | None = None


class Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class Answer(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str


class Choice(BaseModel):
    index: int = 0
    message: Answer
    finish_reason: Literal["stop", "length"]


class Completion(BaseModel):
    """OpenAI's chat.completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = MODEL
    choices: list[Choice]
    usage: Usage


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "derender"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


def openai_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["openai"])

    @router.get("/v1/models", response_model=ModelList, responses=problems())
    async def models() -> ModelList:
        return ModelList(data=[ModelCard(id=MODEL)])

    @router.post(
        "/v1/chat/completions",
        response_model=Completion,
        responses=problems(415, 429, 500),
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(ChatRequest)}}}
        },
        summary="Read one picture, in the form of OpenAI's API",
    )
    async def chat(request: Request) -> Any:
        with ExitStack() as seat:
            seat.enter_context(service.dispatcher.seat())
            wanted = validate(ChatRequest, await read_json(request))
            if wanted.model != MODEL:
                raise ApiError(404, "no_model", f"there is only the model {MODEL}")
            url, task = picture_and_task(wanted.messages)
            data = await fetch_url(url, service.settings)
            pieces: asyncio.Queue[str] = asyncio.Queue()
            loop = asyncio.get_running_loop()
            work = Work(lambda w: _read(service, w, data, task, wanted, lambda t: _put(loop, pieces, t)))
            if wanted.stream:
                return await _streamed(service, request, work, pieces, seat)
            answer, usage, reason = await wait_for(service.dispatcher, request, work)
        choice = Choice(message=Answer(content=answer), finish_reason=reason)
        return Completion(id=_id(), created=int(time.time()), choices=[choice], usage=usage)

    return router


def picture_and_task(messages: list[Message]) -> tuple[str, Task]:
    """The picture's URL and the task of the last user message. Raises ApiError 422."""
    last = next((m for m in reversed(messages) if m.role == "user"), None)
    parts = last.content if last is not None and isinstance(last.content, list) else []
    urls = [p.image_url.url for p in parts if p.type == "image_url" and p.image_url]
    text = " ".join(p.text for p in parts if p.type == "text").strip().rstrip(":").strip()
    if len(urls) != 1:
        raise ApiError(422, "no_picture", f"the last user message must hold one image_url, not {len(urls)}")
    if text not in PROMPTS:
        raise ApiError(422, "bad_prompt", f"the prompt must be one of: {', '.join(PROMPTS)}")
    return urls[0], PROMPTS[text]


def _read(service: Service, work: Work, data: bytes, task: Task, wanted: ChatRequest, on_text: Any) -> Any:
    """(text, usage, finish reason); blocking."""
    image = service.reader.picture(data, "picture")
    if task == "layout":
        return layout_answer(service, image), Usage(), "stop"
    check = Deadline(service.settings.seconds, work.cancelled)
    region = Region("crop", image, task, on_text=on_text if wanted.stream and task == "text" else None)
    result = service.reader.read_crop(region, ParseParameters(decode=wanted.decode), check)
    if result.status == "failed":
        raise ApiError(500, "unreadable", "; ".join(result.errors) or "the picture cannot be read")
    tokens = result.stats.tokens
    usage = Usage(completion_tokens=tokens, total_tokens=tokens)
    return _text(result, task), usage, "stop" if result.status == "ok" else "length"


def _text(result: Result, task: Task) -> str:
    if task == "table":
        return result.otsl or result.text
    if task == "formula":
        return result.latex or result.text
    return result.text


def layout_answer(service: Service, image: Image) -> str:
    """A line a region in reading order: box in thousandths of the picture, type, orientation."""
    height, width = image.shape[:2]
    lines = []
    for region in service.reader.analyser.analyse(image, 150 / 72).regions:
        box = " ".join(f"{v:03d}" for v in box_1000(region.box, width, height))
        lines.append(f"<|box_start|>{box}<|box_end|><|ref_start|>{region.type}<|ref_end|><|rotate_up|>")
    return "\n".join(lines)


def _put(loop: asyncio.AbstractEventLoop, pieces: asyncio.Queue[str], text: str) -> None:
    loop.call_soon_threadsafe(pieces.put_nowait, text)


async def _streamed(
    service: Service, request: Request, work: Work, pieces: asyncio.Queue[str], seat: ExitStack
) -> StreamingResponse:
    """Queues the work and answers with its pieces. The status can still be an error's while nothing is sent, so this
    waits for the first piece or the end."""
    service.dispatcher.put(work, waits=True)
    ended = asyncio.wrap_future(work.future)
    first = asyncio.ensure_future(pieces.get())
    try:
        while not (ended.done() or first.done()):
            await asyncio.wait({ended, first}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            if not (ended.done() or first.done()) and await request.is_disconnected():
                raise ApiError(499, "client_gone", "the client closed the connection")
        if ended.done():
            ended.result()
    except BaseException:
        first.cancel()
        work.cancelled.set()
        ended.add_done_callback(lambda f: f.cancelled() or f.exception())
        raise
    return _Seated(_stream(ended, first, pieces), work, seat.pop_all())


class _Seated(StreamingResponse):
    """The client keeps its seat until its stream has ended. Not the generator's business: when the client is gone
    before the first piece is asked for, a generator never runs, nor its `finally`: the seat would be lost for good."""

    def __init__(self, pieces: AsyncIterator[str], work: Work, seat: ExitStack) -> None:
        super().__init__(pieces, media_type="text/event-stream")
        self._work, self._seat = work, seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._work.cancelled.set()
            self._seat.close()


async def _stream(
    ended: asyncio.Future[Any], first: asyncio.Future[str], pieces: asyncio.Queue[str]
) -> AsyncIterator[str]:
    id, created, sent = _id(), int(time.time()), ""

    def chunk(delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        body = {"id": id, "object": "chat.completion.chunk", "created": created, "model": MODEL, "choices": [choice]}
        return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"

    waiting = first
    try:
        yield chunk({"role": "assistant", "content": ""})
        while True:
            await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                break
            sent += waiting.result()
            yield chunk({"content": waiting.result()})
            waiting = asyncio.ensure_future(pieces.get())
        text, _, reason = ended.result()
        # What a guard took back cannot be unsaid; what never came in pieces (tables) comes now.
        yield chunk({"content": text[len(sent) :]} if text.startswith(sent) else {}, reason)
    except Exception as error:
        yield f"data: {as_api_error(error).body().model_dump_json()}\n\n"
    finally:
        waiting.cancel()
    yield "data: [DONE]\n\n"


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema with its parts written out, as OpenAPI's body has no place for definitions."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def flat(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return flat(parts[value["$ref"].rsplit("/", 1)[-1]])
            return {key: flat(item) for key, item in value.items()}
        return [flat(item) for item in value] if isinstance(value, list) else value

    return dict(flat(schema))


def _id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"

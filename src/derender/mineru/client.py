"""A client for a server that runs the model behind the OpenAI API (`/v1/chat/completions`): SGLang, vLLM and others.

Several requests are on their way at once, each has a time-out and a bounded number of attempts, and no more pictures
are prepared than are being asked for. A server that cannot be reached, or refuses the key or the model, ends the run
with one sentence; what goes wrong with a single picture fails that picture. Prompts are those of prompts.py.
"""

from __future__ import annotations

import base64
import io
import os
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from derender.errors import DerenderError, MissingExtraError, ServerError
from derender.mineru.answers import fill
from derender.mineru.images import prepare
from derender.mineru.options import ModelOptions
from derender.mineru.prompts import SYSTEM, task_prompts
from derender.recognise.types import DecodeStats, Image, Request, Result

KEY = "OPENAI_API_KEY"
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
REFUSED = frozenset({401, 403, 404})
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between attempts; doubled each time


class _Failed(DerenderError):
    """One picture has no answer."""


class ServerRecogniser:
    """Implements recognise.types.Recogniser. The key, where one is needed, is taken from OPENAI_API_KEY.

    max_tokens: of one answer. Raises MissingExtraError without httpx, ServerError when the server cannot be reached or
    does not serve the model.
    """

    def __init__(self, options: ModelOptions, max_tokens: int = 4096) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("a model server needs httpx: pip install 'derender[client]'") from error
        assert options.base_url is not None
        self._httpx: Any = httpx
        self.options, self.max_tokens = options, max_tokens
        self._words = task_prompts(options.layout_prompt)
        self.base = options.base_url.rstrip("/")
        if not self.base.endswith("/v1"):
            self.base += "/v1"
        key = os.environ.get(KEY)
        self._client = httpx.Client(
            timeout=httpx.Timeout(options.timeout, connect=min(10.0, options.timeout)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=options.concurrency),
        )
        self.model = self._model()

    @property
    def name(self) -> str:
        return f"{self.model} at {self.base}"

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
        """One Result per Request, as answers arrive. Raises ServerError when the server is gone or refuses."""
        source = iter(requests)
        more = True
        with ThreadPoolExecutor(self.options.concurrency) as pool:
            running: set[Future[Result]] = set()
            try:
                while True:
                    while more and len(running) < self.options.concurrency:
                        request = next(source, None)
                        if request is None:
                            more = False
                        else:
                            running.add(pool.submit(self._read, request))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        self._client.close()

    def _read(self, request: Request) -> Result:
        from derender.ingest.blank import is_blank

        result = Result(request.id)
        began = time.perf_counter()
        try:
            if request.task != "layout" and is_blank(request.image):
                return result  # no ink: nothing may be invented
            content: list[dict[str, Any]] = [
                {
                    "type": "image_url",
                    "image_url": {"url": data_url(prepare(request.image, request.task, request.lines))},
                },
                {"type": "text", "text": self._words[request.task]},
            ]
            text, tokens, cut = self._ask(content)
        except ServerError:
            raise
        except (DerenderError, ValueError) as error:
            result.status = "failed"
            result.errors.append(str(error))
            return result
        result.stats = DecodeStats("server", tokens, 0, time.perf_counter() - began)
        if cut:
            result.status = "partial"
            result.errors.append(
                f"the server stopped at {tokens or self.max_tokens} tokens, and the text had not ended"
            )
        return fill(result, text, request.task)

    def _ask(self, content: list[dict[str, Any]]) -> tuple[str, int, bool]:
        """Text, tokens, and whether it was cut off."""
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "skip_special_tokens": False,  # of SGLang and vLLM: layout and tables are made of special tokens
        }
        data = self._send("POST", "/chat/completions", body)
        try:
            choice = data["choices"][0]
            text = choice["message"]["content"]
            tokens = int((data.get("usage") or {}).get("completion_tokens") or 0)
            if not isinstance(text, str):
                raise TypeError
        except (KeyError, IndexError, TypeError, ValueError):
            raise _Failed("the server's answer has no text in it") from None
        return text, tokens, choice.get("finish_reason") == "length"

    def _model(self) -> str:
        served = self._send("GET", "/models")
        try:
            names = [str(item["id"]) for item in served["data"]]
        except (KeyError, TypeError):
            raise ServerError(f"{self.base}/models does not answer as the OpenAI API does") from None
        wanted = self.options.model
        if wanted is not None and wanted not in names:
            raise ServerError(f"{self.base} serves {', '.join(names) or 'no model'}, not {wanted}")
        if wanted is None and len(names) != 1:
            raise ServerError(f"{self.base} serves {len(names)} models: choose with --model {'|'.join(names)}")
        return wanted or names[0]

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON of an answer, after at most 1 + retries attempts."""
        httpx = self._httpx
        attempts = 1 + self.options.retries
        for attempt in range(1, attempts + 1):
            pause = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25)
            try:
                answer = self._client.request(method, self.base + path, json=body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if attempt == attempts:
                    raise ServerError(f"{self.base} cannot be reached ({attempts} attempts): {error}") from None
            except httpx.TimeoutException:
                if attempt == attempts:
                    raise _Failed(f"no answer within {self.options.timeout:g} s ({attempts} attempts)") from None
            except httpx.HTTPError as error:
                if attempt == attempts:
                    raise _Failed(f"the connection broke ({attempts} attempts): {error}") from None
            else:
                if answer.status_code < 300:
                    try:
                        return answer.json()
                    except ValueError:
                        raise _Failed("the server's answer is not JSON") from None
                said = f"{answer.status_code} {_message(answer)}"
                if answer.status_code in REFUSED:
                    raise ServerError(f"{self.base}{path} refuses: {said}")
                if answer.status_code not in AGAIN:
                    raise _Failed(f"the server refuses this picture: {said}")
                if attempt == attempts:
                    raise _Failed(f"the server gave up ({attempts} attempts): {said}")
                pause = max(pause, _retry_after(answer))
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")


def data_url(image: Image) -> str:
    """The picture as a PNG in a data URL."""
    import PIL.Image

    buffer = io.BytesIO()
    PIL.Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _message(answer: Any) -> str:
    """The server's own words, at most a line of them."""
    try:
        data = answer.json()
        error = data.get("error", data) if isinstance(data, dict) else data
        text = error.get("message", error) if isinstance(error, dict) else error
    except ValueError:
        text = answer.text
    return " ".join(str(text).split())[:200]


def _retry_after(answer: Any) -> float:
    try:
        return min(LONGEST_WAIT, max(0.0, float(answer.headers.get("Retry-After", 0))))
    except ValueError:
        return 0.0

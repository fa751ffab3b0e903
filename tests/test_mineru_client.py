"""The client of a model server against a real HTTP server in a thread that answers, stalls and refuses as told."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import PIL.Image
import pytest

pytest.importorskip("httpx")
from typer.testing import CliRunner

from derender.cli import app
from derender.errors import ServerError
from derender.mineru import client
from derender.mineru.client import ServerRecogniser
from derender.mineru.options import ModelOptions
from derender.recognise.types import Request

Answer = tuple[int, object]


class Server:
    """answer: from the body of a request and its number (from 1) to status and JSON."""

    def __init__(self) -> None:
        self.answer: Callable[[dict, int], Answer] = lambda body, n: (200, said("A line."))
        self.models = ["mineru"]
        self.bodies: list[dict] = []
        self.keys: list[str | None] = []
        self.at_once = self.most = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, {"data": [{"id": name} for name in outer.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.bodies.append(body)
                    outer.keys.append(self.headers.get("Authorization"))
                    number = len(outer.bodies)
                    outer.at_once += 1
                    outer.most = max(outer.most, outer.at_once)
                status, data = outer.answer(body, number)
                with outer.lock:
                    outer.at_once -= 1
                self.reply(status, data)

            def reply(self, status: int, data: object) -> None:
                sent = data.encode() if isinstance(data, str) else json.dumps(data).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(sent)))
                    self.end_headers()
                    self.wfile.write(sent)
                except OSError:  # the client has given up
                    pass

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


def said(text: str, finish: str = "stop") -> dict:
    return {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": {"completion_tokens": 7}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def crop(width: int = 200) -> np.ndarray:
    image = np.full((40, width, 3), 255, np.uint8)
    image[10:30, 20:120] = 0
    return image


def reader(server: Server, **options: object) -> ServerRecogniser:
    return ServerRecogniser(ModelOptions(base_url=server.url, **options), max_tokens=99)  # type: ignore[arg-type]


def test_a_request_is_the_picture_and_the_tasks_prompt(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.answer = lambda body, n: (200, said("<fcel>a<nl>"))
    (found,) = reader(server).recognise([Request("r", crop(), "table")])
    assert [c.text for c in found.cells] == ["a"] and found.status == "ok"
    assert (found.stats.mode, found.stats.tokens) == ("server", 7)
    (body,) = server.bodies
    assert body["model"] == "mineru" and body["max_tokens"] == 99 and body["skip_special_tokens"] is False
    system, user = body["messages"]
    assert system == {"role": "system", "content": "You are a helpful assistant."}
    picture, words = user["content"]
    assert words["text"] == "\nTable Recognition:"
    kind, _, data = picture["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    assert np.array_equal(np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(data)))), crop())
    assert server.keys == ["Bearer secret"]


def test_requests_run_at_once_up_to_the_limit_and_pictures_are_pulled_as_needed(server: Server) -> None:
    pulled: list[int] = []
    ahead: list[int] = []

    def answer(body: dict, n: int) -> Answer:
        ahead.append(len(pulled) - n)
        time.sleep(0.05)
        return 200, said(f"text {n}")

    server.answer = answer

    def requests() -> Iterator[Request]:
        for n in range(12):
            pulled.append(n)
            yield Request(str(n), crop())

    found = {r.id: r.text for r in reader(server, concurrency=4).recognise(requests())}
    assert len(found) == 12 and len(set(found.values())) == 12
    assert server.most == 4
    assert max(ahead) <= 4


def test_passing_trouble_is_tried_again_and_the_attempts_are_bounded(server: Server) -> None:
    server.answer = lambda body, n: (503, {"error": {"message": "loading"}}) if n < 3 else (200, said("Late."))
    (found,) = reader(server, retries=3).recognise([Request("r", crop())])
    assert (found.text, found.status, len(server.bodies)) == ("Late.", "ok", 3)
    server.bodies.clear()
    server.answer = lambda body, n: (500, {"error": {"message": "broken\nfor good"}})
    (found,) = reader(server, retries=2).recognise([Request("r", crop())])
    assert found.status == "failed" and len(server.bodies) == 3
    assert found.errors == ["the server gave up (3 attempts): 500 broken for good"]


def test_a_stalled_answer_times_out_and_the_others_arrive(server: Server) -> None:
    server.answer = lambda body, n: (time.sleep(0.6), (200, said("Here.")))[1] if n == 1 else (200, said("Here."))
    found = {
        r.id: r
        for r in reader(server, timeout=0.3, retries=0, concurrency=1).recognise(
            [Request("slow", crop()), Request("fast", crop())]
        )
    }
    assert found["slow"].status == "failed" and found["slow"].errors == ["no answer within 0.3 s (1 attempts)"]
    assert found["fast"].text == "Here."


def test_one_bad_picture_fails_alone(server: Server) -> None:
    server.answer = lambda body, n: (400, {"error": {"message": "picture too large"}}) if n == 1 else (200, said("Ok."))
    first, second = reader(server, concurrency=1).recognise([Request("a", crop()), Request("b", crop())])
    assert first.status == "failed" and "picture too large" in first.errors[0] and len(server.bodies) == 2
    assert second.text == "Ok."


@pytest.mark.parametrize(
    ("data", "said_"),
    [
        ({"choices": []}, "no text in it"),
        ({"choices": [{"message": {"content": None}}]}, "no text in it"),
        ("not json", "not JSON"),
        (said("Half <|MASK|><|MASK|>"), "mask tokens"),
    ],
)
def test_answers_without_text_fail(server: Server, data: object, said_: str) -> None:
    server.answer = lambda body, n: (200, data)
    (found,) = reader(server).recognise([Request("r", crop())])
    assert found.status == "failed" and said_ in found.errors[0] and found.text == ""


def test_an_answer_that_was_cut_off_is_partial(server: Server) -> None:
    server.answer = lambda body, n: (200, said("And so on and so", "length"))
    (found,) = reader(server).recognise([Request("r", crop())])
    assert found.status == "partial" and found.text == "And so on and so" and "7 tokens" in found.errors[0]


def test_a_blank_crop_is_not_sent(server: Server) -> None:
    (found,) = reader(server).recognise([Request("r", np.full((40, 90, 3), 255, np.uint8))])
    assert (found.status, found.text, server.bodies) == ("ok", "", [])


def test_refusals_and_silence_end_the_run_with_one_sentence(server: Server) -> None:
    with pytest.raises(ServerError, match="serves mineru, not other"):
        reader(server, model="other")
    server.models = ["a", "b"]
    with pytest.raises(ServerError, match=r"serves 2 models: choose with --model a\|b"):
        reader(server)
    server.answer = lambda body, n: (401, {"error": "no key"})
    with pytest.raises(ServerError, match="refuses: 401 no key"):
        list(reader(server, model="a").recognise([Request(str(n), crop()) for n in range(20)]))
    assert len(server.bodies) <= 9, "no request is made after the refusal but those already on their way"
    with pytest.raises(ServerError, match=r"cannot be reached \(2 attempts\)"):
        ServerRecogniser(ModelOptions(base_url="http://127.0.0.1:9", retries=1))


def test_the_commands_use_the_server(server: Server, tmp_path) -> None:  # type: ignore[no-untyped-def]
    PIL.Image.fromarray(crop()).save(tmp_path / "crop.png")
    options = ["--engine", "openai", "--base-url", f"{server.url}/v1"]
    done = CliRunner().invoke(app, ["read", str(tmp_path / "crop.png"), *options])
    assert (done.exit_code, done.stdout) == (0, "A line.\n"), done.stderr

    def answer(body: dict, n: int) -> Answer:
        layout = "<|box_start|>50 100 700 900<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>"
        return 200, said(layout if "Layout" in body["messages"][1]["content"][1]["text"] else "All of it.")

    server.answer = answer
    options += ["--layout-prompt", "Layout Analysis:"]
    done = CliRunner().invoke(
        app, ["parse", str(tmp_path / "crop.png"), "--mode", "ocr", "--stdout", "--concurrency", "2", *options]
    )
    assert [b["messages"][1]["content"][1]["text"] for b in server.bodies[1:]] == [
        "\nLayout Analysis:",
        "\nText Recognition:",
    ]
    assert (done.exit_code, done.stdout) == (0, "All of it.\n"), done.stderr
    done = CliRunner().invoke(
        app, ["parse", str(tmp_path / "crop.png"), "--stdout", "--engine", "openai", "--base-url", "http://127.0.0.1:9"]
    )
    assert done.exit_code == 1 and "cannot be reached" in done.stderr

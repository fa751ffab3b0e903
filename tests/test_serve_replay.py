"""Replays: they end when nobody waits, and their seconds are those of one reading alone. The decoder is a double."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from serve_helpers import EchoRecogniser, client_of, pdf, settings, wait_for_job

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from derender.decode.config import DecodeConfig
from derender.recognise.types import Request, Result
from derender.serve.engine_host import EngineHost
from derender.serve.problems import CancelledError

REQUEST = Request("r", np.zeros((4, 4, 3), np.uint8), "text", ())
MODES = [DecodeConfig(mode="sliding"), DecodeConfig(mode="ar")]


class Timed(EchoRecogniser):
    """Counts readings; each takes at least `seconds`, of which it says that decoding took 10 ms."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.readings = 0
        self.modes: list[str] = []

    def recognise(self, requests: Iterable[Request | None]) -> Iterator[Result]:
        self.readings += 1
        time.sleep(self.seconds)
        yield from super().recognise(self._noted(requests))

    def _noted(self, requests: Iterable[Request | None]) -> Iterator[Request | None]:
        for request in requests:
            if request is not None and request.decode is not None:
                self.modes.append(request.decode.mode)
            yield request


def test_each_way_is_read_twice_and_both_kinds_of_seconds_are_told() -> None:
    timed = Timed(0.05)
    host = EngineHost(lambda: timed)
    try:
        found = host.measure(REQUEST, MODES).result(10)
        assert timed.modes == ["sliding", "ar"] * 2  # in turns
        assert timed.readings == 4 and [m.result.stats.seconds for m in found] == [0.01, 0.01]
        assert all(0.05 <= m.seconds < 5 for m in found)
    finally:
        host.stop()


def test_a_reading_that_nobody_waits_for_ends_and_the_next_begins() -> None:
    timed = Timed(0.3)
    host = EngineHost(lambda: timed)
    try:
        gone = threading.Event()
        left = host.measure(REQUEST, MODES, gone=gone)
        time.sleep(0.1)
        gone.set()
        with pytest.raises(CancelledError):
            left.result(10)
        assert timed.readings == 1 and host._recogniser is timed  # and no weights are loaded anew
        assert len(host.measure(REQUEST, MODES).result(10)) == 2
    finally:
        host.stop()


def test_a_client_that_goes_ends_its_replay() -> None:
    import socket

    import httpx
    import uvicorn

    from derender.serve.app import create_app

    timed = Timed(0.0)
    app = create_app(settings(), lambda: timed)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", timeout=30) as client:
            while True:
                try:
                    client.get("/health")
                    break
                except httpx.ConnectError:
                    time.sleep(0.05)
            fields = {"keep_input": "true", "tokens": "true", "mode": "ocr"}
            id = client.post("/v1/jobs", files={"file": ("a.pdf", pdf())}, data=fields).json()["id"]
            wait_for_job(client, id)
            timed.readings, timed.seconds = 0, 0.8
            region = client.get(f"/v1/jobs/{id}/blocks").json()[0]["region"]
            with pytest.raises(httpx.ReadTimeout):
                client.post(f"/v1/jobs/{id}/replay", json={"region": region}, timeout=1.0)
            time.sleep(3.0)
            assert 1 <= timed.readings <= 3  # of four
    finally:
        server.should_exit = True
        thread.join(20)


def test_stopping_waits_for_weights_that_are_being_loaded() -> None:
    loading = threading.Event()

    def slowly() -> Any:
        loading.set()
        time.sleep(6)
        return EchoRecogniser()

    from fastapi.testclient import TestClient

    from derender.serve.app import create_app

    before = set(threading.enumerate())
    with TestClient(create_app(settings(grace=0.1), slowly), base_url="http://127.0.0.1"):
        assert loading.wait(10)
    # A thread inside ONNX Runtime when the process ends would abort it.
    assert not [t.name for t in set(threading.enumerate()) - before if t.name in ("warm", "engine")]


def test_the_whole_time_is_in_the_answer() -> None:
    with client_of(settings()) as client:
        fields = {"keep_input": "true", "tokens": "true", "mode": "ocr"}
        id = client.post("/v1/jobs", files={"file": ("a.pdf", pdf())}, data=fields).json()["id"]
        wait_for_job(client, id)
        region = client.get(f"/v1/jobs/{id}/blocks").json()[0]["region"]
        for replay in client.post(f"/v1/jobs/{id}/replay", json={"region": region}).json():
            assert replay["seconds"] == 0.01 and replay["whole"] > 0

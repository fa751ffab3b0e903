"""Faults of the service that a load test, or reading it for one, brought to light; each stays found."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest

from serve_helpers import client_of, pdf, picture, settings, wait_for_job

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from starlette.requests import ClientDisconnect

from derender.errors import ModelError
from derender.serve.app import create_app
from derender.serve.dispatch import Dispatcher, Work
from derender.serve.openai_api import _Seated
from derender.serve.remote import WorkerPool


def test_work_given_up_by_who_waited_does_not_end_the_thread() -> None:
    dispatcher = Dispatcher(threads=1, waiting=4)
    gate = threading.Event()
    first, given_up, third = Work(lambda w: gate.wait(10)), Work(lambda w: 2), Work(lambda w: 3)
    for work in (first, given_up, third):
        dispatcher.put(work, waits=True)
    assert given_up.future.cancel()
    gate.set()
    assert third.future.result(timeout=10) == 3
    dispatcher.stop(1.0)


def test_a_client_gone_before_its_stream_begins_gives_its_seat_back() -> None:
    dispatcher = Dispatcher(threads=1, waiting=1)
    seat = ExitStack()
    seat.enter_context(dispatcher.seat())
    work = Work(lambda w: None)
    begun = []

    async def pieces() -> Any:
        begun.append(True)
        yield "data: never\n\n"

    async def gone(message: Any = None) -> Any:
        raise OSError("the connection is closed")

    with pytest.raises((OSError, ClientDisconnect, ExceptionGroup)):
        asyncio.run(_Seated(pieces(), work, seat)({"type": "http"}, gone, gone))
    assert (begun, dispatcher.seats, work.cancelled.is_set()) == ([], 0, True)
    dispatcher.stop(1.0)


def broken() -> Any:
    raise ModelError("the weights decoder.onnx are missing")


def test_without_weights_everybody_is_told_at_once_and_nothing_is_tried_for_ever() -> None:
    from fastapi.testclient import TestClient

    tries = []

    def make() -> Any:
        tries.append(True)
        return broken()

    with TestClient(create_app(settings(), make), base_url="http://127.0.0.1") as client:
        began = time.monotonic()
        answer = client.post("/v1/parse", files={"file": ("a.png", picture())})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model")
        assert "decoder.onnx are missing" in answer.json()["error"]["message"]
        job = client.post("/v1/jobs", files={"file": ("a.png", picture())}).json()
        assert wait_for_job(client, job["id"])["error"]["code"] == "model"
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "model")
        assert time.monotonic() - began < 30 and len(tries) <= 4


def test_weights_that_come_back_are_used() -> None:
    from fastapi.testclient import TestClient

    from serve_helpers import EchoRecogniser

    makers = [broken, broken, EchoRecogniser]
    app = create_app(settings(), lambda: makers.pop(0)() if len(makers) > 1 else makers[0]())
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while app.state.service.host.broken is None:
            time.sleep(0.02)
        statuses = [client.post("/v1/parse", files={"file": ("a.png", picture())}).status_code for _ in range(2)]
        assert statuses == [500, 200]
        assert client.get("/ready").status_code == 200


def test_there_are_never_more_workers_than_the_pool_allows() -> None:
    pool = WorkerPool(settings(documents=1))
    taken = [pool.take() for _ in range(3)]
    late: list[Any] = []
    thread = threading.Thread(target=lambda: late.append(pool.take()))
    thread.start()
    thread.join(0.3)
    assert not late
    pool.give(taken[0])
    thread.join(10)
    assert late == [taken[0]]
    for worker in (*taken[1:], late[0]):
        pool.give(worker)
    pool.close()


def test_dead_workers_give_their_places_back() -> None:
    from derender.serve.remote import RemoteSource

    limited = settings(documents=1)
    pool = WorkerPool(limited)
    for _ in range(5):
        source = RemoteSource(pool, limited, pdf(), "scan")
        with source:
            worker = source._worker
            assert worker is not None
            worker.process.kill()
    assert pool._taken == 0
    pool.close()


def test_viewers_of_pages_share_a_bounded_number_of_workers() -> None:
    with client_of(settings(documents=1)) as client:
        fields = {"mode": "ocr", "keep_input": "true"}
        job = client.post("/v1/jobs", files={"file": ("a.pdf", pdf(2))}, data=fields).json()
        wait_for_job(client, job["id"])
        statuses: list[int] = []

        def look() -> None:
            statuses.append(client.get(f"/v1/jobs/{job['id']}/pages/1").status_code)

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 8
        assert len(client.app.state.service.pool._idle) <= 3


def test_a_picture_beyond_what_is_decoded_at_all_is_413_like_any_other_too_large() -> None:
    from load_documents import bomb

    with client_of(settings()) as client:
        answer = client.post("/v1/parse", files={"file": ("bomb.png", bomb(30_000))})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_a_full_disk_fails_the_job_and_says_so_and_the_next_one_goes_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derender.serve.runner.STORAGE_PAUSES", (0.05, 0.05))
    with client_of(settings()) as client:
        service = client.app.state.service
        succeed = service.store.succeed

        def full(*given: Any) -> None:
            service.store.succeed = succeed
            raise sqlite3.OperationalError("database or disk is full")

        service.store.succeed = full
        job = client.post("/v1/jobs", files={"file": ("a.png", picture())}).json()
        ended = wait_for_job(client, job["id"])
        assert (ended["status"], ended["error"]["code"]) == ("failed", "storage")
        job = client.post("/v1/jobs", files={"file": ("a.png", picture())}).json()
        assert wait_for_job(client, job["id"])["status"] == "done"


def test_a_job_that_cannot_be_stored_is_not_accepted() -> None:
    with client_of(settings()) as client:
        pages = client.app.state.service.store._db.execute("PRAGMA page_count").fetchone()[0]
        client.app.state.service.store._db.execute(f"PRAGMA max_page_count={pages}")
        answer = client.post("/v1/jobs", files={"file": ("a.pdf", pdf(3))})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage")
        assert int(answer.headers["Retry-After"]) > 0


def test_results_go_when_their_time_is_over_without_new_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derender.serve.service.EXPIRE_SECONDS", 0.1)
    with client_of(settings(keep_hours=1.0 / 3600)) as client:
        job = client.post("/v1/jobs", files={"file": ("a.png", picture())}).json()
        end = time.monotonic() + 30
        while client.get(f"/v1/jobs/{job['id']}").status_code != 404:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_eight_callers_at_once_are_served_or_told_when_to_come_back() -> None:
    with client_of(settings(waiting=3, documents=1)) as client:
        answers: list[Any] = []

        def call() -> None:
            answers.append(client.post("/v1/parse", files={"file": ("a.pdf", pdf(1))}, data={"mode": "ocr"}))

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {a.status_code for a in answers} == {200, 429}
        assert all(int(a.headers["Retry-After"]) > 0 for a in answers if a.status_code == 429)
        assert client.get("/health").status_code == 200
        assert client.app.state.service.dispatcher.seats == 0

"""The service's endpoints: answers, limits and errors. The recogniser is a double; layout and workers are real."""

from __future__ import annotations

import base64
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from serve_helpers import EXAMPLES, EchoRecogniser, client_of, pdf, picture, settings, wait_for_job

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from derender.serve.engine_host import EngineHost
from derender.serve.fetch import public_address
from derender.serve.problems import ApiError


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with client_of(settings(max_pages=3, max_bytes=3_000_000)) as made:
        yield made


def post(client: Any, data: bytes, name: str = "scan.png", path: str = "/v1/parse", **fields: Any) -> Any:
    return client.post(path, files={"file": (name, data)}, data=fields)


def code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_picture_comes_back_in_every_format(client: Any) -> None:
    document = post(client, picture()).json()
    assert document["pages"][0]["regions"][0]["text"] == "read text" and document["name"] == "scan"
    markdown = post(client, picture(), format="md")
    assert markdown.text == "# read text\n" and markdown.headers["X-Derender-Status"] == "ok"
    assert "<h1" in post(client, picture(), format="html").text
    archive = zipfile.ZipFile(io.BytesIO(post(client, picture(), "../../x.png", format="zip").content))
    assert {"document.md", "document.json", "document.html"} <= set(archive.namelist())


def test_json_with_base64_is_the_same_as_a_form(client: Any) -> None:
    body = {"file": base64.b64encode(picture()).decode(), "name": "a/b.png", "format": "md"}
    assert client.post("/v1/parse", json=body).text == "# read text\n"


def test_a_pdf_uses_its_own_words(client: Any) -> None:
    answer = post(client, (EXAMPLES / "groundwater.pdf").read_bytes(), "g.pdf", format="md", pages="1", mode="text")
    assert answer.status_code == 200 and len(answer.text) > 1000


@pytest.mark.parametrize(
    ("data", "fields", "expected"),
    [
        (b"not a document", {}, (415, "unsupported_document")),
        (b"%PDF-1.4 broken", {}, (422, "unreadable_document")),
        (picture(), {"mode": "guess"}, (422, "bad_option")),
        (picture(), {"no_such_option": "1"}, (422, "bad_option")),
        (picture(), {"pages": "7"}, (422, "bad_option")),
        (picture(), {"decode": "ar", "block": "3"}, (422, "bad_option")),
        (pdf(4), {}, (413, "too_large")),
        (b"x" * 3_100_000, {}, (413, "too_large")),
    ],
)
def test_bad_input_has_a_clear_answer(client: Any, data: bytes, fields: dict[str, str], expected: Any) -> None:
    assert code(post(client, data, **fields)) == expected


def test_pages_over_the_limit_can_be_chosen(client: Any) -> None:
    assert len(post(client, pdf(4), pages="2-3").json()["pages"]) == 2


def test_other_bodies_are_415_and_urls_are_not_fetched(client: Any) -> None:
    assert code(client.post("/v1/parse", content=b"x", headers={"content-type": "text/plain"}))[0] == 415
    assert code(client.post("/v1/parse", json={"url": "http://example.org/a.pdf"})) == (422, "urls_not_allowed")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "localhost"])
def test_private_addresses_are_never_fetched(host: str) -> None:
    with pytest.raises(ApiError) as caught:
        public_address(host, 80)
    assert caught.value.code == "url_forbidden"


def test_a_stranger_needs_the_token() -> None:
    with client_of(settings(token="a secret token")) as client:
        assert code(post(client, picture())) == (401, "unauthorized")
        assert client.get("/metrics").status_code == 401 and client.get("/health").status_code == 200
        client.headers["Authorization"] = "Bearer a secret token"
        assert post(client, picture()).status_code == 200


def test_without_a_token_only_local_names_are_answered(client: Any) -> None:
    assert code(client.get("/v1/models", headers={"Host": "evil.example"})) == (403, "bad_host")


def test_a_full_queue_is_429_with_retry_after() -> None:
    gate = threading.Event()
    with client_of(settings(waiting=1, max_jobs=1), EchoRecogniser(gate)) as client:
        waiting = threading.Thread(target=post, args=(client, picture()))
        waiting.start()
        while client.app.state.service.host.depth == 0:
            threading.Event().wait(0.02)
        refused = post(client, picture())
        assert code(refused) == (429, "busy") and int(refused.headers["Retry-After"]) > 0
        assert post(client, picture(), path="/v1/jobs").status_code == 202
        assert code(post(client, picture(), path="/v1/jobs")) == (429, "busy")
        gate.set()
        waiting.join()


def test_a_document_over_time_ends_with_an_error() -> None:
    gate = threading.Event()
    with client_of(settings(seconds=1.5), EchoRecogniser(gate)) as client:
        assert code(post(client, picture())) == (422, "time_limit")
        gate.set()


def test_job_from_submission_to_deletion(client: Any) -> None:
    job = post(client, pdf(2), "b.pdf", "/v1/jobs", mode="ocr", tokens="true", keep_input="true").json()
    with client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
        events = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    assert events[-1]["status"] == "done" and events[-1]["pages_done"] == 2
    base = f"/v1/jobs/{job['id']}"
    assert "read text" in client.get(f"{base}/result?format=md").text
    assert client.get(f"{base}/pages/2").headers["content-type"] == "image/jpeg"
    assert code(client.get(f"{base}/pages/3"))[0] == 404
    blocks = client.get(f"{base}/blocks").json()
    assert '<mark class="doubt" title="50% sure">text</mark>' in blocks[0]["html"]
    replay = client.post(f"{base}/replay", json={"region": blocks[0]["region"], "modes": ["exact", "ar"]}).json()
    assert [r["mode"] for r in replay] == ["exact", "ar"] and replay[0]["tokens"][1]["step"] == 2
    assert client.delete(base).status_code == 204
    assert code(client.get(base)) == (404, "no_job")


def test_a_failed_job_gives_its_error_as_its_result(client: Any) -> None:
    job = post(client, b"no document", "x.pdf", "/v1/jobs").json()
    assert wait_for_job(client, job["id"])["error"]["code"] == "unsupported_document"
    assert code(client.get(f"/v1/jobs/{job['id']}/result")) == (415, "unsupported_document")


def chat(prompt: str, **more: Any) -> dict[str, Any]:
    url = "data:image/png;base64," + base64.b64encode(picture()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
    return {"model": "derender-compact", "messages": [{"role": "user", "content": parts}], **more}


def test_chat_completion(client: Any) -> None:
    answer = client.post("/v1/chat/completions", json=chat("\nText Recognition:")).json()
    assert answer["choices"][0]["message"]["content"] == "read text"
    layout = client.post("/v1/chat/completions", json=chat("Layout Detection:")).json()
    assert layout["choices"][0]["message"]["content"].startswith("<|box_start|>0")
    assert code(client.post("/v1/chat/completions", json=chat("What is this?"))) == (422, "bad_prompt")


def test_chat_completion_streams_pieces(client: Any) -> None:
    with client.stream("POST", "/v1/chat/completions", json=chat("Text Recognition:", stream=True)) as stream:
        lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"].get("content", "") for line in lines[:-1]]
    assert [d for d in deltas if d] == ["read ", "text"]
    assert client.app.state.service.dispatcher.seats == 0


def test_file_parse_answers_as_mineru_does(client: Any) -> None:
    files = [("files", ("a.png", picture())), ("files", ("a.png", picture()))]
    answer = client.post("/file_parse", files=files, data={"return_content_list": "true"}).json()
    assert set(answer["results"]) == {"a", "a_2"}
    assert answer["results"]["a"]["md_content"] == "# read text\n"
    assert json.loads(answer["results"]["a"]["content_list"])[0]["page_idx"] == 0
    assert code(client.post("/file_parse", files=files, data={"return_middle_json": "true"}))[0] == 422


@pytest.mark.parametrize(("first", "last", "pages"), [(1, 50, [1, 2]), (0, 0, [0]), (0, 99999, [0, 1, 2])])
def test_file_parse_counts_pages_as_mineru_does(client: Any, first: int, last: int, pages: list[int]) -> None:
    fields = {"start_page_id": str(first), "end_page_id": str(last), "return_content_list": "true"}
    answer = client.post("/file_parse", files=[("files", ("a.pdf", pdf(3)))], data=fields).json()
    blocks = json.loads(answer["results"]["a"]["content_list"])
    assert sorted({block["page_idx"] for block in blocks}) == pages


def test_metrics_and_readiness(client: Any) -> None:
    assert client.get("/ready").json()["status"] == "ready"
    post(client, picture())
    text = client.get("/metrics").text
    assert 'derender_http_requests_total{method="POST",route="/v1/parse",status="200"}' in text
    assert "derender_engine_regions_total" in text


def test_edited_markdown_is_rendered_without_scripts(client: Any) -> None:
    text = "# T\n\n$x^2$ <script>alert(1)</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    html = client.post("/v1/markdown", json={"text": text}).json()["html"]
    assert "<math" in html and "<table" in html and "<script" not in html


def test_regions_of_two_clients_share_a_batch() -> None:
    import numpy as np
    from PIL import Image

    from derender.recognise.types import Request

    gate, recogniser = threading.Event(), None
    recogniser = EchoRecogniser(gate)
    host = EngineHost(lambda: recogniser)
    image = np.asarray(Image.new("RGB", (10, 10)))
    results: list[str] = []
    for client_name, id in (("first", "0"), ("first", "1"), ("first", "2"), ("second", "3")):
        host.submit(Request(id, image), client_name, lambda r: results.append(r.id))
    gate.set()
    while len(results) < 4:
        threading.Event().wait(0.01)
    host.stop()
    assert host.most_together == 2 and sorted(results) == ["0", "1", "2", "3"]
    assert results.index("3") < results.index("2")  # clients take turns

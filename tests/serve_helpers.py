"""What the tests of the service share: a recogniser that answers at once, small documents, and an app with a client."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from derender.recognise.types import DecodeStats, Request, Result, TokenOut
from derender.serve.limits import ServeSettings

EXAMPLES = Path(__file__).parents[1] / "examples"


class EchoRecogniser:
    """Test double: answers each request with a fixed text, once `gate` is open; notes which ran together."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.gate = gate
        self.batches: list[list[str]] = []

    def recognise(self, requests: Iterable[Request | None]) -> Iterator[Result]:
        source = iter(requests)
        while True:
            batch: list[Request] = []
            for request in source:
                if request is None:
                    break
                batch.append(request)
            if not batch:
                return
            if self.gate is not None:
                self.gate.wait(20)
            self.batches.append([r.id for r in batch])
            for request in batch:
                tokens = [TokenOut("read ", 0.99, 1), TokenOut("text", 0.5, 2)]
                for token in tokens:
                    if request.on_text:
                        request.on_text(token.text)
                stats = DecodeStats("exact", 2, 2, 0.01)
                lines = request.lines or ()
                yield Result(request.id, "read text", tokens, ["read text"] * len(lines), lines, stats=stats)


def picture(text: str = "A line of text that is read") -> bytes:
    image = Image.new("RGB", (600, 300), "white")
    ImageDraw.Draw(image).text((40, 120), text, font=ImageFont.load_default(24), fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def pdf(pages: int = 1) -> bytes:
    images = [Image.open(io.BytesIO(picture(f"Page number {i + 1} of a scan"))).convert("RGB") for i in range(pages)]
    buffer = io.BytesIO()
    images[0].save(buffer, "PDF", resolution=100, save_all=True, append_images=images[1:])
    return buffer.getvalue()


def settings(**changes: Any) -> ServeSettings:
    return ServeSettings(**{"threads": 1, "grace": 5.0, **changes})


def client_of(changed: ServeSettings, recogniser: Any = None) -> Any:
    """A TestClient that starts and stops the app as a context manager."""
    from fastapi.testclient import TestClient

    from derender.serve.app import create_app

    app = create_app(changed, lambda: recogniser or EchoRecogniser())
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def wait_for_job(client: Any, id: str, seconds: float = 60.0) -> dict[str, Any]:
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job: dict[str, Any] = client.get(f"/v1/jobs/{id}").json()
        if job["status"] in ("done", "failed", "cancelled"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"the job did not end: {job}")

"""The clients of prove_load.py: each sends one request after the other and notes how every one of them ended.

A request ends with a status; one that ends otherwise (a broken connection, an answer that does not come) is a fault. A
429 is obeyed: wait as long as Retry-After says, then ask again. Clients that leave are there too; nobody owes them an
answer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from dataclasses import dataclass, field

import httpx

from load_documents import GOOD, REFUSED, Sent, bomb
from serve_helpers import picture

ANSWER_SECONDS = 600.0
PROMPTS = ("Text Recognition:", "Text Recognition:", "Layout Detection:", "Table Recognition:", "Formula Recognition:")


@dataclass
class Tally:
    """What all clients saw. seconds: of answered requests by route, 429s and their waits left out."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    busy: int = 0
    left: int = 0
    accepted: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    """Accepted jobs, and how those that ended did."""

    def note(self, route: str, status: int | str, seconds: float) -> None:
        self.seconds.setdefault(route, []).append(seconds)
        counts = self.statuses.setdefault(route, {})
        counts[str(status)] = counts.get(str(status), 0) + 1

    def check(self, route: str, sent: Sent, answer: httpx.Response) -> None:
        """Whether the answer is one that this document may get, in the form that was promised."""
        if answer.status_code not in sent.allowed:
            self.faults.append(f"{route} {sent.name}: {answer.status_code} {answer.text[:200]}")
        elif answer.status_code >= 400 and not answer.json()["error"]["code"]:
            self.faults.append(f"{route} {sent.name}: an error without a code")


class LoadClient:
    """One of many; its choices come from its number, so that a run can be repeated."""

    def __init__(self, number: int, http: httpx.AsyncClient, sent: list[Sent], tally: Tally) -> None:
        self._random = random.Random(number)
        self._http, self._tally = http, tally
        self._good = [s for s in sent if s.good]
        self._hostile = [s for s in sent if not s.good]

    async def run(self, until: float) -> None:
        """Requests until the time is over; the last one is followed to its end."""
        kinds = [self.parse, self.job, self.chat, self.chat_hostile, self.leave, self.job_cancelled]
        while time.monotonic() < until:
            kind = self._random.choices(kinds, (40, 30, 18, 4, 5, 3))[0]
            try:
                await kind()
            except (httpx.HTTPError, KeyError, ValueError) as error:
                self._tally.faults.append(f"{kind.__name__}: {type(error).__name__} {error}")

    async def parse(self) -> None:
        sent = self._pick()
        answer = await self._ask("POST /v1/parse", "/v1/parse", files=_form(sent), data=sent.fields)
        self._tally.check("parse", sent, answer)
        if answer.status_code == 200 and answer.headers.get("x-derender-status") not in ("ok", "partial"):
            self._tally.faults.append(f"parse {sent.name}: no status in the headers")

    async def job(self) -> None:
        """Submitted, followed to its end by events or by asking, fetched, and now and then deleted."""
        sent = self._pick()
        submitted = await self._ask("POST /v1/jobs", "/v1/jobs", files=_form(sent), data=sent.fields)
        if submitted.status_code != 202:
            self._tally.check("job", sent, submitted)
            return
        id = submitted.json()["id"]
        self._tally.accepted.add(id)
        began = time.monotonic()
        state = await (self._listen(id) if self._random.random() < 0.5 else self._poll(id))
        self._tally.ended[id] = state
        self._tally.note("job, to its end", state, time.monotonic() - began)
        result = await self._ask("GET /v1/jobs/{id}/result", f"/v1/jobs/{id}/result?format=md", method="GET")
        self._tally.check("job result", sent, result)
        if (result.status_code == 200) != (state == "done"):
            self._tally.faults.append(f"job {sent.name}: {state}, but the result is {result.status_code}")
        if self._random.random() < 0.3:
            await self._ask("DELETE /v1/jobs/{id}", f"/v1/jobs/{id}", method="DELETE")

    async def job_cancelled(self) -> None:
        sent = self._random.choice(self._good)
        submitted = await self._ask("POST /v1/jobs", "/v1/jobs", files=_form(sent), data=sent.fields)
        await asyncio.sleep(self._random.random() * 2)
        id = submitted.json()["id"]
        gone = await self._ask("DELETE /v1/jobs/{id}", f"/v1/jobs/{id}", method="DELETE")
        after = await self._ask("GET /v1/jobs/{id}", f"/v1/jobs/{id}", method="GET")
        if (gone.status_code, after.status_code) != (204, 404):
            self._tally.faults.append(f"a deleted job: {gone.status_code}, then {after.status_code}")

    async def chat(self) -> None:
        text = picture(f"Words that client {self._random.randrange(1000)} sent")
        stream = self._random.random() < 0.5
        answer = await self._ask(
            f"POST /v1/chat/completions{' (stream)' if stream else ''}",
            "/v1/chat/completions",
            json=_chat(text, self._random.choice(PROMPTS), stream),
        )
        if answer.status_code != 200:
            self._tally.faults.append(f"chat: {answer.status_code} {answer.text[:200]}")
        elif stream and not answer.text.rstrip().endswith("data: [DONE]"):
            self._tally.faults.append("chat: a stream without its end")

    async def chat_hostile(self) -> None:
        data = self._random.choice([s.data for s in self._hostile] + [bomb(30_000)])
        answer = await self._ask("POST /v1/chat/completions", "/v1/chat/completions", json=_chat(data, PROMPTS[0]))
        if answer.status_code not in REFUSED:
            self._tally.faults.append(f"chat, hostile: {answer.status_code} {answer.text[:200]}")

    async def leave(self) -> None:
        """Goes away in the middle of a reading, or of a stream."""
        sent = self._random.choice(self._good)
        stream = self._random.random() < 0.5
        try:
            async with asyncio.timeout(self._random.random() * 3):
                if stream:
                    await self._http.post("/v1/chat/completions", json=_chat(picture(), PROMPTS[0], True))
                else:
                    await self._http.post("/v1/parse", files=_form(sent), data=sent.fields)
        except TimeoutError:
            self._tally.left += 1

    def _pick(self) -> Sent:
        return self._random.choice(self._good if self._random.random() < 0.6 else self._hostile)

    async def _ask(self, route: str, path: str, method: str = "POST", **body: object) -> httpx.Response:
        """The answer, after as many 429s as it takes."""
        for _ in range(1000):
            began = time.monotonic()
            answer = await self._http.request(method, path, **body)  # type: ignore[arg-type]
            if answer.status_code != 429:
                self._tally.note(route, answer.status_code, time.monotonic() - began)
                return answer
            self._tally.busy += 1
            await asyncio.sleep(int(answer.headers["Retry-After"]) * (0.5 + self._random.random()))
        raise ValueError(f"{route} was busy a thousand times")

    async def _poll(self, id: str) -> str:
        while True:
            state = (await self._http.get(f"/v1/jobs/{id}")).json()["status"]
            if state in ("done", "failed", "cancelled"):
                return str(state)
            await asyncio.sleep(0.7)

    async def _listen(self, id: str) -> str:
        last = ""
        async with self._http.stream("GET", f"/v1/jobs/{id}/events") as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    last = json.loads(line.removeprefix("data: ")).get("status", last)
        if last not in ("done", "failed", "cancelled"):
            self._tally.faults.append(f"the events of a job ended with {last!r}")
            return await self._poll(id)
        return last


def _form(sent: Sent) -> dict[str, tuple[str, bytes]]:
    return {"file": (sent.name, sent.data)}


def _chat(data: bytes, prompt: str, stream: bool = False) -> dict[str, object]:
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
    return {"messages": [{"role": "user", "content": parts}], "stream": stream}


async def load(url: str, sent: list[Sent], clients: int, seconds: float, seed: int, tally: Tally) -> None:
    """`clients` at once for that long, and until each has its last answer."""
    limits = httpx.Limits(max_connections=2 * clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=ANSWER_SECONDS, limits=limits) as http:
        until = time.monotonic() + seconds
        await asyncio.gather(*(LoadClient(seed + n, http, sent, tally).run(until) for n in range(clients)))


def good_only(sent: list[Sent]) -> list[Sent]:
    return [s for s in sent if s.allowed == GOOD]

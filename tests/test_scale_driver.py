"""What a run does when workers are lost: a double of Ray in this process kills them where a test says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from derender.config import ParseOptions
from derender.document import Page
from derender.errors import DerenderError, ModelError
from derender.scale import run as scale_run
from derender.scale.plan import DocumentInput, expand_uris
from derender.scale.progress import ScaleReporter
from derender.scale.run import ScaleOptions, run_scale
from derender.scale.store import Done, Store
from derender.scale.work import Job, Piece, Probed

pytest.importorskip("fsspec", reason="the extra `ray` is not installed: no fsspec")


class _RayError(Exception):
    pass


class _RayTaskError(_RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class DeadWorker(Exception):
    """Raised in a worker, it stands for the end of its process."""


class NumberedWorker:
    """Its documents have as many pages as their size says; every page is blank. `trouble` may raise for pieces."""

    trouble: Callable[[Sequence[Piece]], None] = staticmethod(lambda pieces: None)
    reads: Counter[tuple[str, int]] = Counter()

    def __init__(self, job: Job) -> None:
        self.job, self.store = job, Store(job.out)

    def ready(self) -> int:
        return 0

    def probe(self, documents: Sequence[DocumentInput]) -> list[Probed]:
        done = [self.store.pages_done(d.key(self.job.settings)) for d in documents]
        return [Probed(tuple(range(1, d.size + 1)), frozenset(kept)) for d, kept in zip(documents, done, strict=True)]

    def read(self, pieces: Sequence[Piece]) -> int:
        self.trouble(pieces)
        for piece in pieces:
            numbers = range(piece.first, piece.last + 1)
            pages = [Page(number=n, width=1, height=1, dpi=72) for n in numbers]
            self.store.add_pages(piece.document.key(self.job.settings), pages)
            self.reads.update((piece.document.name, n) for n in numbers)
        return 0

    def finish(self, document: DocumentInput, numbers: Sequence[int]) -> Done:
        pages = self.store.load_pages(document.key(self.job.settings))
        errors = {n: pages[n].errors for n in numbers if pages[n].errors}
        self.store._put(f"{document.name}.txt", json.dumps([sorted(pages), errors]))
        status = "partial" if errors else "ok"
        self.store.mark(document.key(self.job.settings), done := Done(document.uri, document.name, 0, status, 0))
        return done


class RayDouble:
    """remote, get, wait and kill, as far as run.py uses them; tasks are done when they are asked for."""

    class exceptions:
        RayError, RayTaskError = _RayError, _RayTaskError

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda cls: _ActorClass()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, reference: _Reference) -> Any:
        try:
            return reference.work()
        except DeadWorker:
            raise _RayError("the actor died") from None
        except Exception as error:
            raise _RayTaskError(error) from error

    def kill(self, actor: Any) -> None:
        pass


class _Reference:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work


class _ActorClass:
    def remote(self, job: Job) -> Any:
        return _Actor(NumberedWorker(job))


class _Actor:
    def __init__(self, worker: NumberedWorker) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._worker, name)
        return type("Method", (), {"remote": staticmethod(lambda *a: _Reference(lambda: method(*a)))})


class _Scene:
    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        for name, pages in (("a", 20), ("b", 1), ("c", 7)):
            (tmp / f"{name}.pdf").write_bytes(b"x" * pages)
        self.job = Job(str(tmp / "out"), ParseOptions(threads=1), ("json",), "s")

    def __call__(self) -> tuple[int, ScaleReporter]:
        NumberedWorker.reads = Counter()
        report = ScaleReporter(quiet=True)
        documents = expand_uris([str(self.tmp / "*.pdf")])
        return run_scale(documents, self.job, ScaleOptions(workers=2, unit_pages=4), report), report

    def pages(self, name: str) -> list[Any]:
        found: list[Any] = json.loads((self.tmp / "out" / f"{name}.txt").read_text())
        return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Scene:
    monkeypatch.setattr(scale_run, "_connect", lambda scale: (RayDouble(), False))
    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(lambda pieces: None))
    return _Scene(tmp_path)


def _hits(pieces: Sequence[Piece], name: str, page: int) -> bool:
    return any(p.document.name == name and p.first <= page <= p.last for p in pieces)


def test_a_page_that_kills_every_worker_is_given_up_and_all_others_come_out(
    scene: _Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(pieces: Sequence[Piece]) -> None:
        if _hits(pieces, "a", 6):
            raise DeadWorker

    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(die))
    code, report = scene()
    assert code == 3 and report.lost == 5  # twice as a unit, three times alone
    numbers, errors = scene.pages("a")
    assert numbers == list(range(1, 21)) and list(errors) == ["6"] and "given up" in errors["6"][0]
    assert scene.pages("b") == [[1], {}] and scene.pages("c") == [list(range(1, 8)), {}]


def test_an_exception_on_a_page_is_no_reason_to_lose_others(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pieces: Sequence[Piece]) -> None:
        if _hits(pieces, "c", 7):
            raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(fail))
    code, report = scene()
    numbers, errors = scene.pages("c")
    assert code == 3 and report.lost == 0 and numbers == list(range(1, 8)) and "ZeroDivisionError" in errors["7"][0]


def test_pages_kept_before_an_interruption_are_not_read_again(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(pieces: Sequence[Piece]) -> None:
        if _hits(pieces, "a", 13):
            raise KeyboardInterrupt

    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        scene()
    before = set(NumberedWorker.reads)
    assert ("a", 12) in before
    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(lambda pieces: None))
    assert scene()[0] == 0
    assert not before & set(NumberedWorker.reads) and set(NumberedWorker.reads.values()) == {1}
    assert scene.pages("a") == [list(range(1, 21)), {}]


def test_missing_weights_end_the_run_with_their_message(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pieces: Sequence[Piece]) -> None:
        raise ModelError("the weights are missing.")

    monkeypatch.setattr(NumberedWorker, "trouble", staticmethod(fail))
    with pytest.raises(DerenderError, match="the weights are missing"):
        scene()


def test_workers_that_never_start_end_the_run(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: NumberedWorker) -> int:
        raise DeadWorker

    monkeypatch.setattr(NumberedWorker, "ready", die)
    with pytest.raises(DerenderError, match="no worker starts"):
        scene()

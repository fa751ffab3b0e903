"""What has been read, under the output URI: page parts, markers of finished documents, and the table of failures.

    OUT/NAME/NAME.md ...                        a finished document, as `derender parse` writes it
    OUT/.derender/pages/KEY/000001-000016.jsonl finished pages of a document that is not finished, one a line
    OUT/.derender/done/KEY.json                 the document is finished
    OUT/.derender/problems/KEY.jsonl            what went wrong with a document, finished or not
    OUT/failures.jsonl                          all of those problems, written at the end

KEY names an input, unchanged, read with the same settings (plan.DocumentInput.key). Every file appears whole or not at
all; a page that was written twice, because a worker was taken for dead and was not, counts once. Does not read inputs.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from derender.assemble.structure import clean_page
from derender.document import Page
from derender.scale.plan import file_system

_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"}
"""File systems where an object appears when it is complete; elsewhere it is written under another name and renamed."""
STATE = ".derender"


@dataclass(frozen=True)
class Problem:
    """A row of failures.jsonl. page None: the whole input. region: its place in the page's order, from 1."""

    input: str
    name: str
    page: int | None
    region: int | None
    status: str
    error: str


@dataclass(frozen=True)
class Done:
    """A marker: what came out of a document."""

    input: str
    name: str
    pages: int
    status: str
    problems: int


class Store:
    """The output of a run. uri: a folder that fsspec can write, made when needed."""

    def __init__(self, uri: str) -> None:
        self.fs, root = file_system(uri)
        self.root = root.rstrip("/")
        kinds = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        self._whole = bool(kinds & _WHOLE)
        self.local = "file" in kinds

    def finished(self) -> set[str]:
        """Keys of all finished documents, by one listing."""
        return {Path(path).stem for path in self._find("done")}

    def mark(self, key: str, done: Done) -> None:
        """The document's output is complete: from now on no run reads it again. Its page parts are dropped."""
        self._put(f"{STATE}/done/{key}.json", json.dumps(asdict(done)))
        self.drop_pages(key)

    def pages_done(self, key: str) -> set[int]:
        """Numbers of the pages that are there, told by the names of the parts."""
        numbers: set[int] = set()
        for path in self._find(f"pages/{key}"):
            match = re.fullmatch(r"(\d+)-(\d+)\.jsonl", path.rpartition("/")[2])
            if match:
                numbers.update(range(int(match[1]), int(match[2]) + 1))
        return numbers

    def add_pages(self, key: str, pages: list[Page]) -> None:
        """Keeps pages with consecutive numbers as one part. Raises OSError when the store does."""
        numbers = [page.number for page in pages]
        if numbers != list(range(numbers[0], numbers[0] + len(pages))):
            raise ValueError(f"pages {numbers} are no unbroken range")
        text = "".join(clean_page(page).model_dump_json(exclude_none=True) + "\n" for page in pages)
        self._put(f"{STATE}/pages/{key}/{numbers[0]:06d}-{numbers[-1]:06d}.jsonl", text)

    def load_pages(self, key: str) -> dict[int, Page]:
        """All pages that are there, by number, each once."""
        pages: dict[int, Page] = {}
        for path in sorted(self._find(f"pages/{key}")):
            if path.endswith(".jsonl"):
                for line in self.fs.cat_file(path).splitlines():
                    page = Page.model_validate_json(line)
                    pages.setdefault(page.number, page)
        return pages

    def drop_pages(self, key: str) -> None:
        folder = f"{self.root}/{STATE}/pages/{key}"
        # Gone already, or never there: another attempt of the same task dropped it.
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(folder, recursive=True)

    def note(self, key: str, problems: Iterable[Problem]) -> None:
        """Replaces the document's problems; none takes its file away."""
        text = "".join(json.dumps(asdict(problem), ensure_ascii=False) + "\n" for problem in problems)
        path = f"{STATE}/problems/{key}.jsonl"
        if text:
            self._put(path, text)
        else:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.root}/{path}")

    def write_failures(self, keys: set[str]) -> int:
        """Gathers the problems of these documents in failures.jsonl; returns how many rows it has."""
        lines: list[bytes] = []
        for path in sorted(self._find("problems")):
            if Path(path).stem in keys:
                lines += self.fs.cat_file(path).splitlines()
        self._put("failures.jsonl", "".join(line.decode("utf-8") + "\n" for line in lines))
        return len(lines)

    def upload(self, folder: Path, name: str, last: str) -> None:
        """Copies a document's files to OUT/name, the one called `last` at the end: it tells that all are there."""
        files = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: (p.name == last, p))
        for file in files:
            self._put(f"{name}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def _find(self, folder: str) -> list[str]:
        self.fs.invalidate_cache()
        try:
            found: list[str] = self.fs.find(f"{self.root}/{STATE}/{folder}")
        except FileNotFoundError:
            return []
        return [path for path in found if not path.endswith(".new")]

    def _put(self, path: str, data: str | bytes) -> None:
        raw = data.encode("utf-8") if isinstance(data, str) else data
        target = f"{self.root}/{path}"
        self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        if self._whole:
            self.fs.pipe_file(target, raw)
            return
        new = f"{target}.{uuid.uuid4().hex}.new"
        try:
            self.fs.pipe_file(new, raw)
            self.fs.mv(new, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(new)
            raise

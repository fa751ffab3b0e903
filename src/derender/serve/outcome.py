"""What reading a document left: the document as JSON and the pictures cut out of it; and the answers made from them.

Files are only ever made in a temporary folder of the service's own naming: no name of a client's touches the disk.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from derender.assemble.chunks import chunks_jsonl
from derender.assemble.figures import PageImages, crop_figures, wants_picture
from derender.assemble.files import write_outputs
from derender.assemble.html import to_html
from derender.assemble.structure import clean_text
from derender.document import Document
from derender.serve.options import ParseParameters, ResultFormat

MEDIA: dict[ResultFormat, str] = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "content-list": "application/json",
    "chunks": "application/x-ndjson",
    "zip": "application/zip",
}


@dataclass(frozen=True)
class Outcome:
    """A read document. pictures: relative path ("images/p1_r3.png") -> PNG bytes."""

    document: Document
    pictures: dict[str, bytes]


def cut_pictures(document: Document, page_images: PageImages) -> Outcome:
    """The document with the pictures that its outputs show. Pages without any are not rendered again."""
    if not any(wants_picture(region) for page in document.pages for region in page.regions):
        return Outcome(document, {})
    with tempfile.TemporaryDirectory(prefix="derender-") as folder:
        cut = crop_figures(document, page_images, Path(folder))
        return Outcome(cut, {f"images/{p.name}": p.read_bytes() for p in sorted(Path(folder, "images").glob("*.png"))})


def render(outcome: Outcome, format: ResultFormat, wanted: ParseParameters) -> bytes:
    """The outcome in one of the formats of MEDIA."""
    makers: dict[ResultFormat, Callable[[Outcome, ParseParameters], str | bytes]] = {
        "md": lambda o, w: o.document.to_markdown(keep_paratext=w.keep_paratext, page_markers=w.page_markers),
        "json": lambda o, w: o.document.to_json() + "\n",
        "html": _html,
        "content-list": lambda o, w: json.dumps(o.document.to_content_list(), ensure_ascii=False),
        "chunks": lambda o, w: chunks_jsonl(o.document),
        "zip": _zip,
    }
    cleaned = Outcome(clean_text(outcome.document), outcome.pictures)
    made = makers[format](cleaned, wanted)
    return made.encode("utf-8", "replace") if isinstance(made, str) else made


def _html(outcome: Outcome, wanted: ParseParameters) -> str:
    with tempfile.TemporaryDirectory(prefix="derender-") as folder:
        _put_pictures(outcome, Path(folder))
        return to_html(outcome.document, keep_paratext=wanted.keep_paratext, image_root=folder)


def _zip(outcome: Outcome, wanted: ParseParameters) -> bytes:
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="derender-") as folder:
        root = Path(folder, "document")
        _put_pictures(outcome, root)
        write_outputs(
            outcome.document,
            folder,
            ["md", "json", "content-list", "chunks", "csv"],
            None,
            "document",
            wanted.keep_paratext,
            wanted.page_markers,
        )
        Path(root, "document.html").write_text(_html(outcome, wanted), encoding="utf-8")
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(p for p in root.rglob("*") if p.is_file()):
                archive.write(path, path.relative_to(root).as_posix())
    return buffer.getvalue()


def _put_pictures(outcome: Outcome, root: Path) -> None:
    for name, data in outcome.pictures.items():
        path = root / "images" / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def pack_pictures(pictures: dict[str, bytes]) -> bytes:
    """Pictures as one value for the jobs' database; b"" for none."""
    if not pictures:
        return b""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in pictures.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unpack_pictures(data: bytes) -> dict[str, bytes]:
    """Inverse of pack_pictures."""
    if not data:
        return {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}

"""Writes a document's files: out/NAME/NAME.md, NAME.json, NAME_content_list.json, NAME.html, NAME_layout.pdf,
NAME_chunks.jsonl, NAME_tables.xlsx, images/, tables/.

All files are made in a temporary folder inside out/NAME and then renamed into place, the JSON last: a JSON that
exists belongs to a finished document, and after an error nothing half-written is left. Does not decide names for
inputs (`unique_name` helps).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, get_args

from derender.assemble.chunks import chunks_jsonl
from derender.assemble.content_list import to_content_list
from derender.assemble.figures import PageImages, crop_figures
from derender.assemble.html import to_html
from derender.assemble.markdown import to_markdown
from derender.assemble.overlay import write_overlay
from derender.assemble.sheets import write_csv, write_xlsx
from derender.assemble.structure import clean_text
from derender.document import Document, load
from derender.errors import UsageError

Format = Literal["md", "json", "html", "content-list", "overlay", "chunks", "csv", "xlsx"]
FORMATS: tuple[Format, ...] = get_args(Format)
_FOLDERS = ("images", "tables")  # csv has a file for each table, in the latter
_SUFFIX: dict[Format, str] = {
    "md": ".md",
    "html": ".html",
    "content-list": "_content_list.json",
    "overlay": "_layout.pdf",
    "chunks": "_chunks.jsonl",
    "xlsx": "_tables.xlsx",
    "json": ".json",  # last: it marks the document as finished
}
_RESERVED = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))])
_MAX_NAME_BYTES = 150


def safe_name(name: str) -> str:
    """`name` as a file name that every common system accepts; never empty, never a path, at most 150 bytes of UTF-8."""
    name = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode("utf-8"))
    kept = "".join("_" if char in '/\\:*?"<>|' or unicodedata.category(char)[0] == "C" else char for char in name)
    kept = kept.encode("utf-8")[:_MAX_NAME_BYTES].decode("utf-8", "ignore").strip(". \t")
    if not kept:
        return "document"
    return f"_{kept}" if kept.split(".")[0].lower() in _RESERVED else kept


def unique_name(stem: str, taken: Collection[str]) -> str:
    """A safe name for an input that no earlier input of the run has, compared without case: "a", "a_2", "a_3"."""
    name = safe_name(stem)
    used = {other.casefold() for other in taken}
    number = 1
    candidate = name
    while candidate.casefold() in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def output_files(out_dir: str | os.PathLike[str], name: str, formats: Iterable[Format]) -> list[Path]:
    """Where `write_outputs` puts the file of each format, pictures and CSV files aside. Raises UsageError for an
    unknown format."""
    wanted = list(formats)
    unknown = [fmt for fmt in wanted if fmt not in FORMATS]
    if unknown:
        raise UsageError(f"unknown format {unknown[0]!r}; known are {', '.join(FORMATS)}")
    folder = Path(out_dir) / safe_name(name)
    return [folder / f"{safe_name(name)}{suffix}" for fmt, suffix in _SUFFIX.items() if fmt in wanted]


def write_outputs(
    doc: Document,
    out_dir: str | os.PathLike[str],
    formats: Iterable[Format],
    page_images: PageImages | None = None,
    name: str | None = None,
    keep_paratext: bool = False,
    page_markers: bool = False,
) -> list[Path]:
    """Writes the chosen formats and the pictures they show; returns the files' paths, pictures and CSV files included.

    name: of the folder and files, made safe; doc.name by default. page_images gives page pictures (figures.py);
    without it no picture is cut and the overlay has white pages. Raises OSError when the disk does, after taking
    everything back.
    """
    wanted = list(formats)
    name = safe_name(name if name is not None else doc.name)
    targets = output_files(out_dir, name, wanted)
    folder = Path(out_dir) / name
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))
    try:
        _write_all(clean_text(doc), stage, name, wanted, page_images, keep_paratext, page_markers)
        parts = sorted(path.relative_to(stage) for sub in _FOLDERS for path in (stage / sub).glob("*"))
        for sub in {part.parts[0] for part in parts}:
            (folder / sub).mkdir(exist_ok=True)
        for relative in [*parts, *(target.relative_to(folder) for target in targets)]:
            os.replace(stage / relative, folder / relative)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        for path in made:  # innermost first; only folders that this call made, and only when empty
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise
    shutil.rmtree(stage, ignore_errors=True)
    return [*targets, *(folder / relative for relative in parts)]


def _write_all(
    doc: Document,
    stage: Path,
    name: str,
    wanted: list[Format],
    page_images: PageImages | None,
    keep_paratext: bool,
    page_markers: bool,
) -> None:
    if page_images is not None and set(wanted) - {"overlay", "csv", "xlsx"}:
        doc = crop_figures(doc, page_images, stage)
    base = stage / name
    if "md" in wanted:
        _text(f"{base}.md", to_markdown(doc, keep_paratext=keep_paratext, page_markers=page_markers))
    if "html" in wanted:
        _text(f"{base}.html", to_html(doc, keep_paratext=keep_paratext, image_root=stage))
    if "content-list" in wanted:
        _text(f"{base}_content_list.json", json.dumps(to_content_list(doc), ensure_ascii=False, indent=1) + "\n")
    if "overlay" in wanted:
        write_overlay(doc, page_images or (lambda number: None), f"{base}_layout.pdf")
    if "chunks" in wanted:
        _text(f"{base}_chunks.jsonl", chunks_jsonl(doc))
    if "csv" in wanted:
        write_csv(doc, stage / "tables")
    if "xlsx" in wanted:
        write_xlsx(doc, Path(f"{base}_tables.xlsx"))
    if "json" in wanted:
        _text(f"{base}.json", doc.to_json() + "\n")


def _text(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def source_meta(data: bytes) -> dict[str, str | int]:
    """What `Document.meta["source"]` must hold for `is_finished` to know the input again: its size and SHA-256."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def is_finished(
    out_dir: str | os.PathLike[str],
    name: str,
    source: dict[str, str | int] | None = None,
    formats: Iterable[Format] = ("json",),
) -> bool:
    """Whether an earlier run finished this document: its JSON has status ok or partial, all `formats` are there, and,
    when `source` (as made by source_meta) is given, it was made from the same input. An unreadable JSON counts as not
    finished.
    """
    files = output_files(out_dir, name, {*formats, "json"})
    if not all(path.is_file() for path in files):
        return False
    try:
        doc = load(files[-1])
    except (ValueError, OSError):
        return False
    return doc.status != "failed" and (source is None or doc.meta.get("source") == source)

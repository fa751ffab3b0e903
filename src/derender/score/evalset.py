"""Loads an evaluation-set folder into typed items.

Layout: `text/NAME.png` + `.txt`, `formula/NAME.png` + `.tex`, `table/NAME.png` + `.html`, `pages/NAME.EXT` (png, jpg,
tif, pdf) + `.md`, `.tex` or `.json` ("kind": "blocks" or "tests"), `hostile/` + `expect.json`, and `manifest.jsonl`
with one row a file. Does not read the pictures' pixels except through `load_image`, and scores nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from derender.errors import InputError
from derender.score.types import Image, NormBox

EVAL_TASKS = ("text", "formula", "table", "pages", "hostile")
TEXT_GROUPS = {"uw3": "uw3", "receipt": "receipt", "block": "block", "fraktur": "fraktur", "zh": "chinese"}
PAGE_GROUPS = {"phototest.tif": "phototest", "eurotext.tif": "eurotext", "docling": "silver"}
NON_BODY = frozenset({"figure", "table", "equation", "page-number", "catch-word", "furniture"})
"""Types of ground-truth blocks that are left out of a page's text: pictures, loose mathematics, page furniture."""


@dataclass(frozen=True)
class Item:
    """One file of the set. file is relative to the folder; group is what totals are broken down by."""

    task: str
    file: str
    path: Path
    group: str
    lang: str


@dataclass(frozen=True)
class CropItem(Item):
    """A crop and its truth: text with line breaks, LaTeX without dollar signs, or one HTML table."""

    truth: str
    kind: Literal["line", "block", "formula", "table"]


@dataclass(frozen=True)
class TruthBlock:
    """A block of the truth in reading order. Its box is normalised to the page (0-1); text keeps line breaks."""

    text: str
    box: NormBox
    type: str

    @property
    def body(self) -> bool:
        return self.type not in NON_BODY and bool(self.text.strip())


@dataclass(frozen=True)
class Check:
    """One yes/no test in the manner of olmOCR-bench. `spec` holds the fields of its type as the file has them."""

    id: str
    type: str
    page: int
    spec: dict[str, Any]


@dataclass(frozen=True)
class PageItem(Item):
    """A document. kind says which of the fields is the truth: "markdown" or "tex" text, blocks, or checks."""

    kind: Literal["markdown", "tex", "blocks", "tests"]
    text: str = ""
    blocks: tuple[TruthBlock, ...] = ()
    checks: tuple[Check, ...] = ()
    silver: bool = False


@dataclass(frozen=True)
class HostileItem(Item):
    """A bad or unusual file: expect is "ok", "error" or "ok_or_error"; empty: inventing text is a failure."""

    expect: Literal["ok", "error", "ok_or_error"]
    empty: bool = False
    password: str | None = None
    must_contain: tuple[str, ...] = ()


def load_image(path: Path) -> Image:
    """(H, W, 3) RGB uint8, transparency laid over white, EXIF orientation applied. Raises InputError."""
    from PIL import Image as Pil
    from PIL import ImageOps

    try:
        with Pil.open(path) as raw:
            turned = ImageOps.exif_transpose(raw)
            if turned.mode in ("LA", "RGBA", "P", "PA"):
                rgba = turned.convert("RGBA")
                turned = Pil.alpha_composite(Pil.new("RGBA", rgba.size, "white"), rgba)
            return np.asarray(turned.convert("RGB"))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read as an image: {error}.") from error


def load_evalset(folder: Path, tasks: Sequence[str] = EVAL_TASKS) -> list[Item]:
    """Items of the tasks asked for, in the manifest's order.

    Raises InputError when the folder has no manifest, a truth is missing or malformed, or a task is unknown.
    """
    unknown = set(tasks) - set(EVAL_TASKS)
    if unknown:
        raise InputError(f"Unknown task {sorted(unknown)[0]!r}: choose from {', '.join(EVAL_TASKS)}.")
    manifest = folder / "manifest.jsonl"
    if not manifest.is_file():
        raise InputError(f"{folder} is not an evaluation set: it has no manifest.jsonl.")
    expect: dict[str, Any] = {}
    if "hostile" in tasks and (folder / "hostile" / "expect.json").is_file():
        expect = json.loads((folder / "hostile" / "expect.json").read_text("utf-8"))["files"]
    items: list[Item] = []
    for number, line in enumerate(manifest.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if row["task"] in tasks:
                items.append(_item(folder, row, expect))
        except (KeyError, ValueError, FileNotFoundError) as error:
            raise InputError(f"{manifest.name} line {number} cannot be used: {error!r}.") from error
    return items


def _item(folder: Path, row: dict[str, Any], expect: dict[str, Any]) -> Item:
    task, file = row["task"], row["file"]
    path, lang = folder / file, row.get("lang") or ""
    prefix = Path(file).name.split("_")[0]
    if task == "hostile":
        spec = expect[path.name]
        return HostileItem(
            task,
            file,
            path,
            spec["class"],
            lang,
            spec["expect"],
            bool(spec.get("empty")),
            spec.get("password"),
            tuple(spec.get("must_contain", ())),
        )
    truth_path = folder / row["gt"]
    truth = truth_path.read_text("utf-8")
    if task == "pages":
        return _page_item(task, file, path, prefix, lang, row, truth_path.suffix, truth)
    kind = row["kind"] if task == "text" else task
    group = TEXT_GROUPS.get(prefix, "chinese" if lang == "zh" else "other") if task == "text" else prefix
    return CropItem(task, file, path, group, "de-fraktur" if group == "fraktur" else lang, truth.strip("\n"), kind)


def _page_item(
    task: str, file: str, path: Path, prefix: str, lang: str, row: dict[str, Any], suffix: str, truth: str
) -> PageItem:
    group = PAGE_GROUPS.get(prefix, prefix)
    silver = "SILVER" in row.get("gt_kind", "") or "SILVER" in row.get("note", "")
    if "Fraktur" in row.get("kind", ""):
        lang = "de-fraktur"
    base = (task, file, path, group, lang)
    if suffix == ".md":
        return PageItem(*base, kind="markdown", text=truth, silver=silver)
    if suffix == ".tex":
        return PageItem(*base, kind="tex", text=truth, silver=silver)
    data = json.loads(truth)
    if data["kind"] == "tests":
        checks = tuple(Check(t["id"], t["type"], t.get("page", 1), t) for t in data["tests"])
        return PageItem(*base, kind="tests", checks=checks, silver=silver)
    if data["kind"] != "blocks":
        raise ValueError(f"unknown kind {data['kind']!r}")
    width, height = data["image_size"]
    blocks = tuple(_truth_block(b, width, height) for b in data["blocks"])
    return PageItem(*base, kind="blocks", blocks=blocks, silver=silver)


def _truth_block(data: dict[str, Any], width: float, height: float) -> TruthBlock:
    x0, y0, x1, y1 = data["bbox"]
    # PubLayNet's label 0 and a line that is only a page number between dashes are furniture without a type of their own
    text = data.get("text", "")
    number = data["type"] == "line" and text.strip(" -\u2013\u2014").isdigit() and text.strip()[0] in "-\u2013\u2014"
    kind = "furniture" if number or data.get("label") == 0 else data["type"]
    return TruthBlock(text, (x0 / width, y0 / height, x1 / width, y1 / height), kind)

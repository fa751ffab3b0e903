"""Loads the picture for `derender read` and prints its reading. Does not read it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import typer

from derender.cli_batch import read_stdin
from derender.errors import DerenderError, UsageError
from derender.ingest.source import open_source
from derender.recognise.types import Image, Result


def load_crop(name: str) -> Image:
    """(H, W, 3) uint8 RGB of a picture file, or of standard input for "-". Raises InputError for what is no picture,
    UsageError for a document of several pages.
    """
    opened = open_source(read_stdin(), name="standard input") if name == "-" else open_source(name)
    with opened as source:
        if source.page_count > 1:
            raise UsageError(f"{source.name} has {source.page_count} pages: for documents there is derender parse")
        return source.page(1).image


def show(result: Result, task: str, form: str) -> int:
    """Prints the reading on standard output, its problems on standard error; returns the exit code (0, 1 or 3).

    Raises DerenderError when the reading has no such form.
    """
    for error in result.errors:
        typer.echo(f"Error: {' '.join(error.split())}", err=True)
    if result.status == "failed":
        if not result.errors:
            typer.echo("Error: the picture could not be read.", err=True)
        return 1
    if form == "json":
        text = json.dumps(_as_json(result, task), ensure_ascii=False, indent=1)
    elif form == "html":
        if result.html is None:
            raise DerenderError("the reading of this table has no HTML, only text: use --format text.")
        text = result.html
    else:
        text = result.latex if task == "formula" and result.latex is not None else result.text
    sys.stdout.buffer.write((text.rstrip("\n") + "\n").encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 3 if result.status == "partial" else 0


def _as_json(result: Result, task: str) -> dict[str, object]:
    """Boxes of lines are corners in pixels of the picture; what the task does not give is left out."""
    data: dict[str, object] = {
        "task": task,
        "status": result.status,
        "text": result.text,
        "latex": result.latex,
        "html": result.html,
        "otsl": result.otsl,
        "cells": [cell.model_dump(exclude_none=True) for cell in result.cells] or None,
        "confidence": result.confidence,
        "errors": result.errors,
        "lines": [{"corners": quad, "text": text} for quad, text in zip(result.lines, result.line_texts, strict=False)],
        "tokens": [asdict(token) for token in result.tokens],
        "decode": {**asdict(result.stats), "tokens_per_forward": result.stats.tokens_per_forward},
    }
    return {key: value for key, value in data.items() if value is not None}

"""Writes docs/schema.json and the reference part of docs/python.md from the code, so that they cannot drift from it.

    python docs/generate_reference.py

The reference part is all that follows the MARK in docs/python.md: signatures and docstrings of the public names. What
stands before it is written by hand. tests/test_docs.py fails when a file is not what this script would write.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import derender
from derender import config, document, errors
from derender.decode.config import DecodeConfig
from derender.pipeline import Pipeline
from derender.recognise import types
from derender.recognise.compact import CompactRecogniser

SCHEMA = Path(__file__).with_name("schema.json")
PYTHON = Path(__file__).with_name("python.md")
MARK = "<!-- From here on written by docs/generate_reference.py from the code. -->\n"
CLASSES: dict[str, list[type]] = {
    "Documents": [document.Document, document.Page, document.Region, document.Line, document.Cell, document.Token],
    "Reading of one crop": [types.Result, types.TokenOut, types.DecodeStats],
    "Settings": [config.ParseOptions, DecodeConfig],
    "Many documents, own recognisers": [Pipeline, CompactRecogniser, types.Recogniser, types.Request],
    "Errors": [
        errors.DerenderError,
        errors.InputError,
        errors.PasswordError,
        errors.PageError,
        errors.UsageError,
        errors.ModelError,
        errors.MissingExtraError,
    ],
}


def render_schema() -> str:
    """JSON Schema of NAME.json."""
    schema = document.Document.model_json_schema(mode="serialization")
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def render_python(current: str) -> str:
    """`current` with its reference part written anew. Raises ValueError when it has no MARK."""
    head, mark, _ = current.partition(MARK)
    if not mark:
        raise ValueError(f"{PYTHON.name} has lost its mark")
    parts = ["## Functions\n", *(_function(f"derender.{f.__name__}", f) for f in _functions())]
    for title, classes in CLASSES.items():
        parts += [f"## {title}\n", *(_class(c) for c in classes)]
    return head + MARK + "\n" + "\n".join(parts)


def _functions() -> list[Any]:
    return [derender.parse, derender.read, derender.load]


def _function(name: str, function: Any, level: int = 3) -> str:
    return f"{'#' * level} `{name}{_signature(function)}`\n\n{_doc(function)}\n"


def _signature(function: Any) -> str:
    text = re.sub(r"<(\w[\w.]*) object at 0x[0-9a-f]+>", r"\1", str(inspect.signature(function)))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations that are strings
    return text.replace("(self, ", "(").replace("(self)", "()")


def _doc(thing: Any) -> str:
    own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
    text = inspect.cleandoc(own or "")
    # Paragraphs of a docstring are wrapped by hand; Markdown joins them again. `<` would start HTML.
    return text.replace("<", "&lt;")


def _class(cls: type) -> str:
    base = next(
        (b.__name__ for b in cls.__mro__[1:] if b.__module__.startswith("derender.") and b.__name__[0] != "_"), ""
    )
    text = f"### `{cls.__module__}.{cls.__name__}`{f' ({base})' if base and issubclass(cls, Exception) else ''}\n\n"
    text += f"{_doc(cls)}\n"
    if issubclass(cls, BaseModel):
        rows = [(n, _type(f.annotation), f.description or "") for n, f in cls.model_fields.items()]
        text += _table(rows)
    elif is_dataclass(cls):
        text += _table([(f.name, _type(f.type), _default(f.default)) for f in fields(cls)])
    for name, member in vars(cls).items():
        public = not name.startswith("_")
        if public and inspect.isfunction(member):
            text += "\n" + _function(f"{cls.__name__}.{name}", member, 4)
        elif public and isinstance(member, classmethod):
            text += "\n" + _function(f"{cls.__name__}.{name}", getattr(cls, name), 4)
        elif public and isinstance(member, property) and member.__doc__:
            text += f"\n#### `{cls.__name__}.{name}`\n\n{_doc(member)}\n"
    return text


def _default(value: Any) -> str:
    return "" if value is MISSING else f"default {value!r}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:derender\.|typing\.|pathlib\.|collections\.abc\.)(?:\w+\.)*", "", text)


def _table(rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    text = "\n| Field | Type | |\n|---|---|---|\n"
    return text + "".join(
        f"| `{name}` | `{kind.replace('|', chr(92) + '|')}` | {note} |\n" for name, kind, note in rows
    )


if __name__ == "__main__":
    SCHEMA.write_text(render_schema(), encoding="utf-8", newline="\n")
    PYTHON.write_text(render_python(PYTHON.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")

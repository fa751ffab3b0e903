"""Formulas out of other people's TeX: documentation in LaTeX (.tex, .tex.gz) and docstrings and reST (.py, .rst, .txt).

What is found is reduced to target tokens and spelled anew. No macro is expanded: a formula that holds one, or any other
token outside the vocabulary, is dropped, as are broken, tiny and very long ones. The licences of the sources are for
who chooses the folders. Draws nothing (formula_render.py).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from derender.formula.spelling import spell, target_tokens
from derender.formula.structure import well_formed
from derender.formula.vocabulary import encode_tokens

LEAST, MOST = 6, 160  # target tokens; shorter ones the grammar writes often enough
ENDINGS = (".tex", ".tex.gz", ".py", ".rst", ".txt")
_LARGEST = 4_000_000  # characters of a file
_ROWS = "align|eqnarray|gather|multline|flalign|alignat"
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_VERBATIM = re.compile(r"\\begin\s*\{(verbatim|lstlisting|Verbatim|minted)\*?\}.*?\\end\s*\{\1\*?\}", re.DOTALL)
_TEX = re.compile(
    rf"\\begin\s*\{{(?P<env>equation|displaymath|math|{_ROWS})\*?\}}(?P<in>.*?)\\end\s*\{{(?P=env)\*?\}}"
    r"|\\\[(?P<display>.*?)\\\]|\\\((?P<round>.*?)\\\)|\$\$(?P<double>.*?)\$\$|(?<!\\)\$(?P<single>[^$]+)(?<!\\)\$",
    re.DOTALL,
)
_ROLE = re.compile(r":math:`(?P<role>[^`]+)`|(?<![`:\w])`(?P<tick>[^`\n]+)`(?!`)")
_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)\.\. math::[ \t]*(?P<first>[^\n]*)\n(?P<body>(?:(?P=indent)[ \t]+[^\n]*\n|[ \t]*\n)*)",
    re.MULTILINE,
)
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z{}|,;!:])")
_WORDS = re.compile(r"[a-z]{4}")  # letters as variables: names, and words without \text
_GROUPS = re.compile(r"\\(?:math(?:rm|it|sf|tt|bf)|boldsymbol|beginenv|endenv|begin|end)\{[^{}]*\}|\\[a-zA-Z]+")
_CODE = re.compile(r"\w_\w\)|\w{3,}\(|\w\.\w|__|==|\\n")


def formulas_in(text: str, latex: bool) -> Iterator[str]:
    """Sources of formulas, as they stand. latex: a LaTeX document, otherwise reST or docstrings."""
    if not latex:
        yield from _in_rest(text)
        return
    for match in _TEX.finditer(_VERBATIM.sub(" ", _COMMENT.sub("", text))):
        inner = next(g for name, g in match.groupdict().items() if g is not None and name != "env")
        rows = match["env"] is not None and re.fullmatch(_ROWS, match["env"]) is not None
        yield rf"\begin{{aligned}}{inner}\end{{aligned}}" if rows and r"\\" in inner else inner


def _in_rest(text: str) -> Iterator[str]:
    found = []
    for block in _BLOCK.finditer(text):
        lines = (block["first"] + "\n" + block["body"]).splitlines()
        body = "\n".join(line for line in lines if not line.strip().startswith(":"))
        found += re.split(r"\n\s*\n", body)
    for match in _ROLE.finditer(text):
        if match["role"] or (re.search(r"\\|\^|_\{|\b\w_\w\b", match["tick"]) and not _CODE.search(match["tick"])):
            found.append(match["role"] or match["tick"])
    for source in found:
        # in a string that is not raw, every backslash is written twice
        plain = (
            _DOUBLED.sub(r"\\", source) if r"\\" in source and not re.search(r"(?<!\\)\\[a-zA-Z]", source) else source
        )
        yield rf"\begin{{aligned}}{plain}\end{{aligned}}" if r"\\" in plain and "begin" not in plain else plain


def usable(source: str) -> str | None:
    """The formula spelled anew, or None where it is not for training."""
    tokens = target_tokens(source)
    ids = encode_tokens(tokens) if LEAST <= len(tokens) <= MOST else None
    if ids is None or not well_formed(tokens):
        return None
    spelled = spell(tokens)
    if _WORDS.search(_GROUPS.sub("|", spelled)):
        return None
    return spelled if target_tokens(spelled) == tokens else None


def collect(folders: Iterable[Path]) -> list[str]:
    """The distinct usable formulas of all files below the folders, sorted."""
    out: set[str] = set()
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.name.endswith(ENDINGS) and p.is_file()):
            latex = ".tex" in path.suffixes
            for source in formulas_in(_text(path), latex):
                if len(source) <= 12 * MOST and (good := usable(source)):
                    out.add(good)
    return sorted(out)


def _text(path: Path) -> str:
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        return ""
    return data[:_LARGEST].decode("utf-8", "replace")


_BREAK = (",", ";")
_SPACES = (r"\,", r"\,", r"\;", r"\:", r"\quad")


def loosened(rng: np.random.Generator, source: str, share: float = 0.5) -> str:
    """Some spacing put back, which the spelling dropped: behind commas and here and there between tokens outside of
    groups and environments. Returns `source` itself in the other cases."""
    if rng.random() >= share:
        return source
    pieces = re.findall(r"\\begin\{array\}\{[^{}]*\}|\\(?:begin|end)\{\w+\}|\\[a-zA-Z]+|\\.|\S", source)
    out: list[str] = []
    depth = 0
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        out.append(piece)
        depth += {"{": 1, "}": -1, "[": 1, "]": -1}.get(piece, 0)
        depth += piece.startswith(r"\begin") - piece.startswith(r"\end{")
        after = piece == "}" or (piece[0] != "\\" and piece not in "^_{&")
        if depth == 0 and after and following not in ("", "^", "_", "{", "'", "&"):
            if piece in _BREAK and rng.random() < 0.4:
                out.append(r"\quad")
            elif rng.random() < 0.06:
                out.append(_SPACES[int(rng.integers(len(_SPACES)))])
    return " ".join(out)

"""Fonts for generated regions: which installed faces are used, which are held out, and what they cover.

Asks fontconfig; installs nothing (runs/sources.sh does) and draws nothing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import ImageFont

BLACKLETTER = ("yfrak", "yswab", "ygoth")
SKIP = (
    "symbol",
    "emoji",
    "dingbat",
    "icon",
    "math",
    "barcode",
    "noto sans sign",
    "d050000l",
    "marvosym",
    "fontawesome",
)


@dataclass(frozen=True)
class Face:
    path: str
    index: int
    family: str
    chinese: bool


def list_faces(held_out: float = 0.0, seed: int = 7) -> tuple[list[Face], list[Face]]:
    """(training faces, held-out faces) by family, from fontconfig. Fonts without Latin letters are left out. Chinese
    fonts that lack a few accented letters (Noto CJK, the commonest of all) are for training only, so that the families
    that are held out stay the same."""
    out = subprocess.run(
        ["fc-list", "--format", "%{file}\t%{index}\t%{family[0]}\t%{lang}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    faces, chinese = [], []
    for row in sorted(set(out.splitlines())):
        path, index, family, langs = row.split("\t")
        lang = set(langs.split("|"))
        if not path.lower().endswith((".ttf", ".otf", ".ttc")) or any(s in family.lower() for s in SKIP):
            continue
        if family in BLACKLETTER:
            continue
        if int(index) > 0xFFFF:
            continue
        if {"en", "de", "fr"} <= lang:
            faces.append(Face(path, int(index), family, "zh-cn" in lang))
        elif {"en", "zh-cn"} <= lang and family.endswith((" SC", " TC")):
            chinese.append(Face(path, int(index), family, True))
    families = sorted({f.family for f in faces})
    order = np.random.default_rng(seed).permutation(len(families))
    held = {families[i] for i in order[: round(held_out * len(families))]}
    return [f for f in faces if f.family not in held] + chinese, [f for f in faces if f.family in held]


def blackletter_faces() -> list[Face]:
    """The installed Fraktur, Schwabacher and Gothic faces that have the long s."""
    command = ["fc-list", "--format", "%{file}\t%{index}\t%{family[0]}\n"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = (row.split("\t") for row in sorted(set(rows)))
    return [Face(path, int(index), family, False) for path, index, family in found if family in BLACKLETTER]


@lru_cache(maxsize=256)
def load_font(path: str, index: int, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size, index=index)


@lru_cache(maxsize=4096)
def glyphs(path: str, index: int) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    with TTFont(path, fontNumber=index, lazy=True) as font:
        return frozenset(font.getBestCmap() or {})


def covers(face: Face, text: str) -> bool:
    have = glyphs(face.path, face.index)
    return all(ord(c) in have for c in text if not c.isspace())


def draw_face(rng: np.random.Generator, faces: Sequence[Face]) -> Face:
    """A face of a random family: families are equally likely, however many faces they have."""
    families = sorted({f.family for f in faces})
    family = families[int(rng.integers(len(families)))]
    options = [f for f in faces if f.family == family]
    return options[int(rng.integers(len(options)))]

"""Text regions set in a font by Pillow: wrapped lines, hyphenation, justified, ragged, centred, lists, titles.

The wrapper knows the truth, so line-end hyphens and forced breaks are exact. Does not degrade (degrade.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from derender.train.contents import render_contents
from derender.train.faces import Face, covers, draw_face, load_font
from derender.train.linecut import cut_to_ink
from derender.train.pages import is_cjk
from derender.train.sample import LineSample, RegionSample
from derender.train.text import Corpus, draw_text, long_s


@dataclass(frozen=True)
class Set:
    """A wrapped line: its text as printed, indentation in ems, whether it ends a paragraph or item."""

    text: str
    indent: float
    last: bool
    hyphen: bool


def wrap(text: str, fits: int, rng: np.random.Generator, hyphenate: float, indent: float) -> list[Set]:
    """Greedy wrap to about `fits` characters; CJK text breaks anywhere."""
    lines: list[Set] = []
    rest = text.strip()
    while rest:
        if len(rest) <= fits:
            lines.append(Set(rest, indent, True, False))
            break
        if is_cjk(rest[fits]) and is_cjk(rest[fits - 1]):
            lines.append(Set(rest[:fits], indent, False, False))
            rest = rest[fits:]
            continue
        cut = rest.rfind(" ", 0, fits + 1)
        end = rest.find(" ", fits)
        word = rest[cut + 1 : end if end >= 0 else len(rest)]
        room = fits - cut - 1
        if word.isalpha() and len(word) >= 6 and not is_cjk(word[0]) and rng.random() < hyphenate and room >= 3:
            k = min(room - 1, len(word) - 3)
            if k >= 2:
                lines.append(Set(rest[: cut + 1 + k] + "-", indent, False, True))
                rest = rest[cut + 1 + k :]
                continue
        if cut <= 0:
            cut = fits
        lines.append(Set(rest[:cut], indent, False, False))
        rest = rest[cut:].lstrip()
    return lines


def _target(lines: list[Set]) -> str:
    out = ""
    for i, line in enumerate(lines):
        if i and lines[i - 1].last:
            out += "\n"
        elif i and lines[i - 1].hyphen:
            out = out[:-1]
        elif i and not (is_cjk(lines[i - 1].text[-1]) and is_cjk(line.text[0])):
            if not lines[i - 1].text.endswith("-"):
                out += " "
        out += line.text
    return out


def _draw(line: str, font: ImageFont.FreeTypeFont, size: int, stretch: float, track: float, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Gray picture of one line, words spread by `stretch` pixels per space and letters by `track`."""
    ascent, descent = font.getmetrics()
    pad = int(size * rng.uniform(0.05, 0.4)) + 1
    width = font.getlength(line) + stretch * line.count(" ") + track * len(line)
    image = Image.new("L", (int(width) + 2 * pad + 4, ascent + descent + 2), 255)
    draw = ImageDraw.Draw(image)
    x = float(pad)
    if track:
        for ch in line:
            draw.text((x, 1), ch, font=font, fill=0)
            x += font.getlength(ch) + track + (stretch if ch == " " else 0)
    elif stretch:
        for word in line.split(" "):
            draw.text((x, 1), word, font=font, fill=0)
            x += font.getlength(word + " ") + stretch
    else:
        draw.text((x, 1), line, font=font, fill=0)
    return cut_to_ink(np.asarray(image), size, rng)


@dataclass(frozen=True)
class Shares:
    """Shares of generated regions: Chinese, tables of contents (few: a reader cuts their leaders out), German in
    blackletter; the rest is Latin script in any font."""

    chinese: float = 0.2
    contents: float = 0.01
    blackletter: float = 0.04


@dataclass(frozen=True)
class Blackletter:
    """What German in blackletter is made of: its faces, and a corpus whose Latin-script paragraphs are German."""

    faces: tuple[Face, ...]
    corpus: Corpus


def render_region(
    rng: np.random.Generator, corpus: Corpus, faces: list[Face], shares: Shares, old: Blackletter
) -> RegionSample | None:
    """One random region; None when the drawn font lacks a glyph of the drawn text."""
    drawn = rng.random()
    want_chinese = drawn < shares.chinese
    gothic = bool(old.faces) and 0 <= drawn - shares.chinese < shares.blackletter
    face = draw_face(rng, old.faces if gothic else [f for f in faces if f.chinese] if want_chinese else faces)
    size = int(rng.integers(14, 44))
    if not want_chinese and not gothic and drawn > 1 - shares.contents:
        return render_contents(rng, corpus, face, size)
    if gothic:
        corpus = old.corpus
    n_lines = int(rng.integers(1, 9))
    fits = int(rng.integers(8, 46)) if want_chinese else int(rng.integers(18, 90))
    kind = str(rng.choice(["paragraph", "list", "title", "line"], p=[0.5, 0.15, 0.1, 0.25]))
    if kind in ("title", "line"):
        n_lines = int(rng.integers(1, 3)) if kind == "title" else 1
    lines: list[Set] = []
    if kind == "list":
        number = int(rng.integers(1, 20))
        while len(lines) < n_lines:
            mark = str(rng.choice(["•", "-", "–", f"{number}.", f"({number})", f"[{number}]", chr(96 + number) + ")"]))
            number += 1
            text = draw_text(rng, corpus, int(rng.integers(10, 2 * fits)), float(want_chinese))
            lines += wrap(f"{mark} {text}", fits, rng, 0.2, 0.0)
        lines = lines[:12]
    else:
        text = draw_text(rng, corpus, max(4, int(fits * (n_lines - rng.random()))), float(want_chinese))
        text = text.upper() if kind == "title" and rng.random() < 0.3 and not gothic else text
        lines = wrap(text, fits, rng, 0.5, 0.0)[:12]
    if gothic:
        lines = [Set(long_s(s.text), s.indent, s.last, s.hyphen) for s in lines]
    lines = [s for s in lines if s.text.strip()]
    if not lines or not covers(face, "".join(s.text for s in lines)):
        return None
    font = load_font(face.path, face.index, size)
    lengths = [font.getlength(s.text) for s in lines]
    full = max(lengths)
    justify, centre = kind == "paragraph" and rng.random() < 0.5, kind == "title" and rng.random() < 0.5
    track = float(rng.uniform(0.5, 0.12 * size)) if rng.random() < 0.06 else 0.0
    pitch = size * rng.uniform(1.05, 1.7)
    out = []
    for i, (s, length) in enumerate(zip(lines, lengths, strict=True)):
        spaces = s.text.count(" ")
        stretch = (full - length) / spaces if justify and not s.last and spaces else 0.0
        stretch = min(stretch, 0.6 * size)
        x0 = (full - length) / 2 if centre else s.indent * size
        box = (x0, i * pitch, x0 + length + stretch * spaces, i * pitch + size)
        out.append(LineSample(_draw(s.text, font, size, stretch, track, rng), box, s.text))
    return RegionSample(tuple(out), _target(lines), f"font:{kind}")

"""Lines of tables of contents for training: heading, dot leaders, page number.

Leaders are drawn close ("....") or wide (". . . ."), and the truth has as many dots as the picture. Does not degrade.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from derender.train.faces import Face, covers, load_font
from derender.train.linecut import cut_to_ink
from derender.train.sample import LineSample, RegionSample
from derender.train.text import Corpus, draw_text


def render_contents(rng: np.random.Generator, corpus: Corpus, face: Face, size: int) -> RegionSample | None:
    """Lines of a table of contents: a heading, a row of dots set close or wide, a page number at the right edge."""
    font = load_font(face.path, face.index, size)
    wide = rng.random() < 0.7
    pitch = size * (rng.uniform(0.4, 0.85) if wide else rng.uniform(0.22, 0.34))
    right = size * rng.uniform(16, 38)
    page = int(rng.integers(1, 400))
    number = int(rng.integers(1, 9))
    out: list[LineSample] = []
    y = 0.0
    for i in range(int(rng.integers(1, 6))):
        title = draw_text(rng, corpus, int(rng.integers(6, 40)), 0.0, 0.1)
        if rng.random() < 0.6:
            title = f"{number}.{i + 1} {title}"
        page += int(rng.integers(0, 9))
        indent = size * float(rng.choice([0, 0, 1, 2]))
        begin = indent + font.getlength(title) + size * rng.uniform(0.2, 0.6)
        last = right - font.getlength(str(page)) - size * rng.uniform(0.2, 0.9)
        # All rows' dots stand on one grid, as TeX's leaders do.
        dots = np.arange(np.ceil(begin / pitch), np.floor(last / pitch)) * pitch
        if len(dots) < 4 or not covers(face, title):
            return None
        ascent, descent = font.getmetrics()
        image = Image.new("L", (int(right - indent + size), ascent + descent + 2), 255)
        draw = ImageDraw.Draw(image)
        off = size * 0.4 - indent
        draw.text((off + indent, 1), title, font=font, fill=0)
        for x in dots:
            draw.text((off + x, 1), ".", font=font, fill=0)
        draw.text((off + right - font.getlength(str(page)), 1), str(page), font=font, fill=0)
        text = f"{title} {(' ' if wide else '').join('.' * len(dots))} {page}"
        out.append(LineSample(cut_to_ink(np.asarray(image), size, rng), (indent, y, right, y + size), text))
        y += size * 1.3
    return RegionSample(tuple(out), "\n".join(line.text for line in out), "font:contents")

"""A picture of training samples, so that a person can look at the data: each region's lines above its target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from derender.train.sample import RegionSample

WIDTH = 1200
MAX_LINE = 44


def draw_sheet(regions: Sequence[RegionSample]) -> Image.Image:
    """One column of regions, lines shrunk to at most 44 pixels high, the target below in small print."""
    font = ImageFont.load_default(14)
    rows: list[Image.Image] = []
    for region in regions:
        for line in region.lines:
            picture = Image.fromarray(np.asarray(line.image))
            scale = min(1.0, MAX_LINE / picture.height, WIDTH / picture.width)
            rows.append(picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))))
        label = Image.new("L", (WIDTH, 22), 225)
        text = f"[{region.kind}] {region.target}".replace("\n", "\u21b5")[:160]
        ImageDraw.Draw(label).text((4, 3), text, fill=30, font=font)
        rows.append(label)
    sheet = Image.new("L", (WIDTH, sum(r.height + 3 for r in rows) + 3), 180)
    y = 3
    for row in rows:
        sheet.paste(row, (0, y))
        y += row.height + 3
    return sheet

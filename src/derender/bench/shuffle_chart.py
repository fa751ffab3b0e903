"""Draws Semantic Shuffle: accuracy against the share of permuted words, and what each reader loses from end to end.

Four panels of curves (one a metric) with 95% intervals, and one with the losses. Drawn with Pillow at twice the size
and scaled down. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw

from derender.bench.chart import COLOURS as MODE_COLOURS
from derender.bench.chart import GRID, INK, MARKS, SCALE, SOFT, draw_mark, draw_text, nice_ticks
from derender.bench.shuffle_scores import METRICS, Curve

PANEL_W, PANEL_H = 430, 300
LEFT, TOP, RIGHT, BOTTOM = 56, 34, 14, 46
HEADER, FOOTER = 92, 40
TITLES = {
    "bleu": "BLEU-4, % (higher is better)",
    "precision": "precision of words, %",
    "recall": "recall of words, %",
    "edit": "edit distance, % (lower is better)",
}
COLOURS = MODE_COLOURS | {
    "tower alone": "#98a2b3",
    "ar, no draft": "#7c3aed",
    "block, no draft": "#db2777",
    "rapidocr": "#0891b2",
    "tesseract": "#92400e",
}
SPARE = "#475467"


def draw_shuffle(found: Sequence[Curve], caption: str) -> Any:
    """A PIL image."""
    readers = list(dict.fromkeys(c.reader for c in found))
    rows = 24 * len(readers) + 90
    width, height = 2 * PANEL_W + 24, HEADER + 2 * PANEL_H + rows + FOOTER
    image = Image.new("RGB", (width * SCALE, height * SCALE), "white")
    draw = ImageDraw.Draw(image)
    draw_text(draw, 20, 14, "Semantic Shuffle: the same words in another order", 20, INK)
    x, y = 24.0, 58.0
    for reader in readers:
        wide = 28 + 7.2 * len(reader)
        if x + wide > width:
            x, y = 24.0, y + 20
        draw_mark(draw, x * SCALE, y * SCALE, MARKS.get(reader, "circle"), COLOURS.get(reader, SPARE))
        draw_text(draw, x + 10, y, reader, 12, INK, "lm")
        x += wide
    for i, metric in enumerate(METRICS):
        mine = [c for c in found if c.metric == metric]
        _panel(draw, PANEL_W * (i % 2) + 8, HEADER + PANEL_H * (i // 2), metric, mine)
    _losses(draw, HEADER + 2 * PANEL_H, width, found, readers)
    draw_text(draw, 20, height - 26, caption, 11, SOFT)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _panel(draw: Any, left: float, top: float, metric: str, mine: Sequence[Curve]) -> None:
    draw_text(draw, left + LEFT, top + 10, TITLES[metric], 13, INK)
    x0, y0, x1, y1 = left + LEFT, top + TOP, left + PANEL_W - RIGHT, top + PANEL_H - BOTTOM
    ends = [100 * v for c in mine for _, i in c.points for v in (i.low, i.high)]
    pad = max(0.06 * (max(ends) - min(ends)), 0.2)
    low, high = max(0.0, min(ends) - pad), min(100.0, max(ends) + pad)
    fractions = [f for f, _ in mine[0].points]

    def at(fraction: float, share: float, shift: float = 0.0) -> tuple[float, float]:
        inside = 14 + (x1 - x0 - 28) * (fraction - fractions[0]) / (fractions[-1] - fractions[0])
        return (x0 + inside + shift) * SCALE, (y1 - (100 * share - low) / (high - low) * (y1 - y0)) * SCALE

    for tick in nice_ticks(low, high):
        y = at(fractions[0], tick / 100)[1]
        draw.line((x0 * SCALE, y, x1 * SCALE, y), fill=GRID, width=SCALE)
        draw_text(draw, x0 - 6, y / SCALE, f"{tick:g}", 11, SOFT, "rm")
    for fraction in fractions:
        draw_text(draw, at(fraction, 0)[0] / SCALE, y1 + 6, f"{100 * fraction:.0f}", 11, SOFT, "ma")
    draw_text(draw, (x0 + x1) / 2, y1 + 22, "words permuted, %", 11, SOFT, "ma")
    for number, curve in enumerate(mine):
        colour = COLOURS.get(curve.reader, SPARE)
        shift = 1.8 * (number - (len(mine) - 1) / 2)  # readers of equal accuracy stay visible side by side
        draw.line([at(f, i.mean, shift) for f, i in curve.points], fill=colour, width=SCALE)
        for fraction, i in curve.points:
            draw.line((*at(fraction, i.low, shift), *at(fraction, i.high, shift)), fill=colour, width=SCALE)
            draw_mark(draw, *at(fraction, i.mean, shift), MARKS.get(curve.reader, "circle"), colour, 0.6)
    draw.rectangle((x0 * SCALE, y0 * SCALE, x1 * SCALE, y1 * SCALE), outline=SOFT, width=SCALE)


def _losses(draw: Any, top: float, width: int, found: Sequence[Curve], readers: Sequence[str]) -> None:
    """Dots with whiskers: loss of BLEU on the left, rise of edit distance on the right, in points."""
    half = (width - 150) / 2
    for k, metric in enumerate(("bleu", "edit")):
        x0 = 130 + half * k
        x1 = x0 + half - 24
        loss = {c.reader: c.loss for c in found if c.metric == metric}
        ends = [100 * v for i in loss.values() for v in (i.low, i.high)] + [0.0]
        pad = max(0.05 * (max(ends) - min(ends)), 0.05)
        low, high = min(ends) - pad, max(ends) + pad
        bottom = top + 34 + 24 * len(readers)
        names = {"bleu": "loss of BLEU, points", "edit": "rise of edit distance, points"}
        draw_text(draw, x0, top + 10, names[metric] + " (0 to last share; right = worse)", 12, INK)
        for tick in nice_ticks(low, high, 5):
            x = x0 + (tick - low) / (high - low) * (x1 - x0)
            colour = SOFT if tick == 0 else GRID
            draw.line((x * SCALE, (top + 32) * SCALE, x * SCALE, bottom * SCALE), fill=colour, width=SCALE)
            draw_text(draw, x, bottom + 4, f"{tick:g}", 11, SOFT, "ma")
        for row, reader in enumerate(readers):
            y = top + 44 + 24 * row
            if k == 0:
                draw_text(draw, x0 - 10, y, reader, 12, INK, "rm")
            i, colour = loss[reader], COLOURS.get(reader, SPARE)
            a, m, b = (x0 + (100 * v - low) / (high - low) * (x1 - x0) for v in (i.low, i.mean, i.high))
            draw.line((a * SCALE, y * SCALE, b * SCALE, y * SCALE), fill=colour, width=2 * SCALE)
            draw_mark(draw, m * SCALE, y * SCALE, MARKS.get(reader, "circle"), colour)

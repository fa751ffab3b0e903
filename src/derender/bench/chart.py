"""Draws speed against relative accuracy: a panel for each runtime (rows) and regime (columns), a line for each mode.

The lower axis is tokens a second, the upper one the speed-up over `ar`. Drawn with Pillow at twice the size and scaled
down, so that lines are smooth. Measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from derender.bench.types import Row

SCALE = 2
PANEL_W, PANEL_H = 460, 360
LEFT, TOP, RIGHT, BOTTOM = 74, 58, 18, 56
HEADER, FOOTER = 58, 46
INK, SOFT, GRID = "#1f2430", "#667085", "#e4e7ec"
COLOURS = {"ar": "#1f2430", "block": "#d97706", "sliding": "#2563eb", "exact": "#059669"}
MARKS = {"ar": "star", "block": "square", "sliding": "circle", "exact": "diamond"}
TITLES = {"region": "one region at a time", "page": "a page's regions batched", "saturated": "40 regions batched"}


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) inside low..high, at most `most`."""
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10, 20) if span / (power * m) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class _Axes:
    """Where a panel's plot is, in scaled pixels, and which values its corners have."""

    x0: float
    y0: float
    x1: float
    y1: float
    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, value: float) -> float:
        return self.x0 + (value - self.low_x) / (self.high_x - self.low_x) * (self.x1 - self.x0)

    def y(self, value: float) -> float:
        return self.y1 - (value - self.low_y) / (self.high_y - self.low_y) * (self.y1 - self.y0)


def draw_speed(rows: Sequence[Row], caption: str) -> Any:
    """A PIL image. Rows without an accuracy are not drawn; a panel without any says so."""
    regimes = list(dict.fromkeys(r.regime for r in rows))
    runtimes = list(dict.fromkeys(r.runtime for r in rows))
    width, height = PANEL_W * len(regimes) + 16, HEADER + PANEL_H * len(runtimes) + FOOTER
    image = Image.new("RGB", (width * SCALE, height * SCALE), "white")
    draw = ImageDraw.Draw(image)
    draw_text(draw, 20, 16, "Speed against accuracy", 20, INK)
    _legend(draw, 20, 46, list(dict.fromkeys(r.mode for r in rows)))
    for j, runtime in enumerate(runtimes):
        for i, regime in enumerate(regimes):
            mine = [r for r in rows if (r.regime, r.runtime) == (regime, runtime)]
            _panel(draw, PANEL_W * i + 8, HEADER + PANEL_H * j, f"{TITLES[regime]} ({runtime})", mine)
    draw_text(
        draw,
        20,
        height - 30,
        f"{caption}. Labels: confidence threshold. Relative accuracy = (1 - CER) / (1 - CER of ar).",
        12,
        SOFT,
    )
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _panel(draw: Any, left: float, top: float, title: str, rows: Sequence[Row]) -> None:
    draw_text(draw, left + LEFT, top + 6, title, 14, INK)
    x0, y0 = (left + LEFT) * SCALE, (top + TOP) * SCALE
    x1, y1 = (left + PANEL_W - RIGHT) * SCALE, (top + PANEL_H - BOTTOM) * SCALE
    shown = [r for r in rows if r.relative_accuracy is not None]
    if not shown:
        draw_text(draw, left + LEFT + 12, top + TOP + 12, "no truth to compare with", 12, SOFT)
        return
    axes = _scales(shown, x0, y0, x1, y1)
    base = next((r.tokens_per_second for r in rows if r.mode == "ar"), None)
    _grid(draw, axes, base)
    labelled: list[tuple[float, float]] = []
    for mode in dict.fromkeys(r.mode for r in shown):
        series = sorted((r for r in shown if r.mode == mode), key=lambda r: r.threshold or 0.0)
        points = [(axes.x(r.tokens_per_second), axes.y(100 * _accuracy(r))) for r in series]
        curve = [point for point, row in zip(points, series, strict=True) if row.threshold is not None]
        if len(curve) > 1:  # a draft that is read has no threshold and is no point of the curve
            draw.line(curve, fill=COLOURS[mode], width=2 * SCALE, joint="curve")
        for (x, y), row in zip(points, series, strict=True):
            draw_mark(draw, x, y, MARKS[mode], COLOURS[mode])
            label = (
                "ar" if mode == "ar" else f"{row.threshold:g}".lstrip("0") if row.threshold is not None else row.rule
            )
            if all(abs(x - a) > 24 * SCALE or abs(y - b) > 13 * SCALE for a, b in labelled):
                anchor, dx = ("ra", 4) if x > axes.x1 - 50 * SCALE else ("la", 6)
                draw_text(draw, x / SCALE + dx, y / SCALE - 17, label, 10, COLOURS[mode], anchor)
                labelled.append((x, y))
    draw.rectangle((x0, y0, x1, y1), outline=SOFT, width=SCALE)
    draw_text(draw, left + (LEFT + PANEL_W - RIGHT) / 2, top + PANEL_H - 22, "tokens a second", 12, INK, "ma")
    draw_text(draw, left + LEFT - 4, top + TOP - 34, "relative accuracy, %", 11, INK)
    draw_text(draw, left + PANEL_W - RIGHT, top + TOP - 34, "speed-up over ar", 11, INK, "ra")


def _accuracy(row: Row) -> float:
    return row.relative_accuracy if row.relative_accuracy is not None else 0.0


def _scales(rows: Sequence[Row], x0: float, y0: float, x1: float, y1: float) -> _Axes:
    """From 0 to the fastest; accuracies with some air, and never so little that noise fills the panel."""
    high_x = 1.12 * max(r.tokens_per_second for r in rows)
    values = [100 * _accuracy(r) for r in rows]
    low, high = min(values), max(values)
    pad = max(0.12 * (high - low), 0.1)
    return _Axes(x0, y0, x1, y1, 0.0, high_x, low - pad, high + pad)


def _grid(draw: Any, a: _Axes, base: float | None) -> None:
    ticks = nice_ticks(a.low_y, a.high_y)
    digits = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9)) if len(ticks) > 1 else 2
    for value in ticks:
        y = a.y(value)
        draw.line((a.x0, y, a.x1, y), fill=GRID, width=SCALE)
        draw_text(draw, a.x0 / SCALE - 8, y / SCALE, f"{value:.{digits}f}", 11, SOFT, "rm")
    for value in nice_ticks(a.low_x, a.high_x):
        x = a.x(value)
        draw.line((x, a.y0, x, a.y1), fill=GRID, width=SCALE)
        draw_text(draw, x / SCALE, a.y1 / SCALE + 6, f"{value:,.0f}", 11, SOFT, "ma")
    if base:
        for value in nice_ticks(0.0, a.high_x / base):
            x = a.x(value * base)
            draw.line((x, a.y0, x, a.y0 + 5 * SCALE), fill=SOFT, width=SCALE)
            draw_text(draw, x / SCALE, a.y0 / SCALE - 6, f"{value:g}x", 11, SOFT, "mb")
    if a.low_y < 99.9 < a.high_y:  # the accuracy that the targets are stated at
        y, x = a.y(99.9), a.x0
        while x < a.x1:
            draw.line((x, y, min(x + 6 * SCALE, a.x1), y), fill="#98a2b3", width=SCALE)
            x += 10 * SCALE
        draw_text(draw, a.x1 / SCALE - 4, y / SCALE - 2, "99.9", 10, SOFT, "rb")


def draw_mark(draw: Any, x: float, y: float, kind: str, colour: str, size: float = 1.0) -> None:
    """A circle, square, diamond or star at scaled pixels."""
    r = (4.5 if kind != "star" else 6.5) * SCALE * size
    if kind == "circle":
        draw.ellipse((x - r, y - r, x + r, y + r), fill=colour, outline="white", width=SCALE)
    elif kind == "square":
        draw.rectangle((x - r, y - r, x + r, y + r), fill=colour, outline="white", width=SCALE)
    elif kind == "diamond":
        draw.polygon(
            [(x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)], fill=colour, outline="white"
        )
    else:
        spikes = [(r if k % 2 == 0 else 0.45 * r, math.pi * k / 5 - math.pi / 2) for k in range(10)]
        draw.polygon([(x + d * math.cos(t), y + d * math.sin(t)) for d, t in spikes], fill=colour)


def _legend(draw: Any, left: float, top: float, modes: Sequence[str]) -> None:
    x = left + 280
    for mode in modes:
        draw_mark(draw, x * SCALE, (top - 18) * SCALE, MARKS[mode], COLOURS[mode])
        draw_text(draw, x + 12, top - 18, mode, 13, INK, "lm")
        x += 40 + 9 * len(mode)


def draw_text(draw: Any, x: float, y: float, text: str, size: int, fill: str, anchor: str = "la") -> None:
    """Text at pixels of the finished picture, in Pillow's own font."""
    draw.text((x * SCALE, y * SCALE), text, font=ImageFont.load_default(size * SCALE), fill=fill, anchor=anchor)

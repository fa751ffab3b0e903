"""Frames: PDF user space to the displayed page, the axes along a text's own direction, and the page's objects placed
in it.

Works on pypdfium2 handles and numbers only; makes neither pictures nor words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from derender.ingest.types import Box

_MAX_DEPTH = 8
"""Form objects inside form objects are followed this deep, so that a cycle ends."""


@dataclass(frozen=True)
class PlacedObject:
    """A page object: its address, kind (FPDF_PAGEOBJ_*), box in points, and whether anything shows through it."""

    address: int
    kind: int
    box: Box
    transparent: bool


@dataclass(frozen=True)
class Frame:
    """Map from user space to the displayed page, after CropBox and /Rotate (clockwise degrees)."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int

    @classmethod
    def of(cls, page: Any) -> Frame:
        left, bottom, right, top = page.get_bbox()
        return cls(left, bottom, right, top, page.get_rotation())

    def point(self, x: float, y: float) -> tuple[float, float]:
        if self.rotation == 90:
            return y - self.bottom, x - self.left
        if self.rotation == 180:
            return self.right - x, y - self.bottom
        if self.rotation == 270:
            return self.top - y, self.right - x
        return x - self.left, self.top - y

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        (xa, ya), (xb, yb) = self.point(left, bottom), self.point(right, top)
        return min(xa, xb), min(ya, yb), max(xa, xb), max(ya, yb)

    def placed_objects(self, page: Any) -> Iterator[PlacedObject]:
        """All objects in painting order, those inside form objects included, with boxes on the displayed page."""
        import pypdfium2.raw as raw

        def walk(count: int, get: Any, outer: tuple[float, ...], depth: int) -> Iterator[PlacedObject]:
            for index in range(count):
                obj = get(index)
                if not obj:
                    continue
                kind = raw.FPDFPageObj_GetType(obj)
                if kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
                    matrix = raw.FS_MATRIX()
                    raw.FPDFPageObj_GetMatrix(obj, matrix)
                    inner = _compose((matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f), outer)
                    yield from walk(
                        raw.FPDFFormObj_CountObjects(obj),
                        lambda i, form=obj: raw.FPDFFormObj_GetObject(form, i),
                        inner,
                        depth + 1,
                    )
                    continue
                edges = [ctypes.c_float() for _ in range(4)]
                if not raw.FPDFPageObj_GetBounds(obj, *edges):
                    continue
                left, bottom, right, top = (edge.value for edge in edges)
                corners = [_apply(outer, x, y) for x in (left, right) for y in (bottom, top)]
                xs, ys = [c[0] for c in corners], [c[1] for c in corners]
                box = self.box(min(xs), min(ys), max(xs), max(ys))
                yield PlacedObject(address_of(obj), kind, box, bool(raw.FPDFPageObj_HasTransparency(obj)))

        yield from walk(
            max(0, raw.FPDFPage_CountObjects(page)),
            lambda i: raw.FPDFPage_GetObject(page, i),
            (1.0, 0.0, 0.0, 1.0, 0.0, 0.0),
            0,
        )


def _compose(first: tuple[float, ...], then: tuple[float, ...]) -> tuple[float, ...]:
    a, b, c, d, e, f = first
    p, q, r, s, t, u = then
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def _apply(matrix: tuple[float, ...], x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def address_of(obj: Any) -> int:
    return ctypes.cast(obj, ctypes.c_void_p).value or 0


def in_text_frame(box: Box, angle: float) -> Box:
    """`box` in axes along the nearest quarter turn of the text: x grows in reading direction, y from ascent to
    descent."""
    x0, y0, x1, y1 = box
    quarter = round(angle / 90) % 4
    if quarter == 1:  # runs downwards: ascenders point right
        return y0, -x1, y1, -x0
    if quarter == 2:
        return -x1, -y1, -x0, -y0
    if quarter == 3:  # runs upwards: ascenders point left
        return -y1, x0, -y0, x1
    return box

"""Text requests with dot leaders as one request per piece between leaders, and the pieces' readings as one text again.

A table of contents is a heading, a hundred dots and a number. The tower sees the dots as one sign or as ten, and a
decoder that has to write them loses count and then the heading behind them. So no network reads them: they are counted
in the picture, and the row ends behind what they lead to. Does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from derender.errors import DerenderError
from derender.recognise.cut import CutRequests
from derender.recognise.types import Image, Quad, Request, Result, TokenOut

_MARK = "\x1e"
_LEAST = 0.3  # narrowest piece beside a leader, in line heights
Detect = Callable[[Request], tuple[Quad, ...]]


@dataclass(frozen=True)
class _Piece:
    """A part of a line. line: its number; segment: pieces of one segment are read together; behind: what stands in the
    text behind the segment that this piece ends."""

    quad: Quad
    line: int
    segment: int
    behind: str = ""


@dataclass
class _Rows:
    """A request being read, its lines, and the pieces that they were cut into."""

    request: Request
    lines: tuple[Quad, ...]
    pieces: list[_Piece]


class LeaderSplitter:
    """Put requests through `split`, what is read through `join`. detect: lines of a request that brings none."""

    def __init__(self, detect: Detect) -> None:
        self._detect = detect
        self._cut = CutRequests[_Rows](_MARK)

    def split(self, requests: Iterable[Request | None]) -> Iterator[Request | None]:
        """The requests, each text with leaders as one request per segment. None passes."""
        for request in requests:
            if request is None or request.task != "text":
                yield request
                continue
            try:
                lines = request.lines if request.lines is not None else self._detect(request)
            except (DerenderError, ValueError):
                yield request  # whoever reads it meets the same error, and says so
                continue
            pieces = _pieces(request.image, lines)
            if all(not piece.behind for piece in pieces):
                yield replace(request, lines=lines)
                continue
            segments = [(n, tuple(p.quad for p in group)) for n, group in groupby(pieces, lambda p: p.segment)]
            self._cut.open(request.id, _Rows(request, lines, pieces), (n for n, _ in segments))
            for n, quads in segments:
                yield replace(request, id=self._cut.part(request.id, n), lines=quads, on_text=None)

    def join(self, result: Result) -> Result | None:
        """A whole text's result as it is; a segment's only with the last one of its request, as the request's."""
        if not self._cut.is_part(result):
            return result
        read = self._cut.put(result)
        if read is None:
            return None
        rows, results = read
        joined = _result(rows, results)
        if rows.request.on_text:
            rows.request.on_text(joined.text)
        return joined


def _pieces(image: Image, lines: tuple[Quad, ...]) -> list[_Piece]:
    """The lines cut at their leaders."""
    from derender.layout.crops import crop_line
    from derender.layout.leaders import leader_spans

    out: list[_Piece] = []
    segment = 0
    for n, quad in enumerate(lines):
        crop = crop_line(image, quad)
        height, width = crop.shape[:2]
        spans = leader_spans(crop)
        if not spans:
            led_to = bool(out) and out[-1].behind not in ("", "\n") and _goes_on(out[-1].quad, quad)
            out.append(_Piece(quad, n, segment, "\n" if led_to else ""))
            segment += led_to
            continue
        begins, ends = [0.0, *(leader.x1 for leader in spans)], [*(leader.x0 for leader in spans), float(width)]
        behinds = [*(f" {leader.text} " for leader in spans), "\n"]
        for begin, end, behind in zip(begins, ends, behinds, strict=True):
            x0, x1 = _inked(crop, begin, end)
            if x1 - x0 >= _LEAST * height:
                out.append(_Piece(_part(quad, x0 / width, x1 / width), n, segment, behind))
                segment += 1
    return out


def _inked(crop: Image, x0: float, x1: float) -> tuple[float, float]:
    """The columns between two that have ink, and a margin."""
    from derender.layout.ink import ink_mask

    left, right = round(x0), round(x1)
    height = crop.shape[0]
    ink = np.flatnonzero(ink_mask(crop[:, left:right].mean(axis=2).astype(np.uint8))[height // 8 :].any(axis=0))
    if not len(ink):
        return x0, x0
    margin = 0.15 * height
    return max(x0, left + float(ink[0]) - margin), min(x1, left + float(ink[-1]) + 1 + margin)


def _goes_on(left: Quad, right: Quad) -> bool:
    """Whether `right` stands in the row of `left`, to its right."""
    height = left[3][1] - left[0][1]
    return right[0][0] > left[1][0] and abs(right[0][1] + right[3][1] - left[1][1] - left[2][1]) < height


def _part(quad: Quad, begin: float, end: float) -> Quad:
    """The part of a line between two shares of its length."""

    def at(a: tuple[float, float], b: tuple[float, float], share: float) -> tuple[float, float]:
        return (a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]))

    left_top, right_top, right_bottom, left_bottom = quad
    return (
        at(left_top, right_top, begin),
        at(left_top, right_top, end),
        at(left_bottom, right_bottom, end),
        at(left_bottom, right_bottom, begin),
    )


def _result(rows: _Rows, results: dict[int, Result]) -> Result:
    out = Result(rows.request.id, lines=rows.lines)
    texts = [""] * len(rows.lines)
    for n, group in groupby(rows.pieces, lambda p: p.segment):
        pieces, read = list(group), results[n]
        _add(out, read)
        last = n == rows.pieces[-1].segment
        behind = pieces[-1].behind.rstrip() if last else pieces[-1].behind
        if read.text and behind:
            out.tokens.append(TokenOut(behind, 1.0, read.stats.forwards))
        for piece in pieces:  # a piece too wide for the tower has several readings
            own = "".join(text for quad, text in zip(read.lines, read.line_texts, strict=True) if quad == piece.quad)
            texts[piece.line] += own + piece.behind
    out.text = "".join(token.text for token in out.tokens)
    out.line_texts = [text.strip() for text in texts]
    if all(r.status == "failed" for r in results.values()):
        out.status = "failed"
    return out


def _add(out: Result, read: Result) -> None:
    """One segment's reading behind what `out` holds."""
    if read.trace is not None:
        moved = [{**entry, "position": entry["position"] + len(out.tokens)} for entry in read.trace]
        out.trace = (out.trace or []) + moved
    out.tokens += read.tokens
    out.errors += read.errors
    out.stats.add(read.stats)
    if read.status != "ok":
        out.status = "partial"

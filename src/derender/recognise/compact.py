"""derender-compact as a recogniser: line crops through the tower, regions through the decoder, on ONNX Runtime.

Streams: requests are pulled as the engine has room, and the lines of a few requests share the tower's batches. Where a
request brings no lines, they are detected in the crop. Tables are read cell by cell (tables.py), rows of contents
piece by piece (leaders.py). A formula is read twice: as LaTeX (formulas.py), and as text, for its number and for who
cannot use LaTeX. Does not lay pages out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.engine import DecodeResult, Engine
from derender.errors import DerenderError
from derender.layout.types import LayoutOptions, box_of, quad_of
from derender.model.prefix import RegionPrefix, build_prefix, line_geometry
from derender.model.rest import ENDED_EARLY, REST, rest_of_reading
from derender.model.runtime_onnx import OnnxRuntime
from derender.model.tower import HEIGHT, MAX_WIDTH, LineReading, Tower
from derender.recognise.leaders import LeaderSplitter
from derender.recognise.structure import SharedStructure
from derender.recognise.tables import TableSplitter
from derender.recognise.types import Image, Quad, Request, Result, TokenOut

if TYPE_CHECKING:
    from derender.layout.detect_lines import LineDetector
    from derender.model.rows import CompactSeq
    from derender.recognise.formulas import FormulaRead, FormulaReader

DEFAULT_DECODE = DecodeConfig()
GROUP = 16  # requests whose lines are read together


@dataclass
class _Work:
    """A request on its way: its readings, or why there are none."""

    request: Request
    lines: tuple[Quad, ...]
    readings: list[LineReading]
    error: str = ""
    prefix: RegionPrefix | None = None
    formula: FormulaRead | None = None


class CompactRecogniser:
    """Implements recognise.types.Recogniser. One object is one set of sessions and caches; not thread-safe.

    threads: of ONNX Runtime; max_batch: regions decoded together; use_draft=False is for the ablation; structure: reads
    the structure of tables, by default one of its own. Raises ModelError when weights are missing.
    """

    def __init__(
        self,
        decode: DecodeConfig = DEFAULT_DECODE,
        threads: int = 2,
        max_batch: int = 16,
        use_draft: bool = True,
        structure: SharedStructure | None = None,
    ) -> None:
        self.tower = Tower(threads=threads)
        self.runtime = OnnxRuntime(self.tower.vocab, threads=threads, use_draft=use_draft)
        self.engine: Engine[RegionPrefix, CompactSeq] = Engine(self.runtime, decode, max_batch=max_batch)
        self.decode, self.threads, self.max_batch = decode, threads, max_batch
        self.structure = structure or SharedStructure(decode, threads)
        self._formulas: FormulaReader | None = None
        self._detector: LineDetector | None = None

    @property
    def name(self) -> str:
        return "derender-compact"

    def recognise(self, requests: Iterable[Request | None]) -> Iterator[Result]:
        """One Result per Request, as they finish. A request that cannot be read gives a failed Result.

        None in place of a request says that there is none right now: what is under way goes on, and the source is asked
        again before the next forward. When nothing is under way the iterator ends.
        """
        work: dict[str, _Work] = {}
        unread: list[Result] = []
        tables = TableSplitter(self._detect_table, self.structure)
        leaders = LeaderSplitter(self._detect)

        def joined(results: list[Result]) -> Iterator[Result]:
            """What can be given out: whole requests, and tables whose last cell is read."""
            texts = (text for r in results if (text := leaders.join(r)) is not None)
            yield from (whole for text in texts if (whole := tables.join(text)) is not None)
            yield from tables.finished
            results.clear()
            tables.finished.clear()

        def prefixes() -> Iterator[tuple[str, RegionPrefix] | None]:
            for group in _groups(leaders.split(tables.split(requests))):
                if not group:
                    yield None
                items = self._read_lines(group)
                self._read_formulas(items)
                for item in items:
                    if item.error:
                        unread.append(Result(item.request.id, status="failed", errors=[item.error]))
                        continue
                    if not any(len(r.draft_M) for r in item.readings):  # no letter seen: nothing is invented
                        unread.append(self._result(item, None))
                        continue
                    work[item.request.id] = item
                    geometry = line_geometry([box_of(q) for q in item.lines])
                    item.prefix = build_prefix(item.readings, geometry, self.tower.vocab)
                    yield item.request.id, item.prefix

        def config_of(request_id: Hashable) -> DecodeConfig:
            return work[str(request_id)].request.decode or self.decode

        def on_tokens(request_id: Hashable, tokens: Sequence[int]) -> None:
            on_text = work[str(request_id)].request.on_text
            if on_text:
                on_text("".join(self.tower.vocab.piece(t) for t in tokens))

        for decoded in self.engine.run(prefixes(), config_of, on_tokens):
            unread.append(self._result(work.pop(str(decoded.id)), decoded))
            yield from joined(unread)
        yield from joined(unread)

    def _read_lines(self, group: list[Request]) -> list[_Work]:
        from derender.layout.crops import crop_line

        items, crops, owners = [], [], []
        for request in group:
            try:
                lines = request.lines if request.lines is not None else self._detect(request)
                item = _Work(request, lines, [])
                for quad in lines:
                    for piece in cut_wide(crop_line(request.image, quad)):
                        crops.append(piece)
                        owners.append((item, quad))
            except (DerenderError, ValueError) as error:
                item = _Work(request, (), [], f"the crop cannot be read: {error}")
            items.append(item)
        seen: dict[int, list[tuple[Quad, LineReading]]] = {}
        for (item, quad), reading in zip(owners, self.tower.read(crops), strict=True):
            seen.setdefault(id(item), []).append((quad, reading))
        for item in items:
            found = seen.get(id(item), [])
            item.lines = tuple(quad for quad, _ in found)
            item.readings = [reading for _, reading in found]
        return items

    def _read_formulas(self, items: list[_Work]) -> None:
        """LaTeX of the formulas among `items`."""
        wanted = [item for item in items if item.request.task == "formula" and not item.error]
        if not wanted:
            return
        if self._formulas is None:
            from derender.recognise.formulas import FormulaReader

            self._formulas = FormulaReader(self.decode, self.threads, self.max_batch)
        reads = self._formulas.read(
            [_formula_picture(item.request) for item in wanted], [item.request.decode for item in wanted]
        )
        for item, read in zip(wanted, reads, strict=True):
            item.formula = read

    def _detect(self, request: Request) -> tuple[Quad, ...]:
        """Lines of a crop in reading order. A crop of one line's shape is taken whole: detectors cut into it."""
        height, width = request.image.shape[:2]
        return lines_of_crop(request.image, self._line_detector()) if height > 1 and width > 1 else ()

    def _detect_table(self, image: Image) -> tuple[Quad, ...]:
        from derender.table.read import detect_lines

        return detect_lines(image, self._line_detector()) if min(image.shape[:2]) > 1 else ()

    def _line_detector(self) -> LineDetector:
        from derender.layout.detect_lines import LineDetector

        if self._detector is None:
            self._detector = LineDetector(LayoutOptions(threads=self.threads))
        return self._detector

    def _result(self, item: _Work, decoded: DecodeResult | None) -> Result:
        vocab = self.tower.vocab
        result = Result(
            item.request.id, lines=item.lines, line_texts=[reading.text(vocab) for reading in item.readings]
        )
        if decoded is None:
            return _with_formula(result, item.formula)
        result.tokens = [
            TokenOut(vocab.piece(t), c, s)
            for t, c, s in zip(decoded.tokens, decoded.confidences, decoded.steps, strict=True)
        ]
        result.status = "failed" if decoded.status == "cancelled" else decoded.status
        result.errors = list(decoded.errors)
        if decoded.status in ("ok", "partial"):
            self._add_rest(result, item, decoded)
        result.text = "".join(t.text for t in result.tokens)
        result.stats = decoded.stats
        if decoded.trace is not None:
            result.trace = [
                {"step": e.step, "position": e.position, "text": vocab.piece(e.token), "confidence": e.confidence}
                for e in decoded.trace
            ]
        return _with_formula(result, item.formula)

    def _add_rest(self, result: Result, item: _Work, decoded: DecodeResult) -> None:
        """What a guard cut off (the text behind a loop) or the decoder left out at the end, as the tower read it; no
        more than the request's max_tokens."""
        assert item.prefix is not None
        most = (item.request.decode or self.decode).max_tokens - len(decoded.tokens)
        stopped = decoded.status == "partial"
        ids, probs = rest_of_reading(item.prefix, decoded.tokens, self.tower.vocab, most, stopped)
        if not ids:
            return
        step = decoded.stats.forwards
        result.tokens += [TokenOut(self.tower.vocab.piece(t), p, step) for t, p in zip(ids, probs, strict=True)]
        if stopped:
            result.errors[-1] += f"; {REST}"
        else:
            result.status, result.errors = "partial", [*result.errors, ENDED_EARLY]


def _formula_picture(request: Request) -> Image:
    """The part of a formula's crop that shows the formula and not its number."""
    if request.formula is None:
        return request.image
    x0, y0, x1, y1 = (max(0, round(v)) for v in request.formula)
    return request.image[y0:y1, x0:x1]


def _with_formula(result: Result, read: FormulaRead | None) -> Result:
    """A formula's result: the LaTeX, its tokens and what it cost, beside the text that was read."""
    if read is None:
        return result
    result.text_confidence = result.confidence
    result.latex, result.tokens, result.trace = read.latex, read.tokens, read.trace
    result.status, result.errors = read.status, read.errors
    read.stats.seconds += result.stats.seconds
    result.stats = read.stats
    return result


def _groups(source: Iterable[Request | None]) -> Iterator[list[Request]]:
    """Requests in groups whose lines are read together; an empty list where the source has none right now."""
    group: list[Request] = []
    for request in source:
        if request is not None:
            group.append(request)
        if group and (request is None or len(group) == GROUP):
            yield group
            group = []
        if request is None:
            yield []
    if group:
        yield group


def cut_wide(image: np.ndarray) -> list[np.ndarray]:
    """A line crop as pieces that the tower can take: one too wide for it is cut at its emptiest columns."""
    height, width = image.shape[:2]
    most = int(MAX_WIDTH * height / HEIGHT)
    if width <= most or most < 16:
        return [image]
    ink = np.abs(image.astype(np.float32) - np.median(image)).mean(axis=(0, 2))
    pieces, start = [], 0
    while width - start > most:
        low, high = start + most // 2, start + most
        cut = low + int(np.argmin(ink[low:high]))
        pieces.append(image[:, start:cut])
        start = cut
    return [*pieces, image[:, start:]]


def lines_of_crop(image: np.ndarray, detector: LineDetector) -> tuple[Quad, ...]:
    """Text lines of a region crop, top to bottom. A crop in which the detector finds at most one row of text, and that
    is no higher than a few times that row, is one line as a whole."""
    from derender.layout.ink import Ink
    from derender.layout.leaders import join_leaders

    height, width = image.shape[:2]
    if width >= 2.2 * height and height < 28:
        return (quad_of((0, 0, width, height)),)
    found = join_leaders(detector.detect(image, 150 / 72).lines, Ink(np.ascontiguousarray(image)))
    boxes = sorted((line for line in found), key=lambda line: (line.centre[1], line.centre[0]))
    rows = 0
    bottom = -1.0
    for line in boxes:
        if line.centre[1] > bottom:
            rows += 1
            bottom = line.box[3]
    if rows <= 1 and width >= 1.5 * height:
        covered = sum(line.width for line in boxes)
        if not boxes or height < 2.2 * max(line.height for line in boxes) or covered < 0.5 * width:
            return (quad_of((0, 0, width, height)),)
    return tuple(line.quad for line in _rows_in_order(boxes))


def _rows_in_order(boxes: list) -> list:  # type: ignore[type-arg]
    """Lines sorted into rows, left to right in each."""
    rows: list[list] = []  # type: ignore[type-arg]
    for line in boxes:
        if rows and line.centre[1] < np.mean([x.box[3] for x in rows[-1]]) - 0.25 * line.height:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda x: x.box[0])]

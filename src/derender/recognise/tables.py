"""Table requests as one text request per cell, and the cells' readings as one table again.

So that a recogniser of text reads tables with the same model as everything else, in the same batches. Which cells there
are says the structure reader, or, without one, the rule-based grid. Does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derender.recognise.cut import CutRequests
from derender.recognise.types import Image, Quad, Request, Result
from derender.table.read import CellText, FindStructure, TablePlan, plan_table, table_reading
from derender.table.types import Rule, TableGrid

if TYPE_CHECKING:
    from derender.recognise.structure import SharedStructure, StructureRead

_MARK = "\x1f"
Detect = Callable[[Image], tuple[Quad, ...]]


@dataclass
class _Table:
    """A table being read. structure: what the network made of it, if one was asked."""

    request: Request
    lines: tuple[Quad, ...]
    plan: TablePlan
    structure: StructureRead | None = None


class TableSplitter:
    """Put requests through `split`, what is read through `join`; tables without text come out of `finished`.

    structure: reads the structure of tables; without it the rule-based grid stands.
    """

    def __init__(self, detect: Detect, structure: SharedStructure | None = None) -> None:
        self._detect, self._structure = detect, structure
        self._cut = CutRequests[_Table](_MARK)
        self.finished: list[Result] = []

    def split(self, requests: Iterable[Request | None]) -> Iterator[Request | None]:
        """The requests, each table as one request per cell that has text. A table that cannot be planned gives a
        failed result. None passes.
        """
        for request in requests:
            if request is None or request.task != "table":
                yield request
                continue
            try:
                lines = request.lines if request.lines is not None else self._detect(request.image)
                found: list[StructureRead] = []
                plan = plan_table(request.image, lines, self._find(request, found))
            except (ValueError, ArithmeticError) as error:
                self.finished.append(
                    Result(request.id, status="failed", errors=[f"the table's structure cannot be found: {error}"])
                )
                continue
            numbers = [i for i, quads in enumerate(plan.quads) if quads]
            table = _Table(request, lines, plan, found[0] if found else None)
            if not numbers:
                self.finished.append(_result(table, {}))
                continue
            self._cut.open(request.id, table, numbers)
            for i in numbers:
                id = self._cut.part(request.id, i)
                yield Request(id, request.image, "text", plan.quads[i], decode=request.decode)

    def _find(self, request: Request, found: list[StructureRead]) -> FindStructure | None:
        """What plan_table asks for the structure; its whole answer is put into `found`."""
        reader = self._structure
        if reader is None:
            return None

        def find(grid: TableGrid, rules: Sequence[Rule], size: tuple[float, float]) -> TableGrid:
            found.append(reader.read(grid, rules, size, request.decode))
            return found[0].grid

        return find

    def join(self, result: Result) -> Result | None:
        """A text's result as it is; a cell's only with the last one of its table, as the table's result."""
        if not self._cut.is_part(result):
            return result
        read = self._cut.put(result)
        return None if read is None else _result(*read)


def _result(table: _Table, results: dict[int, Result]) -> Result:
    plan = table.plan
    texts: list[CellText] = []
    out = Result(table.request.id, lines=table.lines)
    parts: dict[int, list[tuple[float, str]]] = {}
    if table.structure is not None:
        read_as = table.structure
        out.status, out.errors = read_as.status, list(read_as.errors)
        out.stats.add(read_as.stats)
    for i in range(len(plan.grid.cells)):
        read = results.get(i)
        if read is None:
            texts.append(("", None))
            continue
        texts.append((read.text, read.confidence))
        line_of = dict(zip(plan.quads[i], plan.lines[i], strict=True))
        for quad, text in zip(read.lines, read.line_texts, strict=True):
            parts.setdefault(line_of[quad], []).append((quad[0][0], text))
        out.tokens += read.tokens
        out.errors += [
            f"row {plan.grid.cells[i].row + 1}, column {plan.grid.cells[i].col + 1}: {e}" for e in read.errors
        ]
        out.stats.add(read.stats)
        if read.status != "ok":
            out.status = "partial"
    if results and all(r.status == "failed" for r in results.values()):
        out.status = "failed"
    reading = table_reading(plan.grid, plan.boxes, texts)
    out.text, out.html, out.otsl, out.cells = reading.text, reading.html, reading.otsl, reading.cells
    out.line_texts = [
        " ".join(t for _, t in sorted(parts.get(n, []), key=lambda p: p[0])) for n in range(len(table.lines))
    ]
    return out

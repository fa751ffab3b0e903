"""Table structure by the network: a rule-based grid through its encoder, OTSL by the block-diffusion decoder.

The same engine as for text, on the table reader's own weights. Decoded tags are always made a rectangular table
(assemble/otsl.py), and what had to be repaired is said. Reads no text and sees no picture.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from derender.assemble.otsl import NL
from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq
from derender.model.runtime_onnx import OnnxRuntime
from derender.recognise.types import DecodeStats
from derender.table.draft import TableDraft, table_prefix, tag_names
from derender.table.learned import decoded_grid
from derender.table.tokens import MAX_TOKENS
from derender.table.tower import TABLE_WEIGHTS, TableTower
from derender.table.types import Rule, TableGrid
from derender.table.vocabulary import TableVocab


@dataclass
class StructureRead:
    """One table's structure. tags: the decoded OTSL as it came; draft: None where there was nothing to decode. status
    "partial": errors says what was repaired, or why the rule-based grid stands."""

    grid: TableGrid
    tags: list[str] = field(default_factory=list)
    draft: TableDraft | None = None
    status: Literal["ok", "partial"] = "ok"
    errors: list[str] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)


class SharedStructure:
    """A StructureReader that is loaded at the first table and that several threads may ask: one table at a time."""

    def __init__(self, decode: DecodeConfig, threads: int = 2) -> None:
        self._decode, self._threads = decode, threads
        self._reader: StructureReader | None = None
        self._lock = threading.Lock()

    def read(
        self,
        grid: TableGrid,
        rules: Sequence[Rule],
        size: tuple[float, float],
        decode: DecodeConfig | None = None,
    ) -> StructureRead:
        """As StructureReader.read. Raises ModelError when weights are missing."""
        with self._lock:
            if self._reader is None:
                self._reader = StructureReader(self._decode, self._threads)
            return self._reader.read(grid, rules, size, decode)


class StructureReader:
    """One set of sessions and caches; not thread-safe. Raises ModelError when weights are missing."""

    def __init__(
        self, decode: DecodeConfig, threads: int = 2, folder: Path | None = None, use_draft: bool = True
    ) -> None:
        folder = folder or TABLE_WEIGHTS
        self.vocab = TableVocab()
        self.tower = TableTower(folder, threads)
        self.runtime = OnnxRuntime(self.vocab, folder, threads, use_draft)
        self.engine: Engine[RegionPrefix, CompactSeq] = Engine(self.runtime, decode, max_batch=1)

    def read(
        self,
        grid: TableGrid,
        rules: Sequence[Rule],
        size: tuple[float, float],
        decode: DecodeConfig | None = None,
    ) -> StructureRead:
        """The table that the network makes of a rule-based grid. rules, size: as for grid_from_lines."""
        if not grid.pieces:
            return StructureRead(grid)
        if len(grid.pieces) + len(rules) > MAX_TOKENS:
            return StructureRead(
                grid,
                status="partial",
                errors=[
                    f"the table has more than {MAX_TOKENS} pieces of text and rules: its rows and columns are found by "
                    "rules alone"
                ],
            )
        tokens, feature_ND, draft = self.tower.read(grid, rules, size)
        config = decode or self.engine.config
        (decoded,) = self.engine.run([(0, table_prefix(tokens, feature_ND, draft))], lambda _: config)
        tags = [tag for t in decoded.tokens if (tag := self.vocab.piece(t))]
        chosen = tags if _same_shape(tags, draft) else tag_names(draft.ids_K.tolist())
        found, repairs = decoded_grid(grid, draft, chosen, tokens.box_N4[: tokens.lines])
        errors = [*decoded.errors, *(f"table structure: {r}" for r in repairs)]
        return StructureRead(found, tags, draft, "partial" if errors else "ok", errors, decoded.stats)


def _same_shape(tags: Sequence[str], draft: TableDraft) -> bool:
    """Whether tags make the draft's rows and columns. Others are seldom a correction, mostly a slip that moves all that
    follows: the draft, the encoder's own reading, then stands."""
    rows = [len(row.split()) for row in " ".join(tags).split(NL) if row.strip()]
    return len(rows) == draft.rows and set(rows) == {draft.cols}

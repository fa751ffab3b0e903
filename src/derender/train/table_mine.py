"""Stage II for tables: which generated tables the table decoder itself is unsure of, by TEDS-S consistency.

As mine.py does for text; here two decodes are as alike as the tables that they are, without their contents. Does not
train. Needs the extra `score`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from derender.assemble.otsl import otsl_to_cells, repair_otsl
from derender.assemble.tables import cells_to_html
from derender.score.teds import teds_s
from derender.table.vocabulary import TableVocab
from derender.train.mine import DRAWS, Mined, mine_prefixes
from derender.train.table_decoder import load_features


@lru_cache(maxsize=4096)
def structure_similarity(a: str, b: str) -> float:
    """TEDS-S (0-1) of two decoded strings of OTSL tags, parted by spaces and each made rectangular first; 0 where only
    one of them has any cell."""
    if a == b:
        return 1.0
    first, second = (otsl_to_cells(repair_otsl(tags.split())[0]) for tags in (a, b))
    if not first or not second:
        return float(not first and not second)
    return teds_s(cells_to_html(first), cells_to_html(second))


def mine_tables(path: Path, runtime: Any, mode: str = "block", draws: int = DRAWS) -> list[Mined]:
    """Consistency of every table of a shard of write_features. runtime: of the weights to be refined."""
    vocab = TableVocab()

    def tags(tokens: Sequence[int]) -> str:
        return " ".join(tag for t in tokens if (tag := vocab.piece(t)))

    prefixes = [region.prefix for region in load_features(path)]
    return mine_prefixes(path.name, prefixes, runtime, tags, mode, draws, similarity=structure_similarity)

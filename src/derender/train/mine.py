"""Stage II, uncertainty-driven boundary refinement (MinerU-Diffusion, arXiv 2603.22458, eq. 10-15): finds the regions
that the decoder itself is unsure of.

Each region is decoded `draws` times at temperature 1; its consistency C is the mean pairwise similarity of the texts by
the task's metric (text: normalised edit similarity; tables: TEDS-S, table_mine.py). Regions with C below a threshold
are hard; they are trained on again, each with weight 1 + beta (1 - C), beside a replay of the others (loop.py). Does
not train and looks at no ground truth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.errors import InputError, ModelError
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq
from derender.model.tokens import Vocab
from derender.train.dataset import load_shard

DRAWS = 4
Similarity = Callable[[str, str], float]
"""How alike two decodes are, 0-1."""


@dataclass(frozen=True)
class Mined:
    """Consistency of region number `region` of shard file `shard`."""

    shard: str
    region: int
    consistency: float


def edit_similarity(a: str, b: str) -> float:
    """1 - edit distance / length of the longer text."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(a, b)


def consistency(texts: Sequence[str], similarity: Similarity = edit_similarity) -> float:
    """Mean pairwise similarity, eq. 11; 1 for fewer than two texts."""
    pairs = list(combinations(texts, 2))
    return sum(similarity(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0


def mine_shard(path: Path, runtime: Any, vocab: Vocab, mode: str, draws: int = DRAWS, batch: int = 16) -> list[Mined]:
    """Consistency of every region of a shard. runtime: OnnxRuntime or TorchRuntime of the weights to be refined."""
    prefixes = [region.prefix for region in load_shard(path, vocab)]
    return mine_prefixes(path.name, prefixes, runtime, vocab.decode, mode, draws, batch)


def mine_prefixes(
    shard: str,
    prefixes: Sequence[RegionPrefix],
    runtime: Any,
    text_of: Callable[[Sequence[int]], str],
    mode: str,
    draws: int = DRAWS,
    batch: int = 16,
    similarity: Similarity = edit_similarity,
) -> list[Mined]:
    """Consistency of each prefix of a shard. text_of: what `similarity` compares, of the decoded tokens."""
    texts: list[list[str]] = [[] for _ in prefixes]
    for draw in range(draws):
        config = DecodeConfig(mode=mode, temperature=1.0, seed=draw)  # type: ignore[arg-type]
        engine: Engine[RegionPrefix, CompactSeq] = Engine(runtime, config, max_batch=batch)
        for result in engine.run(enumerate(prefixes)):
            if result.status == "failed":
                raise ModelError(f"a region of {shard} could not be decoded: {'; '.join(result.errors)}")
            texts[int(str(result.id))].append(text_of(result.tokens))
    return [Mined(shard, i, consistency(t, similarity)) for i, t in enumerate(texts)]


def write_mined(path: Path, mined: Sequence[Mined]) -> None:
    """Writes all consistencies as JSON, {shard: [C of region 0, 1, ...]}, first to a temporary name."""
    table: dict[str, list[float]] = {}
    for m in mined:
        table.setdefault(m.shard, []).append(round(m.consistency, 5))
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(table))
    os.replace(temporary, path)


def mine_files(files: Sequence[Path], mine: Callable[[Path], list[Mined]], out: Path) -> list[Mined]:
    """Mines file after file, with a progress bar on a terminal, and writes what is known after each to `out`."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    found: list[Mined] = []
    for path in track(files, "mining", console=console, disable=not console.is_terminal):
        found += mine(path)
        write_mined(out, found)
    return found


def hard_counts(mined: Sequence[Mined], what: str) -> str:
    """How many of `what` lie below several consistencies, a line each."""
    return "\n".join(
        f"consistency below {below}: {sum(m.consistency < below for m in mined)} of {len(mined)} {what}"
        for below in (0.9, 0.95, 0.98, 0.99)
    )


@dataclass(frozen=True)
class HardSet:
    """What `mine` found, ready for the second stage. below: consistency under which a region is hard; beta: weight of
    doubt in the loss; share: part of the regions drawn that are hard (2/3 is hard : replay = 2 : 1)."""

    consistencies: dict[str, list[float]]
    below: float = 0.98
    beta: float = 1.0
    share: float = 2 / 3

    @classmethod
    def read(cls, path: Path, below: float = 0.98, beta: float = 1.0, share: float = 2 / 3) -> HardSet:
        """Raises InputError when the file is not one of `derender train mine`."""
        try:
            table = {str(k): [float(c) for c in v] for k, v in json.loads(path.read_text()).items()}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise InputError(f"{path.name} is not a hard set of `derender train mine`: {error}") from None
        return cls(table, below, beta, share)

    def doubt(self, shard: str, region: int) -> float | None:
        """1 - C of a hard region, None for an easy one or one that was not mined."""
        values = self.consistencies.get(shard, [])
        c = values[region] if region < len(values) else 1.0
        return 1 - c if c < self.below else None

    def weight(self, doubt: float | None) -> float:
        """Loss weight, eq. 15."""
        return 1.0 if doubt is None else 1 + self.beta * doubt

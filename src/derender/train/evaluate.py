"""How well weights read a folder of shards: CER and tokens per forward of decode modes, and the bare CTC reading.

For regions that training never saw (`derender train data --held-out`), so that recipes can be compared without pictures
and line detection in the way. Rows with dot leaders are left out: a reader counts the dots in the picture and gives no
network such a row (recognise/leaders.py). Does not train. Whole programs are measured by `derender score`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from derender.decode.config import DecodeConfig
from derender.decode.engine import DecodeResult, Engine
from derender.errors import InputError, ModelError
from derender.model.prefix import RegionPrefix
from derender.model.rest import rest_of_reading
from derender.model.rows import CompactSeq
from derender.model.tokens import Vocab
from derender.score.normalise import page_text
from derender.train.dataset import Region, load_shard

_LEADER = re.compile(r"(?:\. ?){5,}")


@dataclass(frozen=True)
class ReadingScore:
    """Micro CER over regions; white space as in score/normalise.py, page_text. name: decode mode, or ctc. partial:
    regions that a guard ended."""

    name: str
    cer: float
    tokens_per_forward: float
    seconds: float
    regions: int
    partial: int


def held_regions(shards: Path, vocab: Vocab, limit: int) -> list[Region]:
    """The first `limit` regions of a folder's shards that have no dot leaders. Raises InputError when there is none."""
    files = sorted(p for p in shards.glob("shard-*.npz") if not p.name.endswith(".tmp.npz"))
    regions = (r for path in files for r in load_shard(path, vocab))
    found = list(islice((r for r in regions if not _LEADER.search(vocab.decode(r.target.tolist()))), limit))
    if not found:
        raise InputError(f"no shards in {shards.name}; make some with `derender train data --held-out`")
    return found


def micro_cer(pairs: Iterable[tuple[str, str]]) -> float:
    """Edit distance over characters of the truth; pairs are (truth, text)."""
    from rapidfuzz.distance import Levenshtein

    folded = [(page_text(truth), page_text(text)) for truth, text in pairs]
    return sum(Levenshtein.distance(a, b) for a, b in folded) / max(1, sum(len(a) for a, _ in folded))


def read_regions(
    runtime: Any, regions: Sequence[Region], configs: Sequence[DecodeConfig], vocab: Vocab, batch: int = 8
) -> list[ReadingScore]:
    """Scores of each configuration, the CTC reading first. runtime: OnnxRuntime or TorchRuntime."""
    truths = [vocab.decode(region.target.tolist()) for region in regions]
    drafts = [vocab.decode(region.prefix.draft_D.tolist()) for region in regions]
    out = [ReadingScore("ctc", micro_cer(zip(truths, drafts, strict=True)), 0.0, 0.0, len(regions), 0)]
    for config in configs:
        engine: Engine[RegionPrefix, CompactSeq] = Engine(runtime, config, max_batch=batch)
        found = {r.id: r for r in engine.run((i, region.prefix) for i, region in enumerate(regions))}
        if failed := next((r for r in found.values() if r.status == "failed"), None):
            raise ModelError(f"region {failed.id} could not be decoded: {'; '.join(failed.errors)}")
        texts = [vocab.decode(_whole(found[i], region.prefix, config, vocab)) for i, region in enumerate(regions)]
        forwards = sum(r.stats.forwards for r in found.values())
        out.append(
            ReadingScore(
                config.mode,
                micro_cer(zip(truths, texts, strict=True)),
                sum(r.stats.tokens for r in found.values()) / max(1, forwards),
                engine.stats.forward_seconds + engine.stats.prefill_seconds + engine.stats.digest_seconds,
                len(regions),
                sum(r.status != "ok" for r in found.values()),
            )
        )
    return out


def _whole(result: DecodeResult, prefix: RegionPrefix, config: DecodeConfig, vocab: Vocab) -> list[int]:
    """The tokens that a reader gives out: behind a loop or an early end, the rest of the CTC reading."""
    most, stopped = config.max_tokens - len(result.tokens), result.status == "partial"
    return result.tokens + rest_of_reading(prefix, result.tokens, vocab, most, stopped)[0]

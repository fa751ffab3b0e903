"""Training batches from shards: chunks of regions, noised. Everything drawn here depends on (seed, step) only.

A region's target is cut to a chunk of at most `chunk` tokens, because attention has a bounded reach and the decoder
must start anywhere. A chunk becomes one clean stream and two noisy ones (objective.py says who sees whom). Does not
know the network.

Legend: B batch, C clean rows, N noisy rows of one stream, P prefix entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.model.align import anchors
from derender.model.prefix import RegionPrefix, build_prefix, draft_at
from derender.model.tokens import TokenIds, Vocab
from derender.model.tower import LineReading

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NoiseConfig:
    """full: share of samples whose windows are masked whole (as `sliding` sees them); blocks: window sizes drawn;
    wrong: share of clean tokens replaced; no_draft: share of samples without the draft; beta: draw t from a Beta with
    mean .75 in place of U(0, 1)."""

    chunk: int = 128
    full: float = 0.5
    blocks: tuple[int, ...] = (8, 16, 32, 32, 32, 48)
    wrong: float = 0.03
    no_draft: float = 0.06
    beta: bool = False
    reach_columns: float = 40.0


@dataclass(frozen=True)
class Region:
    """One training region: prefix arrays, target ids and the anchor before each token and after the last. Columns stay
    float16 until a chunk is cut. weight: of its losses; chance: how often it is drawn; kind: where it is from."""

    prefix: RegionPrefix
    target: I64
    anchor: I64
    weight: float = 1.0
    chance: float = 1.0
    kind: str = ""


def proportional(prefix: RegionPrefix) -> F32:
    """Positions of prefix entries by their place alone, spread evenly over the draft: what character-count positions
    are compared with."""
    return np.linspace(-0.5, max(len(prefix.draft_D) - 0.5, 0.0), len(prefix.position_P), dtype=np.float32)


def load_shard(path: Path, vocab: Vocab, counted: bool = True) -> Iterator[Region]:
    """Regions of one shard file. counted: character-count positions; False for the ablation."""
    with np.load(path) as z:
        a: dict[str, Any] = {k: z[k] for k in z.files}
    rl, lc, ld, rt = a["region_lines"], a["line_columns"], a["line_draft"], a["region_target"]
    for r in range(len(rl) - 1):
        lines = []
        for line in range(rl[r], rl[r + 1]):
            c, d = slice(lc[line], lc[line + 1]), slice(ld[line], ld[line + 1])
            lines.append(
                LineReading(
                    a["columns"][c],
                    a["class_"][c].astype(np.int64),
                    a["draft"][d].astype(np.int64),
                    a["prob"][d].astype(np.float32),
                    a["at"][d].astype(np.int64),
                    a["top"][d].astype(np.int64),
                )
            )
        prefix = build_prefix(lines, a["geometry"][rl[r] : rl[r + 1]], vocab)
        prefix = RegionPrefix(
            prefix.feature_PF.astype(np.float16),  # type: ignore[arg-type]
            prefix.geometry_PG,
            prefix.line_P,
            prefix.position_P if counted else proportional(prefix),
            prefix.draft_D,
            prefix.prob_D,
            prefix.alternatives,
        )
        target = a["target"][rt[r] : rt[r + 1]].astype(np.int64)
        yield Region(
            prefix,
            target,
            np.asarray(anchors(prefix.draft_D.tolist(), target.tolist(), vocab.soft_ids), np.int64),
            kind=str(a["kind"][r]),
        )


@dataclass
class Chunk:
    """Arrays of one sample before padding. Clean row j holds token clean_C[j] (the first is the token before the
    chunk, or bos); it predicts next_C[j] (-1: no loss). Noisy row: token noisy_N, truth truth_N, loss where masked_N,
    block number block_N, first_N = how many clean rows its block may see, and time_N = its block's chance to be
    masked."""

    feature: npt.NDArray[Any]
    geometry: F32
    line: npt.NDArray[np.bool_]
    position: F32
    clean: I64
    clean_place: I64
    next: I64
    clean_draft: I64
    clean_prob: F32
    clean_left: I64
    noisy: list[I64]
    truth: list[I64]
    masked: list[npt.NDArray[np.bool_]]
    time: list[F32]
    block: list[I64]
    first: list[I64]
    center: list[I64]
    noisy_draft: list[I64]
    noisy_prob: list[F32]
    noisy_left: list[I64]
    candidates: I64
    weight: float


def left_neighbours(ids: I64, before: I64) -> I64:
    """(R, 2) tokens one and two places before each of `ids`; before: the two tokens before the first, older one
    first."""
    whole = np.concatenate([before, ids])
    return np.stack([whole[1:-1], whole[:-2]], 1)


def window_left(noisy: I64, begins: I64, clean: I64, clean_left: I64) -> I64:
    """(N, 2) left neighbours of a noisy stream: inside a block from the block itself, at its beginning from the clean
    stream, which a block sees up to there. begins: index in the stream where each row's block begins."""
    n = len(noisy)
    index = np.arange(n)
    one = np.where(index > begins, noisy[np.maximum(index - 1, 0)], clean[np.minimum(begins, len(clean) - 1)])
    # two back: inside the block; just before it; or one further, which the clean stream's own left neighbour holds
    first, second = index == begins, index == begins + 1
    at = np.minimum(begins, len(clean) - 1)
    two = np.where(first, clean_left[at, 0], np.where(second, clean[at], noisy[np.maximum(index - 2, 0)]))
    return np.stack([one, two], 1).astype(np.int64)


def make_chunk(region: Region, rng: np.random.Generator, vocab: TokenIds, core: I64, c: NoiseConfig) -> Chunk:
    """Cuts and noises one sample."""
    target, p, prefix = region.target, region.anchor, region.prefix
    n = len(target)
    start = 0
    if n > c.chunk:
        start = n - c.chunk if rng.random() < 0.25 else int(rng.integers(0, n - c.chunk + 1))
    stop = min(n, start + c.chunk)
    ends = stop == n
    keep = rng.random() >= c.no_draft
    block = int(rng.choice(c.blocks))
    eos = vocab.eos_id

    before = target[start - 1] if start else vocab.bos_id
    clean = np.concatenate([[before], target[start:stop]]).astype(np.int64)
    nxt = np.concatenate([target[start:stop], [eos if ends else -1]]).astype(np.int64)
    clean_place = p[start : stop + 1] - 1
    clean_draft, clean_prob = draft_at(prefix, clean_place + 1, eos, keep)
    wrong = rng.random(len(clean)) < c.wrong
    clean = np.where(wrong, rng.choice(core, len(clean)), clean)
    earlier = target[start - 2] if start > 1 else vocab.bos_id if start == 1 else vocab.mask_id
    clean_left = left_neighbours(clean, np.array([vocab.mask_id, earlier]))

    full = rng.random() < c.full
    out: dict[str, list[Any]] = {k: [] for k in ("noisy", "truth", "masked", "time", "block", "first", "center")}
    drafts, probs, lefts = [], [], []
    offset = int(rng.integers(0, block))
    kept: npt.NDArray[np.bool_] | None = None
    time = np.zeros(0)
    for stream in range(2):
        if full and stream:
            offset = int(rng.integers(0, block))
        bounds = [start] + list(range(start + (offset or block), stop + (1 if ends else 0), block))
        last = bounds[-1] + block if ends else stop
        truth = np.concatenate([target[start:stop], np.full(max(0, last - stop), eos)]).astype(np.int64)
        m = len(truth)
        number = np.searchsorted(np.asarray(bounds), np.arange(start, start + m), side="right") - 1
        begins = np.asarray(bounds)[number]
        center = p[np.minimum(begins, n)] + (np.arange(start, start + m) - begins)
        if full:
            masked, time = np.ones(m, bool), np.ones(m)
        elif kept is None:
            k = len(bounds)
            u = rng.beta(3, 1, k) if c.beta else (rng.permutation(k) + rng.random(k)) / k
            time = u[number]
            masked = rng.random(m) < time
            kept = masked
        else:
            masked, time = ~kept, 1 - time
        noisy = np.where(masked, vocab.mask_id, truth)
        lefts.append(window_left(noisy, begins - start, clean, clean_left))
        out["noisy"].append(noisy)
        out["truth"].append(truth)
        out["masked"].append(masked)
        out["time"].append(time.astype(np.float32))
        out["block"].append(number)
        out["first"].append(begins - start + 1)
        out["center"].append(center)
        d, q = draft_at(prefix, center, eos, keep)
        drafts.append(d)
        probs.append(q)

    low = p[start] - c.reach_columns - 1
    high = max(int(x.max()) for x in out["center"]) + c.reach_columns + 1
    see = (prefix.position_P >= low) & (prefix.position_P <= high)
    return Chunk(
        prefix.feature_PF[see],
        prefix.geometry_PG[see],
        prefix.line_P[see],
        prefix.position_P[see],
        clean,
        clean_place,
        nxt,
        clean_draft,
        clean_prob,
        clean_left,
        **out,
        noisy_draft=drafts,
        noisy_prob=probs,
        noisy_left=lefts,
        candidates=np.union1d(prefix.alternatives, target[start:stop]),
        weight=region.weight,
    )

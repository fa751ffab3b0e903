"""What the overlapped commit saves: forwards and seconds with and without it, on random weights of a middling size.

    derender bench overlap

The weights are random and say nothing about text; a schedule fixes how many forwards a block takes, so the same work is
timed both ways, and both ways must write the same tokens. Loads no checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.errors import ModelError
from derender.mineru.config import BLOCK, MineruConfig, TextShape, VisionShape

if TYPE_CHECKING:
    from derender.mineru.runtime import MineruPrefix, MineruRuntime, MineruSeq

MIDDLING = MineruConfig(
    VisionShape(depth=2, width=128, heads=4),
    TextShape(vocabulary=32_000, width=512, hidden=1536, layers=8, heads=8, kv_heads=4, head_dim=64),
    image_id=1,
    mask_id=2,
)
END = 0


@dataclass(frozen=True)
class OverlapOptions:
    """batches: sequences decoded together; steps: denoising forwards of a block; tokens: length of each text (whole
    blocks); picture: visual tokens of each prompt, a square; repeat: runs, medians count; clock: wall, or cpu:
    processor time, for machines with other work."""

    batches: tuple[int, ...] = (1, 8)
    steps: tuple[int, ...] = (4, 8, 16)
    tokens: int = 256
    picture: int = 256
    repeat: int = 3
    clock: str = "wall"
    device: str | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class OverlapRow:
    """One configuration. Forwards are of the engine (batched); seconds are those of decoding, prefill left out."""

    batch: int
    steps: int
    forwards_with: int
    forwards_without: int
    seconds_with: float
    seconds_without: float

    @property
    def saved(self) -> float:
        """Share of the seconds."""
        return 1 - self.seconds_with / self.seconds_without


def measure_overlap(
    options: OverlapOptions, config: MineruConfig = MIDDLING, say: Callable[[str], None] = lambda text: None
) -> list[OverlapRow]:
    """One row for each batch and number of steps. Raises ModelError where both ways write different tokens."""
    runtime = random_runtime(config, options)
    rows = []
    for batch in options.batches:
        prefixes = random_prompts(config, batch, options.picture)
        for steps in options.steps:
            say(f"batch {batch}, {steps} steps a block")
            decode = DecodeConfig(
                mode="block",
                rule=f"schedule:linear:{steps}",
                block=BLOCK,
                max_tokens=options.tokens - 1,  # the last block is the one that passes it
                repetition_guard=False,
            )
            runs = [
                [_run(runtime, prefixes, replace(decode, overlap=o), options.clock) for o in (True, False)]
                for _ in range(options.repeat)
            ]
            if any(run.tokens != runs[0][0].tokens for pair in runs for run in pair):
                raise ModelError("the overlapped commit changed the text")
            on, off = runs[0]
            seconds = [median(pair[n].seconds for pair in runs) for n in (0, 1)]
            rows.append(OverlapRow(batch, steps, on.forwards, off.forwards, *seconds))
    return rows


def table(rows: Sequence[OverlapRow]) -> str:
    """The rows as Markdown."""
    head = "| batch | steps a block | forwards with | without | seconds with | without | saved |"
    lines = [
        f"| {r.batch} | {r.steps} | {r.forwards_with} | {r.forwards_without} | {r.seconds_with:.2f} | "
        f"{r.seconds_without:.2f} | {r.saved:.0%} |"
        for r in rows
    ]
    return "\n".join([head, "|" + "---|" * 7, *lines])


def random_runtime(config: MineruConfig, options: OverlapOptions) -> MineruRuntime:
    """A runtime on random weights, for timing only."""
    import torch

    from derender.mineru.checkpoint import place
    from derender.mineru.model import MineruModel
    from derender.mineru.runtime import MineruRuntime

    placement = place(options.device, options.dtype)
    torch.manual_seed(0)
    model = MineruModel(config).to(placement.device, getattr(torch, placement.dtype)).eval().requires_grad_(False)
    runtime = MineruRuntime(model, (END,), block=BLOCK, max_tokens=options.tokens, name="random weights")
    runtime.candidates.forbidden_V[END] = True  # texts must not end of themselves
    return runtime


def random_prompts(config: MineruConfig, count: int, picture: int) -> list[MineruPrefix]:
    """Prompts of `picture` visual tokens and 20 others each, pictures of noise."""
    from derender.mineru.runtime import MineruPrefix

    rng = np.random.default_rng(0)
    v = config.vision
    side = int(picture**0.5)
    patches = side * side * v.merge**2
    made = []
    for _ in range(count):
        words = rng.integers(3, config.text.vocabulary, 20).tolist()
        ids = [*words[:10], *[config.image_id] * (side * side), *words[10:]]
        pixels = rng.normal(size=(patches, v.channels * v.temporal_patch * v.patch**2)).astype(np.float32)
        made.append(MineruPrefix(ids, pixels, (1, side * v.merge, side * v.merge)))
    return made


@dataclass(frozen=True)
class _Run:
    tokens: dict[object, list[int]]
    forwards: int
    seconds: float


class _Clocked:
    """The runtime, with the seconds of its prefills by the bench's clock."""

    def __init__(self, runtime: MineruRuntime, now: Callable[[], float]) -> None:
        self.spec, self.forward = runtime.spec, runtime.forward
        self.truncate, self.release = runtime.truncate, runtime.release
        self._prefill, self.now, self.seconds = runtime.prefill, now, 0.0

    def prefill(self, prefixes: Sequence[MineruPrefix]) -> list[MineruSeq]:
        began = self.now()
        made = self._prefill(prefixes)
        self.seconds += self.now() - began
        return made


def _run(runtime: MineruRuntime, prefixes: Sequence[MineruPrefix], decode: DecodeConfig, clock: str) -> _Run:
    clocked = _Clocked(runtime, time.process_time if clock == "cpu" else time.perf_counter)
    engine: Engine = Engine(clocked, decode, max_batch=len(prefixes), prefill_group=len(prefixes))
    prefixed = list(enumerate(prefixes))
    began = clocked.now()
    tokens = {r.id: r.tokens for r in engine.run(prefixed)}
    return _Run(tokens, engine.stats.forwards, clocked.now() - began - clocked.seconds)

"""The training loop: shards in, checkpoints out. AdamW, warm-up and cosine, clipping, EMA, resume to the same loss.

Everything random depends on (seed, step), so a run that is stopped and resumed sees what an unbroken one would have
seen. Logs to CSV; shows a progress bar with the time left on a terminal. Does not make data (features.py) and does not
score crops (derender score does).

    derender train run --shards DIR --out DIR --steps 4000
"""

from __future__ import annotations

import copy
import csv
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from derender.errors import InputError
from derender.model.config import DecoderConfig
from derender.model.decoder import Decoder, unit_class_vectors
from derender.model.tokens import TokenIds, Vocab, core_ids
from derender.train.clusters import cluster
from derender.train.dataset import Chunk, NoiseConfig, Region, load_shard, make_chunk
from derender.train.mine import HardSet
from derender.train.objective import collate, extra_candidates, sums_of, weights_of


@dataclass(frozen=True)
class TrainConfig:
    """rows: clean tokens a batch holds, padding included; micro: those of one accumulation step (small ones are faster
    on a CPU, where big attention masks are memory traffic); reload: steps between looks for new shards; weighting:
    mean (over masked positions) or inverse (1/t); clusters: groups to balance the drawing by (0: none); device: cpu, or
    cuda, where products are computed in bfloat16."""

    steps: int = 4000
    rows: int = 1024
    micro: int = 320
    lr: float = 1e-3
    warmup: int = 150
    floor: float = 0.05
    decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    ema: float = 0.999
    seed: int = 0
    objective: str = "hybrid"
    weighting: str = "mean"
    clusters: int = 0
    certainty: float = 0.0
    certainty_from: float = 0.8
    beta_from: float = 0.7
    save_every: int = 200
    reload: int = 400
    threads: int = 2
    device: str = "cpu"
    noise: NoiseConfig = field(default_factory=NoiseConfig)


class ShardSet:
    """Regions of all shards in a folder, kept in memory as float16; new files are picked up by `refresh`. `load` is for
    subclasses with other shards (formula_decoder.py).

    counted: see load_shard. hard: the hard set of stage II, which then makes up its share of what is drawn.
    """

    def __init__(
        self,
        folder: Path,
        vocab: TokenIds,
        memory_mib: int = 8000,
        counted: bool = True,
        hard: HardSet | None = None,
    ) -> None:
        self.folder, self.vocab, self.memory = folder, vocab, memory_mib * 2**20
        self.counted, self.hard = counted, hard
        self.regions: list[Region] = []
        self.doubts: list[float | None] = []
        self.seen: set[Path] = set()
        self.bytes = 0

    def load(self, path: Path) -> Iterator[Region]:
        """The regions of one file."""
        assert isinstance(self.vocab, Vocab)
        return load_shard(path, self.vocab, self.counted)

    def refresh(self) -> int:
        for path in sorted(self.folder.glob("shard-*.npz")):
            if path in self.seen or path.name.endswith(".tmp.npz") or self.bytes > self.memory:
                continue
            self.seen.add(path)
            for i, region in enumerate(self.load(path)):
                doubt = self.hard.doubt(path.name, i) if self.hard else None
                self.regions.append(region)
                self.doubts.append(doubt)
            self.bytes += path.stat().st_size
        return len(self.regions)

    def balance(self, groups: int) -> list[int]:
        """Sets chances by cluster; returns the clusters' sizes."""
        found = cluster([r.prefix for r in self.regions], groups)
        self.regions = [replace(r, chance=float(c)) for r, c in zip(self.regions, found.chance_N, strict=True)]
        return found.sizes

    def chances(self) -> npt.NDArray[np.float64]:
        """Probability of each region to be drawn next; in stage II hard ones make up `hard.share`."""
        chance = np.array([r.chance for r in self.regions])
        is_hard = np.array([d is not None for d in self.doubts])
        if self.hard and 0 < is_hard.sum() < len(chance):
            chance[is_hard] *= self.hard.share / chance[is_hard].sum()
            chance[~is_hard] *= (1 - self.hard.share) / chance[~is_hard].sum()
        return chance / chance.sum()

    def _draw(self, i: int) -> Region:
        region = self.regions[i]
        return replace(region, weight=self.hard.weight(self.doubts[i])) if self.hard else region

    def batches(self, rng: np.random.Generator, core: np.ndarray, noise: NoiseConfig, rows: int) -> list[list[Chunk]]:
        """A few batches of chunks of similar length, drawn from a pool of regions by chance."""
        pool = rng.choice(len(self.regions), size=512, p=self.chances())
        chunks = [make_chunk(self._draw(i), rng, self.vocab, core, noise) for i in pool]
        chunks.sort(key=lambda c: len(c.clean))
        out: list[list[Chunk]] = []
        current: list[Chunk] = []
        for chunk in chunks:
            if current and (len(current) + 1) * len(chunk.clean) > rows:
                out.append(current)
                current = []
            current.append(chunk)
        out.append(current)
        return [out[i] for i in rng.permutation(len(out))]


def learning_rate(step: int, c: TrainConfig) -> float:
    if step < c.warmup:
        return c.lr * (step + 1) / c.warmup
    done = min(1.0, (step - c.warmup) / max(1, c.steps - c.warmup))
    return c.lr * (c.floor + (1 - c.floor) * 0.5 * (1 + math.cos(math.pi * done)))


def new_decoder(
    config: DecoderConfig, vocab: Vocab, head_CV: torch.Tensor, seed: int = 0, copying: bool = True
) -> Decoder:
    """An untrained decoder whose tokens are the tower's classes. head_CV: (120, classes) weight of the CTC head.
    copying: the output starts as the draft's embedding; False, for the ablation, starts it at random."""
    return decoder_of(config, vocab, core_ids(vocab), head_CV, seed, copying)


def decoder_of(
    config: DecoderConfig,
    vocab: TokenIds,
    core_V: Sequence[int],
    head_CV: torch.Tensor,
    seed: int = 0,
    copying: bool = True,
) -> Decoder:
    """As new_decoder, for any vocabulary: core_V, its ids that are always candidates."""
    torch.manual_seed(seed)
    core = torch.tensor(core_V)
    vectors = unit_class_vectors(head_CV, len(vocab))
    config = DecoderConfig(**{**asdict(config), "vocab": len(vocab), "n_core": len(core)})
    model = Decoder(config, vectors, core)
    if not copying:
        with torch.no_grad():
            model.out.copy_(torch.linalg.qr(torch.randn_like(model.out))[0])
    return model


def save_checkpoint(path: Path, model: Decoder, ema: Decoder, optimiser: torch.optim.Optimizer, step: int) -> None:
    """Everything needed to resume, first to a temporary name."""
    temporary = path.with_suffix(".tmp")
    torch.save(
        {
            "config": asdict(model.c),
            "model": model.state_dict(),
            "ema": ema.state_dict(),
            "optimiser": optimiser.state_dict(),
            "step": step,
        },
        temporary,
    )
    temporary.replace(path)


def load_decoder(path: Path, which: str = "ema") -> Decoder:
    """The decoder of a checkpoint, `which` of its two sets of weights. Strict: any key that does not fit is an
    error."""
    data = torch.load(path, map_location="cpu", weights_only=True)
    state = data[which]
    model = Decoder(DecoderConfig(**data["config"]), state["class_vectors"], state["core_ids"])
    model.load_state_dict(state)
    return model


class Trainer:
    """One run in folder `out` (checkpoint.pt, log.csv). Resumes when the folder holds a checkpoint."""

    def __init__(self, model: Decoder, shards: ShardSet, config: TrainConfig, out: Path) -> None:
        self.model, self.shards, self.config, self.out = model.to(config.device), shards, config, out
        out.mkdir(parents=True, exist_ok=True)
        self.ema = copy.deepcopy(model).requires_grad_(False)
        decayed = [p for p in model.parameters() if p.ndim > 1]
        plain = [p for p in model.parameters() if p.ndim <= 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": config.decay}, {"params": plain, "weight_decay": 0.0}],
            lr=config.lr,
            betas=config.betas,
        )
        self.step = 0
        self.core, self.core_index = model.core_ids.cpu().numpy(), model.core_index.cpu()
        checkpoint = out / "checkpoint.pt"
        if checkpoint.exists():
            data = torch.load(checkpoint, map_location="cpu", weights_only=True)
            model.load_state_dict(data["model"])
            self.ema.load_state_dict(data["ema"])
            self.optimiser.load_state_dict(data["optimiser"])
            self.step = data["step"]

    def _batches(self) -> Iterator[list[Chunk]]:
        """Batches from the current step on; the draw of a pool depends on its number, so a resumed run skips to it."""
        pool, passed = 0, 0
        while True:
            rng = np.random.default_rng((self.config.seed, pool, 77))
            late = passed >= self.config.beta_from * self.config.steps
            noise = NoiseConfig(**{**asdict(self.config.noise), "beta": late or self.config.noise.beta})
            batches = self.shards.batches(rng, self.core, noise, self.config.rows)
            pool += 1
            for batch in batches:
                if passed >= self.step:
                    yield batch
                passed += 1

    def train_step(self, chunks: list[Chunk]) -> dict[str, float]:
        c = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.step, c)
        mask_id = self.shards.vocab.mask_id
        certainty = c.certainty if self.step >= c.certainty_from * c.steps else 0.0
        per = max(1, c.micro // max(len(k.clean) for k in chunks))
        index = self.core_index
        extra = extra_candidates(chunks, index)
        starts = range(0, len(chunks), per)
        parts = [collate(chunks[i : i + per], index, mask_id, extra).to(c.device) for i in starts]
        inverse = c.weighting == "inverse"
        weights = [weights_of(b, inverse) for b in parts]
        w_masked, w_next = (max(sum(w[k] for w in weights), 1e-6) for k in range(2))
        self.optimiser.zero_grad(set_to_none=True)
        total = {"masked": 0.0, "next": 0.0, "masked_right": 0.0, "next_right": 0.0}
        for b in parts:
            with torch.autocast(c.device.split(":")[0], torch.bfloat16, enabled=c.device != "cpu"):
                s = sums_of(self.model, b, mask_id, certainty > 0, inverse)
            masked, nxt = s.masked / w_masked, s.next / w_next
            loss = masked if c.objective == "paper" else 0.5 * (masked + nxt)
            (loss + certainty * s.entropy / w_masked).backward()
            total["masked"] += masked.item()
            total["next"] += nxt.item()
            total["masked_right"] += s.masked_right / w_masked
            total["next_right"] += s.next_right / w_next
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), c.clip)
        self.optimiser.step()
        self.step += 1
        keep = min(c.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for e, p in zip(self.ema.parameters(), self.model.parameters(), strict=True):
                e.lerp_(p, 1 - keep)
        tokens = sum(b.tokens for b in parts)
        return {"step": self.step, **total, "norm": float(norm), "tokens": tokens}

    def run(self, seconds: float | None = None) -> None:
        """Trains to config.steps, or until `seconds` have passed, and saves. Raises InputError without shards."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        torch.set_num_threads(self.config.threads)
        if not self.shards.refresh():
            raise InputError(f"no shards in {self.shards.folder}; make some with `derender train data`")
        if self.config.clusters:
            self.shards.balance(self.config.clusters)
        began, log = time.monotonic(), self.out / "log.csv"
        fresh = not log.exists()
        with (
            open(log, "a", newline="") as file,
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                transient=True,
            ) as bar,
        ):
            task = bar.add_task("training", total=self.config.steps, completed=self.step)
            writer = csv.writer(file)
            for chunks in self._batches():
                if self.step >= self.config.steps or (seconds and time.monotonic() - began > seconds):
                    break
                row = self.train_step(chunks)
                if fresh:
                    writer.writerow([*row, "seconds", "regions"])
                    fresh = False
                values = [v if isinstance(v, int) else f"{v:.5f}" for v in row.values()]
                writer.writerow([*values, f"{time.monotonic() - began:.1f}", len(self.shards.regions)])
                file.flush()
                bar.update(task, completed=self.step, description=f"loss {row['masked']:.3f}/{row['next']:.3f}")
                if self.step % self.config.save_every == 0:
                    save_checkpoint(self.out / "checkpoint.pt", self.model, self.ema, self.optimiser, self.step)
                if self.step % self.config.reload == 0 and not self.config.clusters:
                    self.shards.refresh()
        save_checkpoint(self.out / "checkpoint.pt", self.model, self.ema, self.optimiser, self.step)

"""Trains the formula reader's encoder: symbols, successors and gaps, all from the same pieces at once.

Cross-entropy of each piece's symbol (0: nothing of its own), of the successor of the start and of every head, and of
the gap before each head and before the end. AdamW, cosine, EMA, resumable; CSV log. Does not train the decoder.

Legend as in model/formula_encoder.py; K transitions of a path.
"""

from __future__ import annotations

import copy
import csv
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from derender.formula.components import GLYPH
from derender.formula.vocabulary import FORMULA_TOKENS
from derender.model.formula_encoder import FormulaEncoder, FormulaEncoderConfig
from derender.model.formula_restore import restore_encoder
from derender.train.formula_pieces import PieceSample, frequent_gaps

GAPS = 400
NO_GAP = -100  # a gap too rare to have a class


@dataclass
class PieceBatch:
    """Padded tensors of some samples; entry 0 is the start. symbol_BN: -100 for padding and the start; next_BN: -100
    where an entry is read nowhere. row, source, target, gap (K,): the transitions."""

    glyph: Tensor
    box: Tensor
    ink: Tensor
    real: Tensor
    symbol: Tensor
    next: Tensor
    row: Tensor
    source: Tensor
    target: Tensor
    gap: Tensor

    def to(self, device: str) -> PieceBatch:
        """The same batch on `device`."""
        return PieceBatch(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


def collate_pieces(samples: Sequence[PieceSample], gap_index: dict[tuple[int, ...], int]) -> PieceBatch:
    """See PieceBatch."""
    b, n = len(samples), 1 + max(len(s.rank_N) for s in samples)
    glyph = np.zeros((b, n, 2, GLYPH, GLYPH), np.uint8)
    box, ink = np.zeros((b, n, 4), np.float32), np.zeros((b, n), np.float32)
    real = np.zeros((b, n), bool)
    symbol, following = (np.full((b, n), NO_GAP, np.int64) for _ in range(2))
    edges: list[tuple[int, int, int, int]] = []
    for i, s in enumerate(samples):
        m = len(s.rank_N)
        glyph[i, 1 : m + 1], box[i, 1 : m + 1], ink[i, 1 : m + 1] = s.pieces.glyph_N2SS, s.pieces.box_N4, s.pieces.ink_N
        real[i, : m + 1] = True
        ids = np.asarray([*s.ids, 0])
        symbol[i, 1 : m + 1] = ids[s.rank_N]  # rank -1 takes the last, 0
        stops = [0, *(int(k) + 1 for k in s.path()), 0]
        for source, target, gap in zip(stops, stops[1:], s.gaps(), strict=False):
            following[i, source] = target
            edges.append((i, source, target, gap_index.get(gap, NO_GAP)))
    row, source_K, target_K, gap_K = (torch.tensor(column) for column in zip(*edges, strict=True))
    glyph_t, box_t, ink_t, real_t, symbol_t, next_t = map(torch.from_numpy, (glyph, box, ink, real, symbol, following))
    return PieceBatch(glyph_t, box_t, ink_t, real_t, symbol_t, next_t, row, source_K, target_K, gap_K)


def losses(model: FormulaEncoder, b: PieceBatch) -> dict[str, Tensor]:
    """Mean cross-entropies and shares of right answers."""
    h, pair = model(b.glyph, b.box, b.ink, b.real)
    symbol, following = model.symbol(h), model.next_logits(h, pair, b.real)
    gap = model.gap_logits(h[b.row, b.source], h[b.row, b.target], pair[b.row, b.source, b.target])
    out: dict[str, Tensor] = {}
    for name, logits, truth in (
        ("symbol", symbol.flatten(0, 1), b.symbol.flatten()),
        ("next", following.flatten(0, 1), b.next.flatten()),
        ("gap", gap, b.gap),
    ):
        out[name] = F.cross_entropy(logits, truth, ignore_index=NO_GAP)
        known = truth != NO_GAP
        out[name + "_right"] = (logits.argmax(-1) == truth)[known].float().mean()
    return out


class ReaderTrainer:
    """out: folder of checkpoint.pt and log.csv; a run that finds them goes on. pieces: of a batch. device:
    cpu or cuda. init: an export's folder to start from, with its gaps."""

    def __init__(
        self,
        samples: Sequence[PieceSample],
        out: Path,
        steps: int,
        pieces: int = 900,
        lr: float = 1.5e-3,
        device: str = "cpu",
        init: Path | None = None,
    ) -> None:
        self.samples, self.out, self.steps, self.pieces, self.lr = samples, out, steps, pieces, lr
        self.device = device
        out.mkdir(parents=True, exist_ok=True)
        data = None
        if (out / "checkpoint.pt").exists():
            data = torch.load(out / "checkpoint.pt", map_location=device, weights_only=True)
        start, known = restore_encoder(init) if init and not data else (None, None)
        gaps = json.loads(data["gaps"]) if data else known or frequent_gaps(samples, GAPS)
        self.gap_index = {tuple(g): i for i, g in enumerate(gaps)}
        torch.manual_seed(0)
        config = FormulaEncoderConfig(tokens=len(FORMULA_TOKENS), gaps=len(self.gap_index))
        self.model = (start or FormulaEncoder(config)).train().to(device)
        self.ema = copy.deepcopy(self.model)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr, betas=(0.9, 0.98), weight_decay=0.01)
        self.step = 0
        if data:
            self.model.load_state_dict(data["model"])
            self.ema.load_state_dict(data["ema"])
            self.optimiser.load_state_dict(data["optimiser"])
            self.step = data["step"]

    def batches(self) -> Iterator[list[PieceSample]]:
        """Batches of about `pieces` pieces, of pictures of similar size."""
        pool = 0
        passed = 0
        while True:
            rng = np.random.default_rng((pool, 3))
            picked = rng.choice(len(self.samples), min(max(600, self.pieces), len(self.samples)), replace=False)
            drawn = sorted((self.samples[i] for i in picked), key=lambda s: len(s.rank_N))
            groups: list[list[PieceSample]] = [[]]
            for s in drawn:
                if groups[-1] and (len(groups[-1]) + 1) * (len(s.rank_N) + 1) > self.pieces:
                    groups.append([])
                groups[-1].append(s)
            for k in rng.permutation(len(groups)):
                if passed >= self.step:
                    yield groups[k]
                passed += 1
            pool += 1

    def run(self, seconds: float | None = None) -> None:
        """Trains until `steps` or `seconds` are over, then saves."""
        began = time.monotonic()
        fresh = not (self.out / "log.csv").exists()
        with open(self.out / "log.csv", "a", newline="") as file:
            writer = csv.writer(file)
            for group in self.batches():
                if self.step >= self.steps or (seconds and time.monotonic() - began > seconds):
                    break
                warm = min(1.0, (self.step + 1) / 100)
                done = self.step / self.steps
                for g in self.optimiser.param_groups:
                    g["lr"] = self.lr * warm * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * done)))
                values = losses(self.model, collate_pieces(group, self.gap_index).to(self.device))
                self.optimiser.zero_grad(set_to_none=True)
                (values["symbol"] + values["next"] + values["gap"]).backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimiser.step()
                self.step += 1
                keep = min(0.998, (1 + self.step) / (10 + self.step))
                with torch.no_grad():
                    for e, p in zip(self.ema.parameters(), self.model.parameters(), strict=True):
                        e.lerp_(p, 1 - keep)
                if fresh:
                    writer.writerow(["step", *values, "seconds"])
                    fresh = False
                writer.writerow(
                    [self.step, *(f"{v.item():.4f}" for v in values.values()), f"{time.monotonic() - began:.1f}"]
                )
                if self.step % 20 == 0:
                    file.flush()
                if self.step % 500 == 0:
                    self.save()
        self.save()

    def save(self) -> None:
        part = self.out / "checkpoint.pt.part"
        torch.save(
            {
                "model": self.model.state_dict(),
                "ema": self.ema.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "step": self.step,
                "config": self.model.c.to_json(),
                "gaps": json.dumps([list(g) for g in self.gap_index]),
            },
            part,
        )
        part.replace(self.out / "checkpoint.pt")

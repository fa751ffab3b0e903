"""Trains the table encoder on generated tables: files of labelled tokens in, checkpoints out. No rendering.

The truth of a line is the rectangle of its cells: first and last row, first and last column. From two rectangles follow
the relations that the encoder is to name. A line on no cell (noise) only has to be known as such. AdamW, cosine, EMA,
resumable; CSV log. Does not train the decoder (table_decoder.py).

Legend as in model/table_encoder.py; L lines.
"""

from __future__ import annotations

import copy
import csv
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from derender.assemble.otsl import otsl_to_cells
from derender.model.table_encoder import TableEncoder, TableEncoderConfig
from derender.table.grid import grid_from_lines
from derender.table.tokens import GRID_SIGNS, MAX_TOKENS, PAIR, PLACE, TableTokens, pair_signs, table_tokens
from derender.table.types import TableGrid
from derender.train.table_data import TableSample, make_table, pointers
from derender.train.table_noise import DetectorNoise

I64 = npt.NDArray[np.int64]
Source = Callable[[int, int], TableSample]
TRAINED_TOKENS = 130  # larger tables cost with the square; what is learned carries over
GRID_RIGHT = 0.7  # share of what is drawn: see TableTrainer
LEAN = 0.12  # degrees that are left when the reader has levelled a crop
HELD_OUT = 9000  # seeds from here on are measured on and never trained on


@dataclass(frozen=True)
class LabelledTable:
    """rect_L4: first and last row, first and last column of each line's cells, -1 for a line of no cell. several_L,
    header_L: whether a line holds several cells; whether it stands in the heading."""

    tokens: TableTokens
    rect_L4: I64
    several_L: npt.NDArray[np.bool_]
    header_L: npt.NDArray[np.bool_]


def label(sample: TableSample) -> LabelledTable | None:
    """None for a table without lines, or with more tokens than the reader takes."""
    n = len(sample.boxes)
    if not n or n + len(sample.rules) > MAX_TOKENS:
        return None
    grid = sample_grid(sample)
    rect = np.full((n, 4), -1, np.int64)
    count, header = np.zeros(n, np.int64), np.zeros(n, bool)
    for cell in otsl_to_cells(sample.tokens, sample.header_rows):
        mine = (cell.row, cell.row + cell.rowspan - 1, cell.col, cell.col + cell.colspan - 1)
        for k in pointers(cell.text):
            old = rect[k] if count[k] else np.asarray([99, -1, 99, -1])
            rect[k] = [min(old[0], mine[0]), max(old[1], mine[1]), min(old[2], mine[2]), max(old[3], mine[3])]
            count[k] += 1
            header[k] |= cell.header
    line_L = [piece.line for piece in grid.pieces]  # a box without words is one piece
    tokens = table_tokens(grid, sample.rules, sample.size)
    return LabelledTable(tokens, rect[line_L], count[line_L] > 1, header[line_L])


def sample_grid(sample: TableSample) -> TableGrid:
    """The rule-based grid of a sample: what the network starts from."""
    return sample.grid or grid_from_lines(sample.boxes, sample.rules, sample.size)


def grid_is_right(t: LabelledTable) -> bool:
    """Whether the rule-based grid, as the tokens tell it, puts every line of the table where it belongs."""
    real = np.flatnonzero(t.rect_L4[:, 0] >= 0)
    told_LL4 = np.sign(t.tokens.pair_NNP[..., GRID_SIGNS].astype(np.float32).round(1))[np.ix_(real, real)]
    return bool((told_LL4 == np.concatenate(pair_signs(t.rect_L4[real]), -1)).all())


def training_noise(rng: np.random.Generator) -> DetectorNoise:
    """The usual noise for most tables; for the others more of what pictures have: lines cut at gaps, boxes as tight as
    their ink, lost rules."""
    if rng.random() < 0.6:
        return DetectorNoise(lean=LEAN)
    k = rng.uniform(0, 3, 5)
    return DetectorNoise(
        merged=0.03 * k[0], split=0.06 * k[1], missing=0.01, extra=0.01, shake=0.06 * k[2], rules=0.05 * k[3], lean=LEAN
    )


def training_sample(seed: int, index: int) -> TableSample:
    return make_table(seed, index, training_noise(np.random.default_rng((seed, index, 5))))


def write_tables(seed: int, count: int, out: Path, most: int = TRAINED_TOKENS, source: Source = training_sample) -> int:
    """One file of the first `count` tables of a seed that have at most `most` tokens; returns how many it holds. Pair
    values are kept in eight bits: there are thousands a table. source: makes table `index` of a seed."""
    tables = []
    for index in range(count):
        sample = source(seed, index)
        if len(sample.boxes) + len(sample.rules) <= most and (found := label(sample)):
            tables.append(found)
    part = out.with_suffix(".tmp.npz")
    np.savez(
        part,
        tokens=np.array([len(t.tokens.place_NF) for t in tables]),
        lines=np.array([t.tokens.lines for t in tables]),
        box=np.concatenate([t.tokens.box_N4 for t in tables]),
        place=np.concatenate([t.tokens.place_NF for t in tables]).astype(np.float16),
        pair=np.concatenate([_bytes(t.tokens.pair_NNP) for t in tables]),
        rect=np.concatenate([t.rect_L4 for t in tables]).astype(np.int8),
        flags=np.concatenate([np.stack([t.several_L, t.header_L], 1) for t in tables]),
    )
    part.replace(out)
    return len(tables)


def _bytes(pair_NNP: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    return np.rint(np.clip(pair_NNP, -1, 1) * 127).astype(np.int8).reshape(-1, PAIR)


def load_tables(path: Path) -> Iterator[LabelledTable]:
    """The tables of one file; pair values still in eight bits."""
    with np.load(path) as z:
        a = {k: z[k] for k in z.files}
    token = line = pair = 0
    for n, m in zip(a["tokens"].tolist(), a["lines"].tolist(), strict=True):
        tokens = TableTokens(
            m,
            a["box"][token : token + n],
            a["place"][token : token + n],
            a["pair"][pair : pair + n * n].reshape(n, n, PAIR),
        )
        flags = a["flags"][line : line + m]
        yield LabelledTable(tokens, a["rect"][line : line + m].astype(np.int64), flags[:, 0], flags[:, 1])
        token, line, pair = token + n, line + m, pair + n * n


@dataclass
class TableBatch:
    """Padded tensors. line_BN: a line of some cell; kind_BN3: truth of the flags; order, strict (B, N, N, 2): class for
    rows and columns, 0 i first, 1 together, 2 j first."""

    place: Tensor
    pair: Tensor
    real: Tensor
    line: Tensor
    is_line: Tensor
    flags: Tensor
    order: Tensor
    strict: Tensor


def collate_tables(tables: Sequence[LabelledTable]) -> TableBatch:
    """See TableBatch."""
    b, n = len(tables), max(len(t.tokens.place_NF) for t in tables)
    place, pair = np.zeros((b, n, PLACE), np.float32), np.zeros((b, n, n, PAIR), np.float32)
    real, line, is_line = (np.zeros((b, n), bool) for _ in range(3))
    flags = np.zeros((b, n, 3), np.float32)
    rect = np.zeros((b, n, 4), np.int64)
    for i, t in enumerate(tables):
        m, k = len(t.tokens.place_NF), t.tokens.lines
        small = t.tokens.pair_NNP.dtype == np.int8
        place[i, :m] = t.tokens.place_NF
        pair[i, :m, :m] = t.tokens.pair_NNP * np.float32(1 / 127 if small else 1)
        real[i, :m], is_line[i, :k] = True, True
        line[i, :k] = t.rect_L4[:, 0] >= 0
        rect[i, :k] = t.rect_L4
        flags[i, :k] = np.stack([t.several_L, t.rect_L4[:, 0] < 0, t.header_L], 1)
    order, strict = (1 - signs for signs in pair_signs(rect))
    arrays = (place, pair, real, line, is_line, flags, order.astype(np.int64), strict.astype(np.int64))
    return TableBatch(*(torch.from_numpy(a) for a in arrays))


def three_way(relation_KK2: Tensor) -> Tensor:
    """(..., N, N, 2) one-way and both-way logits -> (..., N, N, 3): i first, together, j first."""
    one, both = relation_KK2.unbind(-1)
    return torch.stack([one, both, one.transpose(-1, -2)], -1)


def losses(model: TableEncoder, b: TableBatch) -> dict[str, Tensor]:
    """Losses (pairs: summed over a line's partners, so that far and easy ones do not hide the near ones) and shares of
    right answers."""
    h = model(b.place, b.pair, b.real)
    relation = model.relations(h, b.pair)
    known = b.line[:, :, None] & b.line[:, None]
    share = (1.0 / b.line.sum(1).clamp(min=1))[:, None, None].expand(known.shape)[known]
    out: dict[str, Tensor] = {}
    for axis, name in enumerate(("row", "col")):
        for k, (part, truth) in enumerate((("order", b.order), ("strict", b.strict))):
            at = 4 * axis + 2 * k
            logits = three_way(relation[..., at : at + 2])[known]
            wanted = truth[..., axis][known]
            each = F.cross_entropy(logits, wanted, reduction="none")
            out[f"{name}_{part}"] = (each * share).sum() / len(b.line)
            out[f"{name}_{part}_right"] = ((logits.argmax(-1) == wanted) * share**2).sum() / len(b.line)
    flag = F.binary_cross_entropy_with_logits(model.flags(h)[b.is_line], b.flags[b.is_line])
    out["flags"] = flag
    return out


class TableTrainer:
    """out: folder of checkpoint.pt and log.csv; a run that finds them goes on. pairs: of a batch, padding included.

    Tables that the rule-based grid reads without a mistake make up GRID_RIGHT of what is drawn, as among real tables:
    drawn evenly, generated tables teach that the grid is not to be trusted.
    """

    def __init__(
        self,
        tables: Sequence[LabelledTable],
        out: Path,
        steps: int,
        pairs: int = 30_000,
        lr: float = 2e-3,
        seed: int = 1,
        config: TableEncoderConfig | None = None,
    ) -> None:
        self.tables, self.out, self.steps, self.pairs = tables, out, steps, pairs
        self.lr, self.seed = lr, seed
        right_T = np.asarray([grid_is_right(t) for t in tables])
        share_T = np.where(right_T, GRID_RIGHT / max(1, right_T.sum()), (1 - GRID_RIGHT) / max(1, (~right_T).sum()))
        self.chance_T = share_T / share_T.sum()
        out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        self.model = TableEncoder(config or TableEncoderConfig())
        self.ema = copy.deepcopy(self.model)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr, betas=(0.9, 0.98), weight_decay=0.01)
        self.step = 0
        if (out / "checkpoint.pt").exists():
            data = torch.load(out / "checkpoint.pt", map_location="cpu", weights_only=True)
            self.model.load_state_dict(data["model"])
            self.ema.load_state_dict(data["ema"])
            self.optimiser.load_state_dict(data["optimiser"])
            self.step = data["step"]

    def batches(self) -> Iterator[list[LabelledTable]]:
        """Tables of similar size, about `pairs` pairs. A resumed run draws from where it stopped on."""
        pool = self.step
        while True:
            rng = np.random.default_rng((self.seed, pool))
            picked = rng.choice(len(self.tables), min(64, len(self.tables)), replace=False, p=self.chance_T)
            found = sorted((self.tables[i] for i in picked), key=lambda t: len(t.tokens.place_NF))
            groups: list[list[LabelledTable]] = [[]]
            for t in found:
                if groups[-1] and (len(groups[-1]) + 1) * len(t.tokens.place_NF) ** 2 > self.pairs:
                    groups.append([])
                groups[-1].append(t)
            for k in rng.permutation(len(groups)):
                yield groups[k]
            pool += len(groups)

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
                values = losses(self.model, collate_tables(group))
                loss = sum(v for k, v in values.items() if not k.endswith("right")) + 9 * values["flags"]
                self.optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[union-attr]
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimiser.step()
                self.step += 1
                keep = min(0.998, (1 + self.step) / (10 + self.step))
                with torch.no_grad():
                    for e, p in zip(self.ema.parameters(), self.model.parameters(), strict=True):
                        e.lerp_(p, 1 - keep)
                if fresh:
                    writer.writerow(["step", *values, "tables", "seconds"])
                    fresh = False
                numbers = [f"{v.item():.4f}" for v in values.values()]
                writer.writerow([self.step, *numbers, len(group), f"{time.monotonic() - began:.1f}"])
                if self.step % 20 == 0:
                    file.flush()
                if self.step % 200 == 0:
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
            },
            part,
        )
        part.replace(self.out / "checkpoint.pt")

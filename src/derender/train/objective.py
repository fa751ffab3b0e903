"""The hybrid objective: masked prediction on two noisy streams, next-token prediction on the clean one.

Rows are [clean | noisy 1 | noisy 2]; keys are [prefix | clean | noisy 1 | noisy 2]. The prefix is seen by all within
reach; a clean row sees clean rows up to itself; a noisy row sees the clean rows before its block and its own block, in
both directions, of its own stream (bd3lms arXiv 2503.09573; complementary streams and causal clean stream after
arXiv 2605.16861). Loss: mean cross-entropy over all masked positions of the batch, plus next-token loss, half each;
objective="paper" keeps the masked part only.

Legend as in dataset.py; R rows, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from derender.model.decoder import Decoder, attention_bias
from derender.model.rows import pad_rows
from derender.train.dataset import Chunk

NEVER = float("-inf")


@dataclass
class Batch:
    """Padded tensors of a batch; see Chunk for the fields. For clean rows and padding block_BR is -1 and time_BR 1;
    stream_BR is 0 clean, 1 and 2 noisy, -1 padding."""

    feature: Tensor
    geometry: Tensor
    line: Tensor
    position: Tensor
    ids: Tensor
    left: Tensor
    draft: Tensor
    prob: Tensor
    center: Tensor
    place: Tensor
    stream: Tensor
    block: Tensor
    first: Tensor
    index: Tensor
    truth: Tensor
    time: Tensor
    weight: Tensor
    extra: Tensor
    column: Tensor
    tokens: int

    def to(self, device: str) -> Batch:
        """The same batch with its tensors on `device`."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return Batch(**{k: v.to(device) if isinstance(v, Tensor) else v for k, v in moved.items()})


def extra_candidates(chunks: Sequence[Chunk], core_index: Tensor) -> np.ndarray:
    """Token ids outside the core vocabulary that any of the chunks needs or its tower considered."""
    extra = np.unique(np.concatenate([c.candidates for c in chunks]))
    return extra[core_index.numpy()[extra] < 0]


def collate(chunks: Sequence[Chunk], core_index: Tensor, mask_id: int, extra: np.ndarray | None = None) -> Batch:
    """Pads chunks into a batch. truth_BR is the class to predict in the batch's candidate list [core | extra], or -1.

    extra: the candidates of the whole batch, when `chunks` is a part of it: the softmax is over the same tokens then.
    """
    if extra is None:
        extra = extra_candidates(chunks, core_index)
    in_core = core_index.numpy()
    column = in_core.copy()
    column[extra] = int((in_core >= 0).sum()) + np.arange(len(extra))

    def cat(clean: str, noisy: str, fill: float) -> Tensor:
        parts = [
            pad_rows([getattr(c, clean) for c in chunks], fill)
            if clean
            else pad_rows([np.full(len(c.clean), fill) for c in chunks], fill)
        ]
        parts += [pad_rows([getattr(c, noisy)[s] for c in chunks], fill) for s in range(2)]
        return torch.from_numpy(np.concatenate(parts, 1))

    streams, index = [], []
    for s in range(3):
        rows = [c.clean if s == 0 else c.noisy[s - 1] for c in chunks]
        streams.append(pad_rows([np.full(len(r), s) for r in rows], -1))
        index.append(pad_rows([np.arange(len(r)) for r in rows], 0))
    truth = [pad_rows([c.next for c in chunks], -1)]
    truth += [pad_rows([np.where(c.masked[s], c.truth[s], -1) for c in chunks], -1) for s in range(2)]
    truth_BR = np.concatenate(truth, 1)
    truth_BR = np.where(truth_BR >= 0, column[truth_BR], -1)
    clean_center = [c.clean_place + 1 for c in chunks]
    center = [pad_rows(clean_center, -1000), *(pad_rows([c.center[s] for c in chunks], -1000) for s in range(2))]
    place = [
        pad_rows([c.clean_place for c in chunks], -1000),
        *(pad_rows([c.center[s] for c in chunks], -1000) for s in range(2)),
    ]
    return Batch(
        feature=torch.from_numpy(pad_rows([c.feature for c in chunks], 0).astype(np.float32)),
        geometry=torch.from_numpy(pad_rows([c.geometry for c in chunks], 0)),
        line=torch.from_numpy(pad_rows([c.line for c in chunks], 0)),
        position=torch.from_numpy(pad_rows([c.position for c in chunks], 1e6)),
        ids=cat("clean", "noisy", mask_id).long(),
        left=cat("clean_left", "noisy_left", mask_id).long(),
        draft=cat("clean_draft", "noisy_draft", 0).long(),
        prob=cat("clean_prob", "noisy_prob", 0).float(),
        center=torch.from_numpy(np.concatenate(center, 1)).float(),
        place=torch.from_numpy(np.concatenate(place, 1)).float(),
        stream=torch.from_numpy(np.concatenate(streams, 1)),
        block=cat("", "block", -1).long(),
        first=cat("", "first", 0).long(),
        index=torch.from_numpy(np.concatenate(index, 1)),
        truth=torch.from_numpy(truth_BR),
        time=cat("", "time", 1).float(),
        weight=torch.tensor([c.weight for c in chunks]),
        extra=torch.from_numpy(extra),
        column=torch.from_numpy(column),
        tokens=sum(len(c.clean) - 1 for c in chunks),
    )


def visibility(b: Batch, reach_columns: float, reach_text: float) -> Tensor:
    """distance_BRS: |count - center| of visible prefix keys, 0 for visible rows, inf for keys a row must not see."""
    center = b.center[:, :, None]
    far = (b.position[:, None, :] - center).abs()
    see_prefix = far <= reach_columns
    q_stream, k_stream = b.stream[:, :, None], b.stream[:, None, :]
    key_clean = (k_stream == 0) & (center - b.place[:, None, :] <= reach_text)
    before = torch.where(q_stream == 0, b.index[:, :, None] + 1, b.first[:, :, None])
    see = key_clean & (b.index[:, None, :] < before)
    see |= (q_stream > 0) & (k_stream == q_stream) & (b.block[:, :, None] == b.block[:, None, :])
    # padding rows see themselves, lest their softmax be empty
    see |= torch.eye(see.shape[1], dtype=torch.bool, device=see.device) & (q_stream < 0)
    far_or_never = torch.where(see_prefix & (q_stream >= 0), far, -NEVER)
    return torch.cat([far_or_never, torch.zeros(see.shape, device=see.device).masked_fill_(~see, -NEVER)], 2)


@dataclass(frozen=True)
class Sums:
    """Weighted sums over a (micro-)batch, to be divided by the whole batch's weights: gradient accumulation then gives
    the same mean as one big batch. `masked`, `next`, `entropy` carry gradients."""

    masked: Tensor
    next: Tensor
    entropy: Tensor
    masked_right: float
    next_right: float


LEAST_TIME = 0.05  # 1/t is not allowed to grow beyond 20


def weights_of(b: Batch, inverse_time: bool = False) -> tuple[float, float]:
    """(total weight of masked positions, of next-token positions) of a batch. inverse_time: of all noisy positions,
    masked or not, as the 1/t-weighted bound asks for."""
    w = b.weight[:, None].expand_as(b.truth)
    noisy, known = b.stream > 0, b.truth >= 0
    return float((w * (noisy if inverse_time else noisy & known)).sum()), float((w * (known & ~noisy)).sum())


def sums_of(model: Decoder, b: Batch, mask_id: int, certainty: bool = False, inverse_time: bool = False) -> Sums:
    """Runs a batch. certainty: also the entropy of correct masked predictions (the certainty term sharpens them, so
    that more tokens pass the threshold at once). inverse_time: masked losses times 1/t (LLaDA, arXiv 2502.09992)."""
    bias = attention_bias(visibility(b, model.c.reach_columns, model.c.reach_text), model.c.slopes)
    prefix = model.embed_prefix(b.feature, b.geometry, b.line)
    prefix_kv = model.prefix_kv(prefix, b.position.clamp(max=1e5))
    x = model.embed_rows(b.ids, b.left, b.draft, b.prob, (b.stream > 0).long(), mask_id)
    x, _ = model.run(x, b.center, b.place, prefix_kv, bias)
    wanted = b.truth >= 0
    logits = model.logits(x[wanted], b.extra)
    truth = b.truth[wanted]
    noisy = (b.stream > 0)[wanted]
    logits = logits.float()
    each = F.cross_entropy(logits, truth, reduction="none")
    weight = b.weight[:, None].expand_as(b.truth)[wanted]
    w_noisy, w_clean = weight * noisy, weight * ~noisy
    if inverse_time:
        w_noisy = w_noisy / b.time[wanted].clamp(min=LEAST_TIME)
    right = logits.detach().argmax(-1) == truth
    entropy = torch.zeros((), device=logits.device)
    if certainty:
        log_p = logits.log_softmax(-1)
        entropy = (-(log_p.exp() * log_p).sum(-1) * w_noisy * right).sum()
    return Sums(
        (each * w_noisy).sum(),
        (each * w_clean).sum(),
        entropy,
        float((right * w_noisy).sum()),
        float((right * w_clean).sum()),
    )

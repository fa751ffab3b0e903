"""MinerU-Diffusion as an engine runtime (decode.protocol.Runtime), on cpu, cuda or mps.

Each sequence has a cache of its own length; a forward packs the rows of all of them. Finished blocks ride as commit
rows, which see one another in both directions as in training, so the commit costs no forward. When CUDA runs out of
memory, the batch is halved and stays so; a single sequence that does not fit fails with one sentence. Does not make
prompts (prompts.py) and does not decode (derender.decode).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from derender.decode.protocol import RowLogits, Rows, RuntimeSpec
from derender.errors import CapacityError, ModelError
from derender.mineru.config import BLOCK
from derender.mineru.decoder import GROW, KVCache, Segment, block_spans, step_spans
from derender.mineru.logits import Candidates, DeviceLogits, Head, Unread
from derender.mineru.model import MineruModel

BEGIN = -1
"""Stands for the end of the prompt, which prefill has cached: the engine's first commit row costs nothing."""
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class MineruPrefix:
    """A prompt: ids with the image id once for each visual token, and its picture.

    pixels_NF: (patches, numbers a patch) float32; grid: patches in time, height and width.
    """

    ids: Sequence[int]
    pixels_NF: npt.NDArray[np.float32]
    grid: tuple[int, int, int]


@dataclass(eq=False)
class MineruSeq:
    """One text in decoding. length counts the committed tokens, the begin included; prompt the prompt's."""

    candidates_K: npt.NDArray[np.int64]
    cache: KVCache
    prompt: int
    begun: bool = False
    expected: int = 0  # nothing cheap says how much text a picture holds

    @property
    def length(self) -> int:
        return self.cache.length - self.prompt + self.begun

    def ahead(self, pending: Sequence[int], count: int) -> list[int]:
        return []  # there is no cheap reading


class MineruRuntime:
    """Not thread-safe.

    end_ids: tokens that end a text. known: ids that the tokenizer has a token for; None: all. block: also that of the
    prompt's mask, as in the reference. max_tokens: the longest text that may be asked for.
    """

    def __init__(
        self,
        model: MineruModel,
        end_ids: Sequence[int],
        known: Sequence[int] | None = None,
        block: int = BLOCK,
        max_tokens: int = 4096,
        name: str = "MinerU-Diffusion",
    ) -> None:
        c = model.config
        self.model, self.block, self.max_tokens = model, block, max_tokens
        self.candidates = Candidates(c.text.vocabulary, known, c.mask_id, model.device)
        self.spec = RuntimeSpec(
            bos_id=BEGIN,
            eos_id=end_ids[0],
            mask_id=c.mask_id,
            block=block,
            max_window=block,
            commit_attention="block",
            valid_modes=("block",),
            name=name,
            also_end=tuple(end_ids[1:]),
        )
        self._most: int | None = None

    @property
    def most(self) -> int | None:
        """Most sequences of one forward since memory ran out; None while it has not."""
        return self._most

    @torch.inference_mode()
    def prefill(self, prefixes: Sequence[MineruPrefix]) -> list[MineruSeq]:
        for prefix in prefixes:
            room = self.model.config.text.max_positions - self.max_tokens - 2 * self.block
            if len(prefix.ids) > room:
                raise ModelError(f"the prompt has {len(prefix.ids)} tokens, and the model has room for {room}")
        return self._halving(self._prefill, prefixes, None)

    def _prefill(self, prefixes: Sequence[MineruPrefix]) -> list[MineruSeq]:
        device = self.model.device
        ids_R = torch.tensor([i for p in prefixes for i in p.ids], device=device)
        pixels_NF = torch.from_numpy(np.concatenate([p.pixels_NF for p in prefixes])).to(device)
        x_RD = self.model.embed_prompt(ids_R, pixels_NF, torch.tensor([p.grid for p in prefixes], device=device))
        made, segments = [], []
        for prefix in prefixes:
            rows = len(prefix.ids)
            cache = KVCache(self.model.config.text, rows + GROW, device, self.model.dtype)
            segments.append(Segment(cache, rows, rows, block_spans(rows, self.block)))
            made.append(MineruSeq(self.candidates.ids_K, cache, rows))
        self.model.language_model(x_RD, segments)
        return made

    @torch.inference_mode()
    def forward(self, rows: Sequence[Rows[MineruSeq]]) -> list[RowLogits]:
        if any(part.want_next for part in rows):
            raise ModelError(f"{self.spec.name} was not trained to predict the next token")
        return self._halving(self._restoring, rows, _unread)

    def _restoring(self, rows: Sequence[Rows[MineruSeq]]) -> list[RowLogits]:
        """`_forward`, or the caches as they were."""
        before = [part.seq.cache.length for part in rows]
        try:
            return self._forward(rows)
        except BaseException:
            for part, length in zip(rows, before, strict=True):
                part.seq.cache.length = length
            raise

    def _forward(self, rows: Sequence[Rows[MineruSeq]]) -> list[RowLogits]:
        ids: list[int] = []
        wanted: list[int] = []  # packed rows whose logits are needed
        places: list[npt.NDArray[np.intp]] = []
        segments = []
        for part in rows:
            commit = [token for token in part.commit if token != BEGIN]
            cached = part.seq.cache.length
            need = np.ones(len(part.window), np.bool_) if part.window_need is None else np.array(part.window_need)
            at = np.full(len(part.window), -1, np.intp)
            at[need] = len(wanted) + np.arange(int(need.sum()))
            places.append(at)
            wanted += [len(ids) + len(commit) + int(w) for w in np.flatnonzero(need)]
            spans = step_spans(len(commit), len(part.window), cached)
            if spans:
                segments.append(Segment(part.seq.cache, len(commit) + len(part.window), len(commit), spans))
            ids += [*commit, *part.window]
        hidden = self._hidden(ids, segments)
        head = Head(
            self.model.language_model.lm_head,
            hidden[torch.tensor(wanted, device=hidden.device).long()],
            self.candidates,
        )
        for part in rows:
            part.seq.begun = part.seq.begun or BEGIN in part.commit
        return [RowLogits(None, DeviceLogits(head, at) if len(at) else None) for at in places]

    def _hidden(self, ids: list[int], segments: list[Segment]) -> Tensor:
        x_RD = self.model.language_model.embed(torch.tensor(ids, device=self.model.device).long())
        return self.model.language_model(x_RD, segments) if segments else x_RD

    def truncate(self, seq: MineruSeq, length: int) -> None:
        seq.cache.length = seq.prompt + length - seq.begun

    def release(self, seq: MineruSeq) -> None:
        del seq.cache

    def _halving(
        self, run: Callable[[Sequence[A]], list[B]], items: Sequence[A], give_up: Callable[[A, CapacityError], B] | None
    ) -> list[B]:
        """`run` on all items, in as many parts as memory has shown to need. One that does not fit alone gives what
        `give_up` makes of it, or raises CapacityError."""
        size = min(len(items), self._most or len(items))
        done: list[B] = []
        while len(done) < len(items):
            part = items[len(done) : len(done) + size]
            try:
                done += run(part)
                continue
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                if self.model.device.type == "cuda":
                    torch.cuda.empty_cache()
            if size > 1:
                size = self._most = size // 2
                continue
            reason = CapacityError(
                f"a picture does not fit into the memory of {self.model.device.type} beside the weights and what else "
                "is being read: close other programs, take a smaller --dtype, or use --device cpu"
            )
            if give_up is None:
                raise reason
            done.append(give_up(part[0], reason))
        return done


def out_of_memory(error: RuntimeError) -> bool:
    """CUDA has a class for it; mps, cpu and CUDA's own libraries only say so."""
    said = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in said or "can't allocate memory" in said


def _unread(part: Rows[MineruSeq], error: CapacityError) -> RowLogits:
    """Ends this sequence when the engine reads its logits; the others of the batch go on."""
    return RowLogits(None, Unread((len(part.window), len(part.seq.candidates_K)), error))

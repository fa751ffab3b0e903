"""The compact decoder as an engine runtime on ONNX Runtime: the default, for CPUs, int8.

Embeds rows with numpy (a gather and a small product), keeps caches in `Slots`, and runs decoder.onnx over all rows of a
forward. Needs no torch. Does not read lines (tower.py) and does not decide anything (decode/).

Legend as in decoder.py; N rows whose logits are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.decode.protocol import RowLogits, Rows
from derender.errors import ModelError
from derender.model.config import DecoderConfig
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq, RowArrays, compact_spec, pad_rows, row_visibility
from derender.model.slots import Slots, SlotState
from derender.model.tokens import TokenIds
from derender.model.tower import WEIGHTS
from derender.onnx_session import open_session

F32 = npt.NDArray[np.float32]
FILES = ("decoder.onnx", "prefill.onnx", "tables.npz", "config.json")


class Embedder:
    """Row embeddings from tables.npz; the same sums as Decoder.embed_rows."""

    def __init__(self, t: dict[str, npt.NDArray[Any]], vocab: TokenIds) -> None:
        self.t, self.mask_id = t, vocab.mask_id
        self.class_vectors = t["class_rows"].astype(np.float32) * t["class_scale"][:, None]
        self.core_ids = t["core_ids"]
        self.core_index = np.full(len(self.class_vectors), -1, np.int64)
        self.core_index[self.core_ids] = np.arange(len(self.core_ids))
        # embeddings of the core vocabulary once and for all; the rest by a product
        core = self.class_vectors[self.core_ids]
        self.core_token = (core @ t["token_in"] + t["core_token"]).astype(np.float32)
        self.core_draft = (core @ t["draft_in"] + t["core_draft"]).astype(np.float32)
        self.core_left = (core @ t["left_in"] + t["core_left"]).astype(np.float32)
        # most rows of a window are masks: they have a row of the tables too (of core_left never: unknown adds nothing)
        blank = self.class_vectors[self.mask_id] @ t["draft_in"]
        self.core_index[self.mask_id] = len(self.core_ids)
        self.core_token = np.concatenate([self.core_token, t["mask_token"].reshape(1, -1)]).astype(np.float32)
        self.core_draft = np.concatenate([self.core_draft, blank.reshape(1, -1)]).astype(np.float32)

    def _look_up(self, ids: npt.NDArray[np.int64], core: F32, basis: F32) -> F32:
        index = self.core_index[ids]
        out = core[index]
        if index.min() < 0:
            # one by one: a product of several rows may round otherwise than that of one
            for row in np.flatnonzero(index < 0):
                out[row] = self.class_vectors[ids[row]] @ basis
        return out

    def rows(self, arrays: Sequence[RowArrays]) -> F32:
        """(B, R, D) embeddings of all sequences' rows, padded with zeros. Looked up in one go: calls cost more than
        rows do."""
        ids, draft, prob, window = (
            np.concatenate([getattr(a, name) for a in arrays]) for name in ("ids", "draft", "prob", "window")
        )
        left_RK = np.concatenate([a.left_RK for a in arrays])
        token = self._look_up(ids, self.core_token, self.t["token_in"])
        token += self._look_up(draft, self.core_draft, self.t["draft_in"])
        for k, core in enumerate(self.core_left):
            known = np.flatnonzero(left_RK[:, k] != self.mask_id)
            if len(known):
                token[known] += self._look_up(left_RK[known, k], core, self.t["left_in"][k])
        token += prob[:, None] * self.t["prob_vector"]
        token += self.t["row_type"][window]
        lengths = [len(a.ids) for a in arrays]
        if min(lengths) == max(lengths):
            return token.reshape(len(arrays), lengths[0], -1)
        return pad_rows(np.split(token, np.cumsum(lengths)[:-1]), 0.0)


class OnnxRuntime:
    """Implements decode.protocol.Runtime. folder: exported files; threads: ONNX Runtime's threads within a forward.

    Raises ModelError when a file is missing or does not fit the vocabulary.
    """

    def __init__(self, vocab: TokenIds, folder: Path | None = None, threads: int = 2, use_draft: bool = True) -> None:
        folder = folder or WEIGHTS
        for name in FILES:
            if not (folder / name).is_file():
                raise ModelError(f"the decoder's weights are incomplete: {name} is missing")
        self.config = DecoderConfig.from_json((folder / "config.json").read_text())
        with np.load(folder / "tables.npz") as z:
            tables = {k: z[k] for k in z.files}
        if len(tables["class_rows"]) != len(vocab):
            raise ModelError(f"the decoder knows {len(tables['class_rows'])} tokens, the tower {len(vocab)}")
        self.embedder = Embedder(tables, vocab)
        self.decoder = open_session(folder / "decoder.onnx", threads)
        self.prefiller = open_session(folder / "prefill.onnx", threads)
        self.vocab, self.use_draft = vocab, use_draft
        self.spec = compact_spec(self.config, vocab, "compact/onnx")
        c = self.config
        self.slots = Slots(c.layers, c.kv_heads, c.head_dim, c.reach_columns, c.reach_text)

    def prefill(self, prefixes: Sequence[RegionPrefix]) -> list[CompactSeq]:
        """One run for all prefixes: entries do not see one another, so they are simply put end to end."""
        total = sum(len(p.position_P) for p in prefixes)
        kv: list[F32] = []
        if total:
            kv = self.prefiller.run(
                None,
                {
                    "feature": np.concatenate([p.feature_PF for p in prefixes], dtype=np.float32)[None],
                    "geometry": np.concatenate([p.geometry_PG for p in prefixes])[None],
                    "line": np.concatenate([p.line_P for p in prefixes]).astype(np.float32)[None, :, None],
                    "position": np.concatenate([p.position_P for p in prefixes])[None],
                },
            )
        out, at = [], 0
        for prefix in prefixes:
            n = len(prefix.position_P)
            layers = [
                (kv[2 * i][0, :, :, at : at + n].copy(), kv[2 * i + 1][0, :, at : at + n].copy())
                for i in range(self.config.layers if total else 0)
            ]
            at += n
            seq = CompactSeq(prefix, self.vocab, self.embedder.core_ids, self.use_draft)
            seq.cache = SlotState(layers, prefix.position_P)
            self.slots.add(seq.cache)
            out.append(seq)
        return out

    def forward(self, rows: Sequence[Rows[CompactSeq]]) -> list[RowLogits]:
        arrays, states = [], []
        for r in rows:
            state: SlotState = r.seq.cache
            r.seq.settle()
            self.slots.settle(state)
            a = r.seq.place_rows(r)
            self.slots.reach(state, float(a.center.min()), float(a.center.max()))
            arrays.append(a)
            states.append(state)
        feed = self._inputs(arrays, states)
        longest = feed["center"].shape[1]
        wanted = [_wanted(r, a) for r, a in zip(rows, arrays, strict=True)]
        feed["need"] = np.concatenate([b * longest + w for b, w in enumerate(wanted)]).astype(np.int64)
        outputs = self.decoder.run(None, feed)
        kv, (core_NV, class_NC) = outputs[:-2], outputs[-2:]
        out, at = [], 0
        for b, (r, a, w) in enumerate(zip(rows, arrays, wanted, strict=True)):
            c = a.commits
            self.slots.hold(
                states[b],
                [k[b, :, :c].transpose(0, 2, 1) for k in kv[0::2]],
                [v[b, :, :c] for v in kv[1::2]],
                a.place[:c],
            )
            out.append(self._logits(r, a, w, core_NV[at : at + len(w)], class_NC[at : at + len(w)]))
            at += len(w)
        return out

    def _inputs(self, arrays: list[RowArrays], states: list[SlotState]) -> dict[str, npt.NDArray[Any]]:
        """Inputs of decoder.onnx. Slots in order need no copy; another selection of sequences is gathered."""
        s = self.slots
        order = [state.slot for state in states]
        pick: Any = slice(0, len(order)) if order == list(range(len(order))) else np.asarray(order)
        see = row_visibility(arrays, self.config.reach_text)
        feed: dict[str, npt.NDArray[Any]] = {
            "x": self.embedder.rows(arrays),
            "center": pad_rows([a.center for a in arrays], -1e5),
            "place": pad_rows([a.place for a in arrays], -1e5),
            "own": np.where(see, np.float32(0), np.float32(-1e9)),
            "position": s.position[pick],
            "text_place": s.text_place[pick],
        }
        for i in range(self.config.layers):
            feed[f"kp{i}"], feed[f"vp{i}"] = s.kp[i][pick], s.vp[i][pick]
            feed[f"kt{i}"], feed[f"vt{i}"] = s.kt[i][pick], s.vt[i][pick]
        return feed

    def _logits(
        self, r: Rows[CompactSeq], a: RowArrays, wanted: npt.NDArray[np.int64], core: F32, classes: F32
    ) -> RowLogits:
        extra = r.seq.extra_X
        logits = core
        if len(extra):
            if r.seq.cache.extra_CX is None:
                r.seq.cache.extra_CX = self.embedder.class_vectors[extra].T.astype(np.float64)
            # float64: whatever order the product adds up in, it rounds to the same float32
            logits = np.concatenate([core, (classes @ r.seq.cache.extra_CX).astype(np.float32)], 1)
        nxt = window = None
        at = 0
        if r.want_next:
            nxt, at = logits[: a.commits], a.commits
        if len(r.window) == len(wanted) - at:
            window = logits[at:]
        elif len(r.window):
            window = np.zeros((len(r.window), logits.shape[1]), np.float32)
            window[wanted[at:] - a.commits] = logits[at:]
        return RowLogits(nxt, window)

    def truncate(self, seq: CompactSeq, length: int) -> None:
        self.slots.drop_pending(seq.cache, seq.drop(length))

    def release(self, seq: CompactSeq) -> None:
        self.slots.remove(seq.cache)
        seq.cache = None


def _wanted(r: Rows[CompactSeq], a: RowArrays) -> npt.NDArray[np.int64]:
    """Row numbers whose logits are needed."""
    commit = np.arange(a.commits) if r.want_next else np.zeros(0, np.int64)
    window = np.arange(len(r.window))
    if r.window_need is not None:
        window = window[np.asarray(r.window_need, bool)]
    return np.concatenate([commit, window + a.commits]).astype(np.int64)

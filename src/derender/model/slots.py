"""Cached keys and values of many sequences, laid out for ONNX Runtime: one slot a sequence, slots of a batch side by
side.

Attention reaches a bounded distance, so a slot holds a *window* of its sequence: prefix entries around the place being
read and the latest committed tokens. The window is refilled only when the place has moved on by HOP, so a forward
passes arrays that are already in place and copies next to nothing. Does not run the network.

Legend: L layers, B slots, G kv heads, E head size, P prefix entries in the window, T committed tokens in the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
HOP = 16
FAR_PREFIX, FAR_TEXT = 1e6, -1e6  # places that nothing reaches
STEP = 32  # capacities grow in these steps


@dataclass
class SlotState:
    """A sequence's own keys and values: the whole prefix, per layer k (G,E,P) and v (G,P,E), and the number of
    committed tokens in its window. `pending` waits for the next forward: per layer k (G,E,C), v (G,C,E), and places
    (C,).
    extra_CX: class vectors of the candidates outside the core vocabulary, once they are needed."""

    prefix: list[tuple[F32, F32]]
    position: F32
    slot: int = -1
    window_start: float = -1e9
    window_stop: float = -1e9
    text_count: int = 0
    pending: list[tuple[F32, F32]] = field(default_factory=list)
    pending_place: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    extra_CX: npt.NDArray[np.float64] | None = None


class Slots:
    """Arrays kp (B,G,E,P), vp (B,G,P,E), kt (B,G,E,T), vt (B,G,T,E) per layer, position (B,P) and text_place (B,T)."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, reach_columns: float, reach_text: float):
        self.layers, self.g, self.e = layers, kv_heads, head_dim
        self.reach_columns, self.reach_text = reach_columns, reach_text
        self.states: list[SlotState] = []
        self.kp: list[F32] = []
        self.vp: list[F32] = []
        self.kt: list[F32] = []
        self.vt: list[F32] = []
        self.position = np.zeros((0, 0), np.float32)
        self.text_place = np.zeros((0, 0), np.float32)
        self._allocate(0, STEP, STEP)

    @property
    def _keep(self) -> int:
        """Committed tokens kept when a slot's text window is full, those being added included."""
        return int(self.reach_text) + 8

    def _allocate(self, b: int, p: int, t: int) -> None:
        """Makes arrays of the given capacities and copies what is there."""
        old_b, old_p = self.position.shape
        old_t = self.text_place.shape[1]

        def grow(arrays: list[F32], shape: tuple[int, ...], old: tuple[slice, ...]) -> list[F32]:
            new = [np.zeros(shape, np.float32) for _ in range(self.layers)]
            for n, o in zip(new, arrays, strict=False):
                n[old] = o[old]
            return new

        bs, ps, ts, every = slice(0, min(old_b, b)), slice(0, min(old_p, p)), slice(0, min(old_t, t)), slice(None)
        self.kp = grow(self.kp, (b, self.g, self.e, p), (bs, every, every, ps))
        self.vp = grow(self.vp, (b, self.g, p, self.e), (bs, every, ps))
        self.kt = grow(self.kt, (b, self.g, self.e, t), (bs, every, every, ts))
        self.vt = grow(self.vt, (b, self.g, t, self.e), (bs, every, ts))
        position = np.full((b, p), FAR_PREFIX, np.float32)
        position[bs, ps] = self.position[bs, ps]
        place = np.full((b, t), FAR_TEXT, np.float32)
        place[bs, ts] = self.text_place[bs, ts]
        self.position, self.text_place = position, place

    def add(self, state: SlotState) -> None:
        state.slot = len(self.states)
        self.states.append(state)
        b, p, t = len(self.position), self.position.shape[1], self.text_place.shape[1]
        if len(self.states) > b:
            self._allocate(max(1, 2 * b), p, t)
        self.position[state.slot] = FAR_PREFIX
        self.text_place[state.slot] = FAR_TEXT

    def remove(self, state: SlotState) -> None:
        """Frees a slot; the last one moves into it, so that slots in use stay side by side."""
        last = self.states.pop()
        if last is not state:
            a, b = state.slot, last.slot
            for arrays in (self.kp, self.vp, self.kt, self.vt):
                for x in arrays:
                    x[a] = x[b]
            self.position[a], self.text_place[a] = self.position[b], self.text_place[b]
            last.slot = a
            self.states[a] = last
        state.slot = -1
        if not self.states:  # capacities start small again after a long region
            self.position = self.position[:0, :0]
            self.text_place = self.text_place[:0, :0]
            self._allocate(0, STEP, STEP)

    def hold(self, state: SlotState, k: list[F32], v: list[F32], place: F32) -> None:
        """Keeps a forward's commit rows, per layer k (G,E,C) and v (G,C,E), until the next forward settles them."""
        state.pending = list(zip(k, v, strict=True))
        state.pending_place = place

    def drop_pending(self, state: SlotState, n: int) -> None:
        """Forgets the last n pending rows."""
        keep = len(state.pending_place) - n
        state.pending = [(k[:, :, :keep], v[:, :keep]) for k, v in state.pending]
        state.pending_place = state.pending_place[:keep]

    def settle(self, state: SlotState) -> None:
        """Moves pending rows into the slot's text window, making room by dropping what is out of reach."""
        c, s = len(state.pending_place), state.slot
        if not c:
            return
        capacity = self.text_place.shape[1]
        keep, n = max(0, self._keep - c), state.text_count
        if n + c > capacity and n > keep:
            for kt, vt in zip(self.kt, self.vt, strict=True):
                kt[s, :, :, :keep] = kt[s, :, :, n - keep : n].copy()
                vt[s, :, :keep] = vt[s, :, n - keep : n].copy()
            self.text_place[s, :keep] = self.text_place[s, n - keep : n].copy()
            self.text_place[s, keep:] = FAR_TEXT
            state.text_count = keep
        if state.text_count + c > capacity:
            b, p = self.position.shape
            self._allocate(b, p, -(-(state.text_count + c) // STEP) * STEP)
        at = slice(state.text_count, state.text_count + c)
        for i, (k, v) in enumerate(state.pending):
            self.kt[i][s, :, :, at] = k
            self.vt[i][s, :, at] = v
        self.text_place[s, at] = state.pending_place
        state.text_count += c
        state.pending, state.pending_place = [], state.pending_place[:0]

    def reach(self, state: SlotState, low: float, high: float) -> None:
        """Makes sure that the slot's prefix window covers all entries within reach of centers low..high."""
        start, stop = low - self.reach_columns, high + self.reach_columns
        if state.window_start <= start and stop <= state.window_stop:
            return
        # no more than is needed, as every entry costs each forward; an anchor may step back a little
        state.window_start, state.window_stop = start - 4, stop + HOP
        a = np.searchsorted(state.position, state.window_start, side="left")
        b = np.searchsorted(state.position, state.window_stop, side="right")  # what lies just within reach is seen
        n, s = int(b - a), state.slot
        if n > self.position.shape[1]:
            self._allocate(len(self.position), -(-n // STEP) * STEP, self.text_place.shape[1])
        for i, (k, v) in enumerate(state.prefix):
            self.kp[i][s, :, :, :n] = k[:, :, a:b]
            self.vp[i][s, :, :n] = v[:, a:b]
        self.position[s, :n] = state.position[a:b]
        self.position[s, n:] = FAR_PREFIX

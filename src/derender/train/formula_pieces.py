"""Training samples of the formula reader: degraded pictures as pieces of ink, and what each piece is.

A piece belongs to the target token that owns most of its ink. One piece of a token is its *head* (the largest, the
leftmost of equals); the others (a dot, the second bar of an equals sign) and dirt are nothing of their own. Heads in
the order of their tokens make the reading path; the tokens between two heads (braces, scripts, fonts) are the gap that
the reader has to write there. Does not train.

Legend: N pieces, L target tokens, K heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.formula.components import Pieces, find_pieces
from derender.formula.vocabulary import FORMULA_TOKENS
from derender.train.degrade import Degradation, Gray, degrade
from derender.train.formula_colours import NOBODY
from derender.train.formula_render import FormulaPicture

_ACCENTS = frozenset(r"\hat \tilde \bar \vec \dot \ddot \check".split())
LINE = 0.2  # inches: a line of text at the 12 points that formulas are set in
_SHARE = 0.6  # of the largest piece's pixels that the head has at least


@dataclass(frozen=True)
class PieceSample:
    """pieces of one picture; rank_N: index of the target token whose head a piece is, -1 for none; ids: the target."""

    pieces: Pieces
    rank_N: npt.NDArray[np.int64]
    ids: tuple[int, ...]

    def path(self) -> npt.NDArray[np.int64]:
        """(K,) the heads, in the order of their tokens."""
        heads = np.flatnonzero(self.rank_N >= 0)
        return heads[np.argsort(self.rank_N[heads], kind="stable")]

    def gaps(self) -> list[tuple[int, ...]]:
        """K + 1 runs of target tokens: before each head of the path, and after the last."""
        ranks = [int(r) for r in self.rank_N[self.path()]]
        starts, ends = [0, *(r + 1 for r in ranks)], [*ranks, len(self.ids)]
        return [tuple(self.ids[a:b]) for a, b in zip(starts, ends, strict=True)]


def draw_sample(picture: FormulaPicture, rng: np.random.Generator, clean_share: float = 0.5) -> PieceSample:
    """Degrades a picture and finds its pieces and what they are."""
    grey_HW = degraded(picture, rng, clean_share)
    pieces, number_HW = find_pieces(grey_HW)
    return PieceSample(pieces, ranks(number_HW, picture.owner_HW, picture.ids, pieces.box_N4), picture.ids)


def degraded(picture: FormulaPicture, rng: np.random.Generator, clean_share: float, harder: float = 0.3) -> Gray:
    """The picture degraded as a line of text with letters of its size is. No geometry: the owners must stay in place.

    harder: share of pictures that are blurred as if their height were a line's, up to some five times as much.
    """
    d = Degradation.draw(rng, clean_share)
    d = replace(d, rotate=0.0, shear=0.0, invert=False, scale=max(d.scale, 0.7), salt=d.salt / 4, noise=d.noise / 2)
    line = max(float(picture.grey_HW.shape[0]), LINE * picture.dpi) if rng.random() < harder else LINE * picture.dpi
    return degrade(picture.grey_HW, d, rng, line)


def ranks(
    number_HW: npt.NDArray[np.int32],
    owner_HW: npt.NDArray[np.uint8],
    ids: Sequence[int],
    box_N4: npt.NDArray[np.float32],
) -> npt.NDArray[np.int64]:
    """(N,) which token's head each piece is, -1 for none. The two maps may differ in scale."""
    import cv2

    n = len(box_N4)
    size = (number_HW.shape[1], number_HW.shape[0])
    owner = cv2.resize(owner_HW, size, interpolation=cv2.INTER_NEAREST)
    inked = (number_HW >= 0) & (owner != NOBODY)
    votes_NO = np.zeros((n, NOBODY + 1), np.int64)
    np.add.at(votes_NO, (number_HW[inked], owner[inked]), 1)
    owner_N = np.where(votes_NO.max(1, initial=0) > 0, votes_NO.argmax(1), -1)
    out = np.full(n, -1, np.int64)
    for rank in np.unique(owner_N[owner_N >= 0]):
        members = np.flatnonzero(owner_N == rank)
        if FORMULA_TOKENS[ids[rank]] in _ACCENTS and _lone(ids, int(rank)) and len(members) > 1:
            # the accented symbol has the accent's colour: it is the piece that reaches lowest
            body = members[np.argmax(box_N4[members, 3])]
            out[body] = rank + 2
            members = members[members != body]
            members = members[box_N4[members, 3] <= box_N4[body, 3] - 0.2]
        if len(members):
            pixels = votes_NO[members, rank]
            large = members[pixels >= _SHARE * pixels.max()]
            out[large[np.argmin(box_N4[large, 0] + box_N4[large, 1])]] = rank
    return out


def _lone(ids: Sequence[int], rank: int) -> bool:
    """Whether the accent at `rank` stands over one symbol: \\hat { x }."""
    names = [FORMULA_TOKENS[i] for i in ids[rank + 1 : rank + 4]]
    return len(names) == 3 and names[0] == "{" and names[2] == "}"


def frequent_gaps(samples: Iterable[PieceSample], most: int) -> list[tuple[int, ...]]:
    """The most frequent gaps, most frequent first."""
    count: Counter[tuple[int, ...]] = Counter()
    for sample in samples:
        count.update(sample.gaps())
    return [gap for gap, _ in count.most_common(most)]


def save_samples(samples: Sequence[PieceSample], path: Path) -> None:
    """Writes one file; nothing half-written stays behind."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        glyph=np.concatenate([s.pieces.glyph_N2SS for s in samples]),
        box=np.concatenate([s.pieces.box_N4 for s in samples]),
        ink=np.concatenate([s.pieces.ink_N for s in samples]),
        rank=np.concatenate([s.rank_N for s in samples]).astype(np.int16),
        pieces=np.array([len(s.rank_N) for s in samples], np.int32),
        ids=np.concatenate([np.array(s.ids, np.int16) for s in samples]),
        lengths=np.array([len(s.ids) for s in samples], np.int32),
    )
    part.replace(path)


def load_samples(path: Path) -> list[PieceSample]:
    """The samples of one file, in order. Scale and offset of the pictures are not kept."""
    with np.load(path) as file:
        cuts, ends = np.cumsum(file["pieces"])[:-1], np.cumsum(file["lengths"])[:-1]
        parts = [np.split(file[k], cuts) for k in ("glyph", "box", "ink", "rank")]
        ids = np.split(file["ids"], ends)
    return [
        PieceSample(Pieces(glyph, box, ink, 1.0, (0.0, 0.0)), rank.astype(np.int64), tuple(int(t) for t in target))
        for glyph, box, ink, rank, target in zip(*parts, ids, strict=True)
    ]

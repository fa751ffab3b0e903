"""Pictures of formulas for training: grammar and sources of others, TeX in several fonts and resolutions; shard files.

A shard (.npz) holds grey pictures end to end ("ink", uint8), whose ink each pixel is ("owner", formula_colours.py),
their sizes, target token numbers end to end, and the font of each. Pictures are clean: formula_pieces.py degrades them.
Does not train.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.formula.spelling import target_tokens
from derender.formula.tex import MATH_FONTS, typeset
from derender.formula.vocabulary import decode_ids, encode_tokens
from derender.train.formula_colours import coloured, owners
from derender.train.formula_grammar import draw_formula
from derender.train.formula_sources import loosened

HELD_OUT_FONTS = ("pxfonts",)
TRAIN_FONTS = tuple(f for f in MATH_FONTS if f not in HELD_OUT_FONTS)
DPI = (100, 220)
MAX_TOKENS, MAX_WIDTH = 160, 1600
_BATCH = 500


@dataclass(frozen=True)
class FormulaPicture:
    """grey_HW: uint8, 255 is paper, cut to the ink and 4 pt around; owner_HW: index of the target token whose ink a
    pixel is, formula_colours.NOBODY for paper; ids: target tokens without an end mark."""

    grey_HW: npt.NDArray[np.uint8]
    owner_HW: npt.NDArray[np.uint8]
    ids: tuple[int, ...]
    font: str
    dpi: int


def held_out(ids: Sequence[int]) -> bool:
    """Whether a formula belongs to the held-out tenth: by its tokens, so the same for every seed and font."""
    return sum(i * (k + 1) * 2654435761 for k, i in enumerate(ids)) // 64 % 10 == 0


def draw_pictures(
    rng: np.random.Generator,
    count: int,
    held: bool = False,
    sources: Sequence[str] = (),
    share: float = 0.5,
    mathtext: bool = False,
) -> Iterator[FormulaPicture]:
    """`count` pictures of distinct formulas; RuntimeError where none can be set. Needs pdflatex, or matplotlib.

    held: held-out formulas, in all fonts, of which training sees all but HELD_OUT_FONTS. sources: formulas of others
    (formula_sources.py), of which a `share` of the pictures is, as long as there are new ones; the grammar writes the
    rest. mathtext: by matplotlib's typesetter (formula_mathtext.py) in place of TeX.
    """
    fonts, size = (tuple(MATH_FONTS), _BATCH // 10) if held else (TRAIN_FONTS, _BATCH)
    seen: set[tuple[int, ...]] = set()
    waiting = [sources[i] for i in rng.permutation(len(sources))]
    made = failed = 0
    while made < count:
        batch: list[tuple[str, tuple[int, ...]]] = []
        while len(batch) < min(size, count - made + 8):
            source = loosened(rng, waiting.pop()) if waiting and rng.random() < share else draw_formula(rng)
            tokens = target_tokens(source)
            ids = encode_tokens(tokens)
            if not ids or len(ids) > MAX_TOKENS or tuple(ids) in seen or held_out(ids) != held:
                continue
            painted = source if mathtext else coloured(source, tokens)
            if painted is None:
                continue
            seen.add(tuple(ids))
            batch.append((painted, tuple(ids)))
        before = made
        font = fonts[int(rng.integers(len(fonts)))]
        for picture in _by_mathtext(rng, [ids for _, ids in batch]) if mathtext else _render(rng, batch, font):
            yield picture
            made += 1
            if made == count:
                return
        failed = 0 if made > before else failed + 1
        if failed == 3:
            raise RuntimeError("no formula could be set in three runs: is pdflatex with its fonts installed?")


def _render(rng: np.random.Generator, batch: list[tuple[str, tuple[int, ...]]], font: str) -> Iterator[FormulaPicture]:
    import pypdfium2

    result = typeset([source for source, _ in batch], font)
    if result is None:
        return
    document = pypdfium2.PdfDocument(result.pdf)
    try:
        for page, good, (_, ids) in zip(document, result.good, batch, strict=True):
            dpi = int(rng.integers(DPI[0], DPI[1] + 1))
            if not good or page.get_width() * dpi / 72 > MAX_WIDTH:
                continue
            rgb_HW3 = page.render(scale=dpi / 72, rev_byteorder=True).to_numpy()[..., :3]
            grey_HW = np.ascontiguousarray(rgb_HW3[..., 0])
            if grey_HW.min() < 128:
                yield FormulaPicture(grey_HW, owners(rgb_HW3), ids, font, dpi)
    finally:
        document.close()


def _by_mathtext(rng: np.random.Generator, batch: Sequence[tuple[int, ...]]) -> Iterator[FormulaPicture]:
    from derender.train.formula_mathtext import MATHTEXT_FONTS, draw_mathtext

    for ids in batch:
        font = MATHTEXT_FONTS[int(rng.integers(len(MATHTEXT_FONTS)))]
        dpi, display = int(rng.integers(DPI[0], DPI[1] + 1)), bool(rng.random() < 0.5)
        drawn = draw_mathtext(decode_ids(ids), font, dpi, display)
        if drawn is not None and drawn[0].shape[1] <= MAX_WIDTH and drawn[0].min() < 128:
            yield FormulaPicture(*drawn, ids, f"mathtext {font}", dpi)


def save_pictures(pictures: Sequence[FormulaPicture], path: Path) -> None:
    """Writes one shard; nothing half-written stays behind."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        ink=np.concatenate([p.grey_HW.ravel() for p in pictures]),
        owner=np.concatenate([p.owner_HW.ravel() for p in pictures]),
        sizes_N2=np.array([p.grey_HW.shape for p in pictures], np.int32),
        ids=np.concatenate([np.array(p.ids, np.int16) for p in pictures]),
        lengths_N=np.array([len(p.ids) for p in pictures], np.int32),
        dpi_N=np.array([p.dpi for p in pictures], np.int32),
        fonts_N=np.array([p.font for p in pictures]),
    )
    part.replace(path)


def load_pictures(path: Path) -> list[FormulaPicture]:
    """The pictures of one shard, in order."""
    with np.load(path) as file:
        sizes_N2, lengths_N = file["sizes_N2"], file["lengths_N"]
        ink, owner = (np.split(file[k], np.cumsum(sizes_N2.prod(1))[:-1]) for k in ("ink", "owner"))
        ids = np.split(file["ids"], np.cumsum(lengths_N)[:-1])
        fonts, dpi = file["fonts_N"], file["dpi_N"]
    return [
        FormulaPicture(
            ink[i].reshape(sizes_N2[i]),
            owner[i].reshape(sizes_N2[i]),
            tuple(int(t) for t in ids[i]),
            str(fonts[i]),
            int(dpi[i]),
        )
        for i in range(len(sizes_N2))
    ]

"""Shards of training data: regions after degradation and the tower, ready for the decoder's training.

A shard is one .npz with flat arrays and offsets (REGION has n+1 offsets into lines, LINE into columns and draft
characters, TARGET into target ids). Sample i of a run depends on (seed, i) only, so a run can be stopped and resumed,
and workers can share it. Does not train.

    derender train data --pdfs DIR --texts DIR --out DIR --shards 40
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from derender.model.prefix import line_geometry
from derender.model.tokens import Vocab
from derender.model.tower import LineReading, Tower
from derender.train.degrade import Degradation, degrade
from derender.train.faces import Face, blackletter_faces
from derender.train.pages import regions_of_page
from derender.train.render import Blackletter, Shares, render_region
from derender.train.sample import RegionSample
from derender.train.text import Corpus

TRANSLATE = str.maketrans({"−": "-", "‐": "-", "‑": "-", "ﬀ": "ff", "´": "'", "∗": "*", "⋆": "*", "∼": "~", "ı": "i"})


@dataclass(frozen=True)
class DataConfig:
    """page_share: pages against generated; shares: of generated regions; agree: a page line whose truth the tower
    contradicts by more than 1 - agree (normalised similarity, spaces dropped) has an unsound text layer; a generated
    line below `readable` cannot be read. short: share of one- and two-letter regions that are kept."""

    seed: int = 0
    page_share: float = 0.6
    shares: Shares = Shares()
    agree: float = 0.7
    readable: float = 0.4
    short: float = 0.15
    clean_share: float = 0.35
    regions_per_shard: int = 256
    regions_per_page: int = 8
    columns_per_shard: int = 400_000


class RegionStream:
    """Endless, deterministic stream of degraded regions."""

    def __init__(self, config: DataConfig, pdfs: Sequence[Path], corpus: Corpus, faces: list[Face], vocab: Vocab):
        self.config, self.pdfs, self.corpus, self.faces, self.vocab = config, list(pdfs), corpus, faces, vocab
        self.vocabulary = corpus.vocabulary
        self.old = Blackletter(tuple(blackletter_faces()), Corpus(corpus.german, (), corpus.words))

    def _page(self, rng: np.random.Generator) -> Iterator[RegionSample]:
        import pypdfium2 as pdfium

        path = self.pdfs[int(rng.integers(len(self.pdfs)))]
        try:
            document = pdfium.PdfDocument(path)
        except pdfium.PdfiumError:
            return
        try:
            page = document[int(rng.integers(len(document)))]
            found = list(regions_of_page(page, rng, self.vocabulary))
            page.close()
        except (pdfium.PdfiumError, IndexError, ValueError):
            return
        finally:
            document.close()
        order = rng.permutation(len(found))[: self.config.regions_per_page]
        for i in order:
            yield found[i]

    def draw(self, index: int) -> list[RegionSample]:
        """The degraded regions of draw `index`: up to regions_per_page from a page, or as many generated ones."""
        rng = np.random.default_rng((self.config.seed, index))
        if self.pdfs and rng.random() < self.config.page_share:
            found = list(self._page(rng))
        else:
            made = (
                render_region(rng, self.corpus, self.faces, self.config.shares, self.old)
                for _ in range(self.config.regions_per_page // 2)
            )
            found = [r for r in made if r is not None]
        out = []
        for region in found:
            target = region.target.translate(TRANSLATE)
            if not target.strip() or not self.vocab.can_encode(target):
                continue
            if len(target) < 3 and rng.random() > self.config.short:
                continue
            d = Degradation.draw(rng, self.config.clean_share)
            lines = tuple(type(line)(degrade(line.image, d, rng), line.box, line.text) for line in region.lines)
            out.append(RegionSample(lines, target, region.kind))
        return out


def sound(region: RegionSample, readings: Sequence[LineReading], vocab: Vocab, agree: float) -> bool:
    """Whether the tower broadly agrees with every line's truth. Of a page it says that the text layer is right, of a
    generated region that the picture is still readable and the font has the letters it claims (not capitals only)."""
    for line, reading in zip(region.lines, readings, strict=True):
        truth = line.text.translate(TRANSLATE).replace(" ", "")
        seen = reading.text(vocab).replace(" ", "")
        if len(truth) > 2 and Levenshtein.normalized_similarity(truth, seen) < agree:
            return False
    return True


def write_shard(path: Path, regions: Sequence[tuple[RegionSample, list[LineReading]]], vocab: Vocab) -> None:
    """Writes one shard, first to a temporary name."""
    readings = [r for _, lines in regions for r in lines]
    targets = [vocab.encode(region.target) for region, _ in regions]

    def offsets(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    arrays: dict[str, Any] = {
        "columns": np.concatenate([r.columns_TF for r in readings]).astype(np.float16),
        "class_": np.concatenate([r.class_T for r in readings]).astype(np.int32),
        "draft": np.concatenate([r.draft_M for r in readings]).astype(np.int32),
        "prob": np.concatenate([r.prob_M for r in readings]).astype(np.float16),
        "at": np.concatenate([r.at_M for r in readings]).astype(np.int32),
        "top": np.concatenate([r.top_MK for r in readings]).astype(np.int32),
        "geometry": np.concatenate([line_geometry([line.box for line in region.lines]) for region, _ in regions]),
        "target": np.concatenate([np.asarray(t, np.int32) for t in targets]),
        "region_lines": offsets([len(lines) for _, lines in regions]),
        "line_columns": offsets([len(r.class_T) for r in readings]),
        "line_draft": offsets([len(r.draft_M) for r in readings]),
        "region_target": offsets([len(t) for t in targets]),
        "kind": np.asarray([region.kind for region, _ in regions]),
    }
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, **arrays)
    os.replace(temporary, path)


def make_shard(stream: RegionStream, tower: Tower, shard: int, out: Path) -> tuple[int, int]:
    """Makes shard number `shard`; returns (regions, columns). Draw numbers of different shards do not overlap."""
    config = stream.config
    kept: list[tuple[RegionSample, list[LineReading]]] = []
    columns = 0
    index = shard * 100_000
    while len(kept) < config.regions_per_shard and columns < config.columns_per_shard:
        regions = stream.draw(index)
        index += 1
        readings = tower.read([line.image for region in regions for line in region.lines])
        at = 0
        for region in regions:
            mine = readings[at : at + len(region.lines)]
            at += len(region.lines)
            agree = config.agree if region.kind == "page" else config.readable
            if not sound(region, mine, stream.vocab, agree):
                continue
            kept.append((region, mine))
            columns += sum(len(r.class_T) for r in mine)
    write_shard(out / f"shard-{shard:05d}.npz", kept, stream.vocab)
    return len(kept), columns

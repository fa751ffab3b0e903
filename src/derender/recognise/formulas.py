"""Formulas by the formula reader: pieces of ink through its encoder, LaTeX by the block-diffusion decoder.

What is decoded is checked: where its braces or environments do not balance, or it does not parse, braces are mended or
the encoder's reading stands in for it, and the result says so; LaTeX that cannot be used is not given out.
The same engine as for text, on its own weights. Does not find formulas on pages and does not read their numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from derender.decode.config import DecodeConfig
from derender.decode.engine import DecodeResult, Engine
from derender.formula.check import check_latex
from derender.formula.components import MAX_PIECES, Gray
from derender.formula.spelling import spell, target_tokens
from derender.formula.structure import well_formed
from derender.formula.tower import FORMULA_WEIGHTS, FormulaTower
from derender.formula.vocabulary import FormulaVocab
from derender.model.prefix import RegionPrefix
from derender.model.rows import CompactSeq
from derender.model.runtime_onnx import OnnxRuntime
from derender.recognise.types import DecodeStats, Image, TokenOut


@dataclass
class FormulaRead:
    """One formula. latex: without dollar signs; None where nothing was seen, or what was read cannot be used (then
    status is "partial" and errors says why). target: the decoded tokens as they came."""

    latex: str | None = None
    target: list[int] = field(default_factory=list)
    tokens: list[TokenOut] = field(default_factory=list)
    status: Literal["ok", "partial", "failed"] = "ok"
    errors: list[str] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)
    trace: list[dict[str, Any]] | None = None


class FormulaReader:
    """One set of sessions and caches; not thread-safe. Raises ModelError when weights are missing."""

    def __init__(
        self,
        decode: DecodeConfig,
        threads: int = 2,
        max_batch: int = 16,
        folder: Path | None = None,
        use_draft: bool = True,
    ) -> None:
        folder = folder or FORMULA_WEIGHTS
        self.vocab = FormulaVocab()
        self.tower = FormulaTower(folder, threads)
        self.runtime = OnnxRuntime(self.vocab, folder, threads, use_draft)
        self.engine: Engine[RegionPrefix, CompactSeq] = Engine(self.runtime, decode, max_batch=max_batch)

    def read(self, images: Sequence[Image], decodes: Sequence[DecodeConfig | None] = ()) -> list[FormulaRead]:
        """LaTeX of each picture, (H, W, 3) uint8 RGB, in order. decodes: of each, in place of the reader's own."""
        out = [FormulaRead() for _ in images]
        prefixes: list[tuple[int, RegionPrefix]] = []
        drafts: dict[int, list[int]] = {}
        for i, image in enumerate(images):
            prefix, reading, pieces = self.tower.read(grey(image))
            drafts[i] = [int(t) for t in reading.draft_D]
            if pieces.dropped:
                out[i].status = "partial"
                out[i].errors.append(
                    f"the formula is in {MAX_PIECES + pieces.dropped} pieces, of which the smallest "
                    f"{pieces.dropped} were not read"
                )
            if len(prefix.position_P):
                prefixes.append((i, prefix))

        def config_of(i: Hashable) -> DecodeConfig:
            assert isinstance(i, int)
            return (decodes[i] if decodes else None) or self.engine.config

        for decoded in self.engine.run(prefixes, config_of):
            assert isinstance(decoded.id, int)
            self._fill(out[decoded.id], decoded, drafts[decoded.id])
        return out

    def _fill(self, read: FormulaRead, decoded: DecodeResult, draft: Sequence[int]) -> None:
        names = [self.vocab.piece(t) for t in decoded.tokens]
        read.target = decoded.tokens
        read.tokens = [TokenOut(n, c, s) for n, c, s in zip(names, decoded.confidences, decoded.steps, strict=True)]
        read.errors += decoded.errors
        read.stats = decoded.stats
        if decoded.status != "ok":
            read.status = "failed" if decoded.status == "cancelled" else decoded.status
        if decoded.trace is not None:
            read.trace = [
                {"step": e.step, "position": e.position, "text": self.vocab.piece(e.token), "confidence": e.confidence}
                for e in decoded.trace
            ]
        latex = spell(names)
        check = check_latex(latex)
        if check.ok:
            read.latex = latex
            return
        read.status = "failed" if read.status == "failed" else "partial"
        instead = spell([self.vocab.piece(t) for t in draft])
        if (mended := _mended(latex)) is not None:
            read.latex = mended
            read.errors.append(f"what was decoded is no LaTeX ({check.reason}); braces were put in or left out")
        elif check_latex(instead).ok:
            read.latex = instead
            read.errors.append(f"what was decoded is no LaTeX ({check.reason}); the encoder's reading is given instead")
        else:
            read.errors.append(f"the formula's LaTeX cannot be used: {check.reason} It is kept as a picture.")


def _mended(latex: str) -> str | None:
    """The formula with what it opens closed and closings without an opening left out, None where that does not help."""
    tokens = target_tokens(latex)
    mended = spell(tokens)
    return mended if well_formed(tokens) and check_latex(mended).ok else None


def grey(image: Image) -> Gray:
    """(H, W) uint8 luminance of RGB."""
    return np.asarray(image @ np.array([0.299, 0.587, 0.114]), np.float32).round().astype(np.uint8)

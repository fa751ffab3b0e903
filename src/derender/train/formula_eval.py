"""Scores the formula reader on rendered pictures, by length and by font, in several decode modes of the same weights.

Exact match and edit distance of target tokens; forwards, tokens a forward and decoding seconds, modes interleaved
formula by formula. The bare reading of the encoder (the decoder's draft) stands in the table too. Degrades the pictures
on request, as training does. CDM is the score command's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from derender.recognise.formulas import FormulaReader
from derender.score.metrics import ned
from derender.train.formula_pieces import degraded as degrade_formula
from derender.train.formula_render import FormulaPicture

SHORT = 40


@dataclass(frozen=True)
class Outcome:
    """One picture in one mode. mode "draft": the encoder's bare reading, which costs no forward."""

    mode: str
    font: str
    tokens: int
    exact: bool
    edit: float
    forwards: int = 0
    seconds: float = 0.0


def degraded(pictures: Sequence[FormulaPicture], seed: int = 0, harder: float = 0.0) -> list[FormulaPicture]:
    """Every picture degraded as in training. harder: share of those that are blurred by their own height."""
    rng = np.random.default_rng(seed)
    return [replace(p, grey_HW=degrade_formula(p, rng, 0.0, harder)) for p in pictures]


def evaluate(pictures: Sequence[FormulaPicture], readers: dict[str, FormulaReader]) -> list[Outcome]:
    """All readers on all pictures, one picture at a time."""
    out: list[Outcome] = []
    for p in pictures:
        truth = list(p.ids)
        rgb = np.repeat(p.grey_HW[:, :, None], 3, 2)
        first = next(iter(readers.values()))
        draft = [int(t) for t in first.tower.read(p.grey_HW)[1].draft_D]
        out.append(Outcome("draft", p.font, len(truth), draft == truth, ned(draft, truth)))
        for mode, reader in readers.items():
            (read,) = reader.read([rgb])
            s = read.stats
            same = read.target == truth
            out.append(Outcome(mode, p.font, len(truth), same, ned(read.target, truth), s.forwards, s.seconds))
    return out


def table(outcomes: Sequence[Outcome], title: str) -> list[str]:
    """Markdown rows: mode, n, exact match %, mean edit distance %, tokens a forward, decoding time against ar."""
    lines = [f"| {title} | n | exact match % | edit distance % | tokens a forward | speed over ar |", "|" + "---|" * 6]
    modes = list(dict.fromkeys(o.mode for o in outcomes))
    base = sum(o.seconds for o in outcomes if o.mode == "ar")
    for mode in modes:
        mine = [o for o in outcomes if o.mode == mode]
        forwards, seconds = sum(o.forwards for o in mine), sum(o.seconds for o in mine)
        tokens = sum(o.tokens for o in mine)
        lines.append(
            f"| {mode} | {len(mine)} | {100 * np.mean([o.exact for o in mine]):.1f} | "
            f"{100 * np.mean([o.edit for o in mine]):.2f} | {tokens / forwards if forwards else 0:.1f} | "
            f"{base / seconds if seconds and base else 0:.2f} |"
        )
    return lines


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """The tables: all lengths, short formulas, and each font."""
    lines = table(outcomes, "all lengths")
    lines += ["", *table([o for o in outcomes if o.tokens <= SHORT], f"at most {SHORT} tokens")]
    for font in sorted({o.font for o in outcomes}):
        lines += ["", *table([o for o in outcomes if o.font == font], font)]
    return lines

"""What a real line detector and a scanner do to a table's boxes: merged, split, missing and extra boxes, shaken edges,
lost rules, a lean.

Works on boxes; the truth (which cells each box holds) follows. Does not draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from derender.document import Box
from derender.table.types import Rule

Line = tuple[Box, tuple[int, ...]]
"""A detected box and the cells whose text lies in it; none for a box on no text."""


@dataclass(frozen=True)
class DetectorNoise:
    """Shares of lines, 0-1: merged with the next on the row where the gap is small, split, missing, extra (per line of
    the table); shake: of edges, in ems (standard deviation); rules: lost ruling lines; lean: degrees (standard
    deviation of the whole table's).
    """

    merged: float = 0.03
    split: float = 0.03
    missing: float = 0.01
    extra: float = 0.01
    shake: float = 0.06
    rules: float = 0.03
    lean: float = 0.5


def spoil(
    rng: np.random.Generator, lines: list[Line], rules: list[Rule], em: float, noise: DetectorNoise
) -> tuple[list[Line], list[Rule]]:
    """Lines and rules as a detector would give them. One draw per table decides how bad it is (0 to 3 times)."""
    worse = float(rng.uniform(0, 1)) * (3.0 if rng.random() < 0.2 else 1.0)
    lines = _merge(rng, lines, em, noise.merged * worse)
    out: list[Line] = []
    for box, cells in lines:
        fate = rng.random()
        if fate < noise.missing * worse:
            continue
        if fate < (noise.missing + noise.split) * worse and box[2] - box[0] > 2.5 * em:
            cut = float(rng.uniform(box[0] + em, box[2] - em))
            pair: list[Box] = [(box[0], box[1], cut - 0.1 * em, box[3]), (cut + 0.1 * em, box[1], box[2], box[3])]
            # Of a box that holds several cells each half could hold any: it stays whole.
            out += [(half, cells) for half in pair] if len(cells) == 1 else [(box, cells)]
        else:
            out.append((box, cells))
    if lines:
        for _ in range(int(rng.binomial(len(lines), min(1.0, noise.extra * worse)))):
            x, y, _, _ = lines[int(rng.integers(len(lines)))][0]
            x, y = x + float(rng.normal(0, 6 * em)), y + float(rng.normal(0, 3 * em))
            out.append(((x, y, x + em * float(rng.uniform(0.5, 6)), y + em * float(rng.uniform(0.4, 1.2))), ()))
    shaken = [(_shake(rng, box, em * noise.shake), cells) for box, cells in out]
    kept = [r for r in rules if rng.random() >= noise.rules * worse]
    if rng.random() < 0.3:
        tangent = float(np.tan(np.radians(rng.normal(0, noise.lean))))
        return [(_lean_box(b, tangent), c) for b, c in shaken], [_lean_rule(r, tangent) for r in kept]
    return shaken, kept


def _merge(rng: np.random.Generator, lines: list[Line], em: float, share: float) -> list[Line]:
    """Joins some neighbours on one row of text whose gap a detector may overlook."""
    order = sorted(lines, key=lambda item: (round(item[0][1] / (0.5 * em)), item[0][0]))
    out: list[Line] = []
    for box, cells in order:
        if out:
            last, others = out[-1]
            gap, level = box[0] - last[2], abs(box[1] - last[1]) < 0.3 * em
            # Small gaps are overlooked often: ten times the share at half an em.
            if level and 0 <= gap < 1.6 * em and rng.random() < share * (10 if gap < 0.6 * em else 1):
                hull = (last[0], min(last[1], box[1]), box[2], max(last[3], box[3]))
                out[-1] = (hull, tuple(dict.fromkeys((*others, *cells))))
                continue
        out.append((box, cells))
    return out


def _shake(rng: np.random.Generator, box: Box, sigma: float) -> Box:
    x0, y0, x1, y1 = np.asarray(box) + rng.normal(0, sigma, 4) + sigma * np.array([-1.5, -1.0, 1.5, 1.0])
    return (float(x0), float(y0), float(max(x1, x0 + 1)), float(max(y1, y0 + 1)))


def _lean_box(box: Box, tangent: float) -> Box:
    """Hull of a small box turned about the origin by a small angle."""
    x0, y0, x1, y1 = box
    ys = [y0 + tangent * x0, y0 + tangent * x1, y1 + tangent * x0, y1 + tangent * x1]
    xs = [x0 - tangent * y0, x0 - tangent * y1, x1 - tangent * y0, x1 - tangent * y1]
    return (min(xs), min(ys), max(xs), max(ys))


def _lean_rule(r: Rule, tangent: float) -> Rule:
    return replace(
        r,
        x0=r.x0 - tangent * r.y0,
        y0=r.y0 + tangent * r.x0,
        x1=r.x1 - tangent * r.y1,
        y1=r.y1 + tangent * r.x1,
    )

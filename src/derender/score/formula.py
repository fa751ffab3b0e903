"""Formula scores on canonical tokens: edit distance and exact match ("canonical-LaTeX edit").

This is not CDM, which compares rendered characters and needs TeX; nothing here renders, and no CDM is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender.score.latex_tokens import canonical_tokens
from derender.score.metrics import count_errors, ned


@dataclass(frozen=True)
class FormulaScore:
    """edit: token edits / longer side, 0-1; error_rate: token edits / tokens of the truth; exact: same tokens."""

    edit: float
    error_rate: float
    exact: bool
    tokens: int


def formula_score(pred: str, truth: str) -> FormulaScore:
    """Compares two LaTeX strings (without or with dollar signs) after canonical_tokens."""
    p, t = canonical_tokens(pred), canonical_tokens(truth)
    return FormulaScore(ned(p, t), count_errors(p, t).rate, p == t, len(t))


def contains_formula(latex: str, wanted: str) -> bool:
    """Whether the canonical tokens of `wanted` stand together, in order, in those of `latex`."""
    have, want = canonical_tokens(latex), canonical_tokens(wanted)
    return bool(want) and any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))

"""Formulas as tokens: target spelling, vocabulary, TeX source from tokens, and the check of decoded LaTeX.

Nothing here reads pictures: no formula decoder exists yet (docs/formulas.md says what is missing).
"""

from __future__ import annotations

from derender.formula.check import FormulaCheck, check_latex
from derender.formula.spelling import spell, target_tokens
from derender.formula.vocabulary import FORMULA_TOKENS, decode_ids, encode_tokens

__all__ = ["FORMULA_TOKENS", "FormulaCheck", "check_latex", "decode_ids", "encode_tokens", "spell", "target_tokens"]

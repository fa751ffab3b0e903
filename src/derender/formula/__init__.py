"""Formulas: pieces of ink and the encoder's reading of them (components, path, tower), and tokens (spelling,
vocabulary, TeX source from tokens, the check of decoded LaTeX). The decoder is derender.model's, as for text.
"""

from __future__ import annotations

from derender.formula.check import FormulaCheck, check_latex
from derender.formula.spelling import spell, target_tokens
from derender.formula.vocabulary import FORMULA_TOKENS, decode_ids, encode_tokens

__all__ = ["FORMULA_TOKENS", "FormulaCheck", "check_latex", "decode_ids", "encode_tokens", "spell", "target_tokens"]

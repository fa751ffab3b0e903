"""Second thoughts about a reading: formulas that are really words, and text of which nothing was understood.

Goes by the recogniser's confidences and the kinds of characters; does not read again. The figures behind the limits are
in docs/diary.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from derender.document import Box
from derender.recognise.types import Result

_LATEX_UNSURE = 0.75
_TEXT_SURE = 0.9
_UNSURE = 0.75
_WORD = re.compile(r"[^\W\d_]{3,}")
_LEAST_LENGTH = 10.0  # of text lines together, in line heights: about twenty letters; shorter may be dirt


def is_words(result: Result) -> bool:
    """Whether what was asked for as a formula is words: its LaTeX is unsure, and its reading as text sure and wordy."""
    if result.latex is None or result.text_confidence is None or result.confidence is None:
        return False
    sure = result.confidence < _LATEX_UNSURE and result.text_confidence > _TEXT_SURE
    return sure and len(_WORD.findall(result.text)) >= 2


def not_understood(result: Result, lines: Sequence[Box]) -> str:
    """Why a text region counts as unread, or "": long lines without a letter, or unsure and mostly points and signs.

    lines: the boxes of its text lines, in any unit. Scripts that the recogniser was not trained on come out like that.
    """
    if sum((b[2] - b[0]) / max(b[3] - b[1], 1e-6) for b in lines) < _LEAST_LENGTH:
        return ""
    seen = [c for c in result.text if not c.isspace()]
    signs = sum(not c.isalnum() for c in seen)
    if seen and not (signs > 0.5 * len(seen) and (result.confidence or 0.0) < _UNSURE):
        return ""
    return "text was found but not understood: its script may be one that cannot be read"

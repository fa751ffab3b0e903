"""What is made equal before texts are compared. The same function is applied to prediction and ground truth.

Does not strip markup (markup.py) and does not correct anything: a rule here forgives only differences of layout.
"""

from __future__ import annotations

import re
import unicodedata

HYPHENS = "-\u2010\u2011\u00ac\u2e17"
"""Hyphen-minus, hyphen, non-breaking hyphen, not sign and double oblique hyphen (both stand for it in old prints)."""

_CJK = (
    "\u2e80-\u2fdf\u3000-\u30ff\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff01-\uff60\uffe0-\uffe6\U00020000-\U0003134f"
)
_BREAK = r"[^\S\n]*\n\s*"
_LETTER = r"[^\W\d_]"
_HYPHEN_IN_WORD = re.compile(rf"(?<={_LETTER})[{HYPHENS}](?:{_BREAK})?(?={_LETTER})")
_HYPHEN_AT_BREAK = re.compile(rf"(?<=\S)([{HYPHENS}]){_BREAK}(?=\S)")
_CJK_BREAK = re.compile(rf"(?<=[{_CJK}]){_BREAK}(?=[{_CJK}])")
_CJK_SIGN = re.compile(rf"([{_CJK}])")
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")


def fold_space(text: str) -> str:
    """NFC; every run of white space (line breaks too) becomes one space; none is left at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def drop_space(text: str) -> str:
    """NFC without any white space: for scripts that write none, where spaces in the truth come from layout."""
    return "".join(unicodedata.normalize("NFC", text).split())


def join_block(text: str) -> str:
    """One line of text in which a system that joins lines and one that keeps them compare equal.

    In this order: (1) NFC, soft hyphens deleted; (2) a hyphen between two letters is deleted, together with the line
    break after it if there is one; (3) a hyphen before a line break that is not between two letters stays, the break
    goes; (4) a line break between two Chinese or Japanese characters goes; (5) white space is folded as in fold_space.

    Rule 2 also deletes the hyphen of "metal-insulator" within a line. That is the point: when the ground truth breaks
    a line in "metal-/insulator" nobody can tell from it whether a mended text has the hyphen, so hyphens between
    letters are not scored at all. A hyphen that a system leaves with a space after it ("mea- surements") is an error.
    """
    text = unicodedata.normalize("NFC", text).replace("\u00ad", "").replace("\r\n", "\n").replace("\r", "\n")
    text = _HYPHEN_IN_WORD.sub("", text)
    text = _HYPHEN_AT_BREAK.sub(r"\1", text)
    text = _CJK_BREAK.sub("", text)
    return fold_space(text)


def page_text(text: str) -> str:
    """join_block, and no white space next to a Chinese or Japanese character (its presence there is typesetting)."""
    return _CJK_SPACE.sub("", join_block(text))


def words(text: str) -> list[str]:
    """Words split at white space; each Chinese or Japanese character is a word of its own."""
    return _CJK_SIGN.sub(r" \1 ", text).split()


def fold_case(text: str) -> str:
    """Case folded; for ground truth whose makers upper-cased it."""
    return text.casefold()

"""Facts about scripts that several writers need: which characters are written without spaces, which run right to left.

Guesses from Unicode blocks alone; does not detect languages that share a script (English and French look the same).
"""

from __future__ import annotations

import re
import unicodedata

# Han, kana, bopomofo, CJK punctuation, full-width forms. Hangul is left out: Korean separates words by spaces.
_CJK = (
    "\u2e80-\u2fdf\u2ff0-\u303f\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\u31f0-\u31ff\u3200-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\uffe0-\uffef\U00020000-\U0003ffff"
)
_OTHER_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
_CJK_RE = re.compile(f"[{_CJK}]")
_SPACELESS_RE = re.compile(f"[{_CJK}{_OTHER_SPACELESS}]")
CJK_CLASS = _CJK
"""The CJK ranges as the inside of a regular-expression character class."""

_UNHOLDABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # tab and line feed stay

_LANGUAGE_OF = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ko", re.compile("[\u1100-\u11ff\uac00-\ud7af]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
)


def is_cjk(char: str) -> bool:
    """Whether `char` is Chinese or Japanese writing or its punctuation (not Hangul)."""
    return bool(_CJK_RE.match(char))


def is_spaceless(char: str) -> bool:
    """Whether `char` belongs to a script that puts no space between words."""
    return bool(_SPACELESS_RE.match(char))


def direction(text: str) -> str:
    """ "rtl" when more of the letters run right to left than left to right, else "ltr"."""
    if text.isascii():
        return "ltr"
    balance = 0
    for char in text:
        kind = unicodedata.bidirectional(char)
        balance += 1 if kind in ("R", "AL") else -1 if kind == "L" else 0
    return "rtl" if balance > 0 else "ltr"


def language(text: str) -> str | None:
    """A BCP 47 tag when the script gives the language away, else None. Arabic script counts as "ar"."""
    if text.isascii():
        return None
    letters = sum(char.isalpha() for char in text)
    counts = {tag: len(pattern.findall(text)) for tag, pattern in _LANGUAGE_OF}
    if counts["ja"] and counts["ja"] + counts["zh"] > letters / 2 and counts["ja"] > 0.1 * counts["zh"]:
        return "ja"
    best = max(counts, key=lambda tag: counts[tag])
    return best if counts[best] > letters / 2 else None


def clean(text: str) -> str:
    """`text` without characters that no output format can hold: control characters and lone surrogates.

    Line feeds and tabs stay, a carriage return (with or without line feed) becomes a line feed; a lone surrogate
    becomes U+FFFD, as UTF-8 has no place for it.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNHOLDABLE.sub(lambda match: "\ufffd" if match.group() >= "\ud800" else "", text)

"""Rows of contents, "1.2 Rows . . . . . . 17": where they end, and their leaders made short for people.

The text of a document has as many dots as its picture; Markdown, HTML and chunks have " ... ". Goes by the characters
alone and finds no entries.
"""

from __future__ import annotations

import re

_DOT = r"[.\u00b7\u2024-\u2026]"
_LED_TO = r"(?:(?=\S{0,11}\d)\S{1,12}|[ivxlc]{1,12}|[IVXLC]{1,12})$"  # a page number, a price
# A match begins where white space and where dots begin, and gives nothing back: time grows with the text, whatever the
# text.
_LEADER = re.compile(
    rf"(?:(?<!\s)\s++|(?={_DOT}))(?<!{_DOT})(?<!{_DOT}[^\S\n])(?:{_DOT}[^\S\n]?){{4,}}+[^\S\n]*+(?={_LED_TO})",
    re.MULTILINE,
)
_TAIL = 400  # characters of a text's last line that are looked at


def ends_row(text: str) -> bool:
    """Whether a text's last line is a row of contents: a leader of four dots and more, and what it leads to."""
    return _LEADER.search(text[-_TAIL:].rpartition("\n")[2]) is not None


def short_leaders(text: str) -> str:
    """The text with " ... " for the leaders of its rows of contents."""
    return _LEADER.sub(" ... ", text)

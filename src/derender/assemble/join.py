"""Raw text lines of one region -> flowing text: `join_lines`, and `join_pair` for two pieces of a paragraph.

A line end becomes a space, nothing (scripts without spaces, broken URLs), or a mended word. The rule for hyphens:
drop one only where a word was broken to fit the line; when in doubt the hyphen stays and no space is put in ("n-" +
"tridecanal"). Never removes or adds a letter. Does not know languages or dictionaries; a caller may pass a vocabulary
as evidence. A row of contents keeps its line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from derender.assemble.contents import ends_row
from derender.assemble.script import CJK_CLASS, clean, is_cjk, is_spaceless

_SOFT = "\u00ad\u00ac"  # soft hyphen; the "not" sign is what several transcription conventions write for it
HYPHENS = "-\u2010\u2e17" + _SOFT
# First halves that make compounds and are hardly ever the first syllables of a longer word.
_COMPOUND_HEADS = frozenset(
    """
    self non well half quasi ill high low long short large small full single double two three four five six seven
    eight nine first second third cross real state fine coarse left right new fast slow one zero open closed deep
    wide best tert cis meth
    """.split()
)
# What makes one of them an ordinary word after all: "high-est", "state-ment", "real-ity".
_SUFFIXES = frozenset(
    """
    ing ed er ers est ly ness ment ments ity ities ize ized izes izing ise ised ises ising ization isation ism ist
    istic al ally ary able age ages ware ful less ish en ens ening ened ship ward wards st self selves hood ance
    """.split()
)
# Second halves that make compounds; whole words only.
_COMPOUND_TAILS = frozenset(
    """
    based driven like free wise related level scale term time type specific aware oriented valued quality called bar
    order dimensional defined dependent independent shaped sized sensitive invariant weighted labeled labelled known
    trained
    """.split()
)
_TAIL_NOT_AFTER = frozenset(
    "un in inde dis over under out fore mean some any every life child sub super col bi tri non".split()
)
_SMALL_WORDS = frozenset(
    "of to in the and by on up a an at per it or as for off out from vs de la le du en y e".split()
)
_SUSPENDING = frozenset("and or to und oder bis et ou y o e bzw nor sowie".split())
_URL_START = re.compile(r"(?:https?://|ftp://|www\.|doi\.org/|doi:\s*10\.|\b10\.\d{4,9}/)\S*$", re.IGNORECASE)
_URL_LOOK = re.compile(r"[/=_%&?#~\d]|[a-z]\.[a-z]|-")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def join_lines(lines: Sequence[str], vocabulary: Collection[str] | None = None) -> str:
    """The lines of one region, in order, as flowing text; only rows of contents end in a line feed.

    vocabulary: lower-case words (and hyphenated compounds) as evidence for mending; see `vocabulary_of`.
    Empty lines vanish.
    """
    kept = [line for line in (_normalise(line) for line in lines) if line]
    if not kept:
        return ""
    spaced = _mixed_is_spaced(kept)
    text = kept[0]
    for line in kept[1:]:
        text = _join(text, line, vocabulary, spaced)
    return _settle_hyphen(text)


def join_pair(left: str, right: str, vocabulary: Collection[str] | None = None) -> str:
    """Two pieces of one paragraph, the second after a line, column or page break. Line feeds inside the pieces stay."""
    left, right = clean(left).rstrip(), clean(right).lstrip()
    if not left or not right:
        return left or right
    return _join(left, right, vocabulary, _mixed_is_spaced([left, right]))


def vocabulary_of(lines: Iterable[str]) -> frozenset[str]:
    """Words that stand whole inside the given raw lines, lower case; compounds also with their hyphen.

    A word at a line's start or end is left out where a hyphen may have cut it.
    """
    words: set[str] = set()
    cut = False
    for line in lines:
        line = _normalise(line)
        found = _WORD.findall(line.lower().replace("\u2010", "-"))
        was_cut, cut = cut, line.endswith(tuple(HYPHENS))
        if was_cut:
            found = found[1:]
        if cut and found:
            found = found[:-1]
        words.update(found)
    return frozenset(words)


def _normalise(line: str) -> str:
    # PDFium marks a hyphen at a line's end by U+0002 or U+FFFE. A soft hyphen inside a line of a PDF was drawn: it is
    # a real one.
    line = line.replace("\ufffe", "\x02").strip(" \t\r\n\f\v\u00a0\u3000\u2028\u2029")
    if line.endswith("\x02"):
        line = line[:-1] + "-"
    line = " ".join(clean(line.replace("\x02", "-")).split())
    return line[:-1].replace("\u00ad", "-") + line[-1:] if line else ""


def _settle_hyphen(text: str) -> str:
    """A soft hyphen that ended the region has nothing to break: show it, a continuation may still mend it."""
    return text[:-1] + "-" if text.endswith("\u00ad") else text


def _mixed_is_spaced(lines: Sequence[str]) -> bool:
    """Whether this text puts a space between CJK and Latin letters: its own habit, seen inside the lines."""
    text = "\n".join(lines)
    spaced = len(re.findall(rf"[{CJK_CLASS}] [A-Za-z0-9]|[A-Za-z0-9] [{CJK_CLASS}]", text))
    tight = len(re.findall(rf"[{CJK_CLASS}][A-Za-z0-9]|[A-Za-z0-9][{CJK_CLASS}]", text))
    return spaced > tight


def _join(left: str, right: str, vocabulary: Collection[str] | None, spaced: bool) -> str:
    last, first = left[-1], right[0]
    if ends_row(left):
        return f"{left}\n{right}"
    head = re.search(r"\S*$", left)
    tail = re.match(r"\S*", right)
    assert head is not None and tail is not None  # both patterns match the empty string
    if re.search(r"(?:^|[\s(<])(?:https?|ftp):$", left) and right.startswith("//"):
        return left + right
    if _URL_START.search(left) and _continues_url(head.group(), tail.group(), alone=tail.group() == right):
        return left + right
    if last in HYPHENS:
        return _join_hyphen(left, right, head.group(), tail.group(), vocabulary)
    if last in "\u2014\u2013" and left[-2:-1].strip() and first.isalnum():
        return left + right
    if is_spaceless(last) and is_spaceless(first):
        return left + right
    if vocabulary and "\uac00" <= last <= "\ud7a3" and head.group() + tail.group().rstrip(".,") in vocabulary:
        return left + right  # justified Korean breaks its words anywhere, without a hyphen
    if is_cjk(last) or is_cjk(first):
        both_words = last.isalnum() and first.isalnum()
        return left + (" " if spaced and both_words else "") + right
    return f"{left} {right}"


def _continues_url(head: str, tail: str, alone: bool) -> bool:
    """Whether the chunk `tail` goes on the address that `head` ends with; alone: it has a line of its own."""
    bare = tail.strip(".,;:)]}>\"'")
    if not bare or is_cjk(tail[0]) or bare.lower() in _SMALL_WORDS or head.endswith((")", "]", ">", ",", ";", '"')):
        return False
    if tail[0] in "/?&=#%_~":
        return True
    if head[-1] in "-_=&?%#~+:":
        return True
    url_like = bool(_URL_LOOK.search(bare))
    if head.endswith("/"):
        return url_like or alone or bare.islower() or bare[1:] != bare[1:].lower()
    if head.endswith("."):  # a full stop after a URL, unless what follows can only be more of it
        return (
            ("/" in bare and not bare[0].isupper())
            or bool(re.match(r"\d+[\d.\-]*[.\-/]?\w*$", bare) and alone)
            or (bare[0].isdigit() and bool(re.search(r"[.\-/]\w", bare)) and not re.fullmatch(r"\d+\.\d+", bare))
        )
    return "/" in bare and "://" not in bare and bare[0].islower()


def _join_hyphen(left: str, right: str, head: str, tail: str, vocabulary: Collection[str] | None) -> str:
    """`head` is the last chunk of `left` and ends in a hyphen, `tail` the first chunk of `right`."""
    soft = head[-1] in _SOFT
    shown = left[:-1] + "-" if soft else left
    before = head[:-1]
    if not before:  # a hyphen on its own is a dash or a bullet
        return f"{shown} {right}"
    first_word = re.match(r"[^\W\d_]*", tail)
    last_word = re.search(r"[^\W\d_]*$", before)
    assert first_word is not None and last_word is not None
    a, b = last_word.group(), first_word.group()
    if b.lower() in _SUSPENDING and tail.rstrip(".,;:") == b and not soft:
        return f"{shown} {right}"  # "pre- and post-processing"
    if not a or not b or not (tail[0].islower() or _all_caps(a, b)):
        return shown + right
    if _all_caps(a, b) and _is_shouted(left[: -len(head)] + right[len(tail) :]):
        before, a, tail, b = before.lower(), a.lower(), tail.lower(), b.lower()
    # What a soft hyphen says is certain; a visible one needs evidence.
    return (left[:-1] if soft or _is_word_break(before, a, tail, b, vocabulary) else shown) + right


def _is_shouted(text: str) -> bool:
    """Whether the text around is set in capitals, so that capitals say nothing about a word."""
    near = [char for char in text[-60:] if char.isalpha()]
    return len(near) >= 8 and sum(char.isupper() for char in near) > 0.9 * len(near)


def _all_caps(a: str, b: str) -> bool:
    return len(a) > 1 and len(b) > 1 and a.isupper() and b.isupper()


def _is_word_break(before: str, a: str, tail: str, b: str, vocabulary: Collection[str] | None) -> bool:
    """Whether the hyphen between word parts a and b broke a word; `before` and `tail` are the whole chunks."""
    low_a, low_b = a.lower(), b.lower()
    if any(char.isdigit() or char in "_/@\\" for char in before) or any(char.isdigit() for char in b):
        return False
    if vocabulary is not None:
        if low_a + low_b in vocabulary:
            return True
        if f"{low_a}-{low_b}" in vocabulary or (low_a in vocabulary and low_b in vocabulary and len(b) > 2):
            return False
    if _all_caps(a, b):
        return False
    if len(a) < 2 or len(b) < 2 or a[1:] != a[1:].lower():  # n-tridecanal, e-mail, GPU-based
        return False
    lead = before[: -len(a)]
    if lead and lead[-1] not in "([{\"'\u201c\u2018\u2019\u00ab\u00bb\u201e-\u2010\u2013\u2014":
        return False  # "file.name-", "p=0.05-"
    if low_a in _COMPOUND_HEADS:
        return low_b in _SUFFIXES
    if low_a in _SMALL_WORDS and before != a:  # state-of-the-art
        return False
    if tail[len(b) :].startswith("-") and low_b in _SMALL_WORDS:  # state-of-the-art
        return False
    return not (low_b in _COMPOUND_TAILS and low_a not in _TAIL_NOT_AFTER)

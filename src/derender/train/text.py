"""Texts for generated pages: running text from files on disk, random words and random characters.

`load_corpus` reads what `runs/sources.sh` unpacks from Debian packages (fortunes, dictionaries, manual pages; all
freely licensed, listed in docs/training.md). Does not download anything and does not lay text out (render.py does).
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GREEK = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
ACCENTED = "éèêëàâäáãåçñöôòóõøüûùúïîíìßæœÉÈÀÄÅÇÑÖÜØÆŒšžčřěýůłńśźżąęğışőű"
SYMBOLS = "±×÷≤≥≠≈∞→←°′″€£¥§¶©®™•–—…“”‘’«»†‡%‰&@#*^_~|\\/<>=+{}[]()"


_LINE_END = re.compile(r"(?<=[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]) (?=[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef])")
"""A space within Chinese: where the source's line ended."""
GERMAN = frozenset("und der die das nicht ist ein eine zu mit von auf für sich dem den wird oder auch".split())


@dataclass(frozen=True)
class Corpus:
    """Paragraphs of Latin-script text, paragraphs of Chinese text, and the words of the former."""

    latin: tuple[str, ...]
    chinese: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(w.lower() for w in self.words)

    @property
    def german(self) -> tuple[str, ...]:
        """The Latin-script paragraphs that are German, by their commonest words."""
        return tuple(t for t in self.latin if len(GERMAN & set(t.split())) >= 3)


def _plain(path: Path) -> str:
    raw = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        raw = gzip.decompress(raw)
    text = re.sub(r"\x1b\[\d*m", "", raw.decode("utf-8", errors="ignore"))  # colours of a terminal
    if re.search(r"^\.(TH|SH|Dd)\b", text, re.M):  # troff of a manual page
        text = re.sub(r"^[.'].*$", "", text, flags=re.M)
        text = re.sub(r"\\f[A-Z]|\\f\[[^\]]*\]|\\s[-+]?\d|\\&|\\c|\\\|", "", text)
        text = text.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(lq", "“").replace(r"\(rq", "”")
        text = re.sub(r"\\\(..|\\\[[^\]]*\]|\\\*.|\\.", "", text)
    return text


def _paragraphs(text: str) -> list[str]:
    out = []
    for part in re.split(r"\n\s*\n|\n%\n", text):
        flat = " ".join(part.split())
        if 20 <= len(flat) <= 2000 and "\ufffd" not in flat:
            out.append(flat)
    return out


def load_corpus(root: Path, limit: int = 60000, seed: int = 0) -> Corpus:
    """All texts below `root` (fortunes *.u8, dictd *.dz, manual pages, word lists), shuffled and cut to `limit`
    paragraphs of each script. Raises FileNotFoundError when there is none."""
    latin: list[str] = []
    chinese: list[str] = []
    words: set[str] = set()
    files = [
        *root.glob("usr/share/games/fortunes/**/*.u8"),
        *root.glob("usr/share/dictd/*.dz"),
        *root.glob("usr/share/man/**/*.gz"),
        *root.glob("texts/**/*.txt"),
    ]
    if not files:
        raise FileNotFoundError(f"no text below {root.name}; run runs/sources.sh first")
    for path in sorted(files):
        for paragraph in _paragraphs(_plain(path)):
            cjk = sum("\u4e00" <= ch <= "\u9fff" for ch in paragraph)
            (chinese if cjk > 0.3 * len(paragraph) else latin).append(paragraph)
    for path in sorted(root.glob("usr/share/dict/*")):
        if path.is_file():
            words.update(path.read_text("utf-8", errors="ignore").split())
    for paragraph in latin:
        words.update(re.findall(r"[^\W\d_]{2,}(?:-[^\W\d_]{2,})*", paragraph))
    rng = np.random.default_rng(seed)

    def cut(items: list[str]) -> tuple[str, ...]:
        order = rng.permutation(len(items))[:limit]
        return tuple(items[i] for i in order)

    return Corpus(cut(latin), cut(chinese), tuple(sorted(words)))


def long_s(text: str) -> str:
    """Text with the long s of blackletter print: everywhere but at the end of a word. (Its other rule, a round s at the
    end of a part of a compound, needs a dictionary and is left out.)"""
    return re.sub(r"s(?=[a-zäöüß])", "ſ", text)


def random_number(rng: np.random.Generator) -> str:
    kind = int(rng.integers(0, 8))
    n = int(rng.integers(0, 10 ** int(rng.integers(1, 7))))
    return (
        str(n),
        f"{n / 100:.2f}",
        f"{n:,}",
        f"[{n % 200}]",
        f"{rng.choice(list('$€£¥'))}{n / 100:,.2f}",
        f"{n % 100}%",
        f"{1 + n % 31}/{1 + n % 12}/{1900 + n % 130}",
        f"({n % 50})",
    )[kind]


def random_words(rng: np.random.Generator, words: tuple[str, ...], n: int) -> str:
    """n tokens that no language model could guess: shuffled words, numbers, codes, letters with symbols."""
    out = []
    for _ in range(n):
        r = rng.random()
        word = words[int(rng.integers(len(words)))]
        if r < 0.62:
            case = rng.random()
            word = word.upper() if case < 0.12 else word.capitalize() if case < 0.3 else word
        elif r < 0.75:
            word = random_number(rng)
        elif r < 0.87:
            alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + SYMBOLS[:26] + "-.,:;"
            word = "".join(rng.choice(list(alphabet), int(rng.integers(2, 10))))
        elif r < 0.93:
            word = "".join(rng.choice(list(ACCENTED + "abcdeinorst"), int(rng.integers(2, 8))))
        elif r < 0.97:
            word = "".join(rng.choice(list(GREEK), int(rng.integers(1, 4))))
        else:
            word = "".join(rng.choice(list(SYMBOLS), int(rng.integers(1, 4))))
        if rng.random() < 0.12:
            word += str(rng.choice(list(",.;:!?")))
        out.append(word)
    return " ".join(out)


def _shuffled(rng: np.random.Generator, text: str) -> str:
    """The Chinese characters in another order, which no language model could guess; everything else in its place."""
    places = [i for i, ch in enumerate(text) if "\u4e00" <= ch <= "\u9fff"]
    out = list(text)
    for i, j in zip(places, rng.permutation(places), strict=True):
        out[i] = text[j]
    return "".join(out)


def draw_text(rng: np.random.Generator, corpus: Corpus, length: int, chinese: float, random_share: float = 0.3) -> str:
    """About `length` characters. A share `chinese` is Chinese, mixed with Latin words and numbers."""
    if corpus.chinese and rng.random() < chinese:
        text = corpus.chinese[int(rng.integers(len(corpus.chinese)))]
        while len(text) < length:  # paragraphs are short, and what is hard are the ends of lines
            text += corpus.chinese[int(rng.integers(len(corpus.chinese)))]
        if rng.random() < 0.8:
            text = _LINE_END.sub("", text)
        start = int(rng.integers(0, max(1, len(text) - length)))
        text = text[start : start + length]
        if rng.random() < random_share:
            text = _shuffled(rng, text)
        if rng.random() < 0.4:
            at = int(rng.integers(0, len(text) + 1))
            text = text[:at] + str(rng.choice(corpus.words)) + text[at:]
        return " ".join(text.split())
    if rng.random() < random_share:
        return random_words(rng, corpus.words, max(1, length // 6))
    text = corpus.latin[int(rng.integers(len(corpus.latin)))]
    while len(text) < length:
        text += " " + corpus.latin[int(rng.integers(len(corpus.latin)))]
    start = int(rng.integers(0, max(1, len(text) - length)))
    start = text.find(" ", start) + 1
    return text[start : start + length].rsplit(" ", 1)[0]

"""A document in chunks for retrieval: Markdown passages of bounded size under their headings, with where they stand.

A chunk never runs over a heading; headings with nothing under them make a chunk of their own. Paragraphs are kept whole
where they fit and cut at sentence ends where not; tables are never cut. Sizes are counted in words, numbers and signs,
and in single characters of East Asian scripts, which is close to what common tokenizers count and needs none of them.
Does not embed or store anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from derender.assemble.blocks import Block, blocks
from derender.assemble.markdown import block_markdown
from derender.document import Box, Document, RegionType

MAX_TOKENS = 512
_TOKEN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|\w+|[^\w\s]")
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])[\"')\]\u201d\u2019]*\s+|(?<=[\u3002\uff01\uff1f])")


@dataclass
class Chunk:
    """headings: titles above the passage, outermost first. places: (page number, region id, box in points) of all that
    is in it, in order. tokens: about how many."""

    headings: tuple[str, ...]
    text: str = ""
    tokens: int = 0
    places: list[tuple[int, str, Box]] = field(default_factory=list)

    def add_places(self, block: Block) -> None:
        places = [(page.number, region.id, region.box) for page, region in _parts(block)]
        self.places += [place for place in places if place not in self.places]


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def to_chunks(doc: Document, max_tokens: int = MAX_TOKENS) -> list[Chunk]:
    """The body of the document in reading order. Only a table or one endless sentence is larger than max_tokens."""
    path: list[_Title] = []
    out: list[Chunk] = []
    current: Chunk | None = None
    for block in blocks(doc):
        if block.type is RegionType.TITLE and block.text:
            level = block.region.level or 1
            _keep_bare(path, level, out)
            path = [*(title for title in path if title.level < level), _Title(level, block)]
            current = None
            continue
        headings = tuple(title.block.text for title in path)
        for piece in _pieces(block, max_tokens):
            size = count_tokens(piece)
            if current is None or current.tokens + size > max_tokens:
                current = Chunk(headings)
                out.append(current)
                for title in path:
                    title.bare = False
            current.text += ("\n\n" if current.text else "") + piece
            current.tokens += size
            current.add_places(block)
    _keep_bare(path, 0, out)
    return out


@dataclass
class _Title:
    """A heading that the text now stands under. bare: so far nothing does."""

    level: int
    block: Block
    bare: bool = True


def _keep_bare(path: list[_Title], level: int, out: list[Chunk]) -> None:
    """A chunk of the headings from `level` on that end here with nothing under them, or their text would be lost."""
    bare = [title for title in path if title.level >= level and title.bare]
    if not bare:
        return
    chunk = Chunk(tuple(title.block.text for title in path if title.level < level or not title.bare))
    for title in bare:
        piece = "\n\n".join(block_markdown(title.block))
        chunk.text += ("\n\n" if chunk.text else "") + piece
        chunk.tokens += count_tokens(piece)
        chunk.add_places(title.block)
    for title in path:
        title.bare = False  # also those above: they are among the chunk's headings
    out.append(chunk)


def _parts(block: Block) -> Iterator[Any]:
    yield from block.parts
    for caption in block.captions:
        yield from caption.parts


def _pieces(block: Block, most: int) -> list[str]:
    """The block's Markdown in pieces of at most `most` tokens, where it can be cut."""
    whole = "\n\n".join(block_markdown(block))
    if count_tokens(whole) <= most or block.cells:
        return [whole] if whole else []
    out: list[str] = []
    for sentence in (s for line in whole.split("\n") for s in _SENTENCE.split(line) if s and s.strip()):
        if out and count_tokens(out[-1]) + count_tokens(sentence) <= most:
            out[-1] += " " + sentence
        else:
            out.append(sentence)
    return out


def chunks_jsonl(doc: Document, max_tokens: int = MAX_TOKENS) -> str:
    """One JSON object a line: id, headings, text, tokens, pages, places."""
    lines = []
    for number, chunk in enumerate(to_chunks(doc, max_tokens), 1):
        places = [{"page": page, "region": region, "box": list(box)} for page, region, box in chunk.places]
        entry = {
            "id": f"{doc.name}-{number}",
            "headings": list(chunk.headings),
            "text": chunk.text,
            "tokens": chunk.tokens,
            "pages": sorted({page for page, _, _ in chunk.places}),
            "places": places,
        }
        lines.append(json.dumps(entry, ensure_ascii=False))
    return "".join(line + "\n" for line in lines)

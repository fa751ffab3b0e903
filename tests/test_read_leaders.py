"""Rows of contents: leaders are found in the picture, not read. Text that a guard stopped keeps what stands behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage
from PIL import ImageDraw, ImageFont

from derender.assemble.contents import short_leaders
from derender.decode.config import DecodeConfig
from derender.decode.engine import DecodeResult
from derender.decode.guards import RepetitionGuard, Stop
from derender.errors import InputError
from derender.layout.types import quad_of
from derender.model.rest import ENDED_EARLY, REST, rest_of_reading
from derender.recognise.compact import CompactRecogniser
from derender.recognise.leaders import LeaderSplitter
from derender.recognise.types import Image, Quad, Request, Result, TokenOut
from model_fixtures import tiny_prefix, tiny_vocab

ROWS = [("1 The lexer", "15"), ("1.1 Rows and columns", "152"), ("2 Hidden ends", "7")]


def contents(rows: Sequence[tuple[str, str]], step: int = 12) -> tuple[Image, tuple[Quad, ...]]:
    """Rows of contents, 28 points high, with dots `step` pixels apart; and their quads."""
    picture = PilImage.new("RGB", (900, 10 + 46 * len(rows)), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(28)
    for i, (heading, number) in enumerate(rows):
        y = 10 + 46 * i
        pen.text((10, y), heading, "black", font)
        pen.text((830, y), number, "black", font)
        for x in range(int(pen.textlength(heading, font)) + 24, 810, step) if number else ():
            pen.text((x, y), ".", "black", font)
    return np.asarray(picture), tuple(quad_of((0, 5 + 46 * i, 900, 49 + 46 * i)) for i in range(len(rows)))


def heading_width(row: tuple[str, str]) -> float:
    return ImageDraw.Draw(PilImage.new("L", (9, 9))).textlength(row[0], ImageFont.load_default(28))


def read(text: str, id: str, quads: tuple[Quad, ...], status: str = "ok") -> Result:
    found = Result(id, text, [TokenOut(c, 0.5, 1) for c in text], [text] * len(quads), quads)
    found.status = status  # type: ignore[assignment]
    found.trace = [{"step": 1, "position": i, "text": c, "confidence": 0.5} for i, c in enumerate(text)]
    return found


def test_contents_are_read_row_by_row_without_their_dots() -> None:
    image, lines = contents(ROWS)
    (result,) = CompactRecogniser(threads=1).recognise([Request("a", image, lines=lines)])
    short = ["1 The lexer ... 15", "1.1 Rows and columns ... 152", "2 Hidden ends ... 7"]
    assert short_leaders(result.text) == "\n".join(short) and result.text.splitlines() == result.line_texts
    drawn = sum(len(range(int(width) + 24, 810, 12)) for width in map(heading_width, ROWS))
    assert abs(result.text.replace("1.1", "").count(".") - drawn) <= 3
    assert result.status == "ok" and result.lines == lines
    assert result.text == "".join(token.text for token in result.tokens)


def test_a_heading_of_two_lines_is_one_segment_and_text_without_leaders_passes() -> None:
    image, lines = contents([("A heading that", ""), ("goes on", "17"), ("plain", "")])
    splitter = LeaderSplitter(lambda request: ())
    first, number, rest = splitter.split([Request("a", image, lines=lines)])
    assert first is not None and number is not None and rest is not None
    assert first.lines is not None and len(first.lines) == 2 and first.lines[0] == lines[0]
    assert first.lines[1][1][0] < 200 and number.lines is not None and number.lines[0][0][0] > 800
    assert rest.lines == lines[2:]
    plain = Request("b", image[:50], lines=lines[:1])
    assert list(splitter.split([plain, None])) == [plain, None]


def test_segments_are_joined_in_order_whatever_order_they_come_in() -> None:
    image, lines = contents(ROWS[:2])
    heard: list[str] = []
    splitter = LeaderSplitter(lambda request: ())
    parts = [p for p in splitter.split([Request("a", image, lines=lines, on_text=heard.append)]) if p is not None]
    texts = ["One", "1", "Two", "2"]
    results = [read(t, p.id, p.lines or (), "failed" if t == "2" else "ok") for t, p in zip(texts, parts, strict=True)]
    assert [splitter.join(r) for r in results[:0:-1]] == [None] * 3
    whole = splitter.join(results[0])
    assert whole is not None and short_leaders(whole.text) == "One ... 1\nTwo ... 2" and heard == [whole.text]
    assert whole.status == "partial" and whole.id == "a" and whole.line_texts == whole.text.splitlines()
    assert whole.trace is not None
    assert [whole.tokens[e["position"]].text for e in whole.trace] == [e["text"] for e in whole.trace]


def test_lines_that_cannot_be_detected_are_left_to_the_reader() -> None:
    def detect(request: Request) -> tuple[Quad, ...]:
        raise InputError("no")

    request = Request("a", contents(ROWS)[0])
    assert list(LeaderSplitter(detect).split([request])) == [request]


def test_the_rest_is_what_the_reading_holds_behind_the_text() -> None:
    vocab, text = tiny_vocab(), "one two-three four"
    prefix = tiny_prefix(text)
    whole = vocab.decode(prefix.draft_D.tolist())
    ids, probs = rest_of_reading(prefix, vocab.encode("one twq-"), vocab, 100, True)
    assert vocab.decode(ids) == whole[8:] and len(probs) == len(ids)
    assert vocab.decode(rest_of_reading(prefix, vocab.encode("one"), vocab, 4, True)[0]) == whole[3:7]
    assert rest_of_reading(prefix, vocab.encode(text), vocab, 100, True)[0] == []


@pytest.mark.parametrize("most", [4096, 5])
def test_what_stands_behind_a_loop_is_not_lost(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    def check(self: RepetitionGuard, tokens: Sequence[int], expected: int) -> Stop | None:
        return Stop(5, "stopped: a loop") if len(tokens) == 16 else None

    image, lines = contents([("The lexer and its rows", "")])
    monkeypatch.setattr(RepetitionGuard, "check", check)
    request = Request("a", image, lines=lines, decode=DecodeConfig(max_tokens=most))
    (result,) = CompactRecogniser(threads=1).recognise([request])
    assert result.status == "partial" and result.text.startswith("The l")
    if most == 5:  # as many as were asked for
        assert result.text == "The l"
    else:
        assert result.text.replace(" ", "") == "Thelexeranditsrows" and result.errors == [f"stopped: a loop; {REST}"]


@pytest.mark.parametrize(("kept", "status"), [(5, "partial"), (-2, "ok")])
def test_what_stands_behind_an_early_end_is_not_lost(kept: int, status: str) -> None:
    image, lines = contents([("The lexer and its rows", "")])
    reader = CompactRecogniser(threads=1)
    run = reader.engine.run

    def ends_early(*arguments: Any) -> Iterator[DecodeResult]:
        for r in run(*arguments):
            cut = (r.tokens[:kept], r.confidences[:kept], r.steps[:kept])
            yield replace(r, tokens=cut[0], confidences=cut[1], steps=cut[2])

    reader.engine.run = ends_early  # type: ignore[method-assign]
    (result,) = reader.recognise([Request("a", image, lines=lines)])
    assert result.status == status
    if status == "ok":  # one or two characters: a speck is nothing to add
        assert result.text == "The lexer and its ro" and result.errors == []
    else:
        assert result.text.replace(" ", "") == "Thelexeranditsrows" and result.errors == [ENDED_EARLY]

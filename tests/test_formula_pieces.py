"""Pieces of ink, whose ink it is, and the path through them."""

from __future__ import annotations

import numpy as np
import pytest

from derender.formula.components import LETTER, MAX_PIECES, find_pieces
from derender.formula.path import choose_gaps, read_path, walk
from derender.formula.spelling import target_tokens
from derender.formula.structure import well_formed
from derender.formula.tex import tex_ready
from derender.formula.vocabulary import FORMULA_TOKENS, FormulaVocab, encode_tokens
from derender.train.formula_colours import NOBODY, UNINKED, coloured, owners
from derender.train.formula_grammar import draw_formula
from derender.train.formula_pieces import ranks
from derender.train.formula_render import _render

needs_tex = pytest.mark.skipif(not tex_ready(), reason="pdflatex is not installed with its packages and fonts")


def _bars(scale: int = 1) -> np.ndarray:
    picture = np.full((60 * scale, 120 * scale), 255, np.uint8)
    for x0, y0, x1, y1 in ((10, 20, 30, 44), (50, 10, 66, 34), (90, 20, 110, 44)):
        picture[y0 * scale : y1 * scale, x0 * scale : x1 * scale] = 0
    return picture


def test_pieces_come_from_left_to_right_in_units_of_letters() -> None:
    pieces, number_HW = find_pieces(_bars())
    assert pieces.box_N4 == pytest.approx(
        np.array([[0, -17, 20, 7], [40, -27, 56, -3], [80, -17, 100, 7]]) / LETTER + [0, 10 / LETTER, 0, 10 / LETTER],
        abs=0.01,
    )
    assert sorted(set(number_HW.ravel().tolist())) == [-1, 0, 1, 2]
    assert pieces.ink_N == pytest.approx([1, 1, 1])


def test_pieces_do_not_depend_on_the_size_of_the_picture() -> None:
    small, large = find_pieces(_bars())[0], find_pieces(_bars(3))[0]
    assert large.box_N4 == pytest.approx(small.box_N4, abs=0.06)
    assert np.abs(large.glyph_N2SS.astype(int) - small.glyph_N2SS).mean() < 12


def test_white_on_black_gives_the_same_pieces() -> None:
    assert find_pieces((255 - _bars()).astype(np.uint8))[0].box_N4 == pytest.approx(find_pieces(_bars())[0].box_N4)


def test_a_glyph_holds_its_own_piece_only_and_its_context_the_others() -> None:
    picture = np.full((60, 60), 255, np.uint8)
    picture[10:40, 10:13] = picture[37:40, 10:44] = 0  # an angle around
    picture[18:30, 22:34] = 0  # a block
    pieces, _ = find_pieces(picture)
    angle = int(np.argmin(pieces.box_N4[:, 0]))
    assert pieces.glyph_N2SS[angle, 0, 10, 20] == 0
    assert pieces.glyph_N2SS[angle, 1, 14, 18] > 128


@pytest.mark.parametrize("size", [(1, 1), (40, 60)])
def test_an_empty_picture_has_no_pieces(size: tuple[int, int]) -> None:
    pieces, _ = find_pieces(np.full(size, 255, np.uint8))
    assert pieces.box_N4.shape == (0, 4) and pieces.dropped == 0


def test_pieces_beyond_the_most_are_counted() -> None:
    picture = np.full((40, 12 * (MAX_PIECES + 5)), 255, np.uint8)
    for i in range(MAX_PIECES + 5):
        picture[10:30, 12 * i + 2 : 12 * i + 8] = 0
    pieces, _ = find_pieces(picture)
    assert (len(pieces.box_N4), pieces.dropped) == (MAX_PIECES, 5)


def _logits(rows: list[list[int]], width: int, high: float = 8.0) -> np.ndarray:
    out = np.zeros((len(rows), width), np.float32)
    for i, best in enumerate(rows):
        out[i, best] = high
    return out


def test_the_path_follows_the_successors_and_leaves_out_what_is_nothing() -> None:
    symbol = _logits([[5], [0], [7]], 9)  # the second piece is a dot
    following = _logits([[3], [0], [1], [2]], 4)  # start -> 3 -> 2, which is nothing: the next best is the end
    following[3, 1] = 4
    path, sure = walk(symbol, following)
    assert path == [3, 1]
    assert len(sure) == 3 and min(sure) > 0.5


def test_a_circle_of_successors_ends() -> None:
    path, _ = walk(_logits([[5], [5]], 9), _logits([[1], [2], [1]], 3))
    assert path == [1, 2]


def test_the_reading_is_gaps_and_symbols_with_a_place_for_each_piece() -> None:
    x, two = encode_tokens(["x"]), encode_tokens(["2"])
    gaps = [[], encode_tokens(["^", "{"]), encode_tokens(["}"])]
    assert x and two
    boxes = np.array([[0, 0, 1, 1], [1, -1, 1.5, 0], [1.4, -1.1, 1.5, -1]], np.float32)
    reading = read_path(
        _logits([x, two, [0]], len(FORMULA_TOKENS)),
        _logits([[1], [2], [0], [0]], 4),
        lambda stops: _logits([[0], [1], [2]], 3) if stops == [0, 1, 2, 0] else np.zeros((0, 3), np.float32),
        gaps,  # type: ignore[arg-type]
        boxes,
    )
    assert [FORMULA_TOKENS[i] for i in reading.draft_D] == ["x", "^", "{", "2", "}"]
    assert reading.position_N.tolist() == [0, 3, 3]
    assert len(reading.prob_D) == 5 and reading.prob_D.min() > 0.8


def test_nothing_but_dirt_reads_as_nothing() -> None:
    reading = read_path(
        _logits([[0]], 5), _logits([[1], [0]], 2), lambda _s: _logits([[0]], 1), [[]], np.zeros((1, 4), np.float32)
    )
    assert reading.draft_D.tolist() == [] and reading.position_N.tolist() == [0]


def test_the_mask_has_no_text() -> None:
    with pytest.raises(ValueError):
        FormulaVocab().piece(0)
    assert [FormulaVocab().piece(i) for i in (1, len(FORMULA_TOKENS))] == ["", ""]


@pytest.mark.parametrize(
    "latex",
    [
        r"\frac{a}{b + c_{1}^{2}} = \sqrt[3]{x}",
        r"\sum_{i=1}^{n + 2} f''(x) + \prod^{k} \int_{0}^{1} x - \bigcup_{z} 4",
        r"\begin{cases} \hat{a} & \mathrm{if} b \\ 1 & \mathrm{or} c \end{cases}",
        r"\left( \overbrace{x + y} \right)^{\underline{2}} \sin \alpha",
    ],
)
@needs_tex
def test_every_symbol_has_ink_of_its_own_colour(latex: str) -> None:
    tokens = target_tokens(latex)
    source, ids = coloured(latex, tokens), encode_tokens(tokens)
    assert source is not None and ids is not None
    (picture,) = _render(np.random.default_rng(3), [(source, tuple(ids))], "computer modern")
    inked = {i for i, t in enumerate(tokens) if t not in UNINKED and t not in "[]"}
    lone = {i + 2 for i, t in enumerate(tokens) if t == r"\hat"}  # it shares the accent's colour
    assert set(np.unique(picture.owner_HW).tolist()) - {NOBODY} == inked - lone


@needs_tex
def test_colours_leave_the_layout_as_it_is() -> None:
    latex = r"- \frac{a}{b} \leq \left[ \hat{\Delta}_{R}^{ab} - f' \right] \cdot \mathrm{eff}"
    source = coloured(latex, target_tokens(latex))
    assert source is not None
    plain, painted = (next(_render(np.random.default_rng(1), [(s, (5,))], "times")) for s in (latex, source))
    assert painted.grey_HW.shape == plain.grey_HW.shape
    assert np.abs(painted.grey_HW.astype(int) - plain.grey_HW).max() <= 2


def test_a_source_in_another_order_is_not_coloured() -> None:
    assert coloured("a^{2}_{1}", target_tokens("a^{2}_{1}")) is None


def test_pale_ink_still_names_its_token() -> None:
    colour = np.array([0, 5 * 20, 3 * 18])  # 3 * 12 + 5
    rgb = np.stack([255 - (255 - colour) * k for k in (1.0, 0.5, 0.3, 0.0)])[None].astype(np.uint8)
    assert owners(rgb)[0].tolist() == [41, 41, 41, NOBODY]


def test_one_piece_of_an_equals_sign_is_its_head() -> None:
    number = np.full((20, 20), -1, np.int32)
    number[5:7, 2:18], number[12:14, 2:18] = 0, 1
    owner = np.where(number >= 0, 0, NOBODY).astype(np.uint8)
    boxes = np.array([[2, 5, 18, 7], [2, 12, 18, 14]], np.float32)
    assert ranks(number, owner, encode_tokens(["="]) or [], boxes).tolist() == [0, -1]


def test_the_accented_symbol_is_the_piece_that_reaches_lowest() -> None:
    number = np.full((24, 20), -1, np.int32)
    number[2:4, 6:12], number[8:20, 4:14] = 0, 1
    owner = np.where(number >= 0, 0, NOBODY).astype(np.uint8)
    boxes = np.array([[6, 2, 12, 4], [4, 8, 14, 20]], np.float32)
    ids = encode_tokens([r"\bar", "{", "x", "}"]) or []
    assert ranks(number, owner, ids, boxes).tolist() == [0, 2]


@pytest.mark.parametrize("seed", range(5))
def test_every_formula_of_the_grammar_is_well_formed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        tokens = target_tokens(draw_formula(rng))
        assert well_formed(tokens), tokens


@pytest.mark.parametrize(
    "tokens",
    [
        "a }", "{ a }", "x _ {", r"\frac { a } b", r"\frac { a }", "x ^ { 2 } ^ { 3 }", "x ^ { 2 } _ { 3 }", "a & b",
        r"\beginenvarray a } \endenvarray", r"\beginenvarray a \endenvaligned", r"\sqrt x", r"a \\ b", r"\mathrm",
        r"\sqrt [ 3 ] x",
    ],
)  # fmt: skip
def test_what_is_not_well_formed_is_refused(tokens: str) -> None:
    assert not well_formed(tokens.split())


def test_a_doubtful_brace_is_closed_where_the_formula_needs_it() -> None:
    gaps = [encode_tokens(t.split()) or [] for t in ("", "{", "}", "} }")]
    symbols = encode_tokens([r"\sqrt", "x", r"\sqrt", "y"]) or []
    log = np.log(np.full((5, 4), 1e-3, np.float32))
    for step, (likely, other) in enumerate([(0, 1), (1, 0), (0, 2), (1, 0), (3, 2)]):  # the greedy reading is broken
        log[step, likely], log[step, other] = np.log(0.6), np.log(0.3)
    assert [gaps[g] for g in choose_gaps(log, symbols, gaps)] == [[], gaps[1], [], gaps[1], gaps[3]]
    log[2, 0] = np.log(1e-3)  # now the first root is surely over before the second
    assert [gaps[g] for g in choose_gaps(log, symbols, gaps)] == [[], gaps[1], gaps[2], gaps[1], gaps[2]]


def test_a_reading_that_cannot_be_well_formed_is_the_likeliest_of_each_step() -> None:
    gaps = [encode_tokens(["}"]) or []]
    assert choose_gaps(np.zeros((2, 1), np.float32), encode_tokens(["x"]) or [], gaps) == [0, 0]


def test_symbols_that_blur_runs_together_are_taken_apart() -> None:
    import cv2

    picture = np.full((60, 90), 255, np.uint8)
    for x in (10, 26, 42):
        picture[15:45, x : x + 12] = 0  # four pixels between
    blurred = cv2.GaussianBlur(picture, (0, 0), 2.4).astype(np.uint8)
    assert len(find_pieces(picture)[0].box_N4) == len(find_pieces(blurred)[0].box_N4) == 3

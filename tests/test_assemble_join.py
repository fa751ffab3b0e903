"""join.py: what happens at a line's end, case by case; and that no letter is ever lost or invented."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.assemble.contents import short_leaders
from derender.assemble.join import join_lines, join_pair, vocabulary_of


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["One line", "and the next."], "One line and the next."),
        (["  padded  ", "", "lines\t"], "padded lines"),
        ([], ""),
        (["", "  "], ""),
        # true word breaks
        (["the algo-", "rithms of"], "the algorithms of"),
        (["a (recon-", "struction), then"], "a (reconstruction), then"),
        (["das Straßen-", "bahnnetz"], "das Straßenbahnnetz"),
        (["l\u2019appren-", "tissage"], "l\u2019apprentissage"),
        (["state-of-the-art recon-", "struction"], "state-of-the-art reconstruction"),
        (["a non-lin-", "ear map"], "a non-linear map"),
        (["the high-", "est one"], "the highest one"),
        (["a mild state-", "ment"], "a mild statement"),
        (["of-", "ten"], "often"),
        # compounds, chemical names, digits: the hyphen stays
        (["n-", "tridecanal"], "n-tridecanal"),
        (["self-", "consistent"], "self-consistent"),
        (["non-", "negative"], "non-negative"),
        (["well-", "known"], "well-known"),
        (["state-of-the-", "art"], "state-of-the-art"),
        (["state-", "of-the-art"], "state-of-the-art"),
        (["GPU-", "based code"], "GPU-based code"),
        (["background-", "free data"], "background-free data"),
        (["3-", "methylbutanal"], "3-methylbutanal"),
        (["pages 12-", "15"], "pages 12-15"),
        (["COVID-", "19 cases"], "COVID-19 cases"),
        (["Anglo-", "Saxon"], "Anglo-Saxon"),
        (["pseudo-", "(random)"], "pseudo-(random)"),
        (["file_name-", "suffix"], "file_name-suffix"),
        # suspended hyphens and dashes
        (["pre-", "and postprocessing"], "pre- and postprocessing"),
        (["Haupt-", "und Nebensatz"], "Haupt- und Nebensatz"),
        (["a word -", "then more"], "a word - then more"),
        (["an aside\u2014", "like this"], "an aside\u2014like this"),
        (["1990\u2013", "1995"], "1990\u20131995"),
        (["spaced \u2013", "dash"], "spaced \u2013 dash"),
        # soft hyphens, PDFium's marks, old print
        (["inter\u00ad", "national"], "international"),
        (["inter\x02", "national"], "international"),
        (["Ge\u2e17", "schichte"], "Geschichte"),
        (["self\u00adconsistent", "field"], "self-consistent field"),
        (["inter\u00ad"], "inter-"),
        # scripts without spaces
        (["这是第一", "行文字。"], "这是第一行文字。"),
        (["日本語の文", "です"], "日本語の文です"),
        (["使用Python语", "言编写"], "使用Python语言编写"),
        (["使用", "Python"], "使用Python"),
        (["使用 GPU 训练", "CNN"], "使用 GPU 训练 CNN"),
        (["。", "Python"], "。Python"),
        (["한국어 문장", "입니다"], "한국어 문장 입니다"),
        (["ภาษา", "ไทย"], "ภาษาไทย"),
        # addresses
        (["see https://example.org/a/", "b-c.html for"], "see https://example.org/a/b-c.html for"),
        (["https://doi.org/10.21105/", "joss.01234"], "https://doi.org/10.21105/joss.01234"),
        (["doi:10.1000/abc-", "def"], "doi:10.1000/abc-def"),
        (["https://example.org/self", "/test?x=1"], "https://example.org/self/test?x=1"),
        (["https://doi.org/10.48550/ARXIV.", "2212.07005"], "https://doi.org/10.48550/ARXIV.2212.07005"),
        (["https://doi.org/10.1111/j.", "1745-6584.x, and"], "https://doi.org/10.1111/j.1745-6584.x, and"),
        (["https://example.org/page.", "3 of them"], "https://example.org/page. 3 of them"),
        (["https://github.com/nick/", "SomeProject"], "https://github.com/nick/SomeProject"),
        (["84(5). https:", "//doi.org/10.1/x"], "84(5). https://doi.org/10.1/x"),
        (["https://example.org/page.", "Then we"], "https://example.org/page. Then we"),
        (["https://example.org/", "and then"], "https://example.org/ and then"),
        (["(https://example.org)", "is/are"], "(https://example.org) is/are"),
    ],
)
def test_line_end(lines: list[str], text: str) -> None:
    assert join_lines(lines) == text


def test_vocabulary_decides_what_rules_cannot() -> None:
    assert join_lines(["the metal-", "insulator"]) == "the metalinsulator"
    assert join_lines(["the metal-", "insulator"], {"metal", "insulator"}) == "the metal-insulator"
    assert join_lines(["a cross-", "road"], {"crossroad"}) == "a crossroad"
    assert join_lines(["the INTRO-", "DUCTION"], {"introduction"}) == "the INTRODUCTION"


def test_capitals_all_around_do_not_hide_a_word_break() -> None:
    assert join_lines(["WATER MODEL CALIBRA-", "TION AND USE"]) == "WATER MODEL CALIBRATION AND USE"
    assert join_lines(["we ran the GPU-", "CPU code"]) == "we ran the GPU-CPU code"


def test_korean_words_are_mended_when_the_document_knows_them() -> None:
    assert join_lines(["단계 에 돌", "입하였음을"], {"돌입하였음을"}) == "단계 에 돌입하였음을"
    assert join_lines(["단계 에 돌", "입하였음을"]) == "단계 에 돌 입하였음을"


def test_vocabulary_leaves_out_words_cut_by_a_line_end() -> None:
    words = vocabulary_of(["Whole words and metal-insulator in-", "side a line"])
    assert {"whole", "words", "metal-insulator", "line"} <= words
    assert not {"in", "side"} & words


def test_pieces_of_a_paragraph_keep_their_line_feeds() -> None:
    assert join_pair("- one\n- two unfin-", "ished") == "- one\n- two unfinished"
    assert join_pair("", "b") == "b"


line_text = st.text(
    alphabet=st.one_of(st.sampled_from("ab ZÄ-\u00ad\u2010\u20141/:.,(中。한ก\t\x02"), st.characters(codec="utf-8")),
    max_size=20,
)


@settings(deadline=None)
@given(st.lists(line_text, max_size=5), st.one_of(st.none(), st.frozensets(st.text("abz-", max_size=4))))
def test_no_letter_is_lost(lines: list[str], vocabulary: frozenset[str] | None) -> None:
    def solid(text: str) -> str:
        return "".join(char for char in text if char.isalnum())

    assert solid(join_lines(lines, vocabulary)) == solid("".join(lines))


@settings(deadline=None)
@given(st.lists(line_text, max_size=5))
def test_result_is_one_clean_line(lines: list[str]) -> None:
    text = join_lines(lines)
    assert text == " ".join(text.split()) and "\u00ad" not in text


@pytest.mark.parametrize(
    ("lines", "text", "short"),
    [
        (
            ["1 Introduction .......... 2", "1.1 Why . . . . . . . xii"],
            "1 Introduction .......... 2\n1.1 Why . . . . . . . xii",
            "1 Introduction ... 2\n1.1 Why ... xii",
        ),
        (
            ["A long", "heading\u2026\u2026\u2026\u2026 12", "Next .... A-3"],
            "A long heading\u2026\u2026\u2026\u2026 12\nNext .... A-3",
            "A long heading ... 12\nNext ... A-3",
        ),
        (
            ["He said .......... and went", "away... 3 times"],
            "He said .......... and went away... 3 times",
            "He said .......... and went away... 3 times",
        ),
        (["你好……", "再见"], "你好……再见", "你好……再见"),
    ],
)
def test_rows_of_contents_keep_their_lines_and_get_short_leaders(lines: list[str], text: str, short: str) -> None:
    assert join_lines(lines) == text and short_leaders(text) == short


@pytest.mark.parametrize("end", ["x", "y", "7"])
def test_a_long_row_of_dots_costs_no_time(end: str) -> None:
    lines = ["." * 20_000, ". " * 20_000, end]
    assert short_leaders(join_lines(lines)).endswith(end)


@pytest.mark.parametrize(
    "text", ["....a" * 20_000, " " * 100_000 + "....y", "......... " * 10_000 + "y", "\n" * 100_000]
)
def test_no_text_makes_leaders_slow_to_find(text: str) -> None:
    assert short_leaders(text) == text

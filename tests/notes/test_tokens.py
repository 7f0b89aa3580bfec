"""Tokens: what stays one word, where it stands, and that the array tokenizer finds the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.notes.tokens import STOP_WORDS, find_tokens, hash_word, hash_words, iterate_tokens, spell

PIECES = [
    *"s/p C&S p.o. 500mg L4-5 don't OR or The THE patient's [**1-2**] ___ x-ray _%#NAME#%_ 10,000 A&Ox3 "
    "b.i.d. - . / é ’s [** **] HIV's a I V71.09 T37.7C 1.5 5mg2 N\u212a IS PAIN".split(),
    *(" ", " ", "  ", "\n"),
]
nasty_text = st.one_of(
    st.text(),
    st.text(alphabet="aAsSxz09 .,:/&'’-[]*_%#\n\t<éÉİµ²ßΣ😀\x00", max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
)


def words(text: str, *, stop_words: bool = False) -> list[str]:
    return [token.word for token in iterate_tokens(text, stop_words=stop_words)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pt s/p CABG", ["pt", "s/p", "cabg"]),
        ("C&S sent, H&P done", ["c&s", "sent", "h&p", "done"]),
        ("MS Contin", ["ms", "contin"]),
        ("p.o. b.i.d.", ["po", "bid"]),
        ("taken to the OR now or later", ["taken", "or", "later"]),
        ("IS used AS needed, NO fever", ["is", "used", "as", "needed", "no", "fever"]),
        ("A man. I saw him", ["man", "saw"]),
        ("THE PATIENT IS ALERT AND ORIENTED", ["patient", "alert", "oriented"]),
        ("TAKEN TO THE OR", ["taken"]),
        ("seen in the OR. THE PATIENT  WAS AWAKE", ["seen", "or", "patient", "awake"]),
        ("IS STABLE. THE\nPATIENT IS AWAKE", ["stable", "patient", "awake"]),
        ("to the\nOR. OR\n\nTHE\nPLAN", ["or", "or", "plan"]),
        ("NO fever, AS needed FOR PAIN", ["no", "fever", "as", "needed", "for", "pain"]),
        ("took 500mg at 10:30 on 7/16/2151", ["took", "<digit>", "mg", "<digit>", "<digit>"]),
        ("vitamin B12 q6h", ["vitamin", "b12", "q6h"]),
        ("PT/OT and nausea/vomiting", ["pt", "ot", "nausea", "vomiting"]),
        ("x-ray of L4-5, follow-up", ["x-ray", "l4-5", "follow"]),
        ("the patient's wife doesn't smoke", ["patient", "wife", "smoke"]),
        (
            "seen [**2151-7-16**] at [**Hospital 12**] by [**Name (NI) 4**]",
            ["seen", "<date>", "<place>", "<name>"],
        ),
        ("admitted ___ by Dr. ___", ["admitted", "<deid>", "dr", "<deid>"]),
        ("_%#MM2002#%_ _%#CITY#%_", ["<date>", "<place>"]),
        ("code V71.09, temp T37.7C", ["code", "v7109", "temp", "t377c"]),
        ("5mg2 1.5ml 3c-b", ["<digit>", "mg2", "<digit>", "ml", "<digit>", "c", "b"]),
        ("", []),
    ],
)
def test_text_is_cut_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    without = find_tokens(text, stop_words=True).without_stop_words()
    assert without.hashes.tolist() == [hash_word(word) for word in expected]


@given(nasty_text, st.booleans())
@settings(max_examples=500)
def test_the_array_tokenizer_finds_exactly_the_tokens_of_the_pattern(text: str, stop_words: bool) -> None:
    found = find_tokens(text, stop_words=stop_words)
    in_arrays = list(zip(found.starts.tolist(), found.ends.tolist(), found.hashes.tolist(), strict=True))
    one_by_one = iterate_tokens(text, stop_words=stop_words)
    assert in_arrays == [(token.start, token.end, hash_word(token.word)) for token in one_by_one]


@given(nasty_text, st.booleans())
def test_offsets_point_at_the_text_of_the_token(text: str, stop_words: bool) -> None:
    end_of_previous = 0
    for token in iterate_tokens(text, stop_words=stop_words):
        assert end_of_previous <= token.start < token.end
        assert token.word == spell(text[token.start : token.end])
        end_of_previous = token.end


@given(st.text(alphabet="abAB /.&", max_size=12), st.text(alphabet="abAB /.&", max_size=12))
def test_words_meet_in_a_hash_only_when_they_are_the_same(one: str, other: str) -> None:
    assert (hash_word(one) == hash_word(other)) == (one == other)


def test_stop_words_are_dropped_unless_in_capitals() -> None:
    for word in STOP_WORDS:
        assert words(f"{word} pain") == ["pain"]
        assert words(f"{word.capitalize()} pain") == ["pain"]
        if len(word) > 1 and "'" not in word:
            assert words(f"{word.upper()} pain") == [word, "pain"]


def test_stop_words_are_kept_where_they_are_asked_for() -> None:
    for word in STOP_WORDS:
        for written in (word, word.capitalize(), word.upper()):
            assert words(f"{written} pain", stop_words=True) == [word, "pain"]
    assert words("A man took it to the OR", stop_words=True) == ["a", "man", "took", "it", "to", "the", "or"]


@given(nasty_text)
def test_keeping_stop_words_adds_them_and_nothing_else(text: str) -> None:
    kept = list(iterate_tokens(text, stop_words=True))
    without = set(iterate_tokens(text))
    assert {token.word for token in kept if token not in without} <= STOP_WORDS
    assert [token for token in kept if token in without] == list(iterate_tokens(text))


def test_no_stop_word_can_be_written_with_letters_beyond_ascii() -> None:
    assert not any("k" in word for word in STOP_WORDS)  # the Kelvin sign is a "k"
    assert all(word.isascii() for word in STOP_WORDS)


def test_words_longer_than_sixty_four_characters_are_dropped() -> None:
    assert words("x" * 64) == ["x" * 64]
    for stop_words in (False, True):
        assert words("x" * 65 + " 1" + "0" * 70, stop_words=stop_words) == []


@pytest.mark.parametrize("unit", ["[**", "_", "A B", " ", "a.", "1.", "a/", "x-", "'s", "_%#", "é"])
def test_time_is_linear_in_hostile_text(unit: str) -> None:
    text = unit * (200_000 // len(unit))  # minutes, if either path were quadratic
    assert find_tokens(text).starts.tolist() == [token.start for token in iterate_tokens(text)]


@given(st.lists(st.text(max_size=90)))
def test_many_words_have_the_hashes_they_have_alone(words: list[str]) -> None:
    assert hash_words(words).tolist() == [hash_word(word) for word in words]

"""Hashes of the parts of words, against their definition in plain Python."""

from hypothesis import given
from hypothesis import strategies as st

from lmcells.pretrained.subwords import GRAM_LENGTHS, grams, is_spelt, slips

K = 0x9E3779B97F4A7C15
WORDS = st.lists(st.text("abcdé-'", min_size=1, max_size=12), max_size=6)


def hash_of(part: str) -> int:
    return sum(ord(character) * K ** (place + 1) for place, character in enumerate(part)) % 2**64


def grams_of(word: str) -> list[str]:
    marked = f"<{word}>"
    return [
        marked[start : start + n]
        for n in GRAM_LENGTHS
        if n < len(marked)
        for start in range(len(marked) - n + 1)
    ]


@given(WORDS)
def test_ngrams_hash_to_the_same_numbers_in_any_process(words: list[str]) -> None:
    found = grams(words)
    expected = sorted((row, hash_of(part)) for row, word in enumerate(words) for part in grams_of(word))
    assert sorted(zip(found.rows.tolist(), found.hashes.tolist(), strict=True)) == expected


@given(WORDS)
def test_a_slip_leaves_the_word_or_all_but_one_of_its_letters(words: list[str]) -> None:
    found = slips(words)
    expected = [
        (row, hash_of(part))
        for row, word in enumerate(words)
        for part in [word, *(word[:place] + word[place + 1 :] for place in range(len(word)))]
    ]
    assert sorted(zip(found.rows.tolist(), found.hashes.tolist(), strict=True)) == sorted(expected)


def test_words_are_spelt_and_numbers_placeholders_and_single_letters_are_not() -> None:
    assert all(map(is_spelt, ["pneumonia", "x-ray", "s/p", "ménière", "it"]))
    assert not any(map(is_spelt, ["", "a", "b12", "<digit>", "<name>", "-x", "a--b", "snake_case"]))

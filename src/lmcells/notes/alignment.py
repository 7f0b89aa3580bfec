"""Which words a short form stands for, by its letters.

Schwartz and Hearst (2003) let each character match anywhere in a word, from the right. Here the characters are dealt
out to whole words: a word takes its first letter, and perhaps some inside it ("ECG" is all of "electrocardiogram");
words without a character may only be stop words and at most one other; and of all ways to do so the best is taken. That
finds the left edge where the original stops at the first letter that happens to fit.
"""

import re

from lmcells.notes.stop_words import STOP_WORDS

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

_INSIDE = 0.4  # what a letter inside a word counts, where one that begins a word counts 1
_SKIPPED = -0.8  # what a word without a letter counts
_LEAST = 0.59  # of the score that a short form has whose every character begins a word
_EACH_WORD = -1e-3  # of two ways that are as good, that with fewer words

_Way = tuple[float, int]  # the score, and the first word


def align(short_form: str, words: list[str], *, to_the_end: bool) -> tuple[int, int] | None:
    """Return the first and the last of the words that the short form stands for, None where it stands for none."""
    characters = _characters(short_form)
    lowered = [word.lower() for word in words]
    best: tuple[float, int, int] | None = None
    for last in range(len(words) - 1 if to_the_end else 0, len(words)):
        way = _deal(characters, lowered, last)
        if way is not None and (best is None or way[0] > best[0]):
            best = (*way, last)
    if best is None:
        return None
    score, first, last = best
    good = _is_good_word(short_form, words[first]) if first == last else score > _LEAST * len(characters)
    return (first, last) if good else None


def _is_good_word(short_form: str, word: str) -> bool:
    """Whether one word may be all of a short form: "Hb" is hemoglobin, "Pes" is no pressure, "OD" is not "old"."""
    n_capitals = sum(character.isupper() for character in short_form)
    return (n_capitals > 1 or len(short_form) == 2) and len(word) >= 2 * len(short_form)


def _characters(short_form: str) -> str:
    return "".join(character for character in short_form if character.isalnum()).lower()


def _deal(characters: str, words: list[str], last: int) -> _Way | None:
    """Deal the characters out to the words up to `last`, which takes one or more."""
    known: dict[tuple[int, int, int], _Way | None] = {}
    most_skipped = 1 if len(characters) > 2 else 0

    def deal(n_characters: int, word: int, n_skipped: int) -> _Way | None:
        """The best way to deal so many first characters to the words up to this one."""
        if n_characters == 0:
            return None if words[word + 1] in STOP_WORDS else (0.0, word + 1)
        if word < 0:
            return None
        key = (n_characters, word, n_skipped)
        if key not in known:
            ways = [*taking(n_characters, word, n_skipped), *skipping(n_characters, word, n_skipped)]
            known[key] = max(ways, default=None)
        return known[key]

    def taking(n_characters: int, word: int, n_skipped: int) -> list[_Way]:
        ways = []
        for n_taken in range(1, n_characters + 1):
            taken = characters[n_characters - n_taken : n_characters]
            if words[word][0] == taken[0] and _is_within(taken[1:], words[word][1:]):
                way = deal(n_characters - n_taken, word - 1, n_skipped)
                if way is not None:
                    ways.append((way[0] + 1 + _INSIDE * (n_taken - 1) + _EACH_WORD, way[1]))
        return ways

    def skipping(n_characters: int, word: int, n_skipped: int) -> list[_Way]:
        is_content = words[word] not in STOP_WORDS
        if word == last or n_skipped + is_content > most_skipped:
            return []
        way = deal(n_characters, word - 1, n_skipped + is_content)
        return [(way[0] + _SKIPPED * is_content + _EACH_WORD, way[1])] if way is not None else []

    return deal(len(characters), last, 0)


def _is_within(letters: str, word: str) -> bool:
    """Whether the letters occur in the word in this order."""
    remaining = iter(word)
    return all(letter in remaining for letter in letters)

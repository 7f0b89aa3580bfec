"""How a long form would stand in a text, as tuples of tokens.

In a corpus without stop words "out-patient" would be found wherever "patient" stands: a form of which one word is left
is another phrase there, and can only be read. Of several words little is lost: "otherwise specified" is seldom anything
but "not otherwise specified". Inventories also write "alzheimer s disease", and singular or plural as it comes.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from lmcells.notes.tokens import iterate_tokens

Wording = tuple[str, ...]

_LONE_S = re.compile(r"(?<=[^\W\d_]{2}) s(?= )")  # what is left of 's
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST = 4  # letters of a word that can have a plural


def wordings(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the distinct ways to write a long form that a corpus with stop words or without would have, in order."""
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, is_whole in read if is_whole))


def remains(forms: Iterable[str], *, stop_words: bool) -> list[Wording]:
    """Return the words that are left of each form, for a long form that has no wording."""
    read = (_read(form, stop_words=stop_words) for form in forms)
    return list(dict.fromkeys(words for words, _ in read if words))


def with_plurals(wordings: Iterable[Wording]) -> list[Wording]:
    """Add the other number of the last word of each, as English would form it."""
    given = list(wordings)
    others = ((*words[:-1], other) for words in given for other in _other_numbers(words[-1]))
    return list(dict.fromkeys([*given, *others]))


def _read(form: str, *, stop_words: bool) -> tuple[Wording, bool]:
    """The words of a form, and whether they stand for it: its first and last are among them, or several are left."""
    form = _LONE_S.sub("'s", form)
    tokens = list(iterate_tokens(form, stop_words=stop_words))
    if not tokens:
        return (), False
    before, after = form[: tokens[0].start], form[tokens[-1].end :].removeprefix("'s")
    is_whole = not _LETTER_OR_DIGIT.search(before) and not _LETTER_OR_DIGIT.search(after)
    words = tuple(word for word, _ in groupby(token.word for token in tokens))
    return words, is_whole or len(words) > 1


def _other_numbers(word: str) -> list[str]:
    if len(word) < _SHORTEST:
        return []
    others = [word + "s"]
    if word.endswith("ies"):
        others.append(word[:-3] + "y")
    if word.endswith("y"):
        others.append(word[:-1] + "ies")
    if word.endswith("es"):
        others.append(word[:-2])
    if word.endswith("s"):
        others.append(word[:-1])
    if word.endswith(("s", "x", "ch", "sh")):
        others.append(word + "es")
    return others

"""The words around a place in a text, never beyond a section."""

import re
from functools import cache

_CHARACTERS_PER_WORD = 200  # where words are longer than this on average, it is no prose


@cache
def _words(n_words: int) -> re.Pattern[str]:
    return re.compile(rf"\S*(?:\s+\S+){{0,{n_words}}}")


def window_around(
    text: str, start: int, end: int, *, n_words: int, bounds: tuple[int, int]
) -> tuple[int, int] | None:
    """Return where the window begins and ends: `n_words` words on each side of `text[start:end]`, within `bounds`.

    A word is what stands between white space, so the window is cut where words are. What is glued to the place
    itself, such as a bracket, is no word of its own. None where words are too long to be words.
    """
    first, last = bounds
    farthest = (n_words + 1) * _CHARACTERS_PER_WORD
    before = text[max(first, start - farthest) : start][::-1]  # backward is forward on the mirrored text
    after = text[end : min(last, end + farthest)]
    to_left, to_right = _reach(before, n_words), _reach(after, n_words)
    if farthest in (to_left, to_right):
        return None
    return start - to_left, end + to_right


def _reach(away: str, n_words: int) -> int:
    found = _words(n_words).match(away)
    assert found is not None  # the empty string matches
    return found.end()

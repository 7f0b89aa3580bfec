"""What a token is: words with character offsets into the original text.

The rules, each chosen so that a short form stays one token and findable:

- words are runs of letters and digits; `500mg` is a number and a word, `b12` and `q6h` are words;
- `.` and `/` join single letters (`p.o.`, `s/p`), `&` joins letters (`C&S`), `-` joins a single letter to what
  follows (`x-ray`), an apostrophe joins letters, and `. , : / -` join digits (`120/80`, `L4-5`); nothing else does;
- a word is lower-cased, loses the dots of `p.o.` and a possessive `'s`; a number becomes `<digit>`; a
  de-identification mark becomes a placeholder; stop words not written in capitals are dropped, unless asked for, and
  so is anything longer than 64 characters.

This file is the definition, one pattern and one pass. `bulk_tokens.py` finds the same, many times faster.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from lmcells.notes.placeholders import MARK, NUMBER, placeholder
from lmcells.notes.stop_words import STOP_WORDS

MAX_LENGTH = 64
_BEYOND_BASIC = 0x10000

# Characters beyond the basic multilingual plane (emoji, mostly) are never part of a word.
_BEYOND = "\U00010000-\U0010ffff"
_W = rf"[^\W_{_BEYOND}]"  # a letter or digit
_L = rf"[^\W_0-9{_BEYOND}]"  # a letter
_SINGLE = rf"(?<!{_W}){_L}"
_JOIN = "|".join(
    (
        rf"(?<={_SINGLE})[./](?={_L}(?!{_W}))",  # s/p, p.o.
        rf"(?<={_L})[&'’](?={_L})",  # C&S, don't
        rf"(?<=(?<![./&'’-]){_SINGLE})-(?={_L})",  # x-ray
        r"(?<=[0-9])[.,:/-](?=[0-9])",  # L4-5
    )
)
_PATTERN = re.compile(
    rf"(?P<mark>{MARK.pattern})|(?P<number>[0-9]+(?:[.,:/-][0-9]+)*)|{_L}{_W}*(?:(?:{_JOIN}){_W}+)*"
)
_MARKS, _DIGITS = frozenset("[_"), frozenset("0123456789")
_POSSESSIVE = ("'s", "’s", "'S", "’S")


class Token(NamedTuple):
    """A word of the vocabulary's spelling, and where `text[start:end]` it was written."""

    word: str
    start: int
    end: int


class _Lower(dict[int, str]):
    """A table for `str.translate` that is filled as characters are met: all of them would delay every start.

    Character by character, so that lower-casing never depends on the neighbours or changes the length.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        lower = character.lower() if code < _BEYOND_BASIC else character
        self[code] = lower = lower if len(lower) == 1 else character
        return lower


LOWER = _Lower({ord("’"): "'"})


def spell(written: str) -> str:
    """Return the vocabulary's spelling of a token as it was written."""
    if written[0] in _MARKS:
        return placeholder(written)
    if written[0] in _DIGITS:
        return NUMBER
    lower = written.lower() if written.isascii() else written.translate(LOWER)
    return lower.replace(".", "") if "." in lower else lower


def is_dropped(word: str, written: str) -> bool:
    """Whether the word is a stop word that was not written in capitals."""
    return word in STOP_WORDS and (len(word) == 1 or written[0].islower() or written[-1].islower())


def iterate_tokens(text: str, *, stop_words: bool = False) -> Iterator[Token]:
    """Yield the tokens of a text in order, with stop words or without."""
    for match in _PATTERN.finditer(text):
        start, end = match.span()
        if match.lastgroup is None and end - start > 2 and text.startswith(_POSSESSIVE, end - 2):
            end -= 2
        written = text[start:end]
        word = spell(written)
        if match.lastgroup == "mark" or (
            end - start <= MAX_LENGTH and (stop_words or not is_dropped(word, written))
        ):
            yield Token(word, start, end)

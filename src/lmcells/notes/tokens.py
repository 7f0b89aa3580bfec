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

# English function words that carry no meaning of their own.
#
# They are dropped unless written in capitals: OR, IS, AS and NO are short forms. Only "a" and "i" are dropped in
# either case, since a sentence capitalises them.


STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can did do does doing down during each few for from further had has have having he her here
    hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now
    of off on once only or other our ours ourselves out over own same she should so some such than that the
    their theirs them themselves then there these they this those through to too under until up very was we
    were what when where which while who whom why will with you your yours yourself yourselves
    eg ie
    aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he'd he'll i'd i'll i'm i've isn't it'd
    it'll let mustn't needn't shan't she'd she'll shouldn't that'll they'd they'll they're they've wasn't we'd
    we'll we're we've weren't won't wouldn't you'd you'll you're you've
    """.split()
)


# De-identification marks, and the placeholder word that stands for each.
#
# MIMIC-III writes `[**2151-7-16**]` and `[**Hospital 12**]`, MIMIC-IV `___`, CASI `_%#NAME#%_`.


NUMBER = "<digit>"
UNKNOWN = "<deid>"

# Lengths are bounded so that text full of openings that never close is still read in linear time.
MARK = re.compile(r"\[\*\*[^\[\]]{0,120}?\*\*\]|_%#[^#%]{0,60}#%_|_{3,}")

# The first that matches names the placeholder.
_KINDS = tuple(
    (word, re.compile("|".join(parts.split()), re.IGNORECASE))
    for word, parts in (
        ("<name>", r"name initial doctor attending dictator \bmd\b signature"),
        (
            "<place>",
            "hospital location street address city state country county zip ward unit university company apartment "
            "box precinct",
        ),
        (
            "<contact>",
            r"telephone phone fax pager e-?mail url number serial ssn account medical.record \bid\b",
        ),
        ("<age>", r"\bage\b"),
        (
            "<date>",
            r"\d{1,4}[-/]\d{1,2} date month year day holiday \bmm \bdd\b january february march april \bmay\b "
            r"june july august september october november december \b(?:19|20|21)\d\d\b",
        ),
    )
)


def placeholder(mark: str) -> str:
    """Return the word that stands for a de-identification mark."""
    return next((word for word, pattern in _KINDS if pattern.search(mark)), UNKNOWN)


# What a token is: words with character offsets into the original text.
#
# The rules, each chosen so that a short form stays one token and findable:
#
# - words are runs of letters and digits; `500mg` is a number and a word, `b12` and `q6h` are words;
# - `.` and `/` join single letters (`p.o.`, `s/p`), `&` joins letters (`C&S`), `-` joins a single letter to what
#   follows (`x-ray`), an apostrophe joins letters, and `. , : / -` join digits (`120/80`, `L4-5`); nothing else does;
# - a word is lower-cased, loses the dots of `p.o.` and a possessive `'s`; a number becomes `<digit>`; a
#   de-identification mark becomes a placeholder; stop words not written in capitals are dropped, unless asked for, and
#   so is anything longer than 64 characters.
#
# This file is the definition, one pattern and one pass. `bulk_tokens.py` finds the same, many times faster.


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

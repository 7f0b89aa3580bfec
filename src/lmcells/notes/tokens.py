"""Tokens: words with character offsets into the original text.

The rules, chosen so that a short form stays one token and can be found:

- words are runs of letters and digits; `500mg` is a number and a word, `b12` and `q6h` are words;
- `.` and `/` join single letters (`p.o.`, `s/p`), `&` joins letters (`C&S`), `-` joins a single letter to what
  follows (`x-ray`), an apostrophe joins letters, and `. , : / -` join digits (`120/80`, `L4-5`); nothing else does;
- a word is lower-cased, loses the dots of `p.o.` and a possessive `'s`; a number becomes `<digit>`; a
  de-identification mark becomes a placeholder; stop words are dropped, unless asked for, and so is anything longer
  than 64 characters;
- OR, IS, AS and NO are short forms, so a stop word in capitals is kept, unless the words next to it are in capitals
  too: in `THE PATIENT IS ALERT` capitals carry no information.

This file is the reference: one pattern, one pass. `token_arrays.find_tokens` finds exactly the same tokens many times
faster; `tests/notes/test_tokens.py` checks that the two agree on any text.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

# English function words. "a" and "i" are dropped in capitals too: sentences capitalise them.
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

NUMBER = "<digit>"
_CAPITALS, _LOWER = ascii_uppercase.encode(), ascii_lowercase.encode()
MAX_LENGTH = 64

# De-identification marks: MIMIC-III writes `[**2151-7-16**]` and `[**Hospital 12**]`, MIMIC-IV `___`, CASI
# `_%#NAME#%_`. Lengths are bounded, so that text full of openings that never close is still read in linear time.
MARK = re.compile(r"\[\*\*[^\[\]]{0,120}?\*\*\]|_%#[^#%]{0,60}#%_|_{3,}")

# The placeholder word of a mark is the first whose pattern matches, or `<deid>`.
_PLACEHOLDERS = {
    "<name>": r"name initial doctor attending dictator \bmd\b signature",
    "<place>": "hospital location street address city state country county zip ward unit university company "
    "apartment box precinct",
    "<contact>": r"telephone phone fax pager e-?mail url number serial ssn account medical.record \bid\b",
    "<age>": r"\bage\b",
    "<date>": r"\d{1,4}[-/]\d{1,2} date month year day holiday \bmm \bdd\b january february march april \bmay\b "
    r"june july august september october november december \b(?:19|20|21)\d\d\b",
    "<deid>": "",
}
_PLACEHOLDER_OF = {re.compile("|".join(parts.split()), re.I): word for word, parts in _PLACEHOLDERS.items()}

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
_POSSESSIVE = ("'s", "’s", "'S", "’S")
_BESIDE = (" ", "  ")  # between neighbouring words


class Token(NamedTuple):
    """A word as the vocabulary spells it, and `text[start:end]` where it was written."""

    word: str
    start: int
    end: int


class _Lower(dict[int, str]):
    """A lazy table for `str.translate`: filling it at once would delay every start.

    Character by character, so that lower-casing never depends on neighbours or changes the length.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        lower = character.lower() if code < 0x10000 else character
        self[code] = lower = lower if len(lower) == 1 else character
        return lower


LOWER = _Lower({ord("’"): "'"})


def spell(written: str) -> str:
    """Return the vocabulary's spelling of a token as it was written."""
    if written[0] in "[_":
        return next(word for pattern, word in _PLACEHOLDER_OF.items() if pattern.search(written))
    if written[0] in "0123456789":
        return NUMBER
    lower = written.lower() if written.isascii() else written.translate(LOWER)
    return lower.replace(".", "") if "." in lower else lower


def iterate_tokens(text: str, *, stop_words: bool = False) -> Iterator[Token]:
    """Yield the tokens of a text in order, with stop words or without."""
    before = 0, 0
    for match, following in pairwise(chain(_PATTERN.finditer(text), (None,))):
        assert match is not None
        start, end = here = _span(text, match)
        written = text[start:end]
        word = spell(written)
        dropped = end - start > MAX_LENGTH
        if not stop_words and word in STOP_WORDS:
            after = (len(text), len(text)) if following is None else _span(text, following)
            beside = _capitals(text, before, gap=(before[1], start))
            beside += _capitals(text, after, gap=(end, after[0]))
            dropped |= len(word) == 1 or _capitals(text, here) != "C" or beside in ("C", "CC")
        if match.lastgroup == "mark" or not dropped:
            yield Token(word, start, end)
        before = here


def _span(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Return the span of a token, without a possessive."""
    start, end = match.span()
    is_possessive = match.lastgroup is None and end - start > 2 and text.startswith(_POSSESSIVE, end - 2)
    return start, end - 2 if is_possessive else end


def _capitals(text: str, span: tuple[int, int], *, gap: tuple[int, int] | None = None) -> str:
    """C for a word in capitals, l for one that begins or ends in lower case; "" for others, or beyond a `gap`."""
    if span[1] - span[0] < 2 or (gap is not None and text[slice(*gap)] not in _BESIDE):
        return ""
    ends = text[span[0]], text[span[1] - 1]
    if any("a" <= letter <= "z" for letter in ends):
        return "l"
    return "C" if all("A" <= letter <= "Z" for letter in ends) else ""


def is_in_capitals(text: str) -> bool:
    """Whether two thirds of a text's letters are capitals, so that case carries no information."""
    letters = text.encode("latin-1", "replace")
    n_capitals, n_lower = (len(letters) - len(letters.translate(None, case)) for case in (_CAPITALS, _LOWER))
    return n_capitals > 2 * n_lower

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

`iterate_tokens` is the reference: one pattern, one pass. `find_tokens` finds exactly the same tokens many times faster,
by array operations: each rule of the pattern looks at most two characters to either side, so each becomes a comparison
of shifted arrays. Words are identified there by a 64-bit hash of their spelling; that any two of ten million words
collide has a probability of about one in 400,000. `tests/notes/test_tokens.py` checks that the two agree on any text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]

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
_BESIDE = (" ", "  ", "\n", " \n", "\n ")  # between neighbouring words


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


# The same tokens by arrays.

_LETTER, _DIGIT, _LOWERCASE = 1, 2, 4
_DOT_SLASH, _AMPERSAND_APOSTROPHE, _HYPHEN, _NUMERIC = 8, 16, 32, 64
_CONNECTORS = {_DOT_SLASH: "./", _AMPERSAND_APOSTROPHE: "&'’", _HYPHEN: "-", _NUMERIC: ".,:/-"}

# Each character becomes one byte: ASCII characters their own, all others one of these.
_NO_LETTER, _OTHER_LETTER, _LOWERCASE_LETTER = 128, 254, 255
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that words of up to eight bytes never collide
_WORD_BYTES = 8  # hashed at a time
_STOP_WORD_BITS = 12  # the table stays in the processor's cache
_MARK_OPENINGS = (b"[**", b"_%#", b"___")


@dataclass(frozen=True, slots=True)
class TokenArrays:
    """Tokens in order: `text[starts[i]:ends[i]]` is the word with hash `hashes[i]`."""

    starts: Array
    ends: Array
    hashes: Hashes
    is_stop_word: npt.NDArray[np.bool_]  # and not written in capitals
    among_capitals: npt.NDArray[np.bool_] | None = None  # stop words in capitals next to words in capitals

    def without_stop_words(self) -> "TokenArrays":
        """Return the tokens that `find_tokens` finds without `stop_words`."""
        dropped = self.is_stop_word
        if self.among_capitals is not None:
            dropped = dropped | self.among_capitals
        return self.without(dropped)

    def without(self, dropped: npt.NDArray[np.bool_]) -> "TokenArrays":
        kept = (~dropped).nonzero()[0]
        return TokenArrays(
            self.starts.take(kept),
            self.ends.take(kept),
            self.hashes.take(kept),
            self.is_stop_word.take(kept),
            None if self.among_capitals is None else self.among_capitals.take(kept),
        )


def hash_word(word: str) -> int:
    encoded = word.encode("utf-8", "surrogatepass")
    value = 0
    for start in range(0, len(encoded), _WORD_BYTES):
        value = (value ^ (value >> 32)) + int.from_bytes(encoded[start : start + _WORD_BYTES], "little")
        value = value * _MULTIPLIER % (1 << 64)
    return value


def hash_words(words: Iterable[str]) -> Hashes:
    """Return the `hash_word` of each word, many times faster."""
    words = list(words)
    joined = "".join(words)
    of_bytes = words if joined.isascii() else [word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.array(list(map(len, of_bytes)), np.int64)
    starts = np.cumsum(lengths) - lengths
    content = b"\0" + joined.encode("utf-8", "surrogatepass") + b"\0" * (_WORD_BYTES + 1)
    hashes = _hash(np.frombuffer(content, np.uint8), starts, lengths)
    for long in np.flatnonzero(lengths > MAX_LENGTH).tolist():
        hashes[long] = hash_word(words[long])
    return hashes


def slots_of(hashes: Hashes, multiplier: int, bits: int) -> Array:
    """Return the slot of each hash in a table of 2**bits; signed, since numpy copies unsigned indices."""
    slots: Hashes = (hashes * np.uint64(multiplier)) >> np.uint64(64 - bits)
    return slots.view(np.int64)


def find_tokens(text: str, *, stop_words: bool = False) -> TokenArrays:
    """Find the tokens of a text: the same ones, in the same order, as `iterate_tokens`."""
    characters, not_ascii = _characters(text)
    marks = _find_marks(text, characters)
    for start, end in marks:
        characters[1 + start : 1 + end] = 0
    capital, digit = _within(characters, "A", 26), _within(characters, "0", 10)
    lowered = characters | (capital.view(np.uint8) * np.uint8(32))
    word = _within(lowered, "a", 26) | digit
    if not_ascii.size:
        word |= characters >= _OTHER_LETTER
    joints = _find_joints(characters, word)
    starts, ends = _find_spans(word, digit, joints, marks)
    _trim_possessives(lowered, joints, starts, ends)
    lengths = ends - starts
    hashes = _hash(lowered, starts, lengths)
    # Tokens not spelt exactly as written: p.o. loses its dots, other alphabets need more bytes.
    number = digit[1:].take(starts)
    odd = joints[characters[1 + joints] == ord(".")]
    if not_ascii.size:
        odd = np.concatenate([odd, not_ascii[word[1 + not_ascii]]])
    for token in {*(starts.searchsorted(odd, "right") - 1).tolist()} if odd.size else ():
        if not number[token] and lengths[token] <= MAX_LENGTH:
            hashes[token] = _hash_written(text[starts[token] : ends[token]])
    hashes[number] = _hash_written("0")  # as of all numbers
    is_stop_word, shouted = _find_stop_words(capital, starts, lengths, hashes)
    among_capitals = np.zeros(starts.size, np.bool_)
    if shouted.size:
        among_capitals[shouted] = _are_among_capitals(characters, starts, ends, shouted)
    dropped = lengths > MAX_LENGTH
    if not stop_words:
        dropped |= is_stop_word | among_capitals
    if marks:
        is_mark = characters[1 + starts] == 0
        hashes[is_mark] = np.array([_hash_written(text[start:end]) for start, end in marks], np.uint64)
        dropped[is_mark] = is_stop_word[is_mark] = False
    found = TokenArrays(starts, ends, hashes, is_stop_word, among_capitals)
    return found.without(dropped) if dropped.any() else found


@lru_cache(maxsize=1 << 14)
def _hash_written(written: str) -> int:
    return hash_word(spell(written))


def _find_marks(text: str, characters: Bytes) -> list[tuple[int, int]]:
    if "_" not in text and ("[" not in text or "[**" not in text):  # a single character is found faster
        return []
    at = np.flatnonzero(((characters == ord("[")) | (characters == ord("_")))[1:-_WORD_BYTES])
    opens = np.zeros(at.size, np.bool_)
    for opening in _MARK_OPENINGS:
        opens |= np.logical_and.reduce([characters[1 + i + at] == byte for i, byte in enumerate(opening)])
    marks: list[tuple[int, int]] = []
    end = 0
    for start in at[opens].tolist():
        match = MARK.match(text, start) if start >= end else None
        if match:
            end = match.end()
            marks.append((start, end))
    return marks


def _character_class(character: str) -> int:
    if character in "0123456789":
        return _DIGIT
    if character.isalnum():
        return _LETTER | (_LOWERCASE if character.islower() else 0)
    return sum(flag for flag, members in _CONNECTORS.items() if character in members)


@cache
def _class_table() -> Bytes:
    return np.array([_character_class(chr(code)) for code in range(0x10000)], np.uint8)


@cache
def _class_of_byte() -> Bytes:
    classes = np.zeros(256, np.uint8)
    # Not from the table of all characters, which takes a tenth of a second to build.
    classes[:_NO_LETTER] = [_character_class(chr(code)) for code in range(_NO_LETTER)]
    classes[_OTHER_LETTER], classes[_LOWERCASE_LETTER] = _LETTER, _LETTER | _LOWERCASE
    return classes


def _characters(text: str) -> tuple[Bytes, Array]:
    """Return a byte for each character, with one zero before and eight after; and where the text is not ASCII."""
    characters = np.zeros(1 + len(text) + _WORD_BYTES, np.uint8)
    if text.isascii():
        characters[1 : 1 + len(text)] = np.frombuffer(text.encode("ascii"), np.uint8)
        return characters, np.zeros(0, np.int64)
    narrow = text.encode("utf-16-le", "surrogatepass")  # two bytes a character where that is enough
    if len(narrow) == 2 * len(text):
        codes: npt.NDArray[Any] = np.frombuffer(narrow, np.uint16)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    characters[1 : 1 + len(text)] = np.minimum(codes, _NO_LETTER)
    not_ascii = np.flatnonzero(characters[1:] == _NO_LETTER)
    others = np.minimum(codes[not_ascii], 0xFFFF)  # U+FFFF is never a letter
    classes = _class_table()[others]
    stand_in = np.where(classes & _LOWERCASE, _LOWERCASE_LETTER, _OTHER_LETTER)
    stand_in[(classes & _LETTER) == 0] = _NO_LETTER
    stand_in[others == ord("’")] = ord("'")
    characters[1 + not_ascii] = stand_in
    return characters, not_ascii


def _within(characters: Bytes, first: str, size: int) -> npt.NDArray[np.bool_]:
    """Whether each character is one of the `size` from `first` on; smaller ones wrap around to larger."""
    return characters - np.uint8(ord(first)) < size


def _find_joints(characters: Bytes, word: npt.NDArray[np.bool_]) -> Array:
    """Return the positions of connectors that join the characters on either side."""
    connector = _within(characters, "&", 10) | (characters == ord(":"))  # and a few more: &'()*+,-./
    at = (connector[1:-1] & word[:-2] & word[2:]).nonzero()[0] + 1  # few, so the rules are checked only here
    two_at = np.ndarray(characters.size - 1, np.dtype("<u2"), characters, strides=(1,))
    left_of, right_of = _joinable()
    joins = _class_of_byte()[characters[at]] & left_of[two_at[at - 2]] & right_of[two_at[at + 1]]
    joints: Array = at[joins.nonzero()[0]] - 1
    return joints


@cache
def _joinable() -> tuple[Bytes, Bytes]:
    """Return two tables of connectors: those that may follow two bytes, and those that may precede two bytes.

    The index is the two bytes, read as one number.
    """
    classes = _class_of_byte()
    first, second = classes[np.arange(1 << 16) & 0xFF], classes[np.arange(1 << 16) >> 8]
    tables = []
    for beside, beyond in ((second, first), (first, second)):  # next to the connector, and beyond that
        single = (beside & _LETTER != 0) & (beyond & (_LETTER | _DIGIT) == 0)
        hyphenated = beside & _LETTER != 0
        if beside is second:  # on the left
            hyphenated = single & (beyond & (_DOT_SLASH | _AMPERSAND_APOSTROPHE | _HYPHEN) == 0)
        table = np.where(beside & _LETTER, _AMPERSAND_APOSTROPHE, 0) | np.where(beside & _DIGIT, _NUMERIC, 0)
        table |= np.where(single, _DOT_SLASH, 0) | np.where(hyphenated, _HYPHEN, 0)
        tables.append(table.astype(np.uint8))
    return tables[0], tables[1]


def _find_spans(
    word: npt.NDArray[np.bool_], digit: npt.NDArray[np.bool_], joints: Array, marks: list[tuple[int, int]]
) -> tuple[Array, Array]:
    """Return the starts and ends of tokens: runs of letters and digits, split after a leading number, and marks."""
    after_digit = (digit[:-1] & (word & ~digit)[1:]).nonzero()[0]
    joined = word.copy()
    joined[1 + joints] = True
    edges = (joined[1:] != joined[:-1]).nonzero()[0]
    run = edges.searchsorted(after_digit)
    first_in_run = np.ones(run.size, np.bool_)
    first_in_run[1:] = run[1:] != run[:-1]
    cuts = after_digit[first_in_run & digit[1 + edges[run - 1]]]  # at the `m` of `500mg`, not in `b12a`
    # A cut ends one token and begins the next; marks lie between runs.
    if cuts.size or marks:
        edges = np.sort(np.concatenate([edges, cuts, cuts, np.array(marks, np.int64).ravel()]))
    return edges[::2].copy(), edges[1::2].copy()


def _trim_possessives(lowered: Bytes, joints: Array, starts: Array, ends: Array) -> None:
    possessive = joints[(lowered[1 + joints] == ord("'")) & (lowered[2 + joints] == ord("s"))]
    if not possessive.size:
        return
    tokens = starts.searchsorted(possessive, "right") - 1
    ends[tokens[ends[tokens] == possessive + 2]] -= 2


@cache
def _byte_masks() -> Hashes:
    """Masks that keep the first n of eight bytes, by n."""
    return np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], np.uint64)


def _hash(lowered: Bytes, starts: Array, lengths: Array) -> Hashes:
    """Hash the characters of each token, eight bytes at a time; see `hash_word`."""
    eight_at = np.ndarray(lowered.size - _WORD_BYTES, np.dtype("<u8"), lowered, offset=1, strides=(1,))
    lengths = np.minimum(lengths, MAX_LENGTH)  # longer ones are dropped
    values: Hashes = eight_at.take(starts) & _byte_masks().take(lengths, mode="clip")
    values *= np.uint64(_MULTIPLIER)
    longer = (lengths > _WORD_BYTES).nonzero()[0]
    start = _WORD_BYTES
    while longer.size:
        left = lengths[longer] - start
        part = eight_at[starts[longer] + start] & _byte_masks().take(left, mode="clip")
        value = values[longer]
        values[longer] = ((value ^ (value >> np.uint64(32))) + part) * np.uint64(_MULTIPLIER)
        start += _WORD_BYTES
        longer = longer[left > _WORD_BYTES]
    return values


@cache
def _stop_word_slots() -> tuple[int, Hashes]:
    """Find a multiplier whose top 12 bits give every stop word its own slot, and fill the slots."""
    hashes = np.array(sorted(hash_word(word) for word in STOP_WORDS), np.uint64)
    multiplier = _MULTIPLIER
    while len(set(slots_of(hashes, multiplier, _STOP_WORD_BITS).tolist())) < hashes.size:
        multiplier = (multiplier * _MULTIPLIER) % (1 << 64)
    slots = np.zeros(1 << _STOP_WORD_BITS, np.uint64)
    slots[slots_of(hashes, multiplier, _STOP_WORD_BITS)] = hashes
    return multiplier, slots


def _find_stop_words(
    capital: npt.NDArray[np.bool_], starts: Array, lengths: Array, hashes: Hashes
) -> tuple[npt.NDArray[np.bool_], Array]:
    """Return a mask of the stop words not written in capitals, and the indices of those in capitals."""
    multiplier, slots = _stop_word_slots()
    dropped: npt.NDArray[np.bool_] = slots.take(slots_of(hashes, multiplier, _STOP_WORD_BITS)) == hashes
    stop_words = dropped.nonzero()[0]
    first, length = starts[stop_words], lengths[stop_words]
    # Only "k" has a variant outside ASCII, the Kelvin sign, and no stop word contains it.
    in_capitals = capital[1 + first] & capital[first + length] & (length > 1)
    dropped[stop_words] = ~in_capitals
    return dropped, stop_words[in_capitals]


@cache
def _case_of_byte() -> Bytes:
    """1 for a capital, 2 for a lower-case letter, 0 for anything else."""
    return np.array(
        [chr(code).isupper() + 2 * chr(code).islower() for code in range(128)] + [0] * 128, np.uint8
    )


def _are_among_capitals(
    characters: Bytes, starts: Array, ends: Array, tokens: Array
) -> npt.NDArray[np.bool_]:
    """Whether each token has a neighbour in capitals, and none in lower case; see `tokens._capitals`."""
    before, after = np.maximum(tokens - 1, 0), np.minimum(tokens + 1, starts.size - 1)
    other = np.concatenate([before, after])
    left_end, right_start = ends[np.concatenate([before, tokens])], starts[np.concatenate([tokens, after])]
    gap = right_start - left_end  # negative where there is no other
    opens, closes = characters[1 + left_end], characters[right_start]
    is_space = ((opens == ord(" ")) | (opens == ord("\n"))) & ((closes == ord(" ")) | (closes == ord("\n")))
    is_empty_line = (gap == 2) & (opens == ord("\n")) & (closes == ord("\n"))
    first, last = starts[other], ends[other]
    beside = (gap > 0) & (gap < 3) & is_space & ~is_empty_line & (last - first > 1)
    cases = _case_of_byte()
    opening, closing = cases[characters[1 + first]], cases[characters[last]]
    in_capitals = (beside & (opening & closing == 1)).reshape(2, -1).any(0)
    in_lower_case = (beside & (opening | closing > 1)).reshape(2, -1).any(0)
    among: npt.NDArray[np.bool_] = in_capitals & ~in_lower_case
    return among

"""The tokens that `tokens.py` defines, found by array operations instead of one match at a time.

Each rule of the pattern looks at most two characters to either side, so each becomes a comparison of shifted
arrays. Words are identified by a 64-bit hash of their spelling; the chance that any two of ten million words collide is
about one in 400,000.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.notes.tokens import MARK, MAX_LENGTH, NUMBER, STOP_WORDS, spell

Array = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]

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
        kept = np.flatnonzero(~dropped)
        return TokenArrays(self.starts[kept], self.ends[kept], self.hashes[kept], self.is_stop_word[kept])


def hash_word(word: str) -> int:
    """Return the hash of a word in the vocabulary's spelling."""
    encoded = word.encode("utf-8", "surrogatepass")
    value = 0
    for start in range(0, len(encoded), _WORD_BYTES):
        value = (value ^ (value >> 32)) + int.from_bytes(encoded[start : start + _WORD_BYTES], "little")
        value = value * _MULTIPLIER % (1 << 64)
    return value


def hash_words(words: Iterable[str]) -> Hashes:
    """Return the `hash_word` of each word, many times faster."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.array([len(word) for word in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths
    content = b"\0" + b"".join(encoded) + b"\0" * (_WORD_BYTES + 1)
    hashes = _hash(np.frombuffer(content, np.uint8), starts, lengths)
    for long in np.flatnonzero(lengths > MAX_LENGTH).tolist():
        hashes[long] = hash_word(encoded[long].decode("utf-8", "surrogatepass"))
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
    number = digit[1 + starts]
    dots = joints[characters[1 + joints] == ord(".")]
    odd = np.concatenate([dots, not_ascii[word[1 + not_ascii]]])
    for token in {*(np.searchsorted(starts, odd, "right") - 1).tolist()} if odd.size else ():
        if not number[token] and lengths[token] <= MAX_LENGTH:
            hashes[token] = _hash_written(text[starts[token] : ends[token]])
    hashes[np.flatnonzero(number)] = hash_word(NUMBER)
    is_stop_word, shouted = _find_stop_words(capital, starts, lengths, hashes)
    among_capitals = np.zeros(starts.size, np.bool_)
    if shouted.size:
        among_capitals[shouted] = _are_among_capitals(characters, capital, starts, ends, shouted)
    dropped = lengths > MAX_LENGTH
    if not stop_words:
        dropped |= is_stop_word | among_capitals
    if marks:
        is_mark = np.flatnonzero(characters[1 + starts] == 0)
        hashes[is_mark] = np.array([_hash_written(text[start:end]) for start, end in marks], np.uint64)
        dropped[is_mark] = is_stop_word[is_mark] = False
    kept = np.flatnonzero(~dropped)
    return TokenArrays(
        starts.take(kept),
        ends.take(kept),
        hashes.take(kept),
        is_stop_word.take(kept),
        among_capitals.take(kept),
    )


@lru_cache(maxsize=1 << 14)
def _hash_written(written: str) -> int:
    return hash_word(spell(written))


def _find_marks(text: str, characters: Bytes) -> list[tuple[int, int]]:
    """Return the spans of de-identification marks."""
    if "[" not in text and "_" not in text:
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
    at = np.flatnonzero(connector[1:-1] & word[:-2] & word[2:]) + 1  # few, so the rules are checked only here
    classes = _class_of_byte()
    here, left, right, before_left = (classes[characters[at + shift]] for shift in (0, -1, 1, -2))
    left_letter, right_letter = (left & _LETTER) != 0, (right & _LETTER) != 0
    left_single, right_single = left_letter & ~word[at - 2], right_letter & ~word[at + 2]
    bare_single = left_single & ((before_left & (_DOT_SLASH | _AMPERSAND_APOSTROPHE | _HYPHEN)) == 0)
    joins = (
        (((here & _DOT_SLASH) != 0) & left_single & right_single)
        | (((here & _AMPERSAND_APOSTROPHE) != 0) & left_letter & right_letter)
        | (((here & _HYPHEN) != 0) & bare_single & right_letter)
        | (((here & _NUMERIC) != 0) & ((left & _DIGIT) != 0) & ((right & _DIGIT) != 0))
    )
    joints: Array = at[joins] - 1
    return joints


def _find_spans(
    word: npt.NDArray[np.bool_], digit: npt.NDArray[np.bool_], joints: Array, marks: list[tuple[int, int]]
) -> tuple[Array, Array]:
    """Return the starts and ends of tokens: runs of letters and digits, split after a leading number, and marks."""
    after_digit = np.flatnonzero(digit[:-1] & word[1:] & ~digit[1:])
    joined = word.copy()
    joined[1 + joints] = True
    edges = np.flatnonzero(joined[1:] != joined[:-1])
    run = np.searchsorted(edges, after_digit)
    first_in_run = np.ones(run.size, np.bool_)
    first_in_run[1:] = run[1:] != run[:-1]
    cuts = after_digit[first_in_run & digit[1 + edges[run - 1]]]  # at the `m` of `500mg`, not in `b12a`
    # A cut ends one token and begins the next; marks lie between runs.
    if cuts.size or marks:
        edges = np.sort(np.concatenate([edges, cuts, cuts, np.array(marks, np.int64).ravel()]))
    return edges[::2].copy(), edges[1::2].copy()


def _trim_possessives(lowered: Bytes, joints: Array, starts: Array, ends: Array) -> None:
    """Remove the 's of possessives, in place."""
    possessive = joints[(lowered[1 + joints] == ord("'")) & (lowered[2 + joints] == ord("s"))]
    if not possessive.size:
        return
    tokens = np.searchsorted(starts, possessive, "right") - 1
    ends[tokens[ends[tokens] == possessive + 2]] -= 2


@cache
def _byte_masks() -> Hashes:
    """Masks that keep the first n of eight bytes, by n."""
    return np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], np.uint64)


def _hash(lowered: Bytes, starts: Array, lengths: Array) -> Hashes:
    """Hash the characters of each token, eight bytes at a time; see `hash_word`."""
    eight_at = np.ndarray(lowered.size - _WORD_BYTES, np.dtype("<u8"), lowered, offset=1, strides=(1,))
    lengths = np.minimum(lengths, MAX_LENGTH)  # longer ones are dropped
    values: Hashes = eight_at[starts] & _byte_masks().take(lengths, mode="clip")
    values *= np.uint64(_MULTIPLIER)
    longer = np.flatnonzero(lengths > _WORD_BYTES)
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
    while np.unique(slots_of(hashes, multiplier, _STOP_WORD_BITS)).size < hashes.size:
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
    stop_words = np.flatnonzero(dropped)
    first, length = starts[stop_words], lengths[stop_words]
    # Only "k" has a variant outside ASCII, the Kelvin sign, and no stop word contains it.
    in_capitals = capital[1 + first] & capital[first + length] & (length > 1)
    dropped[stop_words] = ~in_capitals
    return dropped, stop_words[in_capitals]


def _are_among_capitals(
    characters: Bytes, capital: npt.NDArray[np.bool_], starts: Array, ends: Array, tokens: Array
) -> npt.NDArray[np.bool_]:
    """Whether each token has a neighbour in capitals, and none in lower case; see `tokens._capitals`."""
    in_capitals, in_lower_case = (np.zeros(tokens.size, np.bool_) for _ in range(2))
    for left, right in ((tokens - 1, tokens), (tokens, tokens + 1)):
        other = left if right is tokens else right
        there = (left >= 0) & (right < starts.size)
        at_left, at_right, at = (np.where(there, each, 0) for each in (left, right, other))
        gap = starts[at_right] - ends[at_left]
        beside = there & (gap > 0) & (gap < 3) & (ends[at] - starts[at] > 1)
        beside &= (characters[1 + ends[at_left]] == ord(" ")) & (characters[starts[at_right]] == ord(" "))
        first, last = 1 + starts[at], ends[at]
        in_capitals |= beside & capital[first] & capital[last]
        in_lower_case |= beside & (_within(characters[first], "a", 26) | _within(characters[last], "a", 26))
    return in_capitals & ~in_lower_case

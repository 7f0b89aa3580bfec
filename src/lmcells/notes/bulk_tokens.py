"""The tokens of `tokens.py`, found by array operations instead of one match at a time.

Each rule of the pattern looks at most two characters to either side, so each becomes a comparison of shifted
arrays. A word is known by a 64-bit hash of its spelling: that any two of ten million different words meet has a
chance of about one in 400,000.
"""

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from lmcells.notes.placeholders import MARK, NUMBER, placeholder
from lmcells.notes.stop_words import STOP_WORDS
from lmcells.notes.tokens import MAX_LENGTH, spell

Array = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]

_LETTER, _DIGIT, _LOWERCASE = 1, 2, 4
_DOT_SLASH, _AMPERSAND_APOSTROPHE, _HYPHEN, _NUMERIC = 8, 16, 32, 64
_WORD = _LETTER | _DIGIT

_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that no two words of up to eight bytes have one hash
_WORD_BYTES = 8  # a hash takes this many bytes at a time
_MARK_OPENINGS = ("[**", "_%#", "___")


@dataclass(frozen=True, slots=True)
class TokenArrays:
    """Tokens in order: `text[starts[i]:ends[i]]` is spelt as the word with `hashes[i]`."""

    starts: Array
    ends: Array
    hashes: Hashes


def hash_word(word: str) -> int:
    """Return the hash under which a vocabulary spelling is found."""
    encoded = word.encode("utf-8", "surrogatepass")
    value = 0
    for start in range(0, len(encoded), _WORD_BYTES):
        value = (value ^ (value >> 32)) + int.from_bytes(encoded[start : start + _WORD_BYTES], "little")
        value = value * _MULTIPLIER % (1 << 64)
    return value


def find_tokens(text: str) -> TokenArrays:
    """Find the tokens of a text: the same ones, in the same order, as `iterate_tokens`."""
    marks = _find_marks(text)
    classes, lowered, not_ascii = _classify(text)
    if marks:
        classes = classes.copy()
    for start, end, _ in marks:
        classes[2 + start : 2 + end] = 0
    word = (classes & _WORD) != 0
    starts, ends, joints = _join(classes, word, *_runs(word))
    starts, ends, numbers = _split_numbers(classes, starts, ends)
    _trim_possessives(lowered, joints, starts, ends)
    hashes = _hash(lowered, starts, ends)
    # What is not spelt as it stands, letter for letter: p.o. loses its dots, other alphabets need more bytes.
    dots = joints[lowered[joints] == ord(".")]
    characters = np.concatenate([dots, not_ascii[word[2 + not_ascii]]])
    special = np.unique(np.searchsorted(starts, characters, "right") - 1)
    for token in special[ends[special] - starts[special] <= MAX_LENGTH].tolist():
        hashes[token] = _hash_written(text[starts[token] : ends[token]])
    hashes[numbers] = hash_word(NUMBER)
    kept = np.flatnonzero((ends - starts <= MAX_LENGTH) & ~_dropped(classes, starts, ends, hashes))
    tokens = TokenArrays(starts[kept], ends[kept], hashes[kept])
    return _insert_marks(tokens, marks) if marks else tokens


@lru_cache(maxsize=1 << 14)
def _hash_written(written: str) -> int:
    return hash_word(spell(written))


def _find_marks(text: str) -> list[tuple[int, int, str]]:
    marks: list[tuple[int, int, str]] = []
    openings = {
        opening: at for opening in _MARK_OPENINGS if opening[0] in text and (at := text.find(opening)) >= 0
    }
    while openings:
        at = min(openings.values())
        match = MARK.match(text, at)
        position = match.end() if match else at + 1
        if match:
            marks.append((at, position, placeholder(match[0])))
        for opening in [opening for opening, found in openings.items() if found < position]:
            openings[opening] = text.find(opening, position)
            if openings[opening] < 0:
                del openings[opening]
    return marks


def _insert_marks(tokens: TokenArrays, marks: list[tuple[int, int, str]]) -> TokenArrays:
    mark_starts, mark_ends, words = zip(*marks, strict=True)
    starts = np.concatenate([tokens.starts, np.array(mark_starts, np.int64)])
    order = np.argsort(starts, kind="stable")
    ends = np.concatenate([tokens.ends, np.array(mark_ends, np.int64)])
    hashes = np.concatenate([tokens.hashes, np.array([hash_word(word) for word in words], np.uint64)])
    return TokenArrays(starts[order], ends[order], hashes[order])


def _character_class(character: str) -> int:
    value = 0
    if character in "0123456789":
        value = _DIGIT
    elif character.isalnum():
        value = _LETTER | (_LOWERCASE if character.islower() else 0)
    value |= _DOT_SLASH if character in "./" else 0
    value |= _AMPERSAND_APOSTROPHE if character in "&'’" else 0
    value |= _HYPHEN if character == "-" else 0
    value |= _NUMERIC if character in ".,:/-" else 0
    return value


@cache
def _class_table() -> Bytes:
    return np.array([_character_class(chr(code)) for code in range(0x10000)], np.uint8)


@cache
def _byte_tables() -> tuple[bytes, bytes]:
    """The class of each byte of ASCII, and its lower case; what is above never counts."""
    classes = _class_table()[:128].tobytes() + bytes(128)
    return classes, bytes(range(256)).lower()


def _code_points(text: str) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    """Return the characters as numbers, in two bytes each where that is enough: half the work."""
    narrow = text.encode("utf-16-le", "surrogatepass")
    if len(narrow) == 2 * len(text):
        return np.frombuffer(narrow, np.uint16)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _classify(text: str) -> tuple[Bytes, Bytes, Array]:
    """Return the class of each character, two empty ones at either end; its lower case; and where ASCII ends.

    The lower case is padded for `_hash`, and only right for ASCII; "’" counts as an apostrophe there.
    """
    class_of_byte, lower_of_byte = _byte_tables()
    if text.isascii():
        encoded, not_ascii = text.encode("ascii"), np.zeros(0, np.int64)
    else:
        codes = _code_points(text)
        encoded, not_ascii = np.minimum(codes, 255).astype(np.uint8).tobytes(), np.flatnonzero(codes > 127)
    classes = np.frombuffer((b"\0\0" + encoded + b"\0\0").translate(class_of_byte), np.uint8)
    lowered = np.frombuffer((encoded + bytes(_WORD_BYTES)).translate(lower_of_byte), np.uint8)
    if not_ascii.size:
        classes, lowered = classes.copy(), lowered.copy()
        within_plane = np.minimum(codes[not_ascii], 0xFFFF)  # U+FFFF is never a letter
        classes[2 + not_ascii] = _class_table()[within_plane]
        lowered[not_ascii[within_plane == ord("’")]] = ord("'")
    return classes, lowered, not_ascii


def _runs(word: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return where runs of letters and digits begin and end."""
    edges = np.flatnonzero(word[1:-2] != word[2:-1])
    return edges[::2], edges[1::2]


def _join(
    classes: Bytes, word: npt.NDArray[np.bool_], starts: Array, ends: Array
) -> tuple[Array, Array, Array]:
    """Join runs that only a connector parts, where a rule says so; return the runs, and where they are joined."""
    parted = np.flatnonzero(starts[1:] - ends[:-1] == 1)
    at = ends[parted] + 2  # few, so the rules themselves look only here
    here, left, right = classes[at], classes[at - 1], classes[at + 1]
    left_letter, right_letter = (left & _LETTER) != 0, (right & _LETTER) != 0
    left_single = left_letter & ~word[at - 2]
    right_single = right_letter & ~word[at + 2]
    bare_single = left_single & ((classes[at - 2] & (_DOT_SLASH | _AMPERSAND_APOSTROPHE | _HYPHEN)) == 0)
    joins = (
        (((here & _DOT_SLASH) != 0) & left_single & right_single)
        | (((here & _AMPERSAND_APOSTROPHE) != 0) & left_letter & right_letter)
        | (((here & _HYPHEN) != 0) & bare_single & right_letter)
        | (((here & _NUMERIC) != 0) & ((left & _DIGIT) != 0) & ((right & _DIGIT) != 0))
    )
    joined = parted[joins]
    return np.delete(starts, joined + 1), np.delete(ends, joined), at[joins] - 2


def _split_numbers(classes: Bytes, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Split a run that begins with a number where its first letter stands (`500mg`); return which are numbers."""
    numbers = np.flatnonzero(classes[2 + starts] & _DIGIT)
    digit, letter = (classes[2:-2] & _DIGIT) != 0, (classes[2:-2] & _LETTER) != 0
    boundaries = np.append(np.flatnonzero(digit[:-1] & letter[1:]) + 1, np.iinfo(np.int64).max)
    first_letter = boundaries[np.searchsorted(boundaries, starts[numbers])]
    splits = first_letter < ends[numbers]
    after, places = numbers[splits], first_letter[splits]
    n_before: Array = np.cumsum(splits) - splits
    return np.insert(starts, after + 1, places), np.insert(ends, after, places), numbers + n_before


def _trim_possessives(lowered: Bytes, joints: Array, starts: Array, ends: Array) -> None:
    """Leave out the 's of a possessive, in place."""
    possessive = joints[(lowered[joints] == ord("'")) & (lowered[joints + 1] == ord("s"))]
    tokens = np.searchsorted(starts, possessive, "right") - 1
    ends[tokens[ends[tokens] == possessive + 2]] -= 2


@cache
def _byte_masks() -> Hashes:
    """Masks that keep the first n bytes of eight, by n."""
    return np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], np.uint64)


def _hash(lowered: Bytes, starts: Array, ends: Array) -> Hashes:
    """Hash the characters of each token, eight bytes at a time; see `hash_word`."""
    eight_at = np.ndarray(lowered.size - _WORD_BYTES + 1, np.dtype("<u8"), lowered, strides=(1,))
    lengths = np.minimum(ends - starts, MAX_LENGTH)  # longer ones are dropped
    values: Hashes = eight_at[starts] & _byte_masks()[np.minimum(lengths, _WORD_BYTES)]
    values *= np.uint64(_MULTIPLIER)
    longer = np.flatnonzero(lengths > _WORD_BYTES)
    start = _WORD_BYTES
    while longer.size:
        part = (
            eight_at[starts[longer] + start] & _byte_masks()[np.minimum(lengths[longer] - start, _WORD_BYTES)]
        )
        value = values[longer]
        values[longer] = ((value ^ (value >> np.uint64(32))) + part) * np.uint64(_MULTIPLIER)
        start += _WORD_BYTES
        longer = longer[lengths[longer] > start]
    return values


@cache
def _stop_word_slots() -> tuple[np.uint64, Hashes]:
    """Find a multiplier whose top 14 bits give every stop word a slot of its own, and fill the slots."""
    hashes = np.array(sorted(hash_word(word) for word in STOP_WORDS), np.uint64)
    multiplier = _MULTIPLIER
    while np.unique((hashes * np.uint64(multiplier)) >> np.uint64(50)).size < hashes.size:
        multiplier = (multiplier * _MULTIPLIER) % (1 << 64)
    slots = np.zeros(1 << 14, np.uint64)
    slots[(hashes * np.uint64(multiplier)) >> np.uint64(50)] = hashes
    return np.uint64(multiplier), slots


def _dropped(classes: Bytes, starts: Array, ends: Array, hashes: Hashes) -> npt.NDArray[np.bool_]:
    multiplier, slots = _stop_word_slots()
    dropped: npt.NDArray[np.bool_] = slots[(hashes * multiplier) >> np.uint64(50)] == hashes
    stop_words = np.flatnonzero(dropped)
    first, last = starts[stop_words], ends[stop_words] - 1
    lower_case = ((classes[2 + first] | classes[2 + last]) & _LOWERCASE) != 0
    dropped[stop_words] = lower_case | (first == last)
    return dropped

"""How words are spelt, as numbers: hashes of their character n-grams, and of what a slip of the pen leaves of them.

All words of a list at once. A hash is the sum of c_i K^i over the characters, modulo 2^64, the same in any process: so
what stands after a letter that is left out moves by one power of K.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

GRAM_LENGTHS = (3, 4)
_K = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
_INVERSE = np.uint64(pow(_K, -1, 1 << 64))
_LETTERS = re.compile(r"[^\W\d_]+(?:['&/-][^\W\d_]+)*")


class Parts(NamedTuple):
    """Hashes, and for each of them the word that it is of."""

    hashes: Hashes
    rows: Rows


def is_spelt(word: str) -> bool:
    """Whether a word is made of letters, two or more: no number, no placeholder."""
    return len(word) > 1 and (word.isalpha() or _LETTERS.fullmatch(word) is not None)


def grams(words: Sequence[str]) -> Parts:
    """Hash the n-grams of `<word>`, but not all of it: parts are what words have in common."""
    codes, begins, lengths = _characters([f"<{word}>" for word in words])
    hashes, rows = [], []
    for n in GRAM_LENGTHS:
        counts = np.where(lengths > n, lengths - n + 1, 0)
        places = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        window = np.zeros(places.size, np.uint64)
        for index, power in enumerate(_powers(n)):
            window += codes[places + index] * power
        hashes.append(window)
        rows.append(np.repeat(np.arange(len(words)), counts))
    return Parts(np.concatenate(hashes), np.concatenate(rows))


def slips(words: Sequence[str]) -> Parts:
    """Hash each word, and what is left of it without one of its letters.

    Words that have such a hash in common are one slip apart: a letter is left out, put in, replaced or moved.
    """
    codes, begins, lengths = _characters(words)
    within = np.arange(codes.size) - np.repeat(begins, lengths)
    terms = codes * _powers(int(lengths.max(initial=0)))[within]
    sums = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))
    first, last = np.repeat(sums[begins], lengths), np.repeat(sums[begins + lengths], lengths)
    without = (sums[:-1] - first) + (last - sums[1:]) * _INVERSE
    whole = sums[begins + lengths] - sums[begins]
    rows = np.arange(len(words))
    return Parts(np.concatenate([whole, without]), np.concatenate([rows, np.repeat(rows, lengths)]))


def _characters(words: Sequence[str]) -> tuple[Hashes, Rows, Rows]:
    """The characters of all words one after another, where each word begins, and how long it is."""
    joined = "".join(words).encode("utf-32-le", "surrogatepass")
    lengths = np.array([len(word) for word in words], np.int64)
    return np.frombuffer(joined, "<u4").astype(np.uint64), np.cumsum(lengths) - lengths, lengths


def _powers(n: int) -> Hashes:
    """K, K^2, ..., K^n."""
    return np.cumprod(np.full(n, _K, np.uint64), dtype=np.uint64)

"""Vectors for out-of-vocabulary words, from vocabulary words with a similar spelling.

A word one typing error away from a known word is read as that word, the most frequent if there are several. Any other
word gets the vector below. s_w is the cosine of its n-grams (rare ones weigh more) with those of a known word w, which
has the count n_w and the vector E_w; sums are over the most similar words:

    average + sum_w a_w (E_w - average) / (caution + sum_w a_w),   a_w = s_w^sharpness log(1 + n_w)

which is the average word if no known word is similar. A model stores only `sharpness` and `caution`.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import read_json, write_json
from lmcells.pretrained import folder as layout
from lmcells.pretrained.layers import Floats

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Counts = npt.NDArray[np.integer]

TABLE = "variational.context.words.weight"
"""The tensor with the vectors of the words in contexts and long forms."""

GRAM_LENGTHS = (3, 4)
N_NEAREST = 30
_SHORTEST = 4  # letters of an out-of-vocabulary word that is read: shorter ones are usually short forms
_SHORTEST_SLIP = 6  # letters: too many shorter words are one typing error apart
_BLOCK = 512  # words looked up at a time, which bounds the memory for their neighbours' vectors
_MOST_KEPT = 20_000  # out-of-vocabulary words whose vectors are kept
_LETTERS = re.compile(r"[^\W\d_]+(?:['&/-][^\W\d_]+)*")

_K = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
_INVERSE = np.uint64(pow(_K, -1, 1 << 64))
_ROW_BITS = 20  # of a key; 44 are left for the hash: a collision among 300,000 parts has a chance of 1 in 400
_ROW_MASK = np.uint64((1 << _ROW_BITS) - 1)

_HELD_OUT = 0.05
_FEWEST, _MOST = 50, 2000  # held-out words: fewer say too little, more would not change the choice
_SHARPNESSES = (2.0, 3.0, 4.0, 6.0)
_CAUTIONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True)
class SubwordSettings:
    """The two constants of the formula above, and the share of the variance of held-out words that they explain."""

    sharpness: float
    caution: float
    explained: float

    @classmethod
    def load(cls, folder: Path) -> Self:
        path = folder / layout.SUBWORDS
        try:
            saved = read_json(path)
            settings = cls(**{each.name: float(saved[each.name]) for each in fields(cls)})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            settings = None
        if settings is None or not (settings.sharpness > 0 and settings.caution > 0):
            raise ModelError(
                f"{path} is damaged: it does not contain sharpness, caution and explained. {layout.AGAIN}"
            )
        return settings

    def save(self, folder: Path) -> None:
        write_json(folder / layout.SUBWORDS, asdict(self), indent=1)


class Subwords:
    """Gives out-of-vocabulary words vectors; threads may share it.

    subwords = Subwords(model.words, table, model.word_counts, settings)
    subwords.vectors(["dyspnoeic", "pneumnoia"])   # (2, E)
    """

    def __init__(
        self, words: Sequence[str], table: npt.NDArray[Any], counts: Counts, settings: SubwordSettings
    ) -> None:
        """Take the known words; the first rows of `table` (n_read, E) are their vectors."""
        self._words, self._table, self._counts = words, table, counts
        self.settings = settings
        self._kept: dict[str, Floats] = {}
        self.n_read = int(table.shape[0])  # ids from here on are free for out-of-vocabulary words

    def __contains__(self, word: object) -> bool:
        """Whether an out-of-vocabulary word can be read by its spelling."""
        return isinstance(word, str) and len(word) >= _SHORTEST and is_spelt(word)

    def vectors(self, words: Sequence[str]) -> Floats:
        """Return a vector for each out-of-vocabulary word: -> (n, E)."""
        kept = self._kept
        if len(kept) + len(words) > _MOST_KEPT:
            kept = self._kept = {}  # another thread may still use the old one
        new = [word for word in dict.fromkeys(words) if word not in kept]
        kept.update(zip(new, self._new_vectors(new), strict=True))
        found: Floats = np.zeros((len(words), self._table.shape[1]), np.float32)
        for row, word in enumerate(words):
            found[row] = kept[word]
        return found

    def _new_vectors(self, words: list[str]) -> Floats:
        vectors = np.zeros((len(words), self._table.shape[1]), np.float32)
        if not words:
            return vectors
        same = self._known.one_error_away(words)
        is_slip = same >= 0
        vectors[is_slip] = self._table[same[is_slip]]
        others = np.flatnonzero(~is_slip).tolist()
        for first in range(0, len(others), _BLOCK):
            rows = others[first : first + _BLOCK]
            known, likeness = self._known.nearest([words[row] for row in rows])
            weights = _neighbour_weights(
                likeness, self._counts[known], self.settings.sharpness, self.settings.caution
            )
            vectors[rows] = self._average + _blend(weights, self._table[known] - self._average)
        return vectors

    @cached_property
    def _known(self) -> "KnownSpellings":
        return KnownSpellings.of(self._words, self._counts)

    @cached_property
    def _average(self) -> Floats:
        return _average_vector(self._table, self._counts, self._known.ids)


def fit_subwords(
    words: Sequence[str], table: npt.NDArray[Any], counts: Counts, *, seed: int = 0
) -> SubwordSettings | None:
    """Choose the settings that best explain the vectors of held-out words; None if spelling explains nothing.

    The first rows of `table` are the words' vectors. Held-out words are known words, so typing errors play no part.
    """
    order = np.random.default_rng(seed).permutation(np.array(KnownSpellings.of(words, counts).ids))
    n_held_out = min(int(len(order) * _HELD_OUT), _MOST)
    if n_held_out < _FEWEST:
        return None
    held_out, rest = order[:n_held_out], order[n_held_out:]
    known = KnownSpellings.of([words[id_] for id_ in rest.tolist()], counts[rest])
    deviations = np.asarray(table[: len(words)], np.float32) - _average_vector(table, counts, rest)
    nearest, likeness = known.nearest([words[id_] for id_ in held_out.tolist()])
    nearest = rest[nearest]
    weights = np.log1p(counts[held_out])
    variance = weights @ np.square(deviations[held_out]).sum(axis=1)
    best = None
    for sharpness, caution in product(_SHARPNESSES, _CAUTIONS):
        shares = _neighbour_weights(likeness, counts[nearest], sharpness, caution)
        guesses = _blend(shares, deviations[nearest])
        errors = weights @ np.square(deviations[held_out] - guesses).sum(axis=1)
        explained = float(1 - errors / variance) if variance > 0 else 0.0
        if explained > (best.explained if best else 0.0):
            best = SubwordSettings(sharpness, caution, explained)
    return best


def _neighbour_weights(likeness: Floats, counts: Counts, sharpness: float, caution: float) -> Floats:
    """Return a_w / (caution + sum a_w): (n, k), (n, k) -> (n, k)."""
    weights = likeness**sharpness * np.log1p(counts).astype(np.float32)
    shares: Floats = weights / (caution + weights.sum(axis=1, keepdims=True))
    return shares


def _blend(weights: Floats, vectors: Floats) -> Floats:
    """Sum the vectors of neighbours: (n, k), (n, k, E) -> (n, E)."""
    blended: Floats = np.matmul(weights[:, None], vectors)[:, 0]
    return blended


def _average_vector(table: npt.NDArray[Any], counts: Counts, ids: Rows) -> Floats:
    """Return the average vector of words, in which frequent ones weigh a little more: -> (E,)."""
    weights = np.log1p(counts[ids]).astype(np.float32)
    return weights @ np.asarray(table[ids], np.float32) / max(float(weights.sum()), 1e-9)


@dataclass(frozen=True, slots=True)
class KnownSpellings:
    """An index of a vocabulary by spelling, built when needed: 40,000 words take a tenth of a second.

    known = KnownSpellings.of(words, counts)
    known.one_error_away(["pneumnoia"])  # the id of "pneumonia"
    known.nearest(["pneumonectomized"])  # the ids of the most similar words, and how similar each is
    """

    ids: Rows  # (n,) of the words made of letters, the most frequent first
    _grams: Hashes = field(repr=False)  # sorted keys: an n-gram and a word that has it
    _norms: Floats = field(repr=False)  # (n,) lengths of the words as vectors of n-grams
    _slips: Hashes = field(repr=False)  # sorted keys: a word with or without one of its letters, and the word

    @classmethod
    def of(cls, words: Sequence[str], counts: Counts) -> Self:
        """Index the words that are made of letters; their ids are their positions."""
        ids = np.array([id_ for id_, word in enumerate(words) if is_spelt(word)], np.int64)
        ids = ids[np.argsort(-counts[ids], kind="stable")][: 1 << _ROW_BITS]
        spelt = [words[id_] for id_ in ids.tolist()]
        by_gram = _sorted_keys(grams(spelt))
        gram = by_gram >> _ROW_BITS
        begins = np.flatnonzero(np.append(True, gram[1:] != gram[:-1]))
        sizes = np.diff(begins, append=by_gram.size)
        squares = np.repeat(np.square(_gram_weights(sizes, n_words=len(spelt))), sizes)
        norms = np.sqrt(np.bincount(_rows(by_gram), squares, minlength=len(spelt)))
        return cls(ids, by_gram, norms.astype(np.float32), _sorted_keys(slips(spelt)))

    def one_error_away(self, words: Sequence[str]) -> Rows:
        """Return the id of the most frequent known word one typing error away from each word, -1 where none is."""
        best = np.full(len(words), len(self.ids), np.int64)
        asked = slips(words)
        begins, ends = _find(asked.hashes, self._slips)
        found = ends > begins
        np.minimum.at(best, asked.rows[found], _rows(self._slips[begins[found]]))  # rows are by frequency
        best[[len(word) < _SHORTEST_SLIP for word in words]] = len(self.ids)
        return np.append(self.ids, -1)[best]

    def nearest(self, words: Sequence[str]) -> tuple[Rows, Floats]:
        """Return the ids of the known words with the most similar n-grams, and the cosine of each: -> (n, k), (n, k).

        Rarer n-grams weigh more. Where fewer than k words share any, the others have a cosine of 0.
        """
        asked = grams(words)
        order = np.argsort(asked.rows, kind="stable")
        begins, ends = _find(asked.hashes[order], self._grams)
        squares = np.square(_gram_weights(ends - begins, n_words=len(self.ids)))
        norms = np.sqrt(np.bincount(asked.rows[order], squares, minlength=len(words)))
        cuts = np.searchsorted(asked.rows[order], np.arange(len(words) + 1)).tolist()
        nearest = np.zeros((len(words), N_NEAREST), np.int64)
        likeness = np.zeros(nearest.shape, np.float32)
        for row, norm in enumerate(norms.tolist()):
            own = slice(cuts[row], cuts[row + 1])
            rows, shared = self._sharing(begins[own], ends[own], squares[own])
            cosines = shared / (self._norms[rows] * np.float32(norm))
            if rows.size > N_NEAREST:
                likest = np.argpartition(-cosines, N_NEAREST)[:N_NEAREST]
                rows, cosines = rows[likest], cosines[likest]
            nearest[row, : rows.size], likeness[row, : rows.size] = self.ids[rows], cosines
        return nearest, likeness

    def _sharing(self, begins: Rows, ends: Rows, squares: Floats) -> tuple[Rows, Floats]:
        """Return the words that share n-grams with a word, and the sum of the squared weights of these n-grams."""
        sharing = [self._grams[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        rows = _rows(np.concatenate([np.zeros(0, np.uint64), *sharing]))
        shared = np.bincount(rows, np.repeat(squares, ends - begins), minlength=len(self.ids))
        found = np.flatnonzero(shared > 0)  # without the comparison this takes four times as long
        return found, shared[found].astype(np.float32)


def _gram_weights(sizes: Rows, *, n_words: int) -> Floats:
    """Return the weights of n-grams by how many of the words have them."""
    return np.log((n_words + 1) / np.maximum(sizes, 1)).astype(np.float32)


# Hashes of spellings, for all words of a list at once. The hash of a part is the sum of c_i K^i over its characters,
# modulo 2^64, the same in any process. Leaving out a letter divides the part after it by K.


class Parts(NamedTuple):
    """Hashes of parts of words, and for each the row of its word."""

    hashes: Hashes
    rows: Rows


def is_spelt(word: str) -> bool:
    """Whether a word is made of two letters or more: not a number, not a placeholder."""
    return len(word) > 1 and (word.isalpha() or _LETTERS.fullmatch(word) is not None)


def grams(words: Sequence[str]) -> Parts:
    """Hash the n-grams of `<word>` that are shorter than it."""
    codes, begins, lengths = _characters([f"<{word}>" for word in words])
    hashes, rows = [], []
    for n in GRAM_LENGTHS:
        counts = np.where(lengths > n, lengths - n + 1, 0)
        at = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        window = np.zeros(at.size, np.uint64)
        for index, power in enumerate(_powers(n)):
            window += codes[at + index] * power
        hashes.append(window)
        rows.append(np.repeat(np.arange(len(words)), counts))
    return Parts(np.concatenate(hashes), np.concatenate(rows))


def slips(words: Sequence[str]) -> Parts:
    """Hash each word, with all its letters and without each one of them.

    Words that share such a hash are one typing error apart: a letter is omitted, inserted, replaced or moved.
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
    """Return the characters of all words one after another, where each word begins, and how long it is."""
    joined = "".join(words).encode("utf-32-le", "surrogatepass")
    lengths = np.array([len(word) for word in words], np.int64)
    return np.frombuffer(joined, "<u4").astype(np.uint64), np.cumsum(lengths) - lengths, lengths


def _powers(n: int) -> Hashes:
    return np.cumprod(np.full(n, _K, np.uint64), dtype=np.uint64)


def _sorted_keys(parts: Parts) -> Hashes:
    """Put hash and row into one number each: sorting those is several times faster than sorting by the hashes."""
    return np.sort((parts.hashes & ~_ROW_MASK) | parts.rows.astype(np.uint64))


def _rows(keys: Hashes) -> Rows:
    return (keys & _ROW_MASK).astype(np.int64)


def _find(hashes: Hashes, keys: Hashes) -> tuple[Rows, Rows]:
    """Return where the keys of each hash begin and end."""
    begins = np.searchsorted(keys, hashes & ~_ROW_MASK, "left")
    return begins, np.searchsorted(keys, hashes | _ROW_MASK, "right")

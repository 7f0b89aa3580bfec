"""Vectors for words that a model does not know, from the words it knows that are spelt alike.

A word that is one slip of the pen away from a known one is read as that word, the most frequent if there are several.
For any other, with s_w the cosine of its n-grams (rare ones weigh more) with those of a known word w that is seen n_w
times and has the vector E_w, and sums over the nearest:

    average + sum_w a_w (E_w - average) / (caution + sum_w a_w),   a_w = s_w^sharpness log(1 + n_w)

which is the average word where no known word is like it. Nothing is stored but how to weigh; see `subword_fit`.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import read_json, write_json
from lmcells.pretrained import folder as layout
from lmcells.pretrained.layers import Floats

# How words are spelt, as numbers: hashes of their character n-grams, and of what a slip of the pen leaves of them.
#
# All words of a list at once. A hash is the sum of c_i K^i over the characters, modulo 2^64, the same in any process: so
# what stands after a letter that is left out moves by one power of K.


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


# Finding the known words that are spelt like an unknown one.


N_NEAREST = 30
_SHORTEST_SLIP = 6  # letters: of shorter words too many are one slip apart
_ROW_BITS = 20  # of a key; 44 are left for the hash: any two of 300,000 parts meet with a chance of 1 in 400
_ROW_MASK = np.uint64((1 << _ROW_BITS) - 1)


@dataclass(frozen=True, slots=True)
class KnownSpellings:
    """An index of a vocabulary, made when it is needed: 40,000 words take a tenth of a second.

    known = KnownSpellings.of(words, counts)
    known.one_slip_away(["pneumnoia"])   # the id of "pneumonia"
    known.nearest(["pneumonectomized"])  # the ids of the likest words, and how like each is
    """

    ids: Rows  # (n,) of the words that are spelt, the most frequent first
    _grams: Hashes = field(repr=False)  # sorted keys: an n-gram and a word that has it
    _norms: Floats = field(repr=False)  # (n,) lengths of the words as vectors of n-grams
    _slips: Hashes = field(repr=False)  # sorted keys: what a slip leaves, and the word it is left of

    @classmethod
    def of(cls, words: Sequence[str], counts: npt.NDArray[np.integer]) -> Self:
        """Take the words that are spelt; ids are their places."""
        ids = np.array([id_ for id_, word in enumerate(words) if is_spelt(word)], np.int64)
        ids = ids[np.argsort(-counts[ids], kind="stable")][: 1 << _ROW_BITS]
        spelt = [words[id_] for id_ in ids.tolist()]
        by_gram = _sorted_keys(grams(spelt))
        gram = by_gram >> _ROW_BITS
        begins = np.flatnonzero(np.append(True, gram[1:] != gram[:-1]))
        sizes = np.diff(begins, append=by_gram.size)
        squares = np.repeat(np.square(_weights(sizes, n_words=len(spelt))), sizes)
        norms = np.sqrt(np.bincount(_rows(by_gram), squares, minlength=len(spelt)))
        return cls(ids, by_gram, norms.astype(np.float32), _sorted_keys(slips(spelt)))

    def one_slip_away(self, words: Sequence[str]) -> Rows:
        """Return the id of the most frequent known word that is one slip away from each word, -1 where none is."""
        best = np.full(len(words), len(self.ids), np.int64)
        asked = slips(words)
        begins, ends = _find(asked.hashes, self._slips)
        found = ends > begins
        np.minimum.at(best, asked.rows[found], _rows(self._slips[begins[found]]))  # rows are by frequency
        best[[len(word) < _SHORTEST_SLIP for word in words]] = len(self.ids)
        return np.append(self.ids, -1)[best]

    def nearest(self, words: Sequence[str]) -> tuple[Rows, Floats]:
        """Return the ids of the known words whose n-grams are likest, and the cosine of each: -> (n, k), (n, k).

        An n-gram weighs the more the rarer it is. Where fewer than k words share any, the others have a cosine of 0.
        """
        asked = grams(words)
        order = np.argsort(asked.rows, kind="stable")
        begins, ends = _find(asked.hashes[order], self._grams)
        squares = np.square(_weights(ends - begins, n_words=len(self.ids)))
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
        """The words that share n-grams, and the sum of the squares of what those weigh."""
        sharing = [self._grams[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        rows = _rows(np.concatenate([np.zeros(0, np.uint64), *sharing]))
        shared = np.bincount(rows, np.repeat(squares, ends - begins), minlength=len(self.ids))
        found = np.flatnonzero(shared > 0)  # asked of the numbers themselves it takes four times as long
        return found, shared[found].astype(np.float32)


def _weights(sizes: Rows, *, n_words: int) -> Floats:
    """What n-grams weigh that so many of the words have."""
    weights: Floats = np.log((n_words + 1) / np.maximum(sizes, 1)).astype(np.float32)
    return weights


def _sorted_keys(parts: Parts) -> Hashes:
    """Put hash and row into one number each: sorting those is several times faster than sorting by the hashes."""
    return np.sort((parts.hashes & ~_ROW_MASK) | parts.rows.astype(np.uint64))


def _rows(keys: Hashes) -> Rows:
    return (keys & _ROW_MASK).astype(np.int64)


def _find(hashes: Hashes, keys: Hashes) -> tuple[Rows, Rows]:
    """Where the keys of each hash begin and end."""
    return np.searchsorted(keys, hashes & ~_ROW_MASK, "left"), np.searchsorted(
        keys, hashes | _ROW_MASK, "right"
    )


# Vectors for words that a model does not know, from the words it knows that are spelt alike.
#
# A word that is one slip of the pen away from a known one is read as that word, the most frequent if there are several.
# For any other, with s_w the cosine of its n-grams (rare ones weigh more) with those of a known word w that is seen n_w
# times and has the vector E_w, and sums over the nearest:
#
#     average + sum_w a_w (E_w - average) / (caution + sum_w a_w),   a_w = s_w^sharpness log(1 + n_w)
#
# which is the average word where no known word is like it. Nothing is stored but how to weigh; see `subword_fit`.


TABLE = "variational.context.words.weight"
"""The tensor that holds the vectors in which contexts and long forms are read."""

_SHORTEST = 4  # letters of an unknown word that is read: what is shorter is a short form, as a rule
_BLOCK = 512  # words that are looked up at a time: their neighbours' vectors are in memory together
_MOST_KEPT = 50_000  # unknown words whose vectors are kept


@dataclass(frozen=True, slots=True)
class SubwordSettings:
    """How known words are weighed, and how much of the vectors of words that were held out that explained."""

    sharpness: float
    caution: float
    explained: float

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the settings of a model folder."""
        path = folder / layout.SUBWORDS
        try:
            saved = read_json(path)
            settings = cls(**{each.name: float(saved[each.name]) for each in dataclasses.fields(cls)})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            settings = None
        if settings is None or not (settings.sharpness > 0 and settings.caution > 0):
            raise ModelError(
                f"{path} is damaged: it does not hold sharpness, caution and explained. "
                "Train or download the model again."
            )
        return settings

    def save(self, folder: Path) -> None:
        """Write the settings into a model folder."""
        write_json(folder / layout.SUBWORDS, dataclasses.asdict(self), indent=1)


class Subwords:
    """Gives unknown words vectors; may be shared by threads.

    subwords = Subwords(model.words, table, model.word_counts, settings)
    subwords.vectors(["dyspnoeic", "pneumnoia"])   # (2, E)
    """

    def __init__(
        self,
        words: Sequence[str],
        table: npt.NDArray[Any],
        counts: npt.NDArray[np.integer],
        settings: SubwordSettings,
    ) -> None:
        """Know words by the first rows of a table (n_read, E) of vectors."""
        self._words, self._table, self._counts = words, table, counts
        self._settings = settings
        self._kept: dict[str, Floats] = {}

    @property
    def n_read(self) -> int:
        """Rows of the table: ids from here on are free for unknown words."""
        return int(self._table.shape[0])

    def __contains__(self, word: object) -> bool:
        """Whether the spelling of a word says enough to read it, if it is not known."""
        return isinstance(word, str) and len(word) >= _SHORTEST and is_spelt(word)

    def vectors(self, words: Sequence[str]) -> Floats:
        """Return what unknown words are read as: -> (n, E)."""
        kept = self._kept
        if len(kept) + len(words) > _MOST_KEPT:
            kept = self._kept = {}  # what another thread holds stays as it is
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
        same = self._known.one_slip_away(words)
        is_slip = same >= 0
        vectors[is_slip] = self._table[same[is_slip]]
        others = np.flatnonzero(~is_slip).tolist()
        for first in range(0, len(others), _BLOCK):
            rows = others[first : first + _BLOCK]
            known, likeness = self._known.nearest([words[row] for row in rows])
            weights = neighbour_weights(
                likeness,
                self._counts[known],
                sharpness=self._settings.sharpness,
                caution=self._settings.caution,
            )
            vectors[rows] = self._average + blend(weights, self._table[known] - self._average)
        return vectors

    @cached_property
    def _known(self) -> KnownSpellings:
        return KnownSpellings.of(self._words, self._counts)

    @cached_property
    def _average(self) -> Floats:
        return average_vector(self._table, self._counts, self._known.ids)


def neighbour_weights(
    likeness: Floats, counts: npt.NDArray[np.integer], *, sharpness: float, caution: float
) -> Floats:
    """Return what each known word is worth, by how like it is and how often it was seen: (n, k), (n, k) -> (n, k)."""
    weights = likeness**sharpness * np.log1p(counts).astype(np.float32)
    shares: Floats = weights / (caution + weights.sum(axis=1, keepdims=True))
    return shares


def blend(weights: Floats, vectors: Floats) -> Floats:
    """Sum the vectors of neighbours: (n, k), (n, k, E) -> (n, E)."""
    blended: Floats = np.matmul(weights[:, None], vectors)[:, 0]
    return blended


def average_vector(table: npt.NDArray[Any], counts: npt.NDArray[np.integer], ids: Rows) -> Floats:
    """The vector of the average word, frequent ones weighing a little more: -> (E,)."""
    weights = np.log1p(counts[ids]).astype(np.float32)
    average: Floats = weights @ np.asarray(table[ids], np.float32) / max(float(weights.sum()), 1e-9)
    return average

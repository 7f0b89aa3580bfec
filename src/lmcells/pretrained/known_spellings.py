"""Finding the known words that are spelt like an unknown one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.one_core import Floats
from lmcells.pretrained.spellings import Hashes, Parts, Rows, grams, is_spelt, slips

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

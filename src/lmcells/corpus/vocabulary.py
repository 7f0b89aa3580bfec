"""Which words are frequent enough, found with memory for their hashes alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.corpus.shard import Shard

_BUFFER = 1 << 20


class HashCounts:
    """Counts of words by hash: 16 bytes a distinct word, however many shards there are."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)
        self._pending: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = []
        self._n_pending = 0

    def add(self, hashes: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64]) -> None:
        """Count a shard's words."""
        self._pending.append((hashes, counts))
        self._n_pending += hashes.size
        if self._n_pending > max(_BUFFER, self._hashes.size):
            self._merge()

    def more_frequent_than(self, min_count: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return the hashes, sorted, and counts of the words seen more often than this."""
        self._merge()
        frequent = self._counts > min_count
        return self._hashes[frequent], self._counts[frequent]

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *(hashes for hashes, _ in self._pending)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._pending)])
        order = np.argsort(hashes)
        hashes, counts = hashes[order], counts[order]
        first = (
            np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
            if hashes.size
            else np.zeros(0, np.int64)
        )
        self._hashes, self._counts = hashes[first], np.add.reduceat(counts, first) if first.size else counts
        self._pending, self._n_pending = [], 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The corpus' words, the most frequent first."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    _sorted_hashes: npt.NDArray[np.uint64]
    _id_of_sorted: npt.NDArray[np.int32]

    def ids_of(self, shard: Shard) -> npt.NDArray[np.int32]:
        """Return the id of each of a shard's words, or -1."""
        if not self._sorted_hashes.size:
            return np.full(shard.hashes.size, -1, np.int32)
        at = np.minimum(np.searchsorted(self._sorted_hashes, shard.hashes), self._sorted_hashes.size - 1)
        return np.where(self._sorted_hashes[at] == shard.hashes, self._id_of_sorted[at], np.int32(-1))


def name_words(counts: HashCounts, *, min_count: int, shards: Callable[[], Iterable[Shard]]) -> Vocabulary:
    """Find the spellings of the frequent words in the shards, and number them by frequency, then spelling."""
    hashes, frequencies = counts.more_frequent_than(min_count)
    spellings: list[str | None] = [None] * hashes.size
    missing = np.ones(hashes.size, np.bool_)
    for shard in shards():
        if not missing.any():
            break
        at = np.minimum(np.searchsorted(hashes, shard.hashes), hashes.size - 1)
        found = np.flatnonzero((hashes[at] == shard.hashes) & missing[at])
        for index, local in zip(at[found].tolist(), found.tolist(), strict=True):
            spellings[index] = shard.spellings[local]
        missing[at[found]] = False
    words = [spelling for spelling in spellings if spelling is not None]
    by_spelling = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
    order = by_spelling[np.argsort(-frequencies[by_spelling], kind="stable")]
    id_of_sorted = np.zeros(hashes.size, np.int32)
    id_of_sorted[order] = np.arange(len(order), dtype=np.int32)
    return Vocabulary([words[index] for index in order.tolist()], frequencies[order], hashes, id_of_sorted)

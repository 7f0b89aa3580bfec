"""Vectors for words that a model does not know, from the words it knows that are spelt alike.

A word that is one slip of the pen away from a known one is read as that word, the most frequent if there are several.
For any other, with s_w the cosine of its n-grams (rare ones weigh more) with those of a known word w that is seen n_w
times and has the vector E_w, and sums over the nearest:

    average + sum_w a_w (E_w - average) / (caution + sum_w a_w),   a_w = s_w^sharpness log(1 + n_w)

which is the average word where no known word is like it. Nothing is stored but how to weigh; see `subword_fit`.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import read_json, write_json
from lmcells.pretrained import layout
from lmcells.pretrained.known_spellings import KnownSpellings
from lmcells.pretrained.one_core import Floats
from lmcells.pretrained.spellings import Rows, is_spelt

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

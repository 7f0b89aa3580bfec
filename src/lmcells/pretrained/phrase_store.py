"""The meanings of phrases: the phrase store, and the network that composes a phrase from its words.

The store is `phrases.json` and `phrases.safetensors`: the count and the prototypes of frequent phrases.

A prototype is a unit vector near the posterior means of some masked occurrences of the phrase. A store must return what
`lmcells.training.prototypes` found, to the precision of four bits; `test_phrase_store` and `test_prototypes` check it.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import under, write_json, write_tensors
from lmcells.pretrained import folder as layout
from lmcells.pretrained.layers import Arrays, Floats, float32

if TYPE_CHECKING:
    from lmcells.training.prototypes import Prototypes

Rows = npt.NDArray[np.int64]
Packed = npt.NDArray[np.uint8]

_NAMES = ("counts", "offsets", "prototypes", "shares", "masked_span_center", "phrase_center")


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often a phrase was seen, and the prototypes of its masked occurrences."""

    count: int
    prototypes: Floats  # (K, d) of length 1
    shares: Floats  # (K,) of the occurrences, adding up to 1


@dataclass(frozen=True)
class PhraseStore:
    """Looks up phrases by their words.

    store = PhraseStore.load(folder, cell_dim=100)
    store.find(("heart", "failure"))   # Occurrences, or None
    """

    phrases: list[str] = field(repr=False)
    arrays: dict[str, npt.NDArray[Any]] = field(repr=False)

    @classmethod
    def load(cls, folder: Path, *, cell_dim: int) -> Self:
        path = folder / layout.PHRASE_VECTORS
        phrases = layout.load_names(folder / layout.PHRASES, distinct=True)
        arrays = layout.load_tensors(path)
        missing = [name for name in _NAMES if name not in arrays]
        if missing:
            raise ModelError(f"{path} lacks {', '.join(missing)}. {layout.AGAIN}")
        offsets, n_rows = arrays["offsets"], arrays["shares"].shape[0]
        is_whole = (
            offsets.shape == (len(phrases) + 1,)
            and arrays["counts"].shape == (len(phrases),)
            and arrays["prototypes"].shape == (n_rows, (cell_dim + 1) // 2)
            and arrays["prototypes"].dtype == np.uint8
            and arrays["masked_span_center"].shape == arrays["phrase_center"].shape == (cell_dim,)
            and offsets[0] == 0
            and offsets[-1] == n_rows
            and (np.diff(offsets.astype(np.int64)) > 0).all()
            and all(np.isfinite(arrays[name]).all() for name in ("masked_span_center", "phrase_center"))
        )
        if not is_whole:
            raise ModelError(
                f"{path} is damaged: it does not contain prototypes of {cell_dim} numbers for {len(phrases):,} "
                f"phrases. {layout.AGAIN}"
            )
        return cls(phrases, arrays)

    @classmethod
    def of_prototypes(cls, prototypes: "Prototypes") -> Self:
        """Round what training found: prototypes to four bits, shares to eight."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "counts": prototypes.counts.astype(np.uint32),
            "offsets": prototypes.offsets.astype(np.uint32),
            "prototypes": to_four_bits(prototypes.prototypes),
            "shares": np.maximum(np.rint(prototypes.shares * 255), 1).astype(np.uint8),
            "masked_span_center": prototypes.masked_span_center.astype(np.float32),
            "phrase_center": prototypes.phrase_center.astype(np.float32),
        }
        return cls(prototypes.phrases, arrays)

    def save(self, folder: Path) -> None:
        write_json(folder / layout.PHRASES, self.phrases)
        write_tensors(folder / layout.PHRASE_VECTORS, self.arrays)

    def updated(self, other: Self) -> Self:
        """Add the phrases of another store; a phrase in both is taken from the store that saw it more often.

        Equal counts take the other's, at the phrase's old index: updating twice changes nothing.
        """
        n_own = len(self)
        seen = np.concatenate([self.arrays["counts"], other.arrays["counts"]])  # of one after the other
        source, new = np.arange(n_own), []
        for row, phrase in enumerate(other.phrases, start=n_own):
            own = self._rows.get(phrase)
            if own is None:
                new.append(row)
            elif seen[own] <= seen[row]:
                source[own] = row
        first, second = self.arrays["offsets"], other.arrays["offsets"]
        both = {
            **self.arrays,  # the centers stay: all prototypes are relative to them
            **{
                name: np.concatenate([self.arrays[name], other.arrays[name]])
                for name in ("prototypes", "shares")
            },
            "counts": seen,
            "offsets": np.concatenate([first, second[1:] + first[-1]]),
        }
        names = [*self.phrases, *other.phrases]
        return type(self)(names, both)._only(np.concatenate([source, np.array(new, np.int64)]))

    def trimmed(self, max_prototypes: int, *, kept: Container[str]) -> Self:
        """Drop the least frequent phrases, except those to keep, until few enough prototypes are left."""
        offsets = self.arrays["offsets"].astype(np.int64)
        sizes = np.diff(offsets)
        is_kept = np.array([phrase in kept for phrase in self.phrases], np.bool_)
        order = np.lexsort((-self.arrays["counts"].astype(np.int64), ~is_kept))
        fits = np.cumsum(sizes[order]) <= max_prototypes
        return self._only(np.sort(order[fits | is_kept[order]]))

    def _only(self, source: Rows) -> Self:
        """Return the phrases at these indices."""
        offsets = self.arrays["offsets"].astype(np.int64)
        begins, sizes = offsets[source], np.diff(offsets)[source]
        rows = _ranges(begins, sizes)
        return type(self)(
            [self.phrases[row] for row in source.tolist()],
            {
                **self.arrays,
                **{name: self.arrays[name][rows] for name in ("prototypes", "shares")},
                "counts": self.arrays["counts"][source].astype(np.uint32),
                "offsets": np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32),
            },
        )

    def __len__(self) -> int:
        return len(self.phrases)

    @cached_property
    def masked_span_center(self) -> Floats:
        """The average posterior mean of a masked span: (d,)."""
        return np.asarray(self.arrays["masked_span_center"], np.float32)

    @cached_property
    def phrase_center(self) -> Floats:
        """The average output of the phrase network: (d,)."""
        return np.asarray(self.arrays["phrase_center"], np.float32)

    def find(self, words: tuple[str, ...]) -> Occurrences | None:
        return self.find_all([words])[0]

    def find_all(self, phrases: Sequence[tuple[str, ...]]) -> list[Occurrences | None]:
        """Find many phrases, faster than one by one."""
        rows = [self._rows.get(" ".join(words)) for words in phrases]
        known = np.array([row for row in rows if row is not None], np.int64)
        begins, ends = (self.arrays["offsets"][known + n].astype(np.int64) for n in (0, 1))
        sizes = ends - begins
        stored, lasts = _ranges(begins, sizes), np.cumsum(sizes)
        prototypes = from_four_bits(self.arrays["prototypes"][stored], dim=self.masked_span_center.size)
        shares = self.arrays["shares"][stored].astype(np.float32)
        found = (
            Occurrences(count, prototypes[first:last], shares[first:last] / shares[first:last].sum())
            for count, first, last in zip(
                self.arrays["counts"][known].tolist(), (lasts - sizes).tolist(), lasts.tolist(), strict=True
            )
        )
        return [None if row is None else next(found) for row in rows]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {phrase: row for row, phrase in enumerate(self.phrases)}


def _ranges(begins: Rows, sizes: Rows) -> Rows:
    """Return begins[0], begins[0] + 1, ..., begins[1], ...: (n,), (n,) -> (sum of sizes,)."""
    rows: Rows = np.arange(sizes.sum()) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return rows


# Prototypes in four bits: sixteen even levels. The numbers of a direction in d dimensions are about as large as draws
# from N(0, 1 / d), so no scale needs to be stored. A direction comes back about six degrees from where it was, and its
# cosine with any other within about one hundredth.

_STEP = 0.335  # standard deviations: the best for sixteen even levels (Max 1960)
_HALF = 8


def to_four_bits(prototypes: npt.NDArray[np.floating]) -> Packed:
    """Pack two numbers into a byte: (n, d) of length 1 -> (n, ceil(d / 2))."""
    n_rows, dim = prototypes.shape
    levels = np.zeros((n_rows, dim + dim % 2), np.uint8)
    levels[:, :dim] = np.clip(np.floor(prototypes / (_STEP / np.sqrt(dim))), -_HALF, _HALF - 1) + _HALF
    packed: Packed = levels[:, 0::2] | (levels[:, 1::2] << 4)
    return packed


def from_four_bits(packed: Packed, *, dim: int) -> Floats:
    """Unpack prototypes, again of length 1: (n, ceil(d / 2)) -> (n, d)."""
    both = np.stack([packed & 0x0F, packed >> 4], axis=-1)  # (n, ceil(d / 2), 2)
    levels = both.reshape(len(packed), 2 * packed.shape[1])[:, :dim]
    rows = (levels.astype(np.float32) - (_HALF - 0.5)) * np.float32(_STEP / np.sqrt(dim))
    prototypes: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return prototypes


class NumpyPhraseNetwork:
    """Composes phrases from their words, in the space of posterior means; see `lmcells.model.networks.PhraseNetwork`.

    network = NumpyPhraseNetwork(arrays)
    network([vectors])  # a phrase, by the vectors of its words (L, E) -> (1, d)
    """

    def __init__(self, arrays: Arrays) -> None:
        own = under("phrases.", arrays)  # (out, in) each
        self._weights = {name: np.ascontiguousarray(float32(array).T) for name, array in own.items()}

    def __call__(self, phrases: Sequence[Floats]) -> Floats:
        """Return the means of one or more phrases, each given by the vectors of its words (L, E): -> (n, d)."""
        weights = self._weights
        lengths = np.array([len(vectors) for vectors in phrases], np.int64)
        words = np.concatenate(phrases)  # (W, E), one phrase after another
        first = np.cumsum(lengths) - lengths
        # not "@": with E = 5 OpenBLAS 0.3.31 reads uninitialised memory, and numpy warns of an invalid value
        scores = np.einsum("we,e->w", words, weights["salience.weight"][:, 0])
        salience = np.exp(scores - np.repeat(np.maximum.reduceat(scores, first), lengths))
        sums: Floats = np.add.reduceat(salience[:, None] * words, first, axis=0)  # (n, E)
        totals: Floats = np.add.reduceat(salience, first)  # (n,)
        pooled: Floats = sums / totals[:, None]
        # Nor below: a phrase must not depend on the others, to the last bit.
        hidden = np.einsum("ne,eh->nh", pooled, weights["hidden.weight"]) + weights["hidden.bias"]
        np.maximum(hidden, 0, out=hidden)
        means: Floats = np.einsum("nh,hd->nd", hidden, weights["mean.weight"]) + weights["mean.bias"]
        return means

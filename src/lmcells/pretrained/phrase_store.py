"""What occurrences taught about frequent words and phrases, small: `phrases.json` and `phrases.safetensors`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import write_json
from lmcells.pretrained import folder as layout
from lmcells.pretrained.layers import Floats
from lmcells.pretrained.quantized import from_four_bits, to_four_bits
from lmcells.tensor_files import write_tensors

if TYPE_CHECKING:
    from lmcells.training.prototypes import Prototypes

Rows = npt.NDArray[np.int64]

_NAMES = ("counts", "offsets", "prototypes", "shares", "masked_span_center", "phrase_center")


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often a phrase was seen, and in which prototypes its gaps lie."""

    count: int
    prototypes: Floats  # (K, d) of length 1
    shares: Floats  # (K,) adding to 1


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
        """Open the store of a model folder."""
        path = folder / layout.PHRASE_VECTORS
        phrases = layout.load_names(folder / layout.PHRASES, distinct=True)
        arrays = layout.load_tensors(path)
        missing = [name for name in _NAMES if name not in arrays]
        if missing:
            raise ModelError(f"{path} lacks {', '.join(missing)}. Train or download the model again.")
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
        )
        if not is_whole:
            raise ModelError(
                f"{path} is damaged: it does not hold prototypes of {cell_dim} numbers for {len(phrases):,} "
                "phrases. Train or download the model again."
            )
        return cls(phrases, arrays)

    @classmethod
    def of_prototypes(cls, prototypes: "Prototypes") -> Self:
        """Round what a model found out about phrases: prototypes to four bits, shares to eight."""
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
        """Write the store into a model folder."""
        write_json(folder / layout.PHRASES, self.phrases)
        write_tensors(folder / layout.PHRASE_VECTORS, self.arrays, durable=True)

    def updated(self, other: Self) -> Self:
        """Add the phrases of another store; one that both have is taken from where it was seen more often.

        From the other where that is equal, in its old place: to do it twice changes nothing.
        """
        source = np.arange(len(self) + len(other))  # rows of both stores, one after the other
        seen = np.concatenate([self.arrays["counts"], other.arrays["counts"]])
        is_new = np.ones(len(other), np.bool_)
        for row, phrase in enumerate(other.phrases):
            own = self._rows.get(phrase)
            if own is not None:
                is_new[row] = False
                source[own] = own if seen[own] > seen[len(self) + row] else len(self) + row
        source = np.concatenate([source[: len(self)], source[len(self) :][is_new]])
        names = [*self.phrases, *other.phrases]
        first = self.arrays["offsets"].astype(np.int64)
        second = other.arrays["offsets"].astype(np.int64) + first[-1]
        begins = np.concatenate([first[:-1], second[:-1]])[source]
        sizes = np.concatenate([first[1:], second[1:]])[source] - begins
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = _within(begins, sizes)
        arrays = {
            name: np.concatenate([self.arrays[name], other.arrays[name]])[rows]
            for name in ("prototypes", "shares")
        }
        return type(self)(
            [names[row] for row in source.tolist()],
            {
                **self.arrays,  # the averages stay: all prototypes start from them
                **arrays,
                "counts": seen[source].astype(np.uint32),
                "offsets": offsets.astype(np.uint32),
            },
        )

    def __len__(self) -> int:
        return len(self.phrases)

    @cached_property
    def masked_span_center(self) -> Floats:
        """The average posterior mean of a gap: (d,)."""
        return np.asarray(self.arrays["masked_span_center"], np.float32)

    @cached_property
    def phrase_center(self) -> Floats:
        """The average mean of the phrase network: (d,)."""
        return np.asarray(self.arrays["phrase_center"], np.float32)

    def find(self, words: tuple[str, ...]) -> Occurrences | None:
        """Return what is known of a phrase's occurrences, if it is among the frequent ones."""
        return self.find_all([words])[0]

    def find_all(self, phrases: Sequence[tuple[str, ...]]) -> list[Occurrences | None]:
        """The same for many phrases, in less time than one after the other."""
        rows = [self._rows.get(" ".join(words)) for words in phrases]
        known = np.array([row for row in rows if row is not None], np.int64)
        begins, ends = (self.arrays["offsets"][known + n].astype(np.int64) for n in (0, 1))
        sizes = ends - begins
        places, lasts = _within(begins, sizes), np.cumsum(sizes)
        prototypes = from_four_bits(self.arrays["prototypes"][places], dim=self.masked_span_center.size)
        shares = self.arrays["shares"][places].astype(np.float32)
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


def _within(begins: Rows, sizes: Rows) -> Rows:
    """The rows of several pieces, one after the other, each from where it begins: (n,), (n,) -> (sum of sizes,)."""
    rows: Rows = np.arange(sizes.sum()) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return rows

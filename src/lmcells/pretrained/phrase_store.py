"""What occurrences taught about frequent words and phrases, in eight bits: `phrases.json` and `phrases.safetensors`."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.errors import ModelError
from lmcells.files import write_json
from lmcells.pretrained import layout
from lmcells.pretrained.eight_bits import to_eight_bits
from lmcells.pretrained.one_core import Floats
from lmcells.tensor_files import read_tensors, write_tensors

if TYPE_CHECKING:
    from lmcells.training.prototypes import Prototypes

_NAMES = ("counts", "offsets", "directions", "shares", "gap_center", "phrase_center")


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often a phrase was seen, and in which directions its gaps lie."""

    count: int
    directions: Floats  # (K, d) of length 1
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
        arrays, _ = read_tensors(path)
        missing = [name for name in _NAMES if name not in arrays]
        if missing:
            raise ModelError(f"{path} lacks {', '.join(missing)}. Train or download the model again.")
        offsets, n_rows = arrays["offsets"], arrays["shares"].shape[0]
        is_whole = (
            offsets.shape == (len(phrases) + 1,)
            and arrays["counts"].shape == (len(phrases),)
            and arrays["directions"].shape == (n_rows, cell_dim)
            and arrays["gap_center"].shape == arrays["phrase_center"].shape == (cell_dim,)
            and offsets[0] == 0
            and offsets[-1] == n_rows
            and (np.diff(offsets.astype(np.int64)) > 0).all()
        )
        if not is_whole:
            raise ModelError(
                f"{path} is damaged: it does not hold directions of {cell_dim} numbers for {len(phrases):,} "
                "phrases. Train or download the model again."
            )
        return cls(phrases, arrays)

    def __len__(self) -> int:
        return len(self.phrases)

    @cached_property
    def gap_center(self) -> Floats:
        """The average posterior mean of a gap: (d,)."""
        return np.asarray(self.arrays["gap_center"], np.float32)

    @cached_property
    def phrase_center(self) -> Floats:
        """The average mean of the phrase network: (d,)."""
        return np.asarray(self.arrays["phrase_center"], np.float32)

    def find(self, words: tuple[str, ...]) -> Occurrences | None:
        """Return what is known of a phrase's occurrences, if it is among the frequent ones."""
        row = self._rows.get(" ".join(words))
        if row is None:
            return None
        rows = slice(int(self.arrays["offsets"][row]), int(self.arrays["offsets"][row + 1]))
        directions = self.arrays["directions"][rows].astype(np.float32)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        shares = self.arrays["shares"][rows].astype(np.float32)
        return Occurrences(int(self.arrays["counts"][row]), directions, shares / shares.sum())

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {phrase: row for row, phrase in enumerate(self.phrases)}


def save_phrases(folder: Path, prototypes: "Prototypes") -> None:
    """Write what training found out about phrases, directions and shares in eight bits."""
    directions, _ = to_eight_bits(prototypes.directions)  # of length 1: they need no scale
    write_json(folder / layout.PHRASES, prototypes.phrases)
    write_tensors(
        folder / layout.PHRASE_VECTORS,
        {
            "counts": prototypes.counts.astype(np.uint32),
            "offsets": prototypes.offsets.astype(np.uint32),
            "directions": directions,
            "shares": np.maximum(np.rint(prototypes.shares * 255), 1).astype(np.uint8),
            "gap_center": prototypes.gap_center.astype(np.float32),
            "phrase_center": prototypes.phrase_center.astype(np.float32),
        },
        durable=True,
    )

"""Directions in four bits: sixteen levels, as far apart as fits numbers of a normal distribution best.

The numbers of a direction in d dimensions are about as large as draws from N(0, 1 / d), so no scale needs to be stored.
A direction comes back about six degrees from where it was, and its cosine with any other within about one hundredth.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.layers import Floats

# Tables of vectors in eight bits: each row has a scale of its own, and 255 levels between its extremes.


Array = npt.NDArray[Any]

SCALE = ".scale"  # after the name of a table: what its rows are to be multiplied by
_LEVELS = 127


def to_eight_bits(rows: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Round each row to 255 levels: (n, d) -> (n, d), (n, 1)."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    scale = np.maximum(largest / _LEVELS, np.finfo(np.float16).tiny).astype(np.float16)
    levels = np.clip(np.rint(rows / scale.astype(np.float32)), -_LEVELS, _LEVELS)
    return levels.astype(np.int8), scale


def from_eight_bits(levels: npt.NDArray[np.int8], scale: npt.NDArray[np.float16]) -> Floats:
    """The rows again, each number within half a level of what it was."""
    rows: Floats = levels.astype(np.float32) * scale.astype(np.float32)
    return rows


def expanded(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays by name, the tables that come with a scale in full."""
    return {
        name: from_eight_bits(array, arrays[name + SCALE]) if name + SCALE in arrays else array
        for name, array in arrays.items()
        if not name.endswith(SCALE)
    }


# Directions in four bits: sixteen levels, as far apart as fits numbers of a normal distribution best.
#
# The numbers of a direction in d dimensions are about as large as draws from N(0, 1 / d), so no scale needs to be stored.
# A direction comes back about six degrees from where it was, and its cosine with any other within about one hundredth.


Packed = npt.NDArray[np.uint8]

_STEP = 0.335  # standard deviations: the best for sixteen even levels (Max 1960)
_HALF = 8


def to_four_bits(prototypes: npt.NDArray[np.floating]) -> Packed:
    """Two numbers a byte: (n, d) of length 1 -> (n, ceil(d / 2))."""
    n_rows, dim = prototypes.shape
    levels = np.zeros((n_rows, dim + dim % 2), np.uint8)
    levels[:, :dim] = np.clip(np.floor(prototypes / _step(dim)), -_HALF, _HALF - 1) + _HALF
    packed: Packed = levels[:, 0::2] | (levels[:, 1::2] << 4)
    return packed


def from_four_bits(packed: Packed, *, dim: int) -> Floats:
    """The prototypes again, of length 1: (n, ceil(d / 2)) -> (n, d)."""
    levels = np.stack([packed & 0x0F, packed >> 4], axis=-1).reshape(len(packed), 2 * packed.shape[1])[
        :, :dim
    ]
    rows = (levels.astype(np.float32) - (_HALF - 0.5)) * np.float32(_step(dim))
    prototypes: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return prototypes


def _step(dim: int) -> float:
    return float(_STEP / np.sqrt(dim))

"""Tables of vectors in eight bits: each row has a scale of its own, and 255 levels between its extremes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.one_core import Floats

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

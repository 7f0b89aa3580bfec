"""The places of each word, grouped by word: drawing one at random draws a section from p(section | word)."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.corpus.arrays import id_dtype
from lmcells.corpus.grouping import stable_order

_BLOCK = 1 << 20


def write_occurrences(
    path: Path, tokens: npt.NDArray[np.integer], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Sort the positions of all tokens by word, block by block, and return where each word's begin."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    dtype = id_dtype(tokens.size)
    if not tokens.size:
        np.save(path, np.zeros(0, dtype))
        return offsets
    positions = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(tokens.size,))
    cursor = offsets[:-1].copy()
    for start in range(0, tokens.size, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK])
        n_here = np.bincount(block, minlength=counts.size)
        first_here = np.cumsum(n_here) - n_here
        shift = np.repeat(
            cursor - first_here, n_here
        )  # from the place in the sorted block to the place in the file
        positions[np.arange(block.size) + shift] = start + stable_order(block)
        cursor += n_here
    return offsets

"""How often each word stood under each metadata, in one small file."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.corpus.statistics import WordMetadataCounts
from lmcells.errors import ModelError
from lmcells.tensor_files import read_tensors, write_tensors

_NAMES = ("offsets", "metadata", "counts", "word_counts")


def save_statistics(path: Path, counts: WordMetadataCounts, word_counts: npt.NDArray[np.integer]) -> None:
    """Write the counts, each array in the narrowest type that holds it."""
    arrays: dict[str, npt.NDArray[np.integer]] = {
        "offsets": counts.offsets,
        "metadata": counts.metadata,
        "counts": counts.counts,
        "word_counts": word_counts,
    }
    write_tensors(path, {name: _narrow(array) for name, array in arrays.items()}, durable=True)


def load_statistics(
    path: Path, *, n_words: int, n_metadata: int
) -> tuple[WordMetadataCounts, npt.NDArray[np.int64]]:
    """Read the counts of words by metadata, and of words, and check that they are of as many as they should be."""
    arrays, _ = read_tensors(path)
    missing = [name for name in _NAMES if name not in arrays]
    if missing:
        raise ModelError(f"{path} lacks {', '.join(missing)}. Train or download the model again.")
    offsets, metadata, counts, word_counts = (arrays[name] for name in _NAMES)
    are_rows = offsets.shape == (n_words + 1,) and word_counts.shape == (n_words,)
    are_cells = metadata.ndim == 1 and metadata.shape == counts.shape
    if not are_rows or not are_cells or any(array.dtype.kind not in "ui" for array in arrays.values()):
        raise ModelError(
            f"{path} is damaged: it does not count {n_words:,} words. Train or download the model again."
        )
    offsets = offsets.astype(np.int64)
    is_csr = offsets[0] == 0 and offsets[-1] == metadata.size and (np.diff(offsets) >= 0).all()
    if not is_csr or metadata.max(initial=0) >= max(n_metadata, 1):
        raise ModelError(
            f"{path} is damaged: its rows are not counts under {n_metadata:,} metadata. "
            "Train or download the model again."
        )
    table = WordMetadataCounts(offsets, metadata.astype(np.int32), counts.astype(np.int64), n_metadata)
    return table, word_counts.astype(np.int64)


def _narrow(values: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))

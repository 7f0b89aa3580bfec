"""Expected meanings as a file of vectors that word2vec, gensim, fastText and others read.

In these formats a space ends a name, so spaces become underscores: `PAST_MEDICAL_HISTORY`. Where that makes two names
the same, the later one gets a number: `A_B`, `A_B_2`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.analysis.cells import expected_sections, expected_words
from lmcells.errors import InputError
from lmcells.files import atomic_write, explain_unwritable
from lmcells.pretrained import PretrainedModel

FORMATS = {".txt": "text", ".vec": "text", ".bin": "binary"}  # by extension, as in word2vec and fastText


# Unique names without white space, and a vector each (n, d); in the model's order, frequent ones first.
NamedVectors = tuple[tuple[str, ...], npt.NDArray[np.float32]]


def word_vectors(model: PretrainedModel) -> NamedVectors:
    return unique_names(model.words), expected_words(model).mean.astype(np.float32)


def section_vectors(model: PretrainedModel) -> NamedVectors:
    """The expected meaning of every section with counted words."""
    expected = expected_sections(model)
    kept = np.flatnonzero(expected.n_counted)
    names = unique_names([model.sections[section] for section in kept.tolist()])
    return names, expected.mean[kept].astype(np.float32)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as these formats can hold them; see the module."""
    plain = [re.sub(r"\s", "_", name) or "_" for name in names]
    given, taken = set(plain), dict[str, None]()
    for name in plain:
        unique, number = name, 1
        while unique in taken or (number > 1 and unique in given):  # a number must not make another's name
            number += 1
            unique = f"{name}_{number}"
        taken[unique] = None
    return tuple(taken)


def write_vectors(path: Path, named: NamedVectors) -> None:
    """Write a file of vectors row by row, in the format of its extension."""
    is_binary = require_format(path) == "binary"
    names, vectors = named
    n, dim = vectors.shape
    text = " %.9g" * dim + "\n"  # nine digits preserve every float32
    rows = zip(names, np.ascontiguousarray(vectors, dtype="<f4"), strict=True)
    with explain_unwritable(path), atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(f"{n} {dim}\n".encode())
        for name, row in rows:
            vector = b" " + row.tobytes() + b"\n" if is_binary else (text % tuple(row.tolist())).encode()
            file.write(name.encode() + vector)


def require_format(path: Path) -> str:
    """The format that a file's extension means; other extensions are refused."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: found the extension {path.suffix!r}, allowed: {', '.join(FORMATS)}.")
    return FORMATS[suffix]

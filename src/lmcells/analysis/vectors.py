"""Expected meanings as a file of vectors that word2vec, gensim, fastText and others read.

    write_vectors(Path("words.txt"), word_vectors(model))       # gensim: KeyedVectors.load_word2vec_format("words.txt")
    write_vectors(Path("words.bin"), word_vectors(model))       # the same with binary=True

In these formats a space ends a name, so each space of a name becomes an underscore: `PAST_MEDICAL_HISTORY`. Where that
makes two names the same, the later one gets a number: `A_B`, `A_B_2`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.cells import expected_sections, expected_words
from lmcells.errors import InputError
from lmcells.files import atomic_write
from lmcells.pretrained import PretrainedModel

FORMATS = {".txt": "text", ".vec": "text", ".bin": "binary"}  # by ending, as word2vec and fastText use them

_SPACE = re.compile(r"\s")


@dataclass(frozen=True, eq=False)
class NamedVectors:
    """Names, all different and without white space, and a vector each; in the model's order, frequent ones first."""

    names: tuple[str, ...]
    vectors: npt.NDArray[np.float32]  # (n, d)
    n_left_out: int = 0  # names of which nothing was counted

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.vectors.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        vectors = {name: vector.tolist() for name, vector in zip(self.names, self.vectors, strict=True)}
        return {"dim": self.dim, "n_left_out": self.n_left_out, "vectors": vectors}


def word_vectors(model: PretrainedModel) -> NamedVectors:
    """The expected meaning of every word."""
    return NamedVectors(unique_names(model.words), expected_words(model).mean.astype(np.float32))


def section_vectors(model: PretrainedModel) -> NamedVectors:
    """The expected meaning of every section of whose words any was counted."""
    expected = expected_sections(model)
    kept = np.flatnonzero(expected.n_counted)
    names = unique_names([model.sections[section] for section in kept.tolist()])
    return NamedVectors(names, expected.mean[kept].astype(np.float32), len(model.sections) - kept.size)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as these formats can hold them; see the module."""
    plain = [_SPACE.sub("_", name) or "_" for name in names]
    given, taken = set(plain), dict[str, None]()
    for name in plain:
        unique, number = name, 1
        while unique in taken or (number > 1 and unique in given):  # nor may a number make another's name
            number += 1
            unique = f"{name}_{number}"
        taken[unique] = None
    return tuple(taken)


def write_vectors(path: Path, vectors: NamedVectors) -> None:
    """Write a file of vectors, row after row; its ending says in which format."""
    is_binary = require_format(path)
    rows = _binary_rows(vectors) if is_binary else _text_rows(vectors)
    try:
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            file.write(f"{len(vectors.names)} {vectors.dim}\n".encode())
            file.writelines(rows)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


def require_format(path: Path) -> bool:
    """Whether the ending of a file's name means the binary format; one that means neither is refused."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"{path}: found the ending {path.suffix!r}, allowed: {', '.join(FORMATS)}.")
    return FORMATS[ending] == "binary"


def _text_rows(vectors: NamedVectors) -> Iterator[bytes]:
    numbers = " %.9g" * vectors.dim + "\n"  # nine digits bring every float32 back
    for name, vector in zip(vectors.names, vectors.vectors, strict=True):
        yield (name + numbers % tuple(vector.tolist())).encode()


def _binary_rows(vectors: NamedVectors) -> Iterator[bytes]:
    numbers = np.ascontiguousarray(vectors.vectors, dtype="<f4")
    for name, vector in zip(vectors.names, numbers, strict=True):
        yield name.encode() + b" " + vector.tobytes() + b"\n"

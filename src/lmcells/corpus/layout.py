"""Where things stand in a corpus folder, and the manifest that vouches for them."""

import io
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import lmcells
from lmcells.errors import CorpusError
from lmcells.files import FileTable, FolderFormat

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.json"
WORD_COUNTS = "word_counts.npy"
TOKENS = "tokens.npy"
TOKEN_SEGMENT = "token_segment.npy"
WORD_OFFSETS = "word_offsets.npy"
OCCURRENCES = "occurrences.npy"


def metadata_ids(kind: str) -> str:
    """The file with the id of each segment's metadata of this kind."""
    return f"metadata.{kind}.npy"


def metadata_names(kind: str) -> str:
    """The file with the names of the metadata of this kind, by id."""
    return f"metadata.{kind}.json"


FORMAT = FolderFormat(
    what="corpus",
    format="lmcells-corpus",
    version=1,
    index=MANIFEST,
    fields={"settings": dict, "sizes": dict, "metadata": dict, "report": dict, "written_by": str},
    required=(
        VOCABULARY,
        WORD_COUNTS,
        TOKENS,
        TOKEN_SEGMENT,
        WORD_OFFSETS,
        OCCURRENCES,
        metadata_ids("section"),
    ),
    error=CorpusError,
    made_with="lmcells prepare NOTES --output CORPUS",
    again="Prepare the corpus again.",
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus is: its settings and sizes, how it was read, and the checksum of each file."""

    settings: dict[str, Any]
    sizes: dict[str, int]
    metadata: dict[str, int]  # kind -> how many values
    report: dict[str, Any]
    files: FileTable
    written_by: str = lmcells.__version__

    @property
    def fingerprint(self) -> str:
        """A short name for the content of a corpus: equal content, equal fingerprint."""
        return "-".join(self.files[name]["sha256"][:12] for name in (TOKENS, metadata_ids("section")))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """Return the manifest that `to_dict` gave."""
        return cls(**{name: saved[name] for name in cls.__slots__})


# Arrays on disk that are written piece by piece and read through a memory map.


class ArrayWriter:
    """Writes a one-dimensional `.npy` file whose length is known only at the end."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._file = path.open("wb")
        self._dtype = np.dtype(dtype)
        self.length = 0
        self._write_header()

    def append(self, values: npt.NDArray[np.integer]) -> None:
        """Add values at the end."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.length += values.size

    def _write_header(self) -> None:
        # numpy's header leaves room for the first axis to grow, so the final one is as long as this one.
        header = io.BytesIO()
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(header, description)
        self._file.write(header.getbuffer())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()


def map_array(path: Path, *, mode: str = "r") -> npt.NDArray[np.integer]:
    """Open an array through a memory map."""
    array: npt.NDArray[np.integer] = np.load(path, mmap_mode=mode, allow_pickle=False)  # type: ignore[arg-type]
    return array


def id_dtype(size: int) -> type[np.integer]:
    """Return the narrowest of the two signed types that torch indexes with and that can count to `size`."""
    return np.int32 if size < 2**31 else np.int64

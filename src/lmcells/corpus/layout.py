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
from lmcells.files import read_json, sha256, write_json

# Where things stand in a corpus folder, and the manifest that vouches for them.


FORMAT = "lmcells-corpus"
VERSION = 1

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.json"
WORD_COUNTS = "word_counts.npy"
TOKENS = "tokens.npy"
TOKEN_SEGMENT = "token_segment.npy"
WORD_OFFSETS = "word_offsets.npy"
OCCURRENCES = "occurrences.npy"


def metadata_ids(kind: str) -> str:
    """The file that holds, for each segment, the id of its metadata of this kind."""
    return f"metadata.{kind}.npy"


def metadata_names(kind: str) -> str:
    """The file that holds the names of the metadata of this kind, by id."""
    return f"metadata.{kind}.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus is: sizes, settings, how it was read, and the checksum of each file."""

    settings: dict[str, Any]
    sizes: dict[str, int]
    metadata: dict[str, int]  # kind -> how many values
    report: dict[str, Any]
    files: dict[str, dict[str, Any]]  # name -> {"bytes", "sha256"}
    written_by: str = lmcells.__version__

    @property
    def fingerprint(self) -> str:
        """A short name of the corpus' content: equal content, equal fingerprint."""
        tokens = self.files[TOKENS]["sha256"]
        return f"{tokens[:12]}-{self.files[metadata_ids('section')]['sha256'][:12]}"

    def save(self, folder: Path) -> None:
        """Write the manifest; it is the last file of a corpus to be written."""
        write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **self.to_dict()}, indent=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the size and checksum of each file of a corpus but its manifest."""
    paths = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}


def parse_manifest(saved: Any, *, source: Path) -> Manifest:
    """Read a manifest's fields, or say why it cannot be one."""
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise CorpusError(
            f"{source} is not a corpus: its manifest is of another kind. Make one: lmcells prepare"
        )
    if saved.get("version") != VERSION:
        raise CorpusError(
            f"{source} has corpus format {saved.get('version')}, this lmcells ({lmcells.__version__}) reads {VERSION}. "
            "Upgrade lmcells or prepare the corpus again."
        )
    try:
        return Manifest(**{name: saved[name] for name in Manifest.__slots__})
    except KeyError as missing:
        raise CorpusError(
            f"{source} has a damaged manifest: {missing} is missing. Prepare the corpus again."
        ) from None


def load_manifest(folder: Path, *, verify: bool = False) -> Manifest:
    """Read a corpus' manifest and check that each file is there and whole; `verify` reads all of them."""
    if not folder.exists():
        raise CorpusError(
            f"{folder} does not exist. Make a corpus with: lmcells prepare NOTES --output {folder}"
        )
    if not (folder / MANIFEST).is_file():
        raise CorpusError(f"{folder} is not a corpus: it has no {MANIFEST}. Make one with: lmcells prepare")
    try:
        saved = read_json(folder / MANIFEST)
    except ValueError:
        raise CorpusError(
            f"{folder / MANIFEST} is damaged: it is not JSON. Prepare the corpus again."
        ) from None
    manifest = parse_manifest(saved, source=folder)
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise CorpusError(f"{path} is missing. Prepare the corpus again.")
        if path.stat().st_size != expected["bytes"]:
            raise CorpusError(
                f"{path} is damaged: found {path.stat().st_size:,} bytes, expected {expected['bytes']:,}. "
                "Prepare the corpus again."
            )
        if verify and sha256(path) != expected["sha256"]:
            raise CorpusError(f"{path} is damaged: its checksum differs. Prepare the corpus again.")
    return manifest


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

"""A corpus folder: its files, its manifest with their checksums, and its memory-mapped arrays."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import lmcells
from lmcells.errors import CorpusError, nearest
from lmcells.files import FileTable, FolderFormat, read_json

RADIUS = 10  # context words on each side of a center word, never across a section or document boundary

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.json"
WORD_COUNTS = "word_counts.npy"
TOKENS = "tokens.npy"
TOKEN_SEGMENT = "token_segment.npy"
WORD_OFFSETS = "word_offsets.npy"
OCCURRENCES = "occurrences.npy"
SECTION_IDS = "metadata.section.npy"
# Counts of each word by section, and the sections of its occurrences.
SECTION_COUNTS = ("section_counts.offsets.npy", "section_counts.sections.npy", "section_counts.counts.npy")
OCCURRENCE_SECTIONS = "occurrence_sections.npy"

_SIZES = ("n_tokens", "n_words", "n_segments", "n_documents")

FORMAT = FolderFormat(
    what="corpus",
    format="lmcells-corpus",
    version=1,
    index=MANIFEST,
    fields={"settings": dict, "sizes": dict, "metadata": dict, "report": dict, "written_by": str},
    required=(
        *(VOCABULARY, WORD_COUNTS, TOKENS, TOKEN_SEGMENT, WORD_OFFSETS, OCCURRENCES, SECTION_IDS),
        *(*SECTION_COUNTS, OCCURRENCE_SECTIONS),
    ),
    error=CorpusError,
    made_with="lmcells prepare NOTES --output CORPUS",
    again="Prepare the corpus again.",
)


def metadata_ids(kind: str) -> str:
    """Return the name of the file with the metadata id of each segment."""
    return f"metadata.{kind}.npy"


def metadata_names(kind: str) -> str:
    """Return the name of the file with the metadata names, by id."""
    return f"metadata.{kind}.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus is: its settings and sizes, how it was read, and the checksum of each file."""

    settings: dict[str, Any]
    sizes: dict[str, int]
    metadata: dict[str, int]  # kind -> number of values
    report: dict[str, Any]
    files: FileTable
    written_by: str = lmcells.__version__

    @property
    def fingerprint(self) -> str:
        return "-".join(self.files[name]["sha256"][:12] for name in (TOKENS, SECTION_IDS))

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, saved: dict[str, Any], *, source: Path) -> Self:
        """Return the manifest that an index describes; CorpusError if something in it is missing or no number."""
        kinds, sizes = saved["metadata"], saved["sizes"]
        files = {name for kind in kinds for name in (metadata_ids(kind), metadata_names(kind))}
        counts = [*kinds.values(), *(sizes.get(name) for name in _SIZES)]
        if not files <= saved["files"].keys() or not {"section", "document"} <= kinds.keys():
            problem = "metadata are not those of its files"
        elif not all(type(count) is int and count >= 0 for count in counts):
            problem = "sizes and metadata are not whole numbers"
        elif type(saved["settings"].get("stop_words")) is not bool:
            problem = "settings lack stop_words"
        else:
            return cls(**{name: saved[name] for name in cls.__slots__})
        raise CorpusError(f"{source}: its {MANIFEST} is damaged: {problem}. {FORMAT.again}")


def map_array(path: Path, *, size: int | None = None) -> npt.NDArray[np.integer]:
    """Map an array of whole numbers; CorpusError if it is something else, or has another size."""
    found = "not an array"
    with suppress(ValueError, EOFError, SyntaxError, TokenError):  # of its header, too
        array: npt.NDArray[np.integer] = np.load(path, mmap_mode="r", allow_pickle=False)
        found = f"{array.dtype} {array.shape}"
        if array.ndim == 1 and array.dtype.kind in "iu" and size in (None, array.size):
            return array
    expected = "whole numbers" if size is None else f"{size:,} whole numbers"
    raise CorpusError(f"{path} is damaged: found {found}, expected {expected}. {FORMAT.again}")


def require_ids(ids: npt.NDArray[np.integer], n: int, *, source: object) -> None:
    """Refuse ids that are not below `n`: whoever uses them as indices would read something else."""
    least, most = (int(ids.min()), int(ids.max())) if ids.size else (0, 0)
    if least < 0 or (most >= n and ids.size):
        raise CorpusError(
            f"{source} is damaged: found ids from {least:,} to {most:,}, expected below {n:,}. {FORMAT.again}"
        )


def _mapped(name: str, n: str, *, more: int = 0) -> cached_property[npt.NDArray[np.integer]]:
    """An array with one number for each of `n`."""
    return cached_property(
        lambda corpus: map_array(corpus.folder / name, size=corpus.manifest.sizes[n] + more)
    )


@dataclass(frozen=True)
class Corpus:
    """Words and metadata of all notes, as flat arrays.

    corpus = Corpus.open("corpus")
    corpus.tokens                       # word id of each token, note after note
    corpus.token_segment                # the segment of each token: a section of a note
    corpus.segment_metadata("section")  # the section id of each segment
    corpus.word_counts                  # the number of occurrences of each word
    corpus.occurrences                  # the positions of all tokens, grouped by word,
    corpus.word_offsets                 # which begin here: (words + 1,)
    corpus.occurrences_of(word_id)      # the positions of a word in `tokens`
    """

    folder: Path
    manifest: Manifest = field(repr=False)

    @classmethod
    def open(cls, folder: Path | str, *, verify: bool = False) -> Self:
        """Open a corpus folder; `verify` also compares every checksum."""
        folder = Path(folder)
        return cls(folder, Manifest.from_dict(FORMAT.read_index(folder, verify=verify), source=folder))

    tokens = _mapped(TOKENS, "n_tokens")
    token_segment = _mapped(TOKEN_SEGMENT, "n_tokens")
    word_counts = _mapped(WORD_COUNTS, "n_words")
    word_offsets = _mapped(WORD_OFFSETS, "n_words", more=1)
    occurrences = _mapped(OCCURRENCES, "n_tokens")

    @cached_property
    def words(self) -> list[str]:
        """The vocabulary, the most frequent word first."""
        return self._names(VOCABULARY, self.manifest.sizes["n_words"])

    def occurrences_of(self, word: int) -> npt.NDArray[np.integer]:
        found = self.occurrences[self.word_offsets[word] : self.word_offsets[word + 1]]
        require_ids(found, self.manifest.sizes["n_tokens"], source=self.folder / OCCURRENCES)
        return found

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are among the tokens."""
        return bool(self.manifest.settings["stop_words"])

    @property
    def metadata_kinds(self) -> tuple[str, ...]:
        """The kinds of metadata: section, category, document, and the metadata columns of its notes."""
        return tuple(self.manifest.metadata)

    def n_metadata(self, kind: str) -> int:
        return self.manifest.metadata[self._known(kind)]

    def segment_metadata(self, kind: str) -> npt.NDArray[np.integer]:
        """Return the metadata id of each segment."""
        path = self.folder / metadata_ids(self._known(kind))
        ids = map_array(path, size=self.manifest.sizes["n_segments"])
        require_ids(ids, self.n_metadata(kind), source=path)
        return ids

    def metadata_names(self, kind: str) -> list[str]:
        """Return the names of a kind of metadata, by id."""
        return self._names(metadata_names(self._known(kind)), self.n_metadata(kind))

    def _names(self, name: str, size: int) -> list[str]:
        """Read a list of so many names."""
        try:
            names = read_json(self.folder / name)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or {*map(type, names)} - {str} or len(names) != size:
            raise CorpusError(
                f"{self.folder / name} is damaged: it is not a list of {size:,} names. {FORMAT.again}"
            )
        return names

    def _known(self, kind: str) -> str:
        if kind not in self.manifest.metadata:
            raise CorpusError(
                f"{self.folder} has no metadata {kind!r}. It has: {', '.join(self.metadata_kinds)}."
                f"{nearest(kind, self.metadata_kinds)}"
            )
        return kind


def create_array(path: Path, size: int, dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """Create a memory-mapped `.npy` file, to be written piece by piece; a full disk raises OSError."""
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=(size,))
    if hasattr(os, "posix_fallocate"):  # otherwise writing to the map would kill the process
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
    return array


def write_array(path: Path, values: npt.NDArray[Any], *, at: int) -> None:
    """Write values to an array that `create_array` made, from an index on."""
    array: np.memmap[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    with path.open("r+b") as file:  # faster than through the map
        file.seek(array.offset + at * array.itemsize)
        file.write(values.astype(array.dtype, copy=False).data)

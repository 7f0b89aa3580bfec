"""A corpus on disk, opened through memory maps."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import layout
from lmcells.corpus.arrays import map_array
from lmcells.corpus.settings import has_stop_words
from lmcells.errors import CorpusError, nearest
from lmcells.files import read_json


@dataclass(frozen=True)
class Corpus:
    """Words and metadata of all notes, as flat arrays.

    corpus = Corpus.open("corpus")
    corpus.tokens                       # word id of each token, note after note
    corpus.token_segment                # its segment: a section of a note
    corpus.segment_metadata("section")  # the section id of each segment
    corpus.occurrences_of(word_id)      # where a word stands
    """

    folder: Path
    manifest: layout.Manifest = field(repr=False)

    @classmethod
    def open(cls, folder: Path | str, *, verify: bool = False) -> Self:
        """Open a corpus folder; `verify` also compares every checksum."""
        folder = Path(folder)
        return cls(folder, layout.load_manifest(folder, verify=verify))

    def _map(self, name: str) -> npt.NDArray[np.integer]:
        return map_array(self.folder / name)

    @cached_property
    def tokens(self) -> npt.NDArray[np.integer]:
        """The word id of each token."""
        return self._map(layout.TOKENS)

    @cached_property
    def token_segment(self) -> npt.NDArray[np.integer]:
        """The segment of each token: a section of a note."""
        return self._map(layout.TOKEN_SEGMENT)

    @cached_property
    def words(self) -> list[str]:
        """The vocabulary, the most frequent word first."""
        words: list[str] = read_json(self.folder / layout.VOCABULARY)
        return words

    @cached_property
    def word_counts(self) -> npt.NDArray[np.integer]:
        """How often each word stands in the corpus."""
        return self._map(layout.WORD_COUNTS)

    @cached_property
    def word_offsets(self) -> npt.NDArray[np.integer]:
        """Where each word's places begin in `occurrences`; one more than there are words."""
        return self._map(layout.WORD_OFFSETS)

    @cached_property
    def occurrences(self) -> npt.NDArray[np.integer]:
        """The places of all tokens, grouped by word."""
        return self._map(layout.OCCURRENCES)

    def occurrences_of(self, word: int) -> npt.NDArray[np.integer]:
        """Return the places of one word."""
        return self.occurrences[self.word_offsets[word] : self.word_offsets[word + 1]]

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are among the tokens."""
        return has_stop_words(self.manifest.settings)

    @property
    def metadata_kinds(self) -> tuple[str, ...]:
        """The kinds of metadata: section, category, document, and the columns asked for."""
        return tuple(self.manifest.metadata)

    def n_metadata(self, kind: str) -> int:
        """How many values a kind of metadata has."""
        self._check_kind(kind)
        return self.manifest.metadata[kind]

    def segment_metadata(self, kind: str) -> npt.NDArray[np.integer]:
        """Return the metadata id of each segment."""
        self._check_kind(kind)
        return self._map(layout.metadata_ids(kind))

    def metadata_names(self, kind: str) -> list[str]:
        """Return the metadata's names, by id."""
        self._check_kind(kind)
        names: list[str] = read_json(self.folder / layout.metadata_names(kind))
        return names

    def _check_kind(self, kind: str) -> None:
        if kind not in self.manifest.metadata:
            raise CorpusError(
                f"{self.folder} has no metadata {kind!r}. It has: {', '.join(self.metadata_kinds)}."
                f"{nearest(kind, self.metadata_kinds)}"
            )

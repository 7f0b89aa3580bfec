"""Tokens -> memory-mapped ids, vocabulary, section statistics, windows."""

from lmcells.corpus.corpus import (
    RADIUS,
    Corpus,
    Stream,
    Windows,
    WordMetadataCounts,
    count_words_by_metadata,
    subsample,
    windows_around,
)

__all__ = [
    "RADIUS",
    "Corpus",
    "Stream",
    "Windows",
    "WordMetadataCounts",
    "count_words_by_metadata",
    "subsample",
    "windows_around",
]

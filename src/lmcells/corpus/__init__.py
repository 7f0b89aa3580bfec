"""Tokens -> memory-mapped ids, vocabulary, section statistics, windows."""

from lmcells.corpus.corpus import Corpus
from lmcells.corpus.statistics import WordMetadataCounts, count_words_by_metadata
from lmcells.corpus.subsampling import Stream, subsample
from lmcells.corpus.windows import RADIUS, Windows, windows_around

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

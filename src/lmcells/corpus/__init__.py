"""Tokens -> memory-mapped ids, vocabulary, section statistics."""

from lmcells.corpus.corpus import RADIUS, Corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.statistics import Stream, WordMetadataCounts, count_words_by_metadata, subsample

__all__ = [
    "RADIUS",
    "Corpus",
    "CorpusSettings",
    "Stream",
    "WordMetadataCounts",
    "count_words_by_metadata",
    "subsample",
]

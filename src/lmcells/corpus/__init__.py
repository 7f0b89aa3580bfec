"""Tokens -> memory-mapped ids, vocabulary, section statistics."""

from lmcells.corpus.corpus import RADIUS, Corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.corpus.statistics import (
    MAX_PER_WORD,
    WordMetadataCounts,
    count_words_by_metadata,
    occurrence_metadata,
    subsample,
)

__all__ = [
    "MAX_PER_WORD", "RADIUS", "Corpus", "CorpusSettings", "WordMetadataCounts",
    "count_words_by_metadata", "occurrence_metadata", "subsample",
]  # fmt: skip

"""A text as a model reads it: the words and the metadata of a corpus under the model's own ids.

The corpus that a model was trained on has these ids already. Any other has its own vocabulary and section names: words
go by their spelling, and one that the model does not know is left out, as in the windows of a note.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.model import ModelConfig, Windows
from lmcells.training.chunks import divide
from lmcells.training.device_corpus import Chunk, to_device
from lmcells.training.settings import TrainingSettings

_NO_WORD = "<none>"  # the name of an id that is no word's: the gap, and what mbsge reads beside words
_LEFT_OUT = -1


@dataclass(frozen=True, slots=True)
class ModelIds:
    """Under which ids a model knows the words and the metadata of some corpus."""

    vocabulary: Sequence[str]  # the model's words
    metadata: Sequence[int]  # the model's id of each of the corpus' metadata; below 0 is none
    kept: Iterable[str] = ()  # further words that are not left out: they can be found, and are never read


@dataclass(frozen=True, slots=True)
class ModelText:
    """A corpus, or a cut through a very long one, on a device; nothing is subsampled."""

    chunk: Chunk  # words and segments
    words: list[str]  # by id: the model's vocabulary, and what else was kept
    segment_metadata: Tensor | None  # (segments,) int32, below 0 where the model has none; None for bsg
    config: ModelConfig

    @classmethod
    def of_corpus(
        cls,
        corpus: Corpus,
        *,
        config: ModelConfig,
        settings: TrainingSettings,
        device: torch.device,
        ids: ModelIds | None = None,
    ) -> Self:
        """Read a corpus; without `ids` it is the one that the model was trained on."""
        everything = replace(settings, subsampling=0.0)
        division = divide(corpus, n_shards=1, chunk_tokens=settings.chunk_tokens)
        chunk = Chunk.load(corpus, division.shards[0][0], settings=everything, device=device)
        of_segment = None
        if config.kind != "bsg":
            own = np.asarray(corpus.segment_metadata(settings.metadata))
            of_segment = to_device(own if ids is None else np.asarray(ids.metadata, np.int32)[own], device)
        if ids is None:
            return cls(chunk, corpus.words, of_segment, config)
        known = {word: id_ for id_, word in enumerate(ids.vocabulary)}
        kept = sorted(set(ids.kept).intersection(corpus.words) - known.keys())
        words = [*ids.vocabulary, *[_NO_WORD] * (config.n_read - len(ids.vocabulary)), *kept]
        known |= {word: config.n_read + at for at, word in enumerate(kept)}
        table = np.array([known.get(word, _LEFT_OUT) for word in corpus.words], np.int32)
        tokens = to_device(table, device)[chunk.tokens]
        stays = tokens != _LEFT_OUT
        return cls(Chunk(tokens[stays], chunk.segments[stays]), words, of_segment, config)

    def readable(self, windows: Windows) -> Windows:
        """The same windows; a word that was kept without the model knowing it is absent from them."""
        if len(self.words) <= self.config.n_read:
            return windows
        is_read = windows.context < self.config.n_read  # (B, 2S)
        return replace(
            windows,
            center=torch.where(windows.center < self.config.n_read, windows.center, 0),
            context=torch.where(is_read, windows.context, 0),
            context_mask=windows.context_mask & is_read,
        )

"""Draw batches on the device: the centers of a shard in random order, their windows, negatives and sections."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.errors import CorpusError
from lmcells.model import Batch, ModelConfig, SectionDraws
from lmcells.training.device_corpus import (
    AliasTable,
    Chunk,
    OccurrenceSections,
    TokenRanges,
    chance,
    take,
    to_device,
)
from lmcells.training.distributed import CHUNKS, ORDER, derived_seed, generator_for
from lmcells.training.settings import TrainingSettings
from lmcells.training.spans import Spans, stop_word_ids


@dataclass(frozen=True, slots=True)
class Sampler:
    """Turns positions in the corpus into batches: windows, negatives, masks, and mbsge's metadata as centers."""

    config: ModelConfig
    generator: torch.Generator
    negatives: AliasTable
    sections: OccurrenceSections | None = None  # lmc only
    segment_metadata: Tensor | None = None  # (segments,) int32; None for bsg
    segment_category: Tensor | None = None  # (segments,) int32; mbsge only

    @classmethod
    def of_corpus(
        cls, corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, generator: torch.Generator
    ) -> Self:
        """Load what the kind of model needs onto the generator's device."""
        device, kind, metadata = generator.device, config.kind, settings.metadata
        sections = None
        if kind == "lmc":
            sections = OccurrenceSections.of_corpus(
                corpus, kind=metadata, smoothing=settings.smoothing, device=device
            )
        weights = np.asarray(corpus.word_counts, np.float64) ** settings.negative_exponent
        return cls(
            config,
            generator,
            AliasTable.of_weights(weights, device=device),
            sections,
            None if kind == "bsg" else to_device(corpus.segment_metadata(metadata), device),
            to_device(corpus.segment_metadata("category"), device) if kind == "mbsge" else None,
        )

    def batch(self, chunk: Chunk, positions: Tensor, *, present: Tensor) -> Batch:
        """The batch with the centers at `positions` (B,); a row that is not `present` has no context."""
        config, generator, table = self.config, self.generator, self.segment_metadata
        context, mask, segment = chunk.windows_at(positions, radius=config.window)  # (B, 2S), (B, 2S), (B,)
        mask = mask & present.unsqueeze(1)
        if config.context_mask_rate > 0:
            mask = mask & ~chance(config.context_mask_rate, mask.shape, generator)
        center = take(chunk.tokens, positions)
        center_mask = None
        if config.center_mask_rate > 0:
            center_mask = ~chance(config.center_mask_rate, center.shape, generator)
        return Batch(
            center=center if config.kind != "mbsge" else self._replaced(center, segment),
            metadata=take(table, segment) if config.kind == "lmc" and table is not None else None,
            context=context,
            context_mask=mask,
            center_mask=center_mask,
            negatives=self.negatives.draw(context.shape, generator),
        )

    def section_draws(self, batch: Batch) -> SectionDraws:
        """Sections for the moment table: of the batch's words on the CPU, where fewer rows are less work; of all words
        on a GPU, where shapes must not depend on the batch.
        """
        words = None
        if batch.context.device.type == "cpu":  # the distinct context words and negatives, at least one
            seen = torch.zeros(self.config.n_words, dtype=torch.bool)
            seen[batch.context[batch.context_mask]] = True
            seen[batch.negatives[batch.context_mask]] = True
            seen[0] = True
            words = seen.nonzero().squeeze(1).to(torch.int32)  # (U,) sorted
        if self.sections is None:
            return SectionDraws(words=words)
        drawn = self.sections.draw(words, n_draws=self.config.n_section_draws, generator=self.generator)
        return SectionDraws(sections=drawn, words=words)

    def _replaced(self, center: Tensor, segment: Tensor) -> Tensor:
        """mbsge: replace some centers by the note type or section, as joint ids: (B,) -> (B,)."""
        config = self.config
        assert self.segment_category is not None
        assert self.segment_metadata is not None
        chances = torch.rand(center.shape, generator=self.generator, device=center.device)
        category = take(self.segment_category, segment) + config.category_offset
        section = take(self.segment_metadata, segment) + config.section_offset
        center = torch.where(chances < config.category_rate + config.section_rate, section, center)
        return torch.where(chances < config.category_rate, category, center)


class LoadedChunk(NamedTuple):
    """A chunk on the device, and the spans of the contrastive loss."""

    chunk: Chunk
    spans: Spans | None  # of this chunk, or of the same text without subsampling


@dataclass(frozen=True, slots=True)
class Centers:
    """The centers of one step: positions in a chunk, padded to the batch size."""

    source: LoadedChunk
    positions: Tensor  # (B,) int32
    present: Tensor  # (B,) bool


class ShardReader:
    """The centers of one shard: in each epoch chunk by chunk, in a new order, every token once, shuffled.

    A shard of one chunk stays on the device. Otherwise the next chunk is loaded while one trains, so that two are in
    memory at once.
    """

    def __init__(
        self,
        corpus: Corpus,
        chunks: tuple[TokenRanges, ...],
        *,
        shard: int,
        batch_size: int,
        settings: TrainingSettings,
        device: torch.device,
    ) -> None:
        self.shard, self.batch_size = shard, batch_size
        self._corpus, self._chunks = corpus, chunks
        self._settings, self._device = settings, device
        self._stop_words = stop_word_ids(corpus, device=device)
        self._only = self._load(0) if len(chunks) == 1 else None
        self.lengths = tuple(len(self._chunk(index).chunk) for index in range(len(chunks)))
        if not all(self.lengths):
            raise CorpusError(
                f"{corpus.folder}: subsampling leaves no token of a chunk. Use fewer shards or a larger corpus, or "
                "set training.subsampling=0."
            )
        self._rows = torch.arange(batch_size, device=device)

    def rows_of(self, epoch: int) -> npt.NDArray[np.int64]:
        """How many centers each step of an epoch has."""
        lengths, size = [self.lengths[index] for index in self._chunk_order(epoch)], self.batch_size
        return np.concatenate([np.minimum(length - np.arange(0, length, size), size) for length in lengths])

    def epoch(self, epoch: int, *, first_step: int = 0) -> Iterator[Centers]:
        """The centers of each step from `first_step` on, followed by empty ones without end."""
        order = self._chunk_order(epoch)
        source = self._only
        with ThreadPoolExecutor(max_workers=1) as loader:
            coming: Future[LoadedChunk] | None = None
            for turn, index in enumerate(order):
                n_steps = -(-self.lengths[index] // self.batch_size)
                if first_step >= n_steps:
                    first_step -= n_steps
                    continue
                source = coming.result() if coming else self._chunk(index)
                coming = loader.submit(self._chunk, order[turn + 1]) if turn + 1 < len(order) else None
                generator = generator_for(self._device, self._settings.seed, ORDER, self.shard, epoch, index)
                positions = torch.randperm(
                    len(source.chunk), generator=generator, device=self._device, dtype=torch.int32
                )
                for batch in torch.split(positions[first_step * self.batch_size :], self.batch_size):
                    yield self._centers(source, batch)
                first_step = 0
        source = source or self._chunk(order[-1])
        while True:
            yield self._centers(source, source.chunk.tokens[:0])

    def _centers(self, source: LoadedChunk, positions: Tensor) -> Centers:
        n_present = positions.shape[0]
        padded = functional.pad(positions, (0, self.batch_size - n_present))
        return Centers(source, padded, self._rows < n_present)

    def _chunk_order(self, epoch: int) -> list[int]:
        seed = derived_seed(self._settings.seed, CHUNKS, self.shard, epoch)
        return [int(index) for index in np.random.default_rng(seed).permutation(len(self._chunks))]

    def _chunk(self, index: int) -> LoadedChunk:
        return self._only or self._load(index)

    def _load(self, index: int) -> LoadedChunk:
        settings, ranges = self._settings, self._chunks[index]
        chunk = Chunk.load(self._corpus, ranges, settings=settings, device=self._device)
        if settings.n_contrastive_spans == 0:
            return LoadedChunk(chunk, None)
        text = chunk
        if settings.contrastive_reads_all and settings.subsampling:
            everything = replace(settings, subsampling=0.0)
            text = Chunk.load(self._corpus, ranges, settings=everything, device=self._device)
        return LoadedChunk(chunk, Spans.of_training(text, settings=settings, stop_words=self._stop_words))

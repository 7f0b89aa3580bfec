"""Everything a step draws, drawn on the device from one generator."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmcells.model import Batch, ModelConfig, SectionDraws
from lmcells.training.device_corpus import Chunk, DeviceTables
from lmcells.training.draws import chance, take


@dataclass(frozen=True, slots=True)
class Sampler:
    """Turns places of the corpus into batches: windows, negatives, masks, and mbsge's other centers."""

    tables: DeviceTables
    config: ModelConfig
    generator: torch.Generator

    def batch(self, chunk: Chunk, places: Tensor, *, present: Tensor) -> Batch:
        """The batch whose centers stand at `places`: (B,); a row that is not `present` has no context."""
        config, generator = self.config, self.generator
        context, mask, segment = chunk.windows_at(places, radius=config.window)  # (B, 2S), (B, 2S), (B,)
        mask = mask & present.unsqueeze(1)
        if config.context_mask_rate > 0:
            mask = mask & ~chance(config.context_mask_rate, mask.shape, generator)
        center = take(chunk.tokens, places)
        center_mask = None
        if config.center_mask_rate > 0:
            center_mask = ~chance(config.center_mask_rate, center.shape, generator)
        metadata = self.metadata_of(segment)
        return Batch(
            center=center if config.kind != "mbsge" else self._replaced(center, segment),
            metadata=metadata if config.kind == "lmc" else None,
            context=context,
            context_mask=mask,
            center_mask=center_mask,
            negatives=self.tables.negatives.draw(context.shape, generator),
        )

    def metadata_of(self, segment: Tensor) -> Tensor | None:
        """The metadata of each row's segment: (B,) -> (B,); None for a model without."""
        table = self.tables.segment_metadata
        return None if table is None else take(table, segment)

    def section_draws(self, batch: Batch) -> SectionDraws:
        """Sections for the moment table: of the words of the batch on the CPU, of all words on a GPU.

        On a GPU shapes must not depend on the batch; on the CPU fewer rows are less work.
        """
        sections = self.tables.sections
        words = words_of(batch, n_words=self.config.n_words) if batch.context.device.type == "cpu" else None
        if sections is None:
            return SectionDraws(words=words)
        drawn = sections.draw(words, n_draws=self.config.n_section_draws, generator=self.generator)
        return SectionDraws(sections=drawn, words=words)

    def _replaced(self, center: Tensor, segment: Tensor) -> Tensor:
        """mbsge: the note type or the section in place of some centers, as joint ids: (B,) -> (B,)."""
        config, tables = self.config, self.tables
        assert tables.segment_category is not None
        assert tables.segment_metadata is not None
        chances = torch.rand(center.shape, generator=self.generator, device=center.device)
        category = take(tables.segment_category, segment) + config.category_offset
        section = take(tables.segment_metadata, segment) + config.section_offset
        center = torch.where(chances < config.category_rate + config.section_rate, section, center)
        return torch.where(chances < config.category_rate, category, center)


def words_of(batch: Batch, *, n_words: int) -> Tensor:
    """The distinct context words and negatives of a batch, sorted: -> (U,); at least one."""
    seen = torch.zeros(n_words, dtype=torch.bool)
    seen[batch.context[batch.context_mask]] = True
    seen[batch.negatives[batch.context_mask]] = True
    seen[0] = True
    return seen.nonzero().squeeze(1).to(torch.int32)

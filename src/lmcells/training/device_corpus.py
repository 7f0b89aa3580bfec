"""The corpus on a device: flat arrays to gather from."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmcells.corpus import Corpus, subsample
from lmcells.model import ModelConfig
from lmcells.training.chunks import Spans
from lmcells.training.draws import AliasTable, take
from lmcells.training.occurrence_sections import OccurrenceSections
from lmcells.training.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class DeviceTables:
    """What all chunks share: metadata of the segments, and the distributions that are drawn from."""

    segment_metadata: Tensor | None  # (segments,) int32; None for bsg
    segment_category: Tensor | None  # (segments,) int32; mbsge only
    sections: OccurrenceSections | None  # lmc only
    negatives: AliasTable

    @classmethod
    def of_corpus(
        cls, corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, device: torch.device
    ) -> Self:
        """Read what the kind of model needs."""
        weights = np.asarray(corpus.word_counts, np.float64) ** settings.negative_exponent
        return cls(
            segment_metadata=None
            if config.kind == "bsg"
            else to_device(corpus.segment_metadata(settings.metadata), device),
            segment_category=to_device(corpus.segment_metadata("category"), device)
            if config.kind == "mbsge"
            else None,
            sections=OccurrenceSections.of_corpus(
                corpus, kind=settings.metadata, smoothing=settings.smoothing, device=device
            )
            if config.kind == "lmc"
            else None,
            negatives=AliasTable.of_weights(weights, device=device),
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of the subsampled corpus: whole segments, in order."""

    tokens: Tensor  # (n,) int32 word ids
    segments: Tensor  # (n,) int32, the segment of each

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @classmethod
    def load(cls, corpus: Corpus, spans: Spans, *, settings: TrainingSettings, device: torch.device) -> Self:
        """Read and subsample some spans of a corpus. A token's fate depends on the seed and its place alone."""
        streams = [
            subsample(corpus, threshold=settings.subsampling, seed=settings.seed, first=first, last=last)
            for first, last in spans
        ]
        tokens = np.concatenate([stream.tokens for stream in streams])
        segments = np.concatenate([stream.token_segment for stream in streams])
        return cls(to_device(tokens, device), to_device(segments, device))

    def windows_at(
        self, places: Tensor, *, radius: int, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Context, its mask, and the segment, of the centers at `places`: (B,) -> (B, 2S), (B, 2S), (B,).

        With `lengths` (B,) a center is so many words long, and its context begins after the last of them.

        `lmcells.corpus.windows_around` on a device, but an absent position holds whatever word stands there:
        were it always word 0, that word's gradient would be a bottleneck.
        """
        offsets = torch.arange(-radius, radius, device=places.device, dtype=places.dtype)
        offsets = torch.where(offsets < 0, offsets, offsets + 1)  # (2S,) without the center itself
        wanted = places.unsqueeze(1) + offsets  # (B, 2S)
        if lengths is not None:
            wanted = torch.where(offsets > 0, wanted + (lengths - 1).unsqueeze(1), wanted)
        inside = wanted.clamp(0, len(self) - 1)
        segment = take(self.segments, places)
        mask = (take(self.segments, inside) == segment.unsqueeze(1)) & (inside == wanted)
        return take(self.tokens, inside), mask, segment


def to_device(values: npt.NDArray[np.integer], device: torch.device) -> Tensor:
    """An int32 copy on a device; the copy to a GPU runs beside its work."""
    tensor = torch.from_numpy(np.array(values, np.int32))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor

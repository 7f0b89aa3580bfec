"""Windows as the kernels read them: time-major, int32, with the places of each id sorted out."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lmcells.model import ModelConfig, Windows
from lmcells.model.metadata import or_null
from lmcells.training.kernels.grouping import Grouping, group_places


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMajor:
    """The words of each window, the centers after the context, so that one lookup serves both."""

    words: Tensor  # (T + 1, B) int32
    words_present: Tensor  # (T + 1, B) bool
    metadata: Tensor  # (B,) int32, negative where there is none
    words_grouping: Grouping
    center_grouping: Grouping  # of all centers, present or not: the prior sees them all
    metadata_grouping: Grouping

    @classmethod
    def of_windows(cls, windows: Windows, *, config: ModelConfig) -> Self:
        center = windows.center.to(torch.int32)
        center_present = windows.center_mask
        if center_present is None:
            center_present = torch.ones_like(center, dtype=torch.bool)
        words = torch.cat([windows.context.T.to(torch.int32), center.unsqueeze(0)])  # (B, T) -> (T + 1, B)
        words_present = torch.cat([windows.context_mask.T, center_present.unsqueeze(0)])
        metadata = or_null(windows.metadata, shape=center.shape, device=center.device).to(torch.int32)
        return cls(
            words=words,
            words_present=words_present,
            metadata=metadata,
            words_grouping=group_places(words, n_groups=config.n_words, present=words_present),
            center_grouping=group_places(center, n_groups=config.n_words),
            metadata_grouping=group_places(metadata, n_groups=config.n_metadata, present=metadata >= 0),
        )

    @property
    def center(self) -> Tensor:
        return self.words[-1]

    @property
    def context(self) -> Tensor:
        return self.words[:-1]

    @property
    def context_present(self) -> Tensor:
        return self.words_present[:-1]

    @property
    def has_metadata(self) -> Tensor:
        return self.metadata >= 0

"""Windows as the kernels read them: present words first, longest windows first, time-major, int32.

Nothing in the loss depends on where the gaps of a window are, only on the order of the words that are there. So
gaps are closed, and rows sorted by how many words they have: a tile of rows ends after the words of its longest.
"""

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import Batch, ModelConfig, Windows
from lmcells.model.metadata import or_null
from lmcells.training.kernels.grouping import Grouping, group_places


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMajor:
    """The words of each window, the centers after the context, so that one lookup serves both."""

    words: Tensor  # (T + 1, B) int32; 0 where absent
    words_present: Tensor  # (T + 1, B) bool
    negatives: Tensor  # (T, B) int32; 0 where absent, or all where there are none
    lengths: Tensor  # (B,) int32, words of the context, descending
    metadata: Tensor  # (B,) int32, negative where there is none
    rank: Tensor  # (B,) where each row of the windows went
    words_grouping: Grouping
    center_grouping: Grouping  # of all centers, present or not: the prior sees them all
    metadata_grouping: Grouping

    @classmethod
    def of_windows(cls, windows: Windows, *, config: ModelConfig) -> Self:
        """Sort out windows, or a batch with its negatives."""
        batch, steps = windows.context.shape
        device = windows.center.device
        lengths, order = windows.context_mask.sum(dim=1, dtype=torch.int32).sort(descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(batch, device=device))
        words = torch.zeros(steps + 1, batch, dtype=torch.int32, device=device)
        negatives = torch.zeros(steps, batch, dtype=torch.int32, device=device)
        given = windows.negatives if isinstance(windows, Batch) else windows.context
        _close_gaps[(triton.cdiv(batch, 64),)](
            words, negatives, windows.context.contiguous(), given.contiguous(),
            windows.context_mask.contiguous(), order, batch, steps, ROWS=64, num_warps=2,
        )  # fmt: skip
        words[steps] = windows.center[order]
        center_present = windows.center_mask
        present = torch.empty(steps + 1, batch, dtype=torch.bool, device=device)
        torch.lt(torch.arange(steps, device=device).unsqueeze(1), lengths, out=present[:steps])
        present[steps] = True if center_present is None else center_present[order]
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=device)[order].to(torch.int32)
        return cls(
            words=words,
            words_present=present,
            negatives=negatives,
            lengths=lengths,
            metadata=metadata,
            rank=rank,
            words_grouping=group_places(words, n_groups=config.n_read, present=present),
            center_grouping=group_places(words[steps], n_groups=config.n_words),
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

    def in_given_order(self, values: Tensor) -> Tensor:
        """Rows as the windows had them: (B, ...) -> (B, ...)."""
        return values.index_select(0, self.rank)


@triton.jit
def _close_gaps(words, negatives, context, given, present, order, batch, steps, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    source = tl.load(order + row, mask=inside, other=0) * steps
    slot = tl.zeros((ROWS,), tl.int32)
    for time in range(steps):
        there = (tl.load(present + source + time, mask=inside, other=0) != 0) & inside
        word = tl.load(context + source + time, mask=there, other=0)
        negative = tl.load(given + source + time, mask=there, other=0)
        to = slot * batch + row
        tl.store(words + to, word.to(tl.int32), mask=there)
        tl.store(negatives + to, negative.to(tl.int32), mask=there)
        slot += there.to(tl.int32)

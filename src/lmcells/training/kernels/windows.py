"""Windows as the kernels read them: present words first, longest windows first, time-major, int32.

Nothing in the loss depends on where the absent positions of a window are, only on the order of the present words. So
they are closed up, and rows sorted by their number of words: a tile of rows ends after the words of its longest.
"""

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import Batch, ModelConfig, Windows
from lmcells.model.batch import or_null
from lmcells.training.kernels.lookup import Grouping, group_places

ROWS = 64  # of a program


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMajor:
    """The words of each window, the centers after the context, so that one lookup serves both."""

    words: Tensor  # (T + 1, B) int32; 0 where absent
    words_present: Tensor  # (T + 1, B) bool
    negatives: Tensor  # (T, B) int32; 0 where absent; without negatives, the context once more
    lengths: Tensor  # (B,) int32, words of the context, descending
    metadata: Tensor  # (B,) int32, negative where there is none
    has_metadata: Tensor  # (B,) bool
    rank: Tensor  # (B,) where each row of the windows went
    words_grouping: Grouping
    center_grouping: Grouping  # of all centers, present or not: the prior sees them all
    metadata_grouping: Grouping

    @classmethod
    def of_windows(cls, windows: Windows, *, config: ModelConfig) -> Self:
        """Rearrange windows, or a batch with its negatives."""
        batch, steps = windows.context.shape
        device = windows.center.device
        lengths, order = windows.context_mask.sum(dim=1, dtype=torch.int32).sort(descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(batch, device=device))
        words = torch.zeros(steps + 1, batch, dtype=torch.int32, device=device)
        negatives = torch.zeros(steps, batch, dtype=torch.int32, device=device)
        given = windows.negatives if isinstance(windows, Batch) else windows.context
        _close_up[(triton.cdiv(batch, ROWS),)](
            words, negatives, windows.context.contiguous(), given.contiguous(),
            windows.context_mask.contiguous(), order, batch, steps, num_warps=2,
        )  # fmt: skip
        words[steps] = windows.center[order]
        present = torch.empty(steps + 1, batch, dtype=torch.bool, device=device)
        torch.lt(torch.arange(steps, device=device).unsqueeze(1), lengths, out=present[:steps])
        present[steps] = True if windows.center_mask is None else windows.center_mask[order]
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=device)[order].to(torch.int32)
        has_metadata = metadata >= 0
        return cls(
            words=words,
            words_present=present,
            negatives=negatives,
            lengths=lengths,
            metadata=metadata,
            has_metadata=has_metadata,
            rank=rank,
            words_grouping=group_places(words, n_groups=config.n_read, present=present),
            center_grouping=group_places(words[steps], n_groups=config.n_words),
            metadata_grouping=group_places(metadata, n_groups=config.n_metadata, present=has_metadata),
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

    def in_given_order(self, values: Tensor) -> Tensor:
        """Rows in the order of the windows: (B, ...) -> (B, ...)."""
        return values.index_select(0, self.rank)


@triton.jit
def _close_up(words, negatives, context, given, present, order, batch, steps, ROWS: tl.constexpr = ROWS):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    source = tl.load(order + row, mask=inside, other=0) * steps
    slot = tl.zeros((ROWS,), tl.int32)
    for time in range(steps):
        there = (tl.load(present + source + time, mask=inside, other=0) != 0) & inside
        word = tl.load(context + source + time, mask=there, other=0)
        negative = tl.load(given + source + time, mask=there, other=0)
        to = slot * batch + row
        tl.store(words + to, word, mask=there)
        tl.store(negatives + to, negative, mask=there)
        slot += there.to(tl.int32)

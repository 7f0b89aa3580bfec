"""Adam of the word tables in two parts: rows that a step does not read, beside it, and the rest at its end.

A row that is not read has no gradient, but Adam moves it all the same, by its averages: that takes most of the bytes of
a small step, and can be done while the step computes. Values are those of `torch.optim.Adam` up to rounding.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import nn

from lmcells.training.kernels import ADAM, TABLE, beside, join
from lmcells.training.kernels.lookup import Grouping
from lmcells.training.task import BETAS, EPSILON, Adam

BLOCK = 1024  # elements per program


class WordAdam:
    """Takes the steps of `optimizer` on `tables`, all read at the same words: `begin`, backward, then `end`."""

    def __init__(self, optimizer: Adam, tables: Sequence[nn.Parameter]) -> None:
        self.optimizer, self.tables = optimizer, tables
        self._betas = torch.tensor(BETAS, dtype=torch.float64, device=tables[0].device)

    @torch.no_grad()
    def begin(self, words: Grouping) -> None:
        """Count a step, and update the rows of no group on the branch ADAM; `words` are those the step reads."""
        assert words.group_of is not None
        self._words = words
        states = [self.optimizer.state_of(table) for table in self.tables]
        with beside(ADAM, self.optimizer.learning_rate):
            join(TABLE, words.group_of)
            for state in states:
                state["step"] += 1
            # (2,) float32: sums of the weights of past gradients in both averages
            self._sums = (1 - self._betas ** states[0]["step"]).float()
            self._update(is_read=False)

    @torch.no_grad()
    def end(self) -> None:
        """Update the rows of all groups along their gradients."""
        join(ADAM, self._sums)
        self._update(is_read=True)

    def _update(self, *, is_read: bool) -> None:
        words = self._words
        for table in self.tables:
            state, width = self.optimizer.state_of(table), table.shape[1]
            n_rows = words.capacity if is_read else table.shape[0]
            _update_rows[(triton.cdiv(n_rows * width, BLOCK),)](
                table, state["exp_avg"], state["exp_avg_sq"], table.grad if is_read else table,
                words.of_group if is_read else words.group_of, words.n_groups, self._sums,
                self.optimizer.learning_rate, table.shape[0], width, BETA1=BETAS[0], BETA2=BETAS[1], EPSILON=EPSILON,
                IS_READ=is_read, num_warps=4,
            )  # fmt: skip


@triton.jit
def _update_rows(
    table, average, square, gradients, groups, n_groups, sums, learning_rate, n_rows, width,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr, IS_READ: tl.constexpr, BLOCK: tl.constexpr = BLOCK,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK
    element = first + tl.arange(0, BLOCK)
    row = element // width
    if IS_READ:  # row `row` of the groups
        n_there = tl.load(n_groups)
        if first // width >= n_there:
            return
        there = row < n_there
        row_of_table = tl.load(groups + row, mask=there, other=0)
        at = row_of_table.to(tl.int64) * width + element % width
        gradient = tl.load(gradients + at, mask=there, other=0.0)
    else:
        there = row < n_rows
        there = there & (tl.load(groups + row, mask=there, other=0) < 0)
        at = element
        gradient = tl.zeros((BLOCK,), tl.float32)
    mean = BETA1 * tl.load(average + at, mask=there, other=0.0) + (1 - BETA1) * gradient
    mean_square = BETA2 * tl.load(square + at, mask=there, other=0.0) + (1 - BETA2) * gradient * gradient
    spread = tl.sqrt(mean_square) / tl.sqrt(tl.load(sums + 1)) + EPSILON
    moved = tl.load(learning_rate) / tl.load(sums) * mean / spread
    tl.store(average + at, mean, mask=there)
    tl.store(square + at, mean_square, mask=there)
    tl.store(table + at, tl.load(table + at, mask=there, other=0.0) - moved, mask=there)

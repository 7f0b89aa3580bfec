"""Adam of the large tables: rows of words that a step does not read beside the step, the rest at its end.

A row that is not read has no gradient, but Adam moves it all the same, by its averages: that takes most of the bytes of
a small step, and can be done while the step computes. Values are those of `torch.optim.Adam` up to rounding.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from lmcells.training.kernels import ADAM, TABLE, beside, join
from lmcells.training.kernels.lookup import Grouping
from lmcells.training.task import BETAS, EPSILON, Adam

BLOCK = 2048  # elements that a program updates at once, in whole rows
N_BESIDE = 2112  # programs beside a step: short, so that its kernels, which go first, soon find room
N_PROGRAMS = 1056
UNREAD, READ, ALL = range(3)  # which rows are updated


class TableAdam:
    """Takes the steps of `optimizer` on tables that are all read at the same words, and on `others`.

    Call `begin`, then backward, then `end`.
    """

    def __init__(
        self, optimizer: Adam, of_words: Sequence[nn.Parameter], others: Sequence[nn.Parameter] = ()
    ) -> None:
        self.optimizer, self._of_words, self._others = optimizer, of_words, others
        self.parameters = [*of_words, *others]

    @torch.no_grad()
    def begin(self, words: Grouping) -> None:
        """Count a step, and update the words' rows of no group on the branch ADAM; `words` are those it reads."""
        assert words.group_of is not None
        self._words = words
        steps = [self.optimizer.state_of(each)["step"] for each in self.parameters]
        with beside(ADAM, steps[0]):
            join(TABLE, words.group_of)
            torch._foreach_add_(steps, 1)
            for table in self._of_words:
                self._update(table, UNREAD)

    @torch.no_grad()
    def end(self) -> list[Tensor]:
        """Update everything else along its gradient; return norms, the norm of which is that of all these gradients."""
        join(ADAM, self.optimizer.learning_rate)
        with beside(ADAM, self.optimizer.learning_rate):
            norms = [self._update(table, ALL) for table in self._others]
        norms += [self._update(table, READ) for table in self._of_words]
        join(ADAM, norms[0])
        del self._words
        return norms

    def _update(self, table: nn.Parameter, part: int) -> Tensor:
        """Update a part of the rows; return the norms of the parts of their gradients."""
        words, state = self._words, self.optimizer.state_of(table)
        gradient = table.grad if part != UNREAD else table
        assert gradient is not None
        width = table.shape[-1]
        n_rows, columns = table.numel() // width, triton.next_power_of_2(width)
        n_programs = min(N_BESIDE if part == UNREAD else N_PROGRAMS, triton.cdiv(n_rows * columns, BLOCK))
        norms = state["step"].new_empty(n_programs)
        _update_rows[(n_programs,)](
            table, norms, state["exp_avg"], state["exp_avg_sq"], gradient.contiguous(),
            words.of_group if part == READ else words.group_of, words.n_groups, state["step"],
            self.optimizer.learning_rate, n_rows, width=width, BETA1=BETAS[0], BETA2=BETAS[1],
            LOG1=math.log(BETAS[0]), LOG2=math.log(BETAS[1]), EPSILON=EPSILON, PART=part,
            ROWS=BLOCK // columns, COLUMNS=columns, num_warps=8,
        )  # fmt: skip
        return norms


@triton.jit
def _one_minus_exp(x):
    """1 - exp(x) for x < 0, exact to 2e-6 also near 0."""
    series = -x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0)))
    return tl.where(x > -0.03, series, 1.0 - tl.exp(x))


@triton.jit
def _update_rows(
    table, norms, average, square, gradients, groups, n_groups, step, learning_rate, n_rows, width: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr, EPSILON: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    steps = tl.load(step)
    rate = tl.load(learning_rate) / _one_minus_exp(steps * LOG1)
    scale = 1.0 / tl.sqrt(_one_minus_exp(steps * LOG2))
    if PART == 1:
        n_rows = tl.load(n_groups)
    column = tl.arange(0, COLUMNS)
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, n_rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        there = row < n_rows
        if PART == 0:
            there = there & (tl.load(groups + row, mask=there, other=0) < 0)
        if PART == 1:
            row = tl.load(groups + row, mask=there, other=0)
        at = row[:, None] * width + column[None, :]
        mask = there[:, None] & (column < width)[None, :]
        gradient = tl.zeros((ROWS, COLUMNS), tl.float32)
        if PART > 0:
            gradient = tl.load(gradients + at, mask=mask, other=0.0)
            squares += gradient * gradient
        mean = BETA1 * tl.load(average + at, mask=mask, other=0.0) + (1 - BETA1) * gradient
        mean_square = BETA2 * tl.load(square + at, mask=mask, other=0.0) + (1 - BETA2) * gradient * gradient
        moved = rate * mean / (tl.sqrt(mean_square) * scale + EPSILON)
        tl.store(average + at, mean, mask=mask)
        tl.store(square + at, mean_square, mask=mask)
        tl.store(table + at, tl.load(table + at, mask=mask, other=0.0) - moved, mask=mask)
    tl.store(norms + tl.program_id(0), tl.sqrt(tl.sum(squares)))

"""Symmetric InfoNCE between two sets of directions, with one table of similarities and no more.

For rows a_i and b_j of length 1, e_ij = exp((a_i . b_j - 1) / t) is never above 1, so no maximum has to be looked for:

    loss = 1/2n sum_i [ (1 - a_i . b_i) / t + log sum_j e_ij ] + the same over columns

and with r and c the sums of rows and columns, its gradient needs two products with the table and no other pass over it.
Through `cross_entropy` the same takes six tables and three times the time.
"""

from typing import Any

import torch
from torch import Tensor


def contrast(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    """How badly rows of two sides find their partners among all of the other side: (n, d), (n, d) -> scalar.

    Rows must be of length 1. log(n) is the value of guessing.
    """
    loss: Tensor = _Contrast.apply(one, other, temperature)  # type: ignore[no-untyped-call]
    return loss


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, temperature: float) -> Tensor:
        n = one.shape[0]
        with _TensorCores():
            least = one.new_full((1, 1), -1 / temperature)
            table = torch.addmm(least.expand(n, n), one / temperature, other.T).exp_()  # (n, n)
        rows, columns = table.sum(dim=1), table.sum(dim=0)
        misfit = (1 - (one * other).sum(dim=1)) / temperature  # (n,)
        ctx.save_for_backward(one, other, table, rows, columns)
        ctx.temperature = temperature
        return misfit.mean() + (rows.log().mean() + columns.log().mean()) / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        one, other, table, rows, columns = ctx.saved_tensors
        of_rows, of_columns = rows.reciprocal().unsqueeze(1), columns.reciprocal().unsqueeze(1)  # (n, 1)
        with _TensorCores():
            across, scaled = (table @ torch.cat([other, other * of_columns], dim=1)).chunk(2, dim=1)
            down, scaled_down = (table.T @ torch.cat([one, one * of_rows], dim=1)).chunk(2, dim=1)
        scale = gradient / (ctx.temperature * one.shape[0])
        d_one = (of_rows * across + scaled) / 2 - other
        d_other = (of_columns * down + scaled_down) / 2 - one
        return scale * d_one, scale * d_other, None


class _TensorCores:
    """Let float32 products on a GPU round their factors to ten bits: similarities then err by a thousandth."""

    def __enter__(self) -> None:
        self._before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self._before)

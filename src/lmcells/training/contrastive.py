"""The contrastive loss: the posteriors of two masked occurrences of a word or phrase must find each other among those
of other spans, and so must the posteriors and the phrase network's mean of the masked words.

Not in the paper; unsupervised like the rest. It teaches the posterior what a masked span means, and the phrase network
where a phrase, perhaps one never seen, would fit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.model.gaussian import at_least_float32, full_precision


def contrastive_loss(means: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between posterior means of first and second occurrences: (2n, d) -> scalar.

    Each must find its partner among all of the other side, by the cosine of the centered means. Guessing gives log(n).
    """
    with full_precision(means):
        first, second = _centered(means).chunk(2)  # (n, d) each
        return info_nce(first, second, temperature=temperature)


def phrase_loss(means: Tensor, phrases: Tensor, *, temperature: float) -> Tensor:
    """The same between masked spans and the words that were masked: (2n, d), (n, d) -> scalar."""
    with full_precision(means):
        first, second = _centered(means).chunk(2)
        words = _centered(phrases)
        one, other = (info_nce(side, words, temperature=temperature) for side in (first, second))
        return (one + other) / 2


def _centered(means: Tensor) -> Tensor:
    means = at_least_float32(means)
    return functional.normalize(means - means.mean(dim=0), dim=-1)


def info_nce(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    """Symmetric InfoNCE between two sides whose rows have length 1: (n, d), (n, d) -> scalar.

    For rows a_i and b_j, e_ij = exp((a_i . b_j - 1) / t) is never above 1, so no maximum has to be subtracted:

        loss = 1/2n sum_i [ (1 - a_i . b_i) / t + log sum_j e_ij ] + the same over columns

    With r and c the sums of rows and columns, the gradient needs two products with the table e and no other pass over
    it. Through `cross_entropy` the same takes six tables and three times the time.
    """
    loss: Tensor = _InfoNCE.apply(one, other, temperature)  # type: ignore[no-untyped-call]
    return loss


class _InfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, temperature: float) -> Tensor:
        n = one.shape[0]
        with _tensor_cores():
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
        with _tensor_cores():
            across, scaled = (table @ torch.cat([other, other * of_columns], dim=1)).chunk(2, dim=1)
            down, scaled_down = (table.T @ torch.cat([one, one * of_rows], dim=1)).chunk(2, dim=1)
        scale = gradient / (ctx.temperature * one.shape[0])
        d_one = (of_rows * across + scaled) / 2 - other
        d_other = (of_columns * down + scaled_down) / 2 - one
        return scale * d_one, scale * d_other, None


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let float32 products on a GPU use TF32, which is off by a thousandth for similarities."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

"""The hinge over context words and negatives: rows of the moment table are read once, where they are needed.

With the query [-2 mu ; d v + |mu|^2 ; 1] and table rows [a1 ; a0 ; a2 + d a3], KLbar(q, c) - KLbar(q, n) is half
the product of the query with the difference of two rows: what does not depend on the word cancels exactly.
All of it is float32. Forward also adds up the query's gradient, while the rows are at hand.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.grouping import Grouping, sum_rows

# From the heads' rows to the prior's divergence and the query of the hinge, in one pass each way, in float32.
#
# A row is [mu ; log v ; zeros], 128 wide; the query is [-2 mu ; d v + |mu|^2 ; 1 ; zeros].


WIDTH = 128
ROWS = 16


def divergence_and_query(posterior: Tensor, prior: Tensor, *, dim: int) -> tuple[Tensor, Tensor]:
    """KL(q || p) and the query: (B, 128), (B, 128) -> (B,), (B, 128)."""
    divergence, query = _DivergenceAndQuery.apply(posterior, prior, dim)
    return divergence, query


class _DivergenceAndQuery(torch.autograd.Function):
    @staticmethod
    def forward(ctx, posterior, prior, dim):
        batch = posterior.shape[0]
        divergence = posterior.new_empty(batch)
        query = torch.empty_like(posterior)
        _divergence_forward[(triton.cdiv(batch, ROWS),)](
            divergence, query, posterior, prior, batch, DIM=dim, ROWS=ROWS, WIDTH=WIDTH, num_warps=4
        )
        ctx.save_for_backward(posterior, prior)
        ctx.dim = dim
        return divergence, query

    @staticmethod
    def backward(ctx, d_divergence, d_query):
        posterior, prior = ctx.saved_tensors
        batch = posterior.shape[0]
        d_posterior, d_prior = torch.empty_like(posterior), torch.empty_like(prior)
        _divergence_backward[(triton.cdiv(batch, ROWS),)](
            d_posterior, d_prior, d_divergence.contiguous(), d_query.contiguous(), posterior, prior, batch,
            DIM=ctx.dim, ROWS=ROWS, WIDTH=WIDTH, num_warps=4,
        )  # fmt: skip
        return d_posterior, d_prior, None


@triton.jit
def _divergence_forward(
    divergence, query, posterior, prior, batch, DIM: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, WIDTH)
    tile = row[:, None] * WIDTH + column[None, :]
    mask = inside[:, None] & (column < DIM)[None, :]
    q_mean = tl.load(posterior + tile, mask=mask, other=0.0)
    p_mean = tl.load(prior + tile, mask=mask, other=0.0)
    q_log = tl.load(posterior + row * WIDTH + DIM, mask=inside, other=0.0)
    p_log = tl.load(prior + row * WIDTH + DIM, mask=inside, other=0.0)
    ratio = q_log - p_log
    apart = q_mean - p_mean
    distance = tl.sum(apart * apart, axis=1)
    value = 0.5 * (DIM * (tl.exp(ratio) - 1.0 - ratio) + distance * tl.exp(-p_log))
    tl.store(divergence + row, value, mask=inside)
    scale = DIM * tl.exp(q_log) + tl.sum(q_mean * q_mean, axis=1)
    asked = tl.where(column[None, :] == DIM, scale[:, None], -2.0 * q_mean)
    asked = tl.where(column[None, :] == DIM + 1, 1.0, asked)
    tl.store(query + tile, asked, mask=inside[:, None])


@triton.jit
def _divergence_backward(
    d_posterior, d_prior, d_divergence, d_query, posterior, prior, batch,
    DIM: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, WIDTH)
    tile = row[:, None] * WIDTH + column[None, :]
    mask = inside[:, None] & (column < DIM)[None, :]
    q_mean = tl.load(posterior + tile, mask=mask, other=0.0)
    p_mean = tl.load(prior + tile, mask=mask, other=0.0)
    q_log = tl.load(posterior + row * WIDTH + DIM, mask=inside, other=0.0)
    p_log = tl.load(prior + row * WIDTH + DIM, mask=inside, other=0.0)
    d_value = tl.load(d_divergence + row, mask=inside, other=0.0)
    d_asked = tl.load(d_query + tile, mask=mask, other=0.0)
    d_scale = tl.load(d_query + row * WIDTH + DIM, mask=inside, other=0.0)
    apart = q_mean - p_mean
    precision = tl.exp(-p_log)
    d_apart = (d_value * precision)[:, None] * apart
    d_ratio = 0.5 * DIM * d_value * (tl.exp(q_log - p_log) - 1.0)
    d_q_log = d_ratio + d_scale * DIM * tl.exp(q_log)
    d_p_log = -d_ratio - 0.5 * d_value * precision * tl.sum(apart * apart, axis=1)
    of_q = d_apart - 2.0 * d_asked + 2.0 * d_scale[:, None] * q_mean
    of_q = tl.where(column[None, :] == DIM, d_q_log[:, None], of_q)
    of_p = tl.where(column[None, :] == DIM, d_p_log[:, None], -d_apart)
    tl.store(d_posterior + tile, of_q, mask=inside[:, None])
    tl.store(d_prior + tile, of_p, mask=inside[:, None])


# The hinge over context words and negatives: rows of the moment table are read once, where they are needed.
#
# With the query [-2 mu ; d v + |mu|^2 ; 1] and table rows [a1 ; a0 ; a2 + d a3], KLbar(q, c) - KLbar(q, n) is half
# the product of the query with the difference of two rows: what does not depend on the word cancels exactly.
# All of it is float32. Forward also adds up the query's gradient, while the rows are at hand.


HINGE_WIDTH = 128
HINGE_ROWS = 4


def hinge(
    query: Tensor,
    table: Tensor,
    *,
    context: Tensor,
    negatives: Tensor,
    lengths: Tensor,
    context_grouping: Grouping,
    negative_grouping: Grouping,
    margin: float,
    columns: int,
) -> Tensor:
    """sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)) over the words of a row: (B, 128), (V, 128), (T, B) -> (B,).

    `lengths` says how many words each row has, descending.

    `context_grouping` may hold further places after those of the context; they are given no weight.
    Only the first `columns` of a row are read.
    """
    reconstruction: Tensor = _Hinge.apply(
        query, table, context, negatives, lengths, context_grouping, negative_grouping, margin, columns
    )
    return reconstruction


class _Hinge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, query, table, context, negatives, lengths, context_grouping, negative_grouping, margin, columns
    ):
        batch = context.shape[1]
        query = query.contiguous()
        reconstruction = query.new_empty(batch)
        d_query = torch.empty_like(query)
        active = torch.zeros_like(context, dtype=torch.bool)
        _hinge_forward[(triton.cdiv(batch, HINGE_ROWS),)](
            reconstruction, d_query, active, query, table, context, negatives, lengths, margin, batch,
            columns, HINGE_ROWS=HINGE_ROWS, HINGE_WIDTH=HINGE_WIDTH, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(query, d_query, active)
        ctx.context_grouping, ctx.negative_grouping = context_grouping, negative_grouping
        return reconstruction

    @staticmethod
    def backward(ctx, gradient):
        query, d_query, active = ctx.saved_tensors
        n_places = ctx.context_grouping.ids.shape[0]
        coefficient = query.new_zeros(n_places)
        used = coefficient[: active.numel()].view_as(active)
        torch.mul(active, 0.5 * gradient, out=used)
        of_negatives = sum_rows(
            query, ctx.negative_grouping, width=HINGE_WIDTH, coefficient=coefficient, repeats=True
        )
        d_table = sum_rows(
            query,
            ctx.context_grouping,
            width=HINGE_WIDTH,
            coefficient=coefficient,
            repeats=True,
            minus=of_negatives,
        )
        return (d_query * gradient.unsqueeze(-1), d_table, *[None] * 7)


@triton.jit
def _hinge_forward(
    reconstruction, d_query, active, query, table, context, negatives, lengths, margin, batch, columns,
    HINGE_ROWS: tl.constexpr, HINGE_WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * HINGE_ROWS + tl.arange(0, HINGE_ROWS)
    inside = row < batch
    column = tl.arange(0, HINGE_WIDTH)
    used = (column < columns)[None, :]
    tile = row[:, None] * HINGE_WIDTH + column[None, :]
    asked = tl.load(query + tile, mask=inside[:, None], other=0.0)
    loss = tl.zeros((HINGE_ROWS,), tl.float32)
    d_asked = tl.zeros((HINGE_ROWS, HINGE_WIDTH), tl.float32)
    length = tl.load(lengths + row, mask=inside, other=0)
    for time in range(tl.load(lengths + tl.program_id(0) * HINGE_ROWS)):
        place = time * batch + row
        there = time < length
        word = tl.load(context + place, mask=there, other=0)
        negative = tl.load(negatives + place, mask=there, other=0)
        mask = there[:, None] & used
        difference = tl.load(table + word[:, None] * HINGE_WIDTH + column[None, :], mask=mask, other=0.0)
        difference -= tl.load(table + negative[:, None] * HINGE_WIDTH + column[None, :], mask=mask, other=0.0)
        violation = margin + 0.5 * tl.sum(asked * difference, axis=1)
        violated = there & (violation > 0)
        loss += tl.where(violated, violation, 0.0)
        d_asked += tl.where(violated[:, None], 0.5 * difference, 0.0)
        tl.store(active + place, violated, mask=inside)
    tl.store(reconstruction + row, loss, mask=inside)
    tl.store(d_query + tile, d_asked, mask=inside[:, None])

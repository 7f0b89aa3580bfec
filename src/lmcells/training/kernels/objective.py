"""The objective from Gaussians: the divergence from the prior, and the hinge over context words and negatives.

The hinge reads rows [a1 ; a0 ; a2 + d a3] of the moment table (see `lmcells.model.moments`) once, where they are
needed. With the query [-2 mu ; d v + |mu|^2 ; 1], KLbar(q, c) - KLbar(q, n) is half the product of the query with
the difference of two rows: what does not depend on the word cancels exactly. All of it is float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.lookup import group_places, sum_rows
from lmcells.training.kernels.operands import WIDTH, tile_of_program
from lmcells.training.kernels.windows import TimeMajor

DIVERGENCE_ROWS = 16  # of a program
HINGE_ROWS = 4


def divergence_and_query(posterior: Tensor, prior: Tensor, *, dim: int) -> tuple[Tensor, Tensor]:
    """KL(q || p) and the query of the hinge, from rows [mu ; log v ; zeros]: (B, 128) twice -> (B,), (B, 128)."""
    divergence, query = _DivergenceAndQuery.apply(posterior, prior, dim)
    return divergence, query


class _DivergenceAndQuery(torch.autograd.Function):
    @staticmethod
    def forward(ctx, posterior, prior, dim):
        batch = posterior.shape[0]
        divergence = posterior.new_empty(batch)
        query = torch.empty_like(posterior)
        _divergence_forward[(triton.cdiv(batch, DIVERGENCE_ROWS),)](
            divergence, query, posterior, prior, batch, DIM=dim, num_warps=4
        )
        ctx.save_for_backward(posterior, prior)
        ctx.dim = dim
        return divergence, query

    @staticmethod
    def backward(ctx, d_divergence, d_query):
        posterior, prior = ctx.saved_tensors
        batch = posterior.shape[0]
        d_posterior, d_prior = torch.empty_like(posterior), torch.empty_like(prior)
        _divergence_backward[(triton.cdiv(batch, DIVERGENCE_ROWS),)](
            d_posterior, d_prior, d_divergence.contiguous(), d_query.contiguous(), posterior, prior, batch,
            DIM=ctx.dim, num_warps=4,
        )  # fmt: skip
        return d_posterior, d_prior, None


@triton.jit
def _load_gaussians(posterior, prior, row, tile, inside, mask, DIM: tl.constexpr, WIDTH: tl.constexpr):
    """Means (rows, 128) and log-variances (rows,)."""
    q_mean = tl.load(posterior + tile, mask=mask, other=0.0)
    p_mean = tl.load(prior + tile, mask=mask, other=0.0)
    q_log = tl.load(posterior + row * WIDTH + DIM, mask=inside, other=0.0)
    p_log = tl.load(prior + row * WIDTH + DIM, mask=inside, other=0.0)
    return q_mean, q_log, p_mean, p_log


@triton.jit
def _divergence_forward(
    divergence, query, posterior, prior, batch,
    DIM: tl.constexpr, ROWS: tl.constexpr = DIVERGENCE_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    mask = inside[:, None] & (column < DIM)[None, :]
    q_mean, q_log, p_mean, p_log = _load_gaussians(posterior, prior, row, tile, inside, mask, DIM, WIDTH)
    ratio = q_log - p_log
    apart = q_mean - p_mean
    distance = tl.sum(apart * apart, axis=1)
    value = 0.5 * (DIM * (tl.exp(ratio) - 1.0 - ratio) + distance * tl.exp(-p_log))
    tl.store(divergence + row, value, mask=inside)
    scale = DIM * tl.exp(q_log) + tl.sum(q_mean * q_mean, axis=1)
    query_rows = tl.where(column[None, :] == DIM, scale[:, None], -2.0 * q_mean)
    query_rows = tl.where(column[None, :] == DIM + 1, 1.0, query_rows)
    tl.store(query + tile, query_rows, mask=inside[:, None])


@triton.jit
def _divergence_backward(
    d_posterior, d_prior, d_divergence, d_query, posterior, prior, batch,
    DIM: tl.constexpr, ROWS: tl.constexpr = DIVERGENCE_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    mask = inside[:, None] & (column < DIM)[None, :]
    q_mean, q_log, p_mean, p_log = _load_gaussians(posterior, prior, row, tile, inside, mask, DIM, WIDTH)
    d_value = tl.load(d_divergence + row, mask=inside, other=0.0)
    d_query_rows = tl.load(d_query + tile, mask=mask, other=0.0)
    d_scale = tl.load(d_query + row * WIDTH + DIM, mask=inside, other=0.0)
    apart = q_mean - p_mean
    precision = tl.exp(-p_log)
    d_apart = (d_value * precision)[:, None] * apart
    d_ratio = 0.5 * DIM * d_value * (tl.exp(q_log - p_log) - 1.0)
    d_q_log = d_ratio + d_scale * DIM * tl.exp(q_log)
    d_p_log = -d_ratio - 0.5 * d_value * precision * tl.sum(apart * apart, axis=1)
    of_q = d_apart - 2.0 * d_query_rows + 2.0 * d_scale[:, None] * q_mean
    of_q = tl.where(column[None, :] == DIM, d_q_log[:, None], of_q)
    of_p = tl.where(column[None, :] == DIM, d_p_log[:, None], -d_apart)
    tl.store(d_posterior + tile, of_q, mask=inside[:, None])
    tl.store(d_prior + tile, of_p, mask=inside[:, None])


def hinge(query: Tensor, table: Tensor, windows: TimeMajor, *, margin: float, columns: int) -> Tensor:
    """sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)), j over a row's words: (B, 128), (V, 128) -> (B,).

    Only the first `columns` of a row are read.
    """
    negative_grouping = group_places(
        windows.negatives, n_groups=table.shape[0], present=windows.context_present
    )
    reconstruction: Tensor = _Hinge.apply(query, table, windows, negative_grouping, margin, columns)
    return reconstruction


class _Hinge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, table, windows, negative_grouping, margin, columns):
        batch = windows.context.shape[1]
        query = query.contiguous()
        reconstruction = query.new_empty(batch)
        d_query = torch.empty_like(query)  # summed up while the rows are at hand
        active = torch.zeros_like(windows.context, dtype=torch.bool)
        _hinge_forward[(triton.cdiv(batch, HINGE_ROWS),)](
            reconstruction, d_query, active, query, table, windows.context, windows.negatives, windows.lengths,
            margin, batch, columns, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(query, d_query, active)
        ctx.context_grouping, ctx.negative_grouping = windows.words_grouping, negative_grouping
        return reconstruction

    @staticmethod
    def backward(ctx, gradient):
        query, d_query, active = ctx.saved_tensors
        # the centers, after the context, get none
        coefficient = query.new_zeros(ctx.context_grouping.ids.shape[0])
        torch.mul(active, 0.5 * gradient, out=coefficient[: active.numel()].view_as(active))
        weights = {"width": WIDTH, "coefficient": coefficient, "repeats": True}
        of_negatives = sum_rows(query, ctx.negative_grouping, **weights)
        d_table = sum_rows(query, ctx.context_grouping, **weights, minus=of_negatives)
        return d_query * gradient.unsqueeze(-1), d_table, *[None] * 4


@triton.jit
def _hinge_forward(
    reconstruction, d_query, active, query, table, context, negatives, lengths, margin, batch, columns,
    ROWS: tl.constexpr = HINGE_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    used = (column < columns)[None, :]
    query_rows = tl.load(query + tile, mask=inside[:, None], other=0.0)
    loss = tl.zeros((ROWS,), tl.float32)
    d_query_rows = tl.zeros((ROWS, WIDTH), tl.float32)
    length = tl.load(lengths + row, mask=inside, other=0)
    for time in range(tl.load(lengths + tl.program_id(0) * ROWS)):
        place = time * batch + row
        there = time < length
        word = tl.load(context + place, mask=there, other=0)
        negative = tl.load(negatives + place, mask=there, other=0)
        mask = there[:, None] & used
        difference = tl.load(table + word[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        difference -= tl.load(table + negative[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        violation = margin + 0.5 * tl.sum(query_rows * difference, axis=1)
        violated = there & (violation > 0)
        loss += tl.where(violated, violation, 0.0)
        d_query_rows += tl.where(violated[:, None], 0.5 * difference, 0.0)
        tl.store(active + place, violated, mask=inside)
    tl.store(reconstruction + row, loss, mask=inside)
    tl.store(d_query + tile, d_query_rows, mask=inside[:, None])

"""From the heads' rows to the prior's divergence and the query of the hinge, in one pass each way, in float32.

A row is [mu ; log v ; zeros], 128 wide; the query is [-2 mu ; d v + |mu|^2 ; 1 ; zeros].
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

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

"""The ends of the objective: the posterior's heads, and the hinge.

The hinge reads rows [a1 ; a0 ; a2 + d a3] of the moment table (see `lmcells.model.moments`) once, where they are
needed. With the query [-2 mu ; d v + |mu|^2 ; 1], KLbar(q, c) - KLbar(q, n) is half the product of the query with
the difference of two rows: what does not depend on the word cancels exactly. All of it is float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels import TABLE, WEIGHTS, beside, on_branch
from lmcells.training.kernels.lookup import sum_rows
from lmcells.training.kernels.operands import (
    NARROW,
    WIDTH,
    head_bias,
    head_weights,
    product_over_rows,
    tile_of_program,
)
from lmcells.training.kernels.windows import TimeMajor

HEAD_ROWS = 32  # per program
HINGE_STEPS = 16  # words of a row at once
BACKWARD_ROWS = 16


def gaussian_rows(hidden: Tensor, mean: torch.nn.Linear, log_variance: torch.nn.Linear) -> Tensor:
    """Both heads in one product, as rows [mu ; log v ; zeros]: (N, K) narrow -> (N, 128) float32.

    The operands are rounded but not the result, so that a mean is the same number wherever it is used, and the terms of
    a divergence cancel.
    """
    heads = on_branch(WEIGHTS, mean.weight, mean.bias, log_variance.weight, log_variance.bias)
    rows: Tensor = _GaussianRows.apply(hidden, *heads)
    return rows


class _GaussianRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, v_weight, v_bias):
        rows = torch.empty(hidden.shape[0], WIDTH, device=hidden.device)
        _heads_forward[(triton.cdiv(hidden.shape[0], HEAD_ROWS),)](
            rows, hidden, weight, bias, v_weight, v_bias, hidden.shape[0], hidden.shape[1], DIM=weight.shape[0],
            num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(hidden, weight, v_weight)
        return rows

    @staticmethod
    def backward(ctx, d_rows):
        hidden, weight, v_weight = ctx.saved_tensors
        (n_rows, width), dim = hidden.shape, weight.shape[0]
        n_programs = triton.cdiv(n_rows, HEAD_ROWS)
        narrow = torch.empty_like(d_rows, dtype=NARROW)
        d_hidden = torch.empty_like(hidden)
        sums = d_rows.new_empty(n_programs, WIDTH)
        _heads_backward[(n_programs,)](
            d_hidden, narrow, sums, d_rows.contiguous(), weight, v_weight, n_rows, width, DIM=dim, num_warps=8
        )
        with beside(WEIGHTS, narrow, hidden, sums):
            d_weight, d_bias = product_over_rows(narrow, hidden), sums.sum(dim=0)
        return d_hidden, d_weight[:dim], d_bias[:dim], d_weight[dim : dim + 1], d_bias[dim : dim + 1]


@triton.jit
def _heads_forward(
    rows, hidden, weight, bias, v_weight, v_bias, n_rows, width, DIM: tl.constexpr,
    ROWS: tl.constexpr = HEAD_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(n_rows, ROWS, WIDTH)
    mask = inside[:, None] & (column < width)[None, :]
    values = tl.load(hidden + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    weights = head_weights(weight, v_weight, column[:, None], column[None, :], width, DIM)
    product = tl.dot(values, weights.to(values.dtype)) + head_bias(bias, v_bias, column, DIM)[None, :]
    tl.store(rows + tile, product, mask=inside[:, None])


@triton.jit
def _heads_backward(
    d_hidden, narrow, sums, d_rows, weight, v_weight, n_rows, width, DIM: tl.constexpr,
    ROWS: tl.constexpr = HEAD_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(n_rows, ROWS, WIDTH)
    gradient = tl.load(d_rows + tile, mask=inside[:, None], other=0.0)
    tl.store(sums + tl.program_id(0) * WIDTH + column, tl.sum(gradient, axis=0))
    rounded = gradient.to(narrow.dtype.element_ty)
    tl.store(narrow + tile, rounded, mask=inside[:, None])
    weights = head_weights(weight, v_weight, column[None, :], column[:, None], width, DIM)  # (128, K)
    product = tl.dot(rounded, weights.to(rounded.dtype))
    mask = inside[:, None] & (column < width)[None, :]
    tl.store(d_hidden + row[:, None] * width + column[None, :], product, mask=mask)


def hinge(query: Tensor, table: Tensor, windows: TimeMajor, *, margin: float, columns: int) -> Tensor:
    """sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)), j over a row's words: (B, 128), (groups, 128) -> (B,).

    The first `columns` of a row are read, four at once; those beyond are zero.
    """
    reconstruction: Tensor = _Hinge.apply(query, table, windows, margin, columns)
    return reconstruction


class _Hinge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, table, windows, margin, columns):
        steps, batch = windows.context.shape
        reconstruction = query.new_empty(batch)
        d_query = torch.empty_like(query)  # summed in forward, which has the rows at hand
        active = torch.empty_like(windows.context, dtype=torch.bool)
        _hinge_forward[(batch,)](
            reconstruction, d_query, active, query, table, windows.word_ids, windows.words.group_of,
            windows.lengths, margin, batch, steps, COLUMNS=4 * triton.cdiv(columns, 4), num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(query, d_query, active)
        ctx.windows = windows
        return reconstruction

    @staticmethod
    def backward(ctx, gradient):
        query, d_query, active = ctx.saved_tensors
        steps, batch = active.shape
        windows = ctx.windows
        scaled = torch.empty_like(d_query)
        coefficient = torch.empty_like(windows.word_ids, dtype=torch.float32)
        _hinge_backward[(triton.cdiv(batch, BACKWARD_ROWS),)](
            scaled,
            coefficient,
            gradient,
            gradient.stride(0),
            d_query,
            active,
            windows.lengths,
            batch,
            steps,
            STEPS=triton.next_power_of_2(steps),
            num_warps=4,
        )
        with beside(TABLE, query, coefficient):
            d_table = sum_rows(query, windows.words, width=WIDTH, coefficient=coefficient)
        return scaled, d_table, *[None] * 3


@triton.jit
def _hinge_forward(
    reconstruction, d_query, active, query, table, word_ids, group_of, lengths, margin, batch, steps,
    COLUMNS: tl.constexpr, STEPS: tl.constexpr = HINGE_STEPS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    query_row = tl.load(query + row * WIDTH + column)
    length = tl.load(lengths + row)
    losses = tl.zeros((STEPS,), tl.float32)
    d_queries = tl.zeros((STEPS, WIDTH), tl.float32)
    for first in range(0, length, STEPS):
        time = first + tl.arange(0, STEPS)
        there = time < length
        position = time * batch + row
        word = tl.load(word_ids + position, mask=there, other=0)
        negative = tl.load(word_ids + (steps + 1) * batch + position, mask=there, other=0)
        word = tl.load(group_of + word, mask=there, other=0)
        negative = tl.load(group_of + negative, mask=there, other=0)
        mask = there[:, None] & (column < COLUMNS)[None, :]
        difference = tl.load(table + word[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        difference -= tl.load(table + negative[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        violation = margin + 0.5 * tl.sum(query_row[None, :] * difference, axis=1)  # (STEPS,)
        violated = there & (violation > 0)
        tl.store(active + position, violated, mask=there)
        losses += tl.where(violated, violation, 0.0)
        d_queries += tl.where(violated[:, None], 0.5 * difference, 0.0)
    tl.store(reconstruction + row, tl.sum(losses, axis=0))
    tl.store(d_query + row * WIDTH + column, tl.sum(d_queries, axis=0))


@triton.jit
def _hinge_backward(
    scaled, coefficient, gradients, stride, d_query, active, lengths, batch, steps, STEPS: tl.constexpr,
    ROWS: tl.constexpr = BACKWARD_ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    """Scale the gradient of the query, and compute how much of its query each position adds to its row of the table."""
    row, inside, _, tile = tile_of_program(batch, ROWS, WIDTH)
    gradient = tl.load(gradients + row * stride, mask=inside, other=0.0)
    values = tl.load(d_query + tile, mask=inside[:, None], other=0.0) * gradient[:, None]
    tl.store(scaled + tile, values, mask=inside[:, None])
    length = tl.load(lengths + row, mask=inside, other=0)
    tl.store(coefficient + steps * batch + row, gradient * 0.0, mask=inside)  # centers have no hinge
    time = tl.arange(0, STEPS)[:, None]
    position = time * batch + row[None, :]
    mask = (time < steps) & inside[None, :]
    violated = tl.load(active + position, mask=mask & (time < length[None, :]), other=0) != 0
    half = tl.where(violated, 0.5 * gradient[None, :], 0.0)
    tl.store(coefficient + position, half, mask=mask)
    tl.store(coefficient + (steps + 1) * batch + position, -half, mask=mask)

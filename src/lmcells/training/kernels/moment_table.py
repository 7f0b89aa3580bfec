"""The moment table of every word, without a (V, n, d) tensor: a tile of words loops over its drawn sections.

A row of the table is [a1 ; a0 ; a2 + d a3 ; zeros], 128 wide: see `lmcells.model.moments`. The hidden layer and
the mean's weights are rounded to TF32 before they are multiplied; products and sums are float32, so a1 and a2 are
moments of the same, slightly rounded means, and cancel as they must.

Backward never forms a mean: with mu = W h + b every gradient is made of h, W'W h, W'b and W' d_a1, all 64 wide, and
that of W is d_a1' (sum h/v) + 2 W (sum d_a2 h h'/v) + 2 b (sum d_a2 h/v)', two small products outside the loop.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from lmcells.training.kernels.lookup import Grouping, sum_rows
from lmcells.training.kernels.operands import HIDDEN, NARROW, WIDTH, product_over_rows

WORDS = 64  # of a tile
N_PROGRAMS = 132  # of backward, each with its own partial sums


def moment_table(
    from_words: Tensor,
    from_metadata: Tensor,
    sections: Tensor,
    grouping: Grouping,
    *,
    mean: tuple[Tensor, Tensor],
    log_variance: tuple[Tensor, Tensor],
    variance_floor: float,
) -> Tensor:
    """The table (V, 128) for hidden layers relu(from_words[w] + from_metadata[sections[w, k]]).

    (V, 64), (M, 64), (V, n) int32; `grouping` is that of `sections`; the heads are pairs of weight and bias.
    """
    table: Tensor = _MomentTable.apply(
        from_words, from_metadata, sections, grouping, *mean, *log_variance, variance_floor
    )
    return table


class _MomentTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, from_words, from_metadata, sections, grouping, weight, bias, v_weight, v_bias, floor):
        n_words, dim = from_words.shape[0], weight.shape[0]
        padded = functional.pad(weight, (0, 0, 0, WIDTH - dim))
        padded_bias = functional.pad(bias, (0, WIDTH - dim))
        table = from_words.new_empty(n_words, WIDTH)
        log_floor = math.log(floor) if floor > 0 else -1e30
        from_words, from_metadata = from_words.contiguous(), from_metadata.contiguous()
        _moments_forward[(triton.cdiv(n_words, WORDS),)](
            table, from_words, from_metadata, sections, padded, padded_bias, v_weight, v_bias, log_floor,
            n_words, DIM=dim, DRAWS=sections.shape[1], num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(from_words, from_metadata, sections, padded, padded_bias, v_weight, v_bias)
        ctx.grouping, ctx.log_floor, ctx.dim = grouping, log_floor, dim
        return table

    @staticmethod
    def backward(ctx, d_table):
        from_words, from_metadata, sections, padded, padded_bias, v_weight, v_bias = ctx.saved_tensors
        n_words, n_draws = sections.shape
        n_programs = min(triton.cdiv(n_words, WORDS), N_PROGRAMS)
        d_words = torch.empty_like(from_words)
        d_hidden = from_words.new_empty(n_words * n_draws, HIDDEN, dtype=NARROW)
        weighted = from_words.new_empty(n_words, WIDTH, dtype=NARROW)
        products = from_words.new_empty(n_programs, HIDDEN, HIDDEN)
        sums = from_words.new_empty(n_programs, 4, HIDDEN)
        square = padded.T @ padded
        from_bias = padded_bias @ padded
        bias_square = padded_bias.square().sum()
        _moments_backward[(n_programs,)](
            d_words, d_hidden, weighted, products, sums, d_table.contiguous(), from_words, from_metadata,
            sections, padded, padded_bias, square, from_bias, bias_square, v_weight, v_bias, ctx.log_floor,
            n_words, n_programs, DIM=ctx.dim, DRAWS=n_draws, num_warps=8,
        )  # fmt: skip
        product, (of_hidden, of_ones, d_v_weight, d_v_bias) = products.sum(dim=0), sums.sum(dim=0)
        linear = product_over_rows(d_table.to(NARROW), weighted) / n_draws  # (WIDTH, WIDTH)
        d_weight = linear[:, :HIDDEN] + 2 * (padded @ product + torch.outer(padded_bias, of_hidden))
        d_bias = linear[:, HIDDEN] + 2 * (padded @ of_hidden + padded_bias * of_ones[0])
        d_metadata = sum_rows(d_hidden, ctx.grouping, width=HIDDEN)
        d_mean = d_weight[: ctx.dim], d_bias[: ctx.dim]
        return d_words, d_metadata, None, None, *d_mean, d_v_weight.view_as(v_weight), d_v_bias[:1], None


@triton.jit
def _raised(log_variance, log_floor):
    """log(v + floor)."""
    return tl.maximum(log_variance, log_floor) + tl.log(1.0 + tl.exp(-tl.abs(log_variance - log_floor)))


@triton.jit
def _moments_forward(
    table, from_words, from_metadata, sections, weight, bias, v_weight, v_bias, log_floor, n_words,
    DIM: tl.constexpr, DRAWS: tl.constexpr, WORDS: tl.constexpr = WORDS, WIDTH: tl.constexpr = WIDTH,
    HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    inside = word < n_words
    unit = tl.arange(0, HIDDEN)
    column = tl.arange(0, WIDTH)
    of_word = tl.load(from_words + word[:, None] * HIDDEN + unit[None, :], mask=inside[:, None], other=0.0)
    to_mean = tl.load(weight + column[None, :] * HIDDEN + unit[:, None])  # (HIDDEN, WIDTH)
    mean_bias = tl.load(bias + column)
    to_variance = tl.load(v_weight + unit)
    variance_bias = tl.load(v_bias)
    a0 = tl.zeros((WORDS,), tl.float32)
    a1 = tl.zeros((WORDS, WIDTH), tl.float32)
    rest = tl.zeros((WORDS,), tl.float32)
    for draw in range(DRAWS):
        section = tl.load(sections + word * DRAWS + draw, mask=inside, other=0)
        hidden = of_word + tl.load(from_metadata + section[:, None] * HIDDEN + unit[None, :])
        hidden = tl.maximum(hidden, 0.0)
        log_variance = _raised(tl.sum(hidden * to_variance[None, :], axis=1) + variance_bias, log_floor)
        precision = tl.exp(-log_variance)
        mean = tl.dot(hidden, to_mean, input_precision="tf32") + mean_bias[None, :]
        a0 += precision
        a1 += mean * precision[:, None]
        rest += tl.sum(mean * mean, axis=1) * precision + DIM * log_variance
    row = tl.where(column[None, :] == DIM, a0[:, None], a1)
    row = tl.where(column[None, :] == DIM + 1, rest[:, None], row) / DRAWS
    tl.store(table + word[:, None] * WIDTH + column[None, :], row, mask=inside[:, None])


@triton.jit
def _moments_backward(
    d_words, d_hiddens, weighted, products, sums, d_table, from_words, from_metadata, sections, weight, bias,
    square, from_bias, bias_square, v_weight, v_bias, log_floor, n_words, n_programs,
    DIM: tl.constexpr, DRAWS: tl.constexpr, WORDS: tl.constexpr = WORDS, WIDTH: tl.constexpr = WIDTH,
    HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    program = tl.program_id(0)
    narrow = weighted.dtype.element_ty
    unit = tl.arange(0, HIDDEN)
    column = tl.arange(0, WIDTH)
    squared_weight = tl.load(square + unit[:, None] * HIDDEN + unit[None, :])
    of_bias = tl.load(from_bias + unit)
    squared_bias = tl.load(bias_square)
    to_variance = tl.load(v_weight + unit)
    variance_bias = tl.load(v_bias)
    product = tl.zeros((HIDDEN, HIDDEN), tl.float32)
    of_hidden = tl.zeros((HIDDEN,), tl.float32)
    of_ones = tl.zeros((WORDS,), tl.float32)
    d_v_weight = tl.zeros((HIDDEN,), tl.float32)
    d_v_bias = tl.zeros((WORDS,), tl.float32)
    for tile in range(program, tl.cdiv(n_words, WORDS), n_programs):
        word = tile * WORDS + tl.arange(0, WORDS)
        inside = word < n_words
        at_word = word[:, None] * HIDDEN + unit[None, :]
        of_word = tl.load(from_words + at_word, mask=inside[:, None], other=0.0)
        d_row = d_table + word * WIDTH
        d_a0 = tl.load(d_row + DIM, mask=inside, other=0.0) / DRAWS
        d_a2 = tl.load(d_row + DIM + 1, mask=inside, other=0.0) / DRAWS  # and d of it is a3's
        mask = inside[:, None] & (column < DIM)[None, :]
        d_a1 = tl.load(d_row[:, None] + column[None, :], mask=mask, other=0.0) / DRAWS
        along = tl.sum(d_a1 * tl.load(bias + column)[None, :], axis=1)
        to_hidden = tl.load(weight + column[:, None] * HIDDEN + unit[None, :]).to(narrow)
        d_linear = tl.dot(d_a1.to(narrow), to_hidden)  # (WORDS, HIDDEN)
        d_word = tl.zeros((WORDS, HIDDEN), tl.float32)
        weighted_hidden = tl.zeros((WORDS, HIDDEN), tl.float32)
        precisions = tl.zeros((WORDS,), tl.float32)
        for draw in range(DRAWS):
            section = tl.load(sections + word * DRAWS + draw, mask=inside, other=0)
            hidden = of_word + tl.load(from_metadata + section[:, None] * HIDDEN + unit[None, :])
            hidden = tl.maximum(hidden, 0.0)
            unraised = tl.sum(hidden * to_variance[None, :], axis=1) + variance_bias
            log_variance = _raised(unraised, log_floor)
            precision = tl.exp(-log_variance)
            applied = tl.dot(hidden, squared_weight, input_precision="tf32") + of_bias[None, :]
            # mean . d_a1 + d_a2 |mean|^2, from h . (d_linear + d_a2 (W'W h + W'b) + d_a2 W'b) and constants
            inner = d_linear + d_a2[:, None] * (applied + of_bias[None, :])
            d_precision = d_a0 + along + d_a2 * squared_bias + tl.sum(hidden * inner, axis=1)
            d_log = (DIM * d_a2 - precision * d_precision) * tl.exp(unraised - log_variance)
            d_hidden = precision[:, None] * (d_linear + 2.0 * d_a2[:, None] * applied)
            d_hidden += d_log[:, None] * to_variance[None, :]
            d_hidden = tl.where(hidden > 0, d_hidden, 0.0)
            d_word += d_hidden
            at = (word * DRAWS + draw)[:, None] * HIDDEN + unit[None, :]
            tl.store(d_hiddens + at, d_hidden, mask=inside[:, None])
            share = d_a2 * precision
            shared = hidden * share[:, None]
            product = tl.dot(tl.trans(shared.to(narrow)), hidden.to(narrow), product)
            of_hidden += tl.sum(shared, axis=0)
            of_ones += share
            weighted_hidden += hidden * precision[:, None]
            precisions += precision
            d_v_weight += tl.sum(d_log[:, None] * hidden, axis=0)
            d_v_bias += d_log
        tl.store(d_words + at_word, d_word, mask=inside[:, None])
        to_weighted = weighted + word[:, None] * WIDTH + unit[None, :]
        tl.store(to_weighted, weighted_hidden, mask=inside[:, None])
        ones = tl.where(unit[None, :] == 0, precisions[:, None], 0.0)
        tl.store(to_weighted + HIDDEN, ones, mask=inside[:, None])
    tl.store(products + program * HIDDEN * HIDDEN + unit[:, None] * HIDDEN + unit[None, :], product)
    to_sums = sums + program * 4 * HIDDEN + unit
    first = unit == 0
    tl.store(to_sums, of_hidden)
    tl.store(to_sums + HIDDEN, tl.where(first, tl.sum(of_ones, axis=0), 0.0))
    tl.store(to_sums + 2 * HIDDEN, d_v_weight)
    tl.store(to_sums + 3 * HIDDEN, tl.where(first, tl.sum(d_v_bias, axis=0), 0.0))

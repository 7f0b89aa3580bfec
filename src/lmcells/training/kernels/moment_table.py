"""The moment table of a step's words, without a (U, n, d) tensor: a tile of words loops over its drawn sections.

A row of the table is [a1 ; a0 ; a2 + d a3 ; zeros], 128 wide: see `lmcells.model.moments`. The hidden layer and
the mean's weights are rounded to TF32 before they are multiplied; products and sums are float32, so a1 and a2 are
moments of the same slightly rounded means, and cancel as they must.

Backward never forms a mean: with mu = W h + b every gradient is made of h, W'W h, W'b and W' d_a1, all 64 wide, and
that of W is d_a1' (sum h/v) + 2 W (sum d_a2 h h'/v) + 2 b (sum d_a2 h/v)', two small products outside the loop.

Dropout of the hidden layer is drawn for each word and drawn section, as in the model network.

Only the device knows how many words there are; tiles beyond them return at once.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import ModelNetwork
from lmcells.training.kernels import GROUPS, SECTIONS, beside
from lmcells.training.kernels.lookup import Grouping, sum_rows
from lmcells.training.kernels.operands import (
    HIDDEN,
    NARROW,
    WIDTH,
    Dropout,
    kept,
    load_rows,
    seed_and_constants,
)

WORDS = 16  # per tile: several programs fit on a multiprocessor, and one works while another waits
LINEAR_WORDS = 64
# Programs of backward, each with partial sums of its own: so many that they end often and the LSTM finds room.
N_PROGRAMS = 1188
N_LINEAR_PROGRAMS = 264
# Sums over words in backward: d_a2 h h'/v, and of log v's weight and bias; d_row' h/v and d_row/v.
_PARTS = [HIDDEN * HIDDEN, HIDDEN, HIDDEN]
_LINEAR_PARTS = [WIDTH * HIDDEN, WIDTH]
_SIZE, _LINEAR_SIZE = sum(_PARTS), sum(_LINEAR_PARTS)


@dataclass(frozen=True, slots=True)
class Heads:
    """Weights and biases of both heads of the model network."""

    mean: Tensor  # (d, 64)
    mean_bias: Tensor  # (d,)
    log_variance: Tensor  # (1, 64)
    log_variance_bias: Tensor  # (1,)


@dataclass(frozen=True, slots=True)
class Table:
    """The moment table of the distinct words of a step, and what its backward needs."""

    rows: Tensor  # (groups, 128)
    from_words: Tensor  # (groups, 64)
    from_metadata: Tensor  # (M, 64)
    sections: Tensor  # (groups, n)
    by_section: Grouping  # of `sections`
    squares: tuple[Tensor, Tensor]  # W'W (64, 64) and W'b (64,) of the means' weight and bias
    d_vectors: Tensor  # (V, E) zeros, for the gradient of the word vectors


def moment_table(
    network: ModelNetwork,
    words: Grouping,
    sections: Tensor,
    *,
    by_section: Grouping,
    squares: tuple[Tensor, Tensor],
    d_vectors: Tensor,
    from_metadata: Tensor,
    of_words: Dropout | None,
    of_hidden: Dropout | None,
    variance_floor: float,
) -> Table:
    """The table for hidden layers relu(W_w R_w + b + from_metadata[m]), m over the drawn sections of the word w."""
    vectors, hidden, heads = network.words.weight, network.hidden, network.heads
    n_rows, n_draws = sections.shape
    rows = vectors.new_empty(n_rows, WIDTH)
    from_words = vectors.new_empty(n_rows, HIDDEN)
    words_seed, constants = seed_and_constants(of_words, unread=sections)
    hidden_seed, hidden_constants = seed_and_constants(of_hidden, unread=sections, prefix="HIDDEN_")
    _moments_forward[(triton.cdiv(n_rows, WORDS),)](
        rows, from_words, words.of_group, words.n_groups, vectors, from_metadata, sections, hidden.weight, hidden.bias,
        heads.mean.weight, heads.mean.bias, heads.log_variance.weight, heads.log_variance.bias, _log(variance_floor),
        words_seed, hidden_seed, width=vectors.shape[1], DIM=heads.mean.out_features, DRAWS=n_draws, **constants,
        **hidden_constants, num_warps=4, maxnreg=96,  # five programs on a multiprocessor
    )  # fmt: skip
    return Table(rows, from_words, from_metadata, sections, by_section, squares, d_vectors)


@dataclass(frozen=True, slots=True)
class TableGradients:
    """Gradients of the table's inputs, each on its branch."""

    from_words: Tensor  # (groups, 64), where the backward runs
    from_metadata: Tensor  # (M, 64) on SECTIONS
    heads: Heads  # on GROUPS


def moment_table_backward(
    d_rows: Tensor,
    table: Table,
    words: Grouping,
    *,
    heads: Heads,
    of_hidden: Dropout | None,
    variance_floor: float,
) -> TableGradients:
    n_rows, n_draws = table.sections.shape
    dim = heads.mean.shape[0]
    n_programs = min(triton.cdiv(n_rows, WORDS), N_PROGRAMS)
    d_words = torch.empty_like(table.from_words)
    d_hidden = d_words.new_empty(n_rows * n_draws, HIDDEN, dtype=NARROW)
    weighted = d_words.new_empty(n_rows, HIDDEN, dtype=NARROW)
    precisions = d_words.new_empty(n_rows)
    partial = d_words.new_empty(n_programs, _SIZE)
    seed, constants = seed_and_constants(of_hidden, unread=table.sections, prefix="HIDDEN_")
    _moments_backward[(n_programs,)](
        d_words, d_hidden, weighted, precisions, partial, words.n_groups, d_rows, table.from_words, table.from_metadata,
        table.sections, heads.mean, heads.mean_bias, *table.squares, heads.log_variance, heads.log_variance_bias,
        _log(variance_floor), seed, n_programs, DIM=dim, DRAWS=n_draws, **constants, num_warps=4,
        maxnreg=168,  # three programs on a multiprocessor; nothing spills inside the loop over draws
    )  # fmt: skip
    with beside(SECTIONS, d_hidden):
        d_metadata = sum_rows(d_hidden, table.by_section, width=HIDDEN)
    with beside(GROUPS, d_rows, weighted, precisions, partial):
        linear = partial.new_empty(min(n_programs, N_LINEAR_PROGRAMS), _LINEAR_SIZE)
        _linear_backward[(linear.shape[0],)](
            linear, words.n_groups, d_rows, weighted, precisions, linear.shape[0], DRAWS=n_draws, num_warps=4
        )
        of_rows, of_ones = linear.sum(dim=0).split_with_sizes(_LINEAR_PARTS)
        product, d_variance, d_variance_bias = partial.sum(dim=0).split_with_sizes(_PARTS)
        of_rows, product = of_rows.view(WIDTH, HIDDEN), product.view(HIDDEN, HIDDEN)
        by_square = of_rows[dim + 1]  # sum of d_a2 h/v
        d_mean = torch.addmm(of_rows[:dim], heads.mean, product, alpha=2)
        d_mean.addr_(heads.mean_bias, by_square, alpha=2)
        d_bias = torch.addmv(of_ones[:dim], heads.mean, by_square, alpha=2)
        d_bias.addcmul_(heads.mean_bias, of_ones[dim + 1 : dim + 2], value=2)
    return TableGradients(
        d_words, d_metadata, Heads(d_mean, d_bias, d_variance.unsqueeze(0), d_variance_bias[:1])
    )


def _log(variance_floor: float) -> float:
    return math.log(variance_floor) if variance_floor > 0 else -1e30


@triton.jit
def _raised(log_variance, log_floor):
    """log(v + floor)."""
    return tl.maximum(log_variance, log_floor) + tl.log(1.0 + tl.exp(-tl.abs(log_variance - log_floor)))


@triton.jit
def _moments_forward(
    table, from_words, of_group, n_groups, vectors, from_metadata, sections, hidden_weight, hidden_bias, weight,
    bias, v_weight, v_bias, log_floor, words_seed, hidden_seed, width: tl.constexpr, DIM: tl.constexpr,
    DRAWS: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr, HIDDEN_THRESHOLD: tl.constexpr,
    HIDDEN_SCALE: tl.constexpr, WORDS: tl.constexpr = WORDS, WIDTH: tl.constexpr = WIDTH, HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    n_words = tl.load(n_groups)
    if tl.program_id(0) * WORDS >= n_words:
        return
    group = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    inside = group < n_words
    unit = tl.arange(0, HIDDEN)
    column = tl.arange(0, WIDTH)
    word = tl.load(of_group + group, mask=inside, other=0)
    vector = load_rows(vectors, word, group, inside, width, words_seed, THRESHOLD, SCALE, WIDTH)
    used = column < width
    of_vector = tl.load(
        hidden_weight + unit[None, :] * (2 * width) + column[:, None], mask=used[:, None], other=0.0
    )
    of_word = tl.dot(vector, of_vector, input_precision="tf32") + tl.load(hidden_bias + unit)[None, :]
    at_word = group[:, None] * HIDDEN + unit[None, :]
    tl.store(from_words + at_word, of_word, mask=inside[:, None])

    is_mean = column < DIM
    to_mean = tl.load(weight + column[None, :] * HIDDEN + unit[:, None], mask=is_mean[None, :], other=0.0)
    mean_bias = tl.load(bias + column, mask=is_mean, other=0.0)
    to_variance = tl.load(v_weight + unit)
    variance_bias = tl.load(v_bias)
    a0 = tl.zeros((WORDS,), tl.float32)
    a1 = tl.zeros((WORDS, WIDTH), tl.float32)
    rest = tl.zeros((WORDS,), tl.float32)
    seed = tl.load(hidden_seed)
    for draw in range(DRAWS):
        section = tl.load(sections + group * DRAWS + draw, mask=inside, other=0)
        hidden = of_word + tl.load(from_metadata + section[:, None] * HIDDEN + unit[None, :])
        hidden = tl.maximum(hidden, 0.0) * HIDDEN_SCALE
        if HIDDEN_THRESHOLD > 0:
            at = (group * DRAWS + draw)[:, None] * HIDDEN + unit[None, :]
            hidden = tl.where(kept(at, seed, HIDDEN_THRESHOLD), hidden, 0.0)
        log_variance = _raised(tl.sum(hidden * to_variance[None, :], axis=1) + variance_bias, log_floor)
        precision = tl.exp(-log_variance)
        mean = tl.dot(hidden, to_mean, input_precision="tf32") + mean_bias[None, :]
        a0 += precision
        a1 += mean * precision[:, None]
        rest += tl.sum(mean * mean, axis=1) * precision + DIM * log_variance
    row = tl.where(column[None, :] == DIM, a0[:, None], a1)
    row = tl.where(column[None, :] == DIM + 1, rest[:, None], row) / DRAWS
    tl.store(table + group[:, None] * WIDTH + column[None, :], row, mask=inside[:, None])


@triton.jit
def _moments_backward(
    d_words, d_hiddens, weighted, precision_sums, partial, n_groups, d_table, from_words, from_metadata,
    sections, weight, bias, squared_weights, of_biases, v_weight, v_bias, log_floor, hidden_seed, n_programs,
    DIM: tl.constexpr, DRAWS: tl.constexpr, HIDDEN_THRESHOLD: tl.constexpr, HIDDEN_SCALE: tl.constexpr,
    SIZE: tl.constexpr = _SIZE, WORDS: tl.constexpr = WORDS, WIDTH: tl.constexpr = WIDTH,
    HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    program = tl.program_id(0)
    n_words = tl.load(n_groups)
    narrow = d_hiddens.dtype.element_ty
    unit = tl.arange(0, HIDDEN)
    column = tl.arange(0, WIDTH)
    is_mean = column < DIM
    at_weight = weight + column[:, None] * HIDDEN + unit[None, :]
    mean_bias = tl.load(bias + column, mask=is_mean, other=0.0)
    of_bias = tl.load(of_biases + unit)  # W'b
    squared_bias = tl.sum(mean_bias * mean_bias, axis=0)
    squared_weight = tl.load(squared_weights + unit[:, None] * HIDDEN + unit[None, :])  # W'W
    to_variance = tl.load(v_weight + unit)
    variance_bias = tl.load(v_bias)
    seed = tl.load(hidden_seed)
    product = tl.zeros((HIDDEN, HIDDEN), tl.float32)
    d_v_weight = tl.zeros((WORDS, HIDDEN), tl.float32)
    d_v_bias = tl.zeros((WORDS,), tl.float32)
    for tile in range(program, tl.cdiv(n_words, WORDS), n_programs):
        group = tile * WORDS + tl.arange(0, WORDS)
        inside = group < n_words
        at_word = group[:, None] * HIDDEN + unit[None, :]
        of_word = tl.load(from_words + at_word, mask=inside[:, None], other=0.0)
        d_row = d_table + group * WIDTH
        d_a0 = tl.load(d_row + DIM, mask=inside, other=0.0) / DRAWS
        d_a2 = tl.load(d_row + DIM + 1, mask=inside, other=0.0) / DRAWS  # times d: the gradient of a3
        mask = inside[:, None] & is_mean[None, :]
        d_a1 = tl.load(d_row[:, None] + column[None, :], mask=mask, other=0.0) / DRAWS
        along = tl.sum(d_a1 * mean_bias[None, :], axis=1)
        to_hidden = tl.load(at_weight, mask=is_mean[:, None], other=0.0)
        d_linear = tl.dot(d_a1.to(narrow), to_hidden.to(narrow))  # (WORDS, HIDDEN)
        d_word = tl.zeros((WORDS, HIDDEN), tl.float32)
        weighted_hidden = tl.zeros((WORDS, HIDDEN), tl.float32)
        precisions = tl.zeros((WORDS,), tl.float32)
        for draw in range(DRAWS):
            section = tl.load(sections + group * DRAWS + draw, mask=inside, other=0)
            hidden = of_word + tl.load(from_metadata + section[:, None] * HIDDEN + unit[None, :])
            hidden = tl.maximum(hidden, 0.0) * HIDDEN_SCALE
            at = (group * DRAWS + draw)[:, None] * HIDDEN + unit[None, :]
            if HIDDEN_THRESHOLD > 0:
                hidden = tl.where(kept(at, seed, HIDDEN_THRESHOLD), hidden, 0.0)
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
            d_hidden = tl.where(hidden > 0, d_hidden * HIDDEN_SCALE, 0.0)
            d_word += d_hidden
            tl.store(d_hiddens + at, d_hidden, mask=inside[:, None])
            shared = hidden * (d_a2 * precision)[:, None]
            product = tl.dot(tl.trans(shared.to(narrow)), hidden.to(narrow), product)
            weighted_hidden += hidden * precision[:, None]
            precisions += precision
            d_v_weight += d_log[:, None] * hidden
            d_v_bias += d_log
        tl.store(d_words + at_word, d_word, mask=inside[:, None])
        tl.store(weighted + at_word, weighted_hidden, mask=inside[:, None])
        tl.store(precision_sums + group, precisions, mask=inside)
    to_partial = partial + program * SIZE
    tl.store(to_partial + unit[:, None] * HIDDEN + unit[None, :], product)
    to_partial += HIDDEN * HIDDEN
    tl.store(to_partial + unit, tl.sum(d_v_weight, axis=0))
    tl.store(to_partial + HIDDEN + unit, tl.where(unit == 0, tl.sum(d_v_bias, axis=0), 0.0))


@triton.jit
def _linear_backward(
    partial, n_groups, d_table, weighted, precision_sums, n_programs, DRAWS: tl.constexpr,
    SIZE: tl.constexpr = _LINEAR_SIZE, WORDS: tl.constexpr = LINEAR_WORDS, WIDTH: tl.constexpr = WIDTH,
    HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    """d_row' (sum h/v) and d_row' (sum 1/v), the parts of the mean's gradient that are linear in h."""
    program = tl.program_id(0)
    n_words = tl.load(n_groups)
    unit = tl.arange(0, HIDDEN)
    column = tl.arange(0, WIDTH)
    by_hidden = tl.zeros((WIDTH, HIDDEN), tl.float32)
    by_one = tl.zeros((WIDTH,), tl.float32)
    for tile in range(program, tl.cdiv(n_words, WORDS), n_programs):
        group = tile * WORDS + tl.arange(0, WORDS)
        inside = group < n_words
        at_row = d_table + group[:, None] * WIDTH + column[None, :]
        d_row = tl.load(at_row, mask=inside[:, None], other=0.0) / DRAWS
        at_word = group[:, None] * HIDDEN + unit[None, :]
        hidden = tl.load(weighted + at_word, mask=inside[:, None], other=0.0)
        by_hidden = tl.dot(tl.trans(d_row.to(hidden.dtype)), hidden, by_hidden)
        precision = tl.load(precision_sums + group, mask=inside, other=0.0)
        by_one += tl.sum(d_row * precision[:, None], axis=0)
    to_partial = partial + program * SIZE
    tl.store(to_partial + column[:, None] * HIDDEN + unit[None, :], by_hidden)
    tl.store(to_partial + WIDTH * HIDDEN + column, by_one)

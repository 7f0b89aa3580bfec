"""The model network: the prior of the centers, the divergence from it, and the moment table.

The network serves the centers and the table: one function holds both, so that each of its parameters gets one gradient,
and the table of word vectors, the largest of them, is written once.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import ModelNetwork
from lmcells.training.kernels import GROUPS, SECTIONS, TABLE, WEIGHTS, beside, join, on_branch
from lmcells.training.kernels.lookup import Grouping, group_by_id, sum_rows, zeros_for
from lmcells.training.kernels.moment_table import Heads, Table, moment_table, moment_table_backward
from lmcells.training.kernels.operands import (
    HIDDEN,
    NARROW,
    WIDTH,
    Dropout,
    head_bias,
    head_weights,
    kept,
    load_rows,
    product_over_rows,
    seed_and_constants,
    tile_of_program,
)
from lmcells.training.kernels.windows import TimeMajor

CENTER_ROWS = 32  # per program
PROJECTED_ROWS = 64
N_PROGRAMS = 132  # of the projections' backward, each with partial sums of its own


@dataclass(frozen=True, slots=True)
class ModelDropouts:
    """Dropouts of the model network's inputs and hidden layer, for the centers and for the table."""

    center_words: Dropout | None = None
    center_metadata: Dropout | None = None
    center_hidden: Dropout | None = None
    table_words: Dropout | None = None
    table_metadata: Dropout | None = None
    table_hidden: Dropout | None = None


def table_of(
    network: ModelNetwork,
    windows: TimeMajor,
    sections: Tensor,
    *,
    variance_floor: float,
    dropouts: ModelDropouts,
) -> Table:
    """The moment table of all words, (groups, n) drawn sections -> (groups, 128) rows, on the branch TABLE."""
    mean, metadata = network.heads.mean, network.metadata.weight
    # This needs no words, which the branch TABLE may still be numbering.
    with torch.no_grad(), beside(WEIGHTS, metadata):
        from_metadata = _project(metadata, network.hidden.weight, dropouts.table_metadata)
        squares = mean.weight.T @ mean.weight, mean.weight.T @ mean.bias
    with torch.no_grad(), beside(TABLE, sections):
        with beside(SECTIONS, sections):
            by_section = group_by_id(sections, n_ids=metadata.shape[0])
        join(WEIGHTS, from_metadata, *squares)
        return moment_table(
            network,
            windows.words,
            sections,
            by_section=by_section,
            squares=squares,
            d_vectors=zeros_for(network.words.weight),
            from_metadata=from_metadata,
            of_words=dropouts.table_words,
            of_hidden=dropouts.table_hidden,
            variance_floor=variance_floor,
        )


def divergence_and_table(
    posterior: Tensor,
    network: ModelNetwork,
    windows: TimeMajor,
    table: Table,
    *,
    variance_floor: float,
    dropouts: ModelDropouts,
) -> tuple[Tensor, Tensor, Tensor]:
    """KL(q || p) and the query of the hinge, from rows [mu ; log v ; zeros], and the rows of the `table`.

    (B, 128) -> (B,), (B, 128), (groups, 128). The divergence of a row that does not count is zero.
    """
    heads = network.heads
    parameters = on_branch(
        TABLE, network.words.weight, network.metadata.weight, network.hidden.weight, network.hidden.bias,
        heads.mean.weight, heads.mean.bias, heads.log_variance.weight, heads.log_variance.bias,
    )  # fmt: skip
    divergence, query, rows = _DivergenceAndTable.apply(
        posterior, *parameters, windows, table, variance_floor, dropouts
    )
    join(TABLE, rows)
    return divergence, query, rows


class _DivergenceAndTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, posterior, words, metadata, hidden, hidden_bias, *given):
        heads, (windows, table, floor, dropouts) = Heads(*given[:4]), given[4:]
        batch, dim = posterior.shape[0], heads.mean.shape[0]
        posterior = posterior.contiguous()
        divergence = posterior.new_empty(batch)
        query, prior = torch.empty_like(posterior), torch.empty_like(posterior)
        # [h ; 1 ; zeros], R_w and R_m as they went into the network, for the products of backward
        features = posterior.new_empty(batch, 3 * WIDTH, dtype=NARROW)
        seeds, constants = _center_dropouts(dropouts, unread=windows.lengths)
        _centers_forward[(triton.cdiv(batch, CENTER_ROWS),)](
            divergence, query, prior, features, posterior, windows.word_ids[windows.n_steps], windows.metadata,
            windows.counts, words, metadata, hidden, hidden_bias, heads.mean, heads.mean_bias,
            heads.log_variance, heads.log_variance_bias, *seeds, batch, metadata.shape[0],
            width=words.shape[1], DIM=dim, **constants, num_warps=8,
        )  # fmt: skip
        ctx.save_for_backward(posterior, prior, features, words, metadata, hidden, *given[:4])
        ctx.windows, ctx.table, ctx.floor, ctx.dropouts = windows, table, floor, dropouts
        return divergence, query, table.rows.detach()  # `ctx` must not hold its own result

    @staticmethod
    def backward(ctx, d_divergence, d_query, d_table):
        posterior, prior, features, words, metadata, hidden, *rest = ctx.saved_tensors
        heads, windows, dropouts = Heads(*rest), ctx.windows, ctx.dropouts
        batch, dim, width = posterior.shape[0], heads.mean.shape[0], words.shape[1]
        with beside(TABLE, d_table):  # made there
            of_table = moment_table_backward(
                d_table,
                ctx.table,
                windows.words,
                heads=heads,
                of_hidden=dropouts.table_hidden,
                variance_floor=ctx.floor,
            )
        d_posterior = torch.empty_like(posterior)
        left = features.new_empty(
            batch, WIDTH + HIDDEN
        )  # gradients of the prior's rows and of h before its ReLU
        d_center_words, d_center_metadata = (features.new_empty(batch, WIDTH) for _ in range(2))
        seeds, constants = _center_dropouts(dropouts, unread=windows.lengths)
        del constants["HIDDEN_THRESHOLD"]  # dropped units are those where h is 0
        _centers_backward[(triton.cdiv(batch, CENTER_ROWS),)](
            d_posterior, left, d_center_words, d_center_metadata, d_divergence, d_divergence.stride(0),
            d_query, posterior, prior, features, windows.counts, hidden, heads.mean, heads.log_variance, *seeds[:2],
            batch, width=width, DIM=dim, **constants, num_warps=4,
        )  # fmt: skip
        with beside(WEIGHTS, left, features):
            of_centers = product_over_rows(left, features)  # (192, 384)
        with beside(TABLE, d_center_words, d_center_metadata):
            partial = posterior.new_empty(N_PROGRAMS, 2 * WIDTH + 1, HIDDEN)
            with beside(SECTIONS, partial):
                for_metadata = _project_backward(
                    of_table.from_metadata, metadata, hidden, partial, dropout=dropouts.table_metadata
                )
                d_metadata = sum_rows(d_center_metadata, windows.by_metadata, width=width, plus=for_metadata)
            for_words = _project_backward(
                of_table.from_words, words, hidden, partial, windows.words, dropout=dropouts.table_words
            )
            with beside(GROUPS, partial):  # where the gradients of the table's heads are
                join(SECTIONS, d_metadata)
                join(WEIGHTS, of_centers)
                of_hidden = of_centers[WIDTH:]  # (64, 384): by h, 1, R_w and R_m
                total = partial.sum(dim=0)
                d_hidden = of_hidden.unflatten(1, (3, WIDTH))[:, 1:, :width].flatten(1)  # (64, 2E)
                d_hidden += total[:-1].unflatten(0, (2, WIDTH))[:, :width].flatten(0, 1).T
                of_heads = of_centers[:, : HIDDEN + 1]
                of_weights = (
                    d_hidden,
                    of_hidden[:, HIDDEN] + total[-1],
                    of_heads[:dim, :HIDDEN] + of_table.heads.mean,
                    of_heads[:dim, HIDDEN] + of_table.heads.mean_bias,
                    of_heads[dim : dim + 1, :HIDDEN] + of_table.heads.log_variance,
                    of_heads[dim : dim + 1, HIDDEN] + of_table.heads.log_variance_bias,
                )
            d_words = sum_rows(
                d_center_words,
                windows.words,
                width=width,
                first_position=windows.n_steps * batch,
                plus=for_words,
                into=ctx.table.d_vectors,
            )
            ctx.table = None
            join(SECTIONS, d_metadata)
            join(GROUPS, *of_weights)
            return d_posterior, d_words, d_metadata, *of_weights, *[None] * 4


def _center_dropouts(dropouts: ModelDropouts, *, unread: Tensor) -> tuple[list[Tensor], dict[str, float]]:
    words, constants = seed_and_constants(dropouts.center_words, unread=unread)
    metadata, _ = seed_and_constants(dropouts.center_metadata, unread=unread)
    hidden, of_hidden = seed_and_constants(dropouts.center_hidden, unread=unread, prefix="HIDDEN_")
    return [words, metadata, hidden], constants | of_hidden


@triton.jit
def _centers_forward(
    divergence, query, priors, features, posterior, centers, sections, counts, words, metadata, hidden_weight,
    hidden_bias, weight, bias, v_weight, v_bias, words_seed, metadata_seed, hidden_seed, batch, n_metadata,
    width: tl.constexpr, DIM: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    HIDDEN_THRESHOLD: tl.constexpr, HIDDEN_SCALE: tl.constexpr, ROWS: tl.constexpr = CENTER_ROWS,
    WIDTH: tl.constexpr = WIDTH, HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    narrow = features.dtype.element_ty
    unit = tl.arange(0, HIDDEN)
    center = tl.load(centers + row, mask=inside, other=0)
    section = tl.load(sections + row, mask=inside, other=n_metadata)
    word_rows = load_rows(words, center, row, inside, width, words_seed, THRESHOLD, SCALE, WIDTH).to(narrow)
    known = section < n_metadata
    section_rows = load_rows(metadata, section, row, known, width, metadata_seed, THRESHOLD, SCALE, WIDTH)
    section_rows = section_rows.to(narrow)
    to_hidden = hidden_weight + unit[None, :] * (2 * width) + column[:, None]  # (128, 64)
    used = (column < width)[:, None]
    hidden = tl.dot(word_rows, tl.load(to_hidden, mask=used, other=0.0).to(narrow))
    hidden = tl.dot(section_rows, tl.load(to_hidden + width, mask=used, other=0.0).to(narrow), hidden)
    hidden = tl.maximum(hidden + tl.load(hidden_bias + unit)[None, :], 0.0) * HIDDEN_SCALE
    if HIDDEN_THRESHOLD > 0:
        at_hidden = row[:, None] * HIDDEN + unit[None, :]
        hidden = tl.where(kept(at_hidden, tl.load(hidden_seed), HIDDEN_THRESHOLD), hidden, 0.0)
    hidden = hidden.to(narrow)
    weights = head_weights(weight, v_weight, unit[:, None], column[None, :], HIDDEN, DIM)  # (64, 128)
    prior = tl.dot(hidden, weights.to(narrow)) + head_bias(bias, v_bias, column, DIM)[None, :]
    tl.store(priors + tile, prior, mask=inside[:, None])
    to_features = features + row[:, None] * (3 * WIDTH)
    tl.store(to_features + unit[None, :], hidden, mask=inside[:, None])
    one = tl.where(unit == 0, 1.0, 0.0)[None, :] + tl.zeros((ROWS, HIDDEN), tl.float32)
    tl.store(to_features + HIDDEN + unit[None, :], one.to(narrow), mask=inside[:, None])
    tl.store(to_features + WIDTH + column[None, :], word_rows, mask=inside[:, None])
    tl.store(to_features + 2 * WIDTH + column[None, :], section_rows, mask=inside[:, None])

    is_mean = (column < DIM)[None, :]
    q = tl.load(posterior + tile, mask=inside[:, None], other=0.0)
    q_log = tl.sum(tl.where(column[None, :] == DIM, q, 0.0), axis=1)
    p_log = tl.sum(tl.where(column[None, :] == DIM, prior, 0.0), axis=1)
    q_mean = tl.where(is_mean, q, 0.0)
    apart = tl.where(is_mean, q - prior, 0.0)
    ratio = q_log - p_log
    distance = tl.sum(apart * apart, axis=1)
    value = 0.5 * (DIM * (tl.exp(ratio) - 1.0 - ratio) + distance * tl.exp(-p_log))
    counted = tl.load(counts + row, mask=inside, other=0) != 0
    tl.store(divergence + row, tl.where(counted, value, 0.0), mask=inside)
    scale = DIM * tl.exp(q_log) + tl.sum(q_mean * q_mean, axis=1)
    query_rows = tl.where(column[None, :] == DIM, scale[:, None], -2.0 * q_mean)
    query_rows = tl.where(column[None, :] == DIM + 1, 1.0, query_rows)
    tl.store(query + tile, query_rows, mask=inside[:, None])


@triton.jit
def _centers_backward(
    d_posterior, left, d_words, d_metadata, d_divergence, stride, d_query, posterior, priors, features, counts,
    hidden_weight, weight, v_weight, words_seed, metadata_seed, batch, width: tl.constexpr,
    DIM: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr, HIDDEN_SCALE: tl.constexpr,
    ROWS: tl.constexpr = CENTER_ROWS, WIDTH: tl.constexpr = WIDTH, HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    narrow = features.dtype.element_ty
    unit = tl.arange(0, HIDDEN)
    is_mean = (column < DIM)[None, :]
    is_log = column[None, :] == DIM
    q = tl.load(posterior + tile, mask=inside[:, None], other=0.0)
    p = tl.load(priors + tile, mask=inside[:, None], other=0.0)
    q_log = tl.sum(tl.where(is_log, q, 0.0), axis=1)
    p_log = tl.sum(tl.where(is_log, p, 0.0), axis=1)
    q_mean = tl.where(is_mean, q, 0.0)
    apart = tl.where(is_mean, q - p, 0.0)
    counted = tl.load(counts + row, mask=inside, other=0) != 0
    d_value = tl.load(d_divergence + row * stride, mask=inside & counted, other=0.0)
    d_query_rows = tl.load(d_query + tile, mask=inside[:, None], other=0.0)
    d_scale = tl.sum(tl.where(is_log, d_query_rows, 0.0), axis=1)
    precision = tl.exp(-p_log)
    d_apart = (d_value * precision)[:, None] * apart
    d_ratio = 0.5 * DIM * d_value * (tl.exp(q_log - p_log) - 1.0)
    d_q_log = d_ratio + d_scale * DIM * tl.exp(q_log)
    d_p_log = -d_ratio - 0.5 * d_value * precision * tl.sum(apart * apart, axis=1)
    of_q = d_apart - 2.0 * tl.where(is_mean, d_query_rows, 0.0) + 2.0 * d_scale[:, None] * q_mean
    tl.store(d_posterior + tile, tl.where(is_log, d_q_log[:, None], of_q), mask=inside[:, None])
    of_p = tl.where(is_log, d_p_log[:, None], -d_apart).to(narrow)
    to_left = left + row[:, None] * (WIDTH + HIDDEN)
    tl.store(to_left + column[None, :], of_p, mask=inside[:, None])

    weights = head_weights(weight, v_weight, unit[None, :], column[:, None], HIDDEN, DIM)  # (128, 64)
    at_hidden = features + row[:, None] * (3 * WIDTH) + unit[None, :]
    hidden = tl.load(at_hidden, mask=inside[:, None], other=0.0)
    d_hidden = tl.where(hidden > 0, tl.dot(of_p, weights.to(narrow)) * HIDDEN_SCALE, 0.0).to(narrow)
    tl.store(to_left + WIDTH + unit[None, :], d_hidden, mask=inside[:, None])
    of_input = hidden_weight + unit[:, None] * (2 * width) + column[None, :]  # (64, 128)
    used = (column < width)[None, :]
    of_words = tl.dot(d_hidden, tl.load(of_input, mask=used, other=0.0).to(narrow)) * SCALE
    of_metadata = tl.dot(d_hidden, tl.load(of_input + width, mask=used, other=0.0).to(narrow)) * SCALE
    if THRESHOLD > 0:
        of_words = tl.where(kept(tile, tl.load(words_seed), THRESHOLD), of_words, 0.0)
        of_metadata = tl.where(kept(tile, tl.load(metadata_seed), THRESHOLD), of_metadata, 0.0)
    tl.store(d_words + tile, of_words, mask=inside[:, None])
    tl.store(d_metadata + tile, of_metadata, mask=inside[:, None])


def _project(metadata: Tensor, hidden: Tensor, dropout: Dropout | None) -> Tensor:
    """W_m R_m of all metadata, dropped out: (M, E), [W_w ; W_m] (64, 2E) -> (M, 64)."""
    n_rows, width = metadata.shape
    out = metadata.new_empty(n_rows, HIDDEN)
    seed, constants = seed_and_constants(dropout, unread=out)
    _project_rows[(triton.cdiv(n_rows, PROJECTED_ROWS),)](
        out, metadata, hidden, seed, n_rows, width=width, **constants, num_warps=4
    )
    return out


@triton.jit
def _project_rows(
    out, table, hidden_weight, seed_of_step, n_rows, width: tl.constexpr, THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr, ROWS: tl.constexpr = PROJECTED_ROWS, WIDTH: tl.constexpr = WIDTH,
    HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    row, inside, column, _ = tile_of_program(n_rows, ROWS, WIDTH)
    unit = tl.arange(0, HIDDEN)
    values = load_rows(table, row, row, inside, width, seed_of_step, THRESHOLD, SCALE, WIDTH)
    to_hidden = hidden_weight + width + unit[None, :] * (2 * width) + column[:, None]
    weights = tl.load(to_hidden, mask=(column < width)[:, None], other=0.0)
    product = tl.dot(values, weights, input_precision="tf32")
    tl.store(out + row[:, None] * HIDDEN + unit[None, :], product, mask=inside[:, None])


def _project_backward(
    d_projected: Tensor,
    table: Tensor,
    hidden: Tensor,
    partial: Tensor,
    of_rows: Grouping | None = None,
    *,
    dropout: Dropout | None,
) -> Tensor:
    """The gradient of the table's rows, (N, 64) -> (N, E).

    The rows are the words of the groups `of_rows`, which have a bias, or all metadata. `partial` (programs, 257, 64)
    gets the partial sums of the gradients of the words' weights, the metadata's weights, and the bias.
    """
    n_rows, width = d_projected.shape[0], table.shape[1]
    d_rows = table.new_empty(n_rows, width)
    seed, constants = seed_and_constants(dropout, unread=partial)
    ids, count = (partial, partial) if of_rows is None else (of_rows.of_group, of_rows.n_groups)
    _project_rows_backward[(partial.shape[0],)](
        d_rows, partial, d_projected, table, ids, count, hidden, seed, n_rows, partial.shape[0],
        width=width, IS_WORDS=of_rows is not None, **constants, num_warps=8, num_stages=2,
    )  # fmt: skip
    return d_rows


@triton.jit
def _project_rows_backward(
    d_rows, partial, d_projected, table, ids, count, hidden_weight, seed_of_step, n_rows, n_programs,
    width: tl.constexpr, IS_WORDS: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr = PROJECTED_ROWS, WIDTH: tl.constexpr = WIDTH, HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    program = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    unit = tl.arange(0, HIDDEN)
    used = column < width
    of_input = hidden_weight + unit[:, None] * (2 * width) + column[None, :]
    to_partial = partial + program * (2 * WIDTH + 1) * HIDDEN
    if IS_WORDS:
        n_rows = tl.load(count)
    else:
        of_input += width
    weights = tl.load(of_input, mask=used[None, :], other=0.0)  # (64, 128)
    d_weights = tl.zeros((WIDTH, HIDDEN), tl.float32)
    d_bias = tl.zeros((HIDDEN,), tl.float32)
    for first in range(program * ROWS, n_rows, n_programs * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = row < n_rows
        id_of_row = row
        if IS_WORDS:
            id_of_row = tl.load(ids + row, mask=inside, other=0)
        at = row[:, None] * HIDDEN + unit[None, :]
        gradient = tl.load(d_projected + at, mask=inside[:, None], other=0.0)
        values = load_rows(table, id_of_row, row, inside, width, seed_of_step, THRESHOLD, SCALE, WIDTH)
        d_weights = tl.dot(tl.trans(values), gradient, d_weights, input_precision="tf32")
        d_bias += tl.sum(gradient, axis=0)
        of_rows = tl.dot(gradient, weights, input_precision="tf32") * SCALE
        if THRESHOLD > 0:
            here = row[:, None] * WIDTH + column[None, :]
            of_rows = tl.where(kept(here, tl.load(seed_of_step), THRESHOLD), of_rows, 0.0)
        mask = inside[:, None] & used[None, :]
        tl.store(d_rows + row.to(tl.int64)[:, None] * width + column[None, :], of_rows, mask=mask)
    at_weights = column[:, None] * HIDDEN + unit[None, :]
    if IS_WORDS:
        tl.store(to_partial + at_weights, d_weights)
        tl.store(to_partial + 2 * WIDTH * HIDDEN + unit, d_bias)
    else:
        tl.store(to_partial + WIDTH * HIDDEN + at_weights, d_weights)

"""Embedding lookups with dropout and absent rows, and their gradient: sums of rows by id, without atomics.

Ids are sorted once a step; each id then owns a run of places, and one program adds up its rows in a fixed
order, so a step is deterministic. Words follow Zipf's law, and the longest runs would keep one program busy long
after all others: chunks of places that lie wholly inside one run are summed beforehand, in parallel.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.operands import WIDTH, Dropout, kept, seed_and_constants

CHUNK = 256  # places; a run never costs its program more than 2 chunks and one row a whole chunk
LOOKUP_BLOCK = 32  # rows of a program


@dataclass(frozen=True, slots=True)
class Grouping:
    """Places sorted by id. Absent places come last, under the id `n_groups`."""

    ids: Tensor  # (N,) int32, sorted
    order: Tensor  # (N,) place of each
    offsets: Tensor  # (n_groups + 1,) int32: the run of group g is offsets[g]:offsets[g + 1]


def group_places(ids: Tensor, *, n_groups: int, present: Tensor | None = None) -> Grouping:
    """Sort the places 0..N-1 of `ids` (any shape, int32) by id, those not `present` at the end."""
    if present is not None:
        ids = ids.masked_fill(~present, n_groups)
    ids, order = ids.flatten().sort(stable=True)
    bounds = torch.arange(n_groups + 1, dtype=torch.int32, device=ids.device)
    return Grouping(ids, order, torch.searchsorted(ids, bounds, out_int32=True))


def look_up(
    table: Tensor,
    ids: Tensor,
    grouping: Grouping,
    *,
    dtype: torch.dtype,
    present: Tensor | None = None,
    dropout: Dropout | None = None,
) -> Tensor:
    """Rows of `table` padded with zeros to 128 columns, zero where absent: (V, E), (...) -> (..., 128).

    `grouping` is that of `ids` and `present`.
    """
    rows: Tensor = _Lookup.apply(table, ids, grouping, dtype, present, dropout)
    return rows


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids, grouping, dtype, present, dropout):
        rows = table.new_empty(*ids.shape, WIDTH, dtype=dtype)
        seed, constants = seed_and_constants(dropout, unread=ids)
        _look_up[(triton.cdiv(ids.numel(), LOOKUP_BLOCK),)](
            rows, table, ids, ids if present is None else present, seed, ids.numel(), table.shape[1],
            HAS_ABSENT=present is not None, **constants, num_warps=4,
        )  # fmt: skip
        ctx.grouping, ctx.dropout, ctx.width = grouping, dropout, table.shape[1]
        return rows

    @staticmethod
    def backward(ctx, gradient):
        rows = gradient.contiguous().view(-1, WIDTH)
        return sum_rows(rows, ctx.grouping, width=ctx.width, dropout=ctx.dropout), *[None] * 5


@triton.jit
def _look_up(
    out, table, ids, present, seed_of_step, n_rows, width, HAS_ABSENT: tl.constexpr, THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr, WIDTH: tl.constexpr = WIDTH, BLOCK: tl.constexpr = LOOKUP_BLOCK,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)
    inside = place < n_rows
    there = inside
    if HAS_ABSENT:
        there = there & (tl.load(present + place, mask=inside, other=0) != 0)
    row = tl.load(ids + place, mask=there, other=0).to(tl.int64)
    mask = there[:, None] & (column < width)[None, :]
    at = place[:, None] * WIDTH + column[None, :]
    if THRESHOLD > 0:
        mask = mask & kept(at, tl.load(seed_of_step), THRESHOLD)
    values = tl.load(table + row[:, None] * width + column[None, :], mask=mask, other=0.0) * SCALE
    tl.store(out + at, values, mask=inside[:, None])


def sum_rows(
    rows: Tensor,
    grouping: Grouping,
    *,
    width: int,
    coefficient: Tensor | None = None,
    repeats: bool = False,
    dropout: Dropout | None = None,
    minus: Tensor | None = None,
) -> Tensor:
    """The sum of each group's rows: (N, D) -> (n_groups, width) float32.

    Each row is multiplied by its place's `coefficient` (zeros are not even read) and dropped out as it was
    when looked up. With `repeats` place p has row p mod len(rows). `minus` is subtracted from the result.
    """
    n_places, n_groups = grouping.ids.shape[0], grouping.offsets.shape[0] - 1
    n_chunks, columns = triton.cdiv(n_places, CHUNK), min(width, rows.shape[1])
    partial = rows.new_empty(n_chunks, WIDTH, dtype=torch.float32)
    total = rows.new_empty(n_groups, width, dtype=torch.float32)
    seed, constants = seed_and_constants(dropout, unread=grouping.offsets)
    constants |= {"HAS_COEFFICIENT": coefficient is not None, "MODULO": rows.shape[0] if repeats else 0}
    weights = rows if coefficient is None else coefficient
    _sum_whole_chunks[(n_chunks,)](
        partial, rows, rows.stride(0), grouping.ids, grouping.order, weights, seed, n_places, n_groups,
        columns, BLOCK=32, num_warps=4, **constants,
    )  # fmt: skip
    _sum_runs[(n_groups,)](
        total, partial, rows, rows.stride(0), grouping.offsets, grouping.order, weights, seed,
        total if minus is None else minus, columns, width,
        HAS_MINUS=minus is not None, BLOCK=8, num_warps=1, **constants,
    )  # fmt: skip
    return total


@triton.jit
def _sum_whole_chunks(
    partial, rows, stride, ids, order, coefficient, seed_of_step, n_places, n_groups, columns,
    HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr = WIDTH, CHUNK: tl.constexpr = CHUNK,
):  # fmt: skip
    chunk = tl.program_id(0)
    start = chunk * CHUNK
    if start + CHUNK <= n_places:
        first = tl.load(ids + start)
        last = tl.load(ids + start + CHUNK - 1)
        if (first == last) & (first < n_groups):
            seed = tl.load(seed_of_step)
            total = _sum_places(
                tl.zeros((WIDTH,), tl.float32), start, start + CHUNK, rows, stride, order, coefficient,
                seed, columns, HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, WIDTH, BLOCK,
            )  # fmt: skip
            tl.store(partial + chunk * WIDTH + tl.arange(0, WIDTH), total)


@triton.jit
def _sum_runs(
    out, partial, rows, stride, offsets, order, coefficient, seed_of_step, minus, columns, width,
    HAS_MINUS: tl.constexpr, HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr = WIDTH, CHUNK: tl.constexpr = CHUNK,
):  # fmt: skip
    group = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    start = tl.load(offsets + group)
    end = tl.load(offsets + group + 1)
    first_chunk = (start + CHUNK - 1) // CHUNK
    last_chunk = end // CHUNK
    has_chunks = last_chunk > first_chunk
    head_end = tl.where(has_chunks, first_chunk * CHUNK, end)
    tail_start = tl.where(has_chunks, last_chunk * CHUNK, end)
    seed = tl.load(seed_of_step)
    total = tl.zeros((WIDTH,), tl.float32)
    total = _sum_places(
        total, start, head_end, rows, stride, order, coefficient, seed, columns,
        HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, WIDTH, BLOCK,
    )  # fmt: skip
    for first in range(first_chunk, last_chunk, BLOCK):
        chunk = first + tl.arange(0, BLOCK)
        mask = (chunk < last_chunk)[:, None]
        total += tl.sum(
            tl.load(partial + chunk[:, None] * WIDTH + column[None, :], mask=mask, other=0.0), axis=0
        )
    total = _sum_places(
        total, tail_start, end, rows, stride, order, coefficient, seed, columns,
        HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, WIDTH, BLOCK,
    )  # fmt: skip
    at = group.to(tl.int64) * width + column
    if HAS_MINUS:
        total -= tl.load(minus + at, mask=column < width, other=0.0)
    tl.store(out + at, total, mask=column < width)


@triton.jit
def _sum_places(
    total, start, end, rows, stride, order, coefficient, seed, columns,
    HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDTH)
    for first in range(start, end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < end
        place = tl.load(order + at, mask=inside, other=0)
        weight = tl.full((BLOCK,), SCALE, tl.float32)
        if HAS_COEFFICIENT:
            weight = tl.load(coefficient + place, mask=inside, other=0.0) * SCALE
            inside = inside & (weight != 0.0)
        row = place
        if MODULO > 0:
            row = place % MODULO
        mask = inside[:, None] & (column < columns)[None, :]
        if THRESHOLD > 0:
            mask = mask & kept(place[:, None] * WIDTH + column[None, :], seed, THRESHOLD)
        values = tl.load(rows + row[:, None] * stride + column[None, :], mask=mask, other=0.0)
        total += tl.sum(values.to(tl.float32) * weight[:, None], axis=0)
    return total

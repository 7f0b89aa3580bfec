"""Sums of rows that belong to the same id: the gradient of an embedding lookup, without atomics.

Ids are sorted once a step; each id then owns a run of places and one program adds up its rows in a fixed
order, so a step is deterministic. Words follow Zipf, and the longest runs would keep one program busy long
after all others: chunks of places that lie wholly inside one run are summed beforehand, in parallel.
"""

import os
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

# Small device functions that several kernels share.


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run on the CPU, to be checked where there is no GPU; it knows no inline assembly."""


def drop_threshold(rate: float) -> int:
    """The hash value below which an element is dropped, so that `rate` of all are."""
    return round(rate * 2**32)


@triton.jit
def kept(index, seed, THRESHOLD: tl.constexpr):
    """Dropout that is nowhere stored: a hash of the element's index and the step's seed, redone in backward.

    The mixer is Wellons' lowbias32; dropout asks for no more than that neighbours look independent.
    """
    mixed = (index.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return mixed >= THRESHOLD


@triton.jit
def tanh(x, INTERPRETED: tl.constexpr):
    """One instruction, exact to 2^-11: better than the bf16 around it."""
    if INTERPRETED:
        result = 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)
    else:
        result = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@triton.jit
def sigmoid(x, INTERPRETED: tl.constexpr):
    return 0.5 * tanh(0.5 * x, INTERPRETED) + 0.5


# Sums of rows that belong to the same id: the gradient of an embedding lookup, without atomics.
#
# Ids are sorted once a step; each id then owns a run of places and one program adds up its rows in a fixed
# order, so a step is deterministic. Words follow Zipf, and the longest runs would keep one program busy long
# after all others: chunks of places that lie wholly inside one run are summed beforehand, in parallel.


CHUNK = 256  # places; a run never costs its program more than 2 chunks and one row a whole chunk
PADDED = 128  # columns a program handles; rows are at most this wide


@dataclass(frozen=True, slots=True)
class Grouping:
    """Places sorted by id. Absent places come last, under the id `n_groups`."""

    ids: Tensor  # (N,) int32, sorted
    order: Tensor  # (N,) place of each
    offsets: Tensor  # (n_groups + 1,) int32: the run of group g is offsets[g]:offsets[g + 1]

    @property
    def n_groups(self) -> int:
        return self.offsets.shape[0] - 1


@dataclass(frozen=True, slots=True)
class Dropout:
    """A dropout that kernels redo wherever they need it, from the seed of the step: (1,) int32."""

    rate: float
    seed: Tensor

    @property
    def threshold(self) -> int:
        return drop_threshold(self.rate)

    @property
    def scale(self) -> float:
        return 1 / (1 - self.rate)


def group_places(ids: Tensor, *, n_groups: int, present: Tensor | None = None) -> Grouping:
    """Sort the places 0..N-1 of `ids` (any shape, int32) by id, those not `present` at the end."""
    if present is not None:
        ids = ids.masked_fill(~present, n_groups)
    ids, order = ids.flatten().sort(stable=True)
    bounds = torch.arange(n_groups + 1, dtype=torch.int32, device=ids.device)
    return Grouping(ids, order, torch.searchsorted(ids, bounds, out_int32=True))


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
    n_places, n_groups = grouping.ids.shape[0], grouping.n_groups
    n_chunks = triton.cdiv(n_places, CHUNK)
    partial = rows.new_empty(n_chunks, PADDED, dtype=torch.float32)
    total = rows.new_empty(n_groups, width, dtype=torch.float32)
    columns = min(width, rows.shape[1])
    seed = dropout.seed if dropout is not None else grouping.offsets  # unread without dropout
    shared = {
        "HAS_COEFFICIENT": coefficient is not None,
        "MODULO": rows.shape[0] if repeats else 0,
        "THRESHOLD": dropout.threshold if dropout is not None else 0,
        "SCALE": dropout.scale if dropout is not None else 1.0,
        "PADDED": PADDED,
        "CHUNK": CHUNK,
    }
    weights = coefficient if coefficient is not None else rows
    _sum_whole_chunks[(n_chunks,)](
        partial, rows, rows.stride(0), grouping.ids, grouping.order, weights, seed, n_places, n_groups,
        columns, BLOCK=32, num_warps=4, **shared,
    )  # fmt: skip
    _sum_runs[(n_groups,)](
        total, partial, rows, rows.stride(0), grouping.offsets, grouping.order, weights, seed,
        minus if minus is not None else total, columns, width,
        HAS_MINUS=minus is not None, BLOCK=8, num_warps=1, **shared,
    )  # fmt: skip
    return total


@triton.jit
def _sum_places(
    total, start, end, rows, stride, order, coefficient, seed, columns,
    HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, PADDED)
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
            mask = mask & kept(place[:, None] * PADDED + column[None, :], seed, THRESHOLD)
        values = tl.load(rows + row[:, None] * stride + column[None, :], mask=mask, other=0.0)
        total += tl.sum(values.to(tl.float32) * weight[:, None], axis=0)
    return total


@triton.jit
def _sum_whole_chunks(
    partial, rows, stride, ids, order, coefficient, seed_of_step, n_places, n_groups, columns,
    HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    PADDED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    start = chunk * CHUNK
    if start + CHUNK <= n_places:
        first = tl.load(ids + start)
        last = tl.load(ids + start + CHUNK - 1)
        if (first == last) & (first < n_groups):
            seed = tl.load(seed_of_step)
            total = _sum_places(
                tl.zeros((PADDED,), tl.float32), start, start + CHUNK, rows, stride, order, coefficient,
                seed, columns, HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, PADDED, BLOCK,
            )  # fmt: skip
            tl.store(partial + chunk * PADDED + tl.arange(0, PADDED), total)


@triton.jit
def _sum_runs(
    out, partial, rows, stride, offsets, order, coefficient, seed_of_step, minus, columns, width,
    HAS_MINUS: tl.constexpr, HAS_COEFFICIENT: tl.constexpr, MODULO: tl.constexpr, THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr, PADDED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    column = tl.arange(0, PADDED)
    start = tl.load(offsets + group)
    end = tl.load(offsets + group + 1)
    first_chunk = (start + CHUNK - 1) // CHUNK
    last_chunk = end // CHUNK
    has_chunks = last_chunk > first_chunk
    head_end = tl.where(has_chunks, first_chunk * CHUNK, end)
    tail_start = tl.where(has_chunks, last_chunk * CHUNK, end)
    seed = tl.load(seed_of_step)
    total = tl.zeros((PADDED,), tl.float32)
    total = _sum_places(
        total, start, head_end, rows, stride, order, coefficient, seed, columns,
        HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, PADDED, BLOCK,
    )  # fmt: skip
    for first in range(first_chunk, last_chunk, BLOCK):
        chunk = first + tl.arange(0, BLOCK)
        values = tl.load(
            partial + chunk[:, None] * PADDED + column[None, :], mask=(chunk < last_chunk)[:, None], other=0.0
        )
        total += tl.sum(values, axis=0)
    total = _sum_places(
        total, tail_start, end, rows, stride, order, coefficient, seed, columns,
        HAS_COEFFICIENT, MODULO, THRESHOLD, SCALE, PADDED, BLOCK,
    )  # fmt: skip
    at = group.to(tl.int64) * width + column
    if HAS_MINUS:
        total -= tl.load(minus + at, mask=column < width, other=0.0)
    tl.store(out + at, total, mask=column < width)


# Embedding lookup with dropout and absent rows, and its gradient by sorted sums.


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
        rows = table.new_empty(*ids.shape, PADDED, dtype=dtype)
        n_rows, block = ids.numel(), 32
        _look_up[(triton.cdiv(n_rows, block),)](
            rows, table, ids, present if present is not None else ids,
            dropout.seed if dropout is not None else ids, n_rows, table.shape[1],
            HAS_ABSENT=present is not None, THRESHOLD=dropout.threshold if dropout is not None else 0,
            SCALE=dropout.scale if dropout is not None else 1.0, PADDED=PADDED, BLOCK=block, num_warps=4,
        )  # fmt: skip
        ctx.grouping, ctx.dropout, ctx.width = grouping, dropout, table.shape[1]
        return rows

    @staticmethod
    def backward(ctx, gradient):
        flat = gradient.contiguous().view(-1, PADDED)
        return (
            sum_rows(flat, ctx.grouping, width=ctx.width, dropout=ctx.dropout),
            None,
            None,
            None,
            None,
            None,
        )


@triton.jit
def _look_up(
    out, table, ids, present, seed_of_step, n_rows, width, HAS_ABSENT: tl.constexpr, THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, PADDED)
    inside = place < n_rows
    there = inside
    if HAS_ABSENT:
        there = there & (tl.load(present + place, mask=inside, other=0) != 0)
    row = tl.load(ids + place, mask=there, other=0).to(tl.int64)
    mask = there[:, None] & (column < width)[None, :]
    at = place[:, None] * PADDED + column[None, :]
    if THRESHOLD > 0:
        mask = mask & kept(at, tl.load(seed_of_step), THRESHOLD)
    values = tl.load(table + row[:, None] * width + column[None, :], mask=mask, other=0.0) * SCALE
    tl.store(out + at, values.to(out.dtype.element_ty), mask=inside[:, None])

"""Embedding lookups with dropout and absent rows, and their gradient: sums of rows by id, without atomics.

Ids are sorted once per step; each id then owns a run of positions, and one program adds up its rows in a fixed order,
so a step is deterministic. Words follow Zipf's law, and the longest runs would keep one program busy long after all
others: chunks of positions that lie wholly inside one run are summed beforehand, in parallel.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels import GROUPS, METADATA, TABLE, beside, on_branch
from lmcells.training.kernels.operands import WIDTH, Dropout, kept, load_rows, seed_and_constants

LOOKUP_BLOCK = 32  # rows per program
NUMBER_BLOCK = 1024  # positions per program
N_PROGRAMS = 4224  # of the sums of runs: as many as an H200 holds at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Positions sorted by id. Absent positions come last, under the id `n_ids`.

    Group g is the id g or, if only ids that occur have groups, the id `of_group[g]`. There are then `n_groups` groups,
    a number that only the device knows, and nothing beyond them is read.
    """

    ids: Tensor  # (N,) sorted
    order: Tensor  # (N,) position of each
    offsets: Tensor  # (groups + 1,) int32: the run of group g is offsets[g]:offsets[g + 1]
    n_ids: int
    of_group: Tensor | None = None  # (groups,) int32
    group_of: Tensor | None = None  # (n_ids,) int32, -1 where an id does not occur
    n_groups: Tensor | None = None  # (1,) int32

    @property
    def capacity(self) -> int:
        """How many groups there can be."""
        return self.offsets.shape[0] - 1


def group_by_id(ids: Tensor, *, n_ids: int) -> Grouping:
    """Sort the positions 0..N-1 of `ids` (any shape) by id; the id of an absent position is `n_ids`."""
    dtype = torch.int16 if n_ids < torch.iinfo(torch.int16).max else torch.int32  # fewer bits sort faster
    ids, order = ids.flatten().to(dtype).sort(stable=True)
    bounds = torch.arange(n_ids + 1, dtype=dtype, device=ids.device)
    offsets = torch.searchsorted(ids, bounds, out_int32=True)
    return Grouping(ids=ids, order=order, offsets=offsets, n_ids=n_ids)


def group_distinct(ids: Tensor, *, n_ids: int) -> Grouping:
    """The same with groups only for ids that occur, in the order of the ids.

    The groups are numbered without sorting, on the branch TABLE; positions are sorted on the branch GROUPS.
    """
    ids = ids.flatten()
    n_positions, capacity = ids.shape[0], min(n_ids, ids.shape[0])
    with beside(TABLE, ids):
        zeros = torch.zeros(n_ids + capacity, dtype=torch.int32, device=ids.device)
        occurs, of_group = zeros.split_with_sizes([n_ids, capacity])
        _mark[(triton.cdiv(n_positions, NUMBER_BLOCK),)](occurs, ids, n_positions, n_ids, num_warps=4)
        number = occurs.cumsum(dim=0, dtype=torch.int32)
        group_of = torch.empty_like(number)
        _number_groups[(triton.cdiv(n_ids, NUMBER_BLOCK),)](of_group, group_of, number, n_ids, num_warps=4)
        n_groups = number[-1:]
        with beside(GROUPS, ids):
            ids, order = ids.sort(stable=True)
            offsets = ids.new_empty(capacity + 1)
            _find_runs[(triton.cdiv(n_positions + 1, NUMBER_BLOCK),)](
                offsets, ids, group_of, n_groups, n_positions, n_ids, num_warps=4
            )
    return Grouping(
        ids=ids,
        order=order,
        offsets=offsets,
        n_ids=n_ids,
        of_group=of_group,
        group_of=group_of,
        n_groups=n_groups,
    )


@triton.jit
def _mark(occurs, ids, n_positions, n_ids, BLOCK: tl.constexpr = NUMBER_BLOCK):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_positions
    this = tl.load(ids + at, mask=inside, other=n_ids)
    tl.store(occurs + this, 1, mask=this < n_ids)


@triton.jit
def _number_groups(of_group, group_of, number, n_ids, BLOCK: tl.constexpr = NUMBER_BLOCK):
    this = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = this < n_ids
    group = tl.load(number + this, mask=inside, other=0) - 1
    before = tl.load(number + this - 1, mask=inside & (this > 0), other=0) - 1
    occurs = inside & (group > before)
    tl.store(of_group + group, this, mask=occurs)
    tl.store(group_of + this, tl.where(occurs, group, -1), mask=inside)


@triton.jit
def _find_runs(offsets, ids, group_of, n_groups, n_positions, n_ids, BLOCK: tl.constexpr = NUMBER_BLOCK):
    """Where each group's run begins; the last one ends where the absent positions begin, or at the end."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at <= n_positions
    this = tl.load(ids + at, mask=at < n_positions, other=n_ids)
    before = tl.load(ids + at - 1, mask=inside & (at > 0), other=-1)
    group = tl.load(group_of + this, mask=this < n_ids, other=0)
    group = tl.where(this < n_ids, group, tl.load(n_groups))
    tl.store(offsets + group, at, mask=inside & (this != before))


def look_up(
    table: Tensor,
    ids: Tensor,
    grouping: Grouping,
    *,
    dtype: torch.dtype,
    present: Tensor | None = None,
    dropout: Dropout | None = None,
    branch: int | None = None,
) -> Tensor:
    """Rows of `table` padded with zeros to 128 columns, zero where absent: (V, E), (...) -> (..., 128).

    `grouping` is that of `ids`, or of a longer list that begins with them. The gradient is summed on a `branch`.
    """
    if branch is not None:
        (table,) = on_branch(branch, table)
    rows: Tensor = _Lookup.apply(table, ids, grouping, dtype, present, dropout, branch)
    return rows


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids, grouping, dtype, present, dropout, branch):
        rows = table.new_empty(*ids.shape, WIDTH, dtype=dtype)
        seed, constants = seed_and_constants(dropout, unread=ids)
        _look_up[(triton.cdiv(ids.numel(), LOOKUP_BLOCK),)](
            rows, table, ids, ids if present is None else present, seed, ids.numel(), width=table.shape[1],
            HAS_ABSENT=present is not None, **constants, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(present)
        ctx.total = None if grouping.of_group is None else zeros_for(table)
        ctx.grouping, ctx.dropout, ctx.width, ctx.branch = grouping, dropout, table.shape[1], branch
        return rows

    @staticmethod
    def backward(ctx, gradient):
        (present,) = ctx.saved_tensors
        rows = gradient.contiguous().view(-1, WIDTH)
        into, ctx.total = (
            ctx.total,
            None,
        )  # autograd keeps a gradient that nobody else holds, and copies others
        with nullcontext() if ctx.branch is None else beside(ctx.branch, rows):
            total = sum_rows(
                rows, ctx.grouping, width=ctx.width, present=present, dropout=ctx.dropout, into=into
            )
        del into
        return total, *[None] * 6


@triton.jit
def _look_up(
    out, table, ids, present, seed_of_step, n_rows, width: tl.constexpr, HAS_ABSENT: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, WIDTH: tl.constexpr = WIDTH, BLOCK: tl.constexpr = LOOKUP_BLOCK,
):  # fmt: skip
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)
    inside = position < n_rows
    there = inside
    if HAS_ABSENT:
        there = there & (tl.load(present + position, mask=inside, other=0) != 0)
    row = tl.load(ids + position, mask=there, other=0)
    values = load_rows(table, row, position, there, width, seed_of_step, THRESHOLD, SCALE, WIDTH)
    tl.store(out + position[:, None] * WIDTH + column[None, :], values, mask=inside[:, None])


def zeros_for(table: Tensor) -> Tensor:
    """Zeros of the table's shape for its gradient, filled on the branch METADATA while forward runs."""
    with beside(METADATA, table):
        return torch.zeros_like(table)


def sum_rows(
    rows: Tensor,
    grouping: Grouping,
    *,
    width: int,
    first_position: int = 0,
    present: Tensor | None = None,
    coefficient: Tensor | None = None,
    dropout: Dropout | None = None,
    plus: Tensor | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """The sum of each id's rows: (N, D) -> (groups, width) float32.

    The rows are those of the positions from `first_position` on that are `present`; other positions have no row. With a
    `coefficient` for each position, which multiplies its row (rows times zero are not read), position p has row p mod N
    instead. `dropout` is that of the lookup. `plus`, a row for each group, is added. Where only ids that occur have
    groups, the sums are written `into` zeros (n_ids, width).
    """
    n_positions, n_groups = grouping.ids.shape[0], grouping.capacity
    chunk = _chunk_of(n_positions)
    n_chunks, columns = triton.cdiv(n_positions, chunk), min(width, rows.shape[1])
    partial = rows.new_empty(n_chunks, WIDTH, dtype=torch.float32)
    is_compact = grouping.of_group is not None
    total = rows.new_empty(n_groups, width, dtype=torch.float32) if into is None else into
    seed, constants = seed_and_constants(dropout, unread=grouping.offsets)
    constants |= {
        "CHUNK": chunk,
        "HAS_PRESENT": present is not None,
        "HAS_COEFFICIENT": coefficient is not None,
        "IS_PART": coefficient is None and (first_position > 0 or rows.shape[0] < n_positions),
        "COLUMNS": columns,
    }
    unread = grouping.offsets
    given = (
        rows, rows.stride(0), rows.shape[0], first_position, grouping.order,
        unread if present is None else present, unread if coefficient is None else coefficient, seed,
    )  # fmt: skip
    _sum_whole_chunks[(n_chunks,)](
        partial, *given, grouping.ids, n_positions, grouping.n_ids, BLOCK=32, num_warps=4, **constants
    )
    _sum_runs[(min(n_groups, N_PROGRAMS),)](
        total, partial, *given, grouping.offsets, grouping.of_group if is_compact else unread,
        grouping.n_groups if is_compact else unread, unread if plus is None else plus,
        0 if plus is None else plus.stride(0), n_groups, width=width, IS_COMPACT=is_compact,
        SCATTERS=into is not None, HAS_PLUS=plus is not None,
        BLOCK=8 if n_positions < 8 * n_groups else 16,  # most runs are short where there are many
        num_warps=1, **constants,
    )  # fmt: skip
    return total


def _chunk_of(n_positions: int) -> int:
    """Positions per chunk: a run costs its program at most 2 chunks, and one row for each whole chunk in it."""
    return min(256, max(32, 1 << (math.isqrt(n_positions) // 8).bit_length()))


@triton.jit
def _sum_whole_chunks(
    partial, rows, stride, n_rows, first_position, order, present, coefficient, seed_of_step, ids,
    n_positions, n_ids, HAS_PRESENT: tl.constexpr, HAS_COEFFICIENT: tl.constexpr, IS_PART: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    chunk = tl.program_id(0)
    start = chunk * CHUNK
    if start + CHUNK <= n_positions:
        first = tl.load(ids + start)
        last = tl.load(ids + start + CHUNK - 1)
        is_run = (first == last) & (first < n_ids)
        if IS_PART:  # positions of a run ascend
            is_run = is_run & (tl.load(order + start) >= first_position)
            is_run = is_run & (tl.load(order + start + CHUNK - 1) < first_position + n_rows)
        if is_run:
            seed = tl.load(seed_of_step)
            total = _sum_positions(
                tl.zeros((WIDTH,), tl.float32), start, start + CHUNK, rows, stride, n_rows, first_position, order,
                present, coefficient, seed, COLUMNS, HAS_PRESENT, HAS_COEFFICIENT, IS_PART, THRESHOLD, SCALE,
                WIDTH, BLOCK,
            )  # fmt: skip
            tl.store(partial + chunk * WIDTH + tl.arange(0, WIDTH), total)


@triton.jit
def _sum_runs(
    out, partial, rows, stride, n_rows, first_position, order, present, coefficient, seed_of_step, offsets,
    of_group, n_there, plus, plus_stride, n_groups, width: tl.constexpr, IS_COMPACT: tl.constexpr,
    SCATTERS: tl.constexpr, HAS_PLUS: tl.constexpr, HAS_PRESENT: tl.constexpr, HAS_COEFFICIENT: tl.constexpr,
    IS_PART: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    if IS_COMPACT:
        n_groups = tl.load(n_there)
    column = tl.arange(0, WIDTH)
    seed = tl.load(seed_of_step)
    for group in range(tl.program_id(0), n_groups, tl.num_programs(0)):
        start = tl.load(offsets + group)
        end = tl.load(offsets + group + 1)
        if IS_PART:  # noqa: SIM102 - a compile-time constant
            if end - start > BLOCK:
                start = _first_from(order, start, end, first_position)
                end = _first_from(order, start, end, first_position + n_rows)
        first_chunk = (start + CHUNK - 1) // CHUNK
        last_chunk = end // CHUNK
        has_chunks = last_chunk > first_chunk
        head_end = tl.where(has_chunks, first_chunk * CHUNK, end)
        tail_start = tl.where(has_chunks, last_chunk * CHUNK, end)
        total = tl.zeros((WIDTH,), tl.float32)
        if HAS_PLUS:
            at = plus + tl.cast(group, tl.int64) * plus_stride + column
            total += tl.load(at, mask=column < width, other=0.0)
        total = _sum_positions(
            total, start, head_end, rows, stride, n_rows, first_position, order, present, coefficient, seed,
            COLUMNS, HAS_PRESENT, HAS_COEFFICIENT, IS_PART, THRESHOLD, SCALE, WIDTH, BLOCK,
        )  # fmt: skip
        for first in range(first_chunk, last_chunk, BLOCK):
            chunk = first + tl.arange(0, BLOCK)
            mask = (chunk < last_chunk)[:, None]
            total += tl.sum(
                tl.load(partial + chunk[:, None] * WIDTH + column[None, :], mask=mask, other=0.0), axis=0
            )
        total = _sum_positions(
            total, tail_start, end, rows, stride, n_rows, first_position, order, present, coefficient, seed,
            COLUMNS, HAS_PRESENT, HAS_COEFFICIENT, IS_PART, THRESHOLD, SCALE, WIDTH, BLOCK,
        )  # fmt: skip
        row = tl.cast(group, tl.int64)
        if SCATTERS:
            row = tl.load(of_group + group).to(tl.int64)
        tl.store(out + row * width + column, total, mask=column < width)


@triton.jit
def _first_from(order, start, end, bound):
    """Where the positions of a run, which ascend, reach a bound: one look at 32 of them leaves a 32nd of the run."""
    while start < end:
        size = (end - start + 31) // 32
        last = start + tl.arange(0, 32) * size + size - 1  # of each part
        is_below = tl.load(order + last, mask=last < end, other=bound) < bound
        start += tl.sum(is_below.to(tl.int32), axis=0) * size
        end = tl.minimum(start + size - 1, end)
    return start


@triton.jit
def _sum_positions(
    total, start, end, rows, stride, n_rows, first_position, order, present, coefficient, seed,
    COLUMNS: tl.constexpr, HAS_PRESENT: tl.constexpr, HAS_COEFFICIENT: tl.constexpr, IS_PART: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDTH)
    for first in range(start, end, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < end
        position = tl.load(order + at, mask=inside, other=0).to(tl.int32) - first_position
        if IS_PART:
            inside = inside & (position >= 0) & (position < n_rows)
        if HAS_PRESENT:
            inside = inside & (tl.load(present + position, mask=inside, other=0) != 0)
        weight = tl.full((BLOCK,), SCALE, tl.float32)
        row = position
        if HAS_COEFFICIENT:
            weight = tl.load(coefficient + position, mask=inside, other=0.0) * SCALE
            inside = inside & (weight != 0.0)
            row = position % n_rows
        # What dropout leaves out is read too: a mask of single elements would split the loads.
        mask = inside[:, None] & (column < COLUMNS)[None, :]
        at_rows = row.to(tl.int64)[:, None] * stride + column[None, :]
        values = tl.load(rows + at_rows, mask=mask, other=0.0).to(tl.float32) * weight[:, None]
        if THRESHOLD > 0:
            values = tl.where(kept(position[:, None] * WIDTH + column[None, :], seed, THRESHOLD), values, 0.0)
        total += tl.sum(values, axis=0)
    return total

"""Embedding lookup with dropout and absent rows, and its gradient by sorted sums."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.elementwise import kept
from lmcells.training.kernels.grouping import PADDED, Dropout, Grouping, sum_rows


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

"""The hinge over context words and negatives: rows of the moment table are read once, where they are needed.

With the query [-2 mu ; d v + |mu|^2 ; 1] and table rows [a1 ; a0 ; a2 + d a3], KLbar(q, c) - KLbar(q, n) is half
the product of the query with the difference of two rows: what does not depend on the word cancels exactly.
All of it is float32. Forward also adds up the query's gradient, while the rows are at hand.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.grouping import Grouping, sum_rows

WIDTH = 128
ROWS = 4


def hinge(
    query: Tensor,
    table: Tensor,
    *,
    context: Tensor,
    negatives: Tensor,
    lengths: Tensor,
    context_grouping: Grouping,
    negative_grouping: Grouping,
    margin: float,
    columns: int,
) -> Tensor:
    """sum_j max(0, margin + KLbar(q, c_j) - KLbar(q, n_j)) over the words of a row: (B, 128), (V, 128), (T, B) -> (B,).

    `lengths` says how many words each row has, descending.

    `context_grouping` may hold further places after those of the context; they are given no weight.
    Only the first `columns` of a row are read.
    """
    reconstruction: Tensor = _Hinge.apply(
        query, table, context, negatives, lengths, context_grouping, negative_grouping, margin, columns
    )
    return reconstruction


class _Hinge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, query, table, context, negatives, lengths, context_grouping, negative_grouping, margin, columns
    ):
        batch = context.shape[1]
        query = query.contiguous()
        reconstruction = query.new_empty(batch)
        d_query = torch.empty_like(query)
        active = torch.zeros_like(context, dtype=torch.bool)
        _hinge_forward[(triton.cdiv(batch, ROWS),)](
            reconstruction, d_query, active, query, table, context, negatives, lengths, margin, batch,
            columns, ROWS=ROWS, WIDTH=WIDTH, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(query, d_query, active)
        ctx.context_grouping, ctx.negative_grouping = context_grouping, negative_grouping
        return reconstruction

    @staticmethod
    def backward(ctx, gradient):
        query, d_query, active = ctx.saved_tensors
        n_places = ctx.context_grouping.ids.shape[0]
        coefficient = query.new_zeros(n_places)
        used = coefficient[: active.numel()].view_as(active)
        torch.mul(active, 0.5 * gradient, out=used)
        of_negatives = sum_rows(
            query, ctx.negative_grouping, width=WIDTH, coefficient=coefficient, repeats=True
        )
        d_table = sum_rows(
            query,
            ctx.context_grouping,
            width=WIDTH,
            coefficient=coefficient,
            repeats=True,
            minus=of_negatives,
        )
        return (d_query * gradient.unsqueeze(-1), d_table, *[None] * 7)


@triton.jit
def _hinge_forward(
    reconstruction, d_query, active, query, table, context, negatives, lengths, margin, batch, columns,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, WIDTH)
    used = (column < columns)[None, :]
    tile = row[:, None] * WIDTH + column[None, :]
    asked = tl.load(query + tile, mask=inside[:, None], other=0.0)
    loss = tl.zeros((ROWS,), tl.float32)
    d_asked = tl.zeros((ROWS, WIDTH), tl.float32)
    length = tl.load(lengths + row, mask=inside, other=0)
    for time in range(tl.load(lengths + tl.program_id(0) * ROWS)):
        place = time * batch + row
        there = time < length
        word = tl.load(context + place, mask=there, other=0)
        negative = tl.load(negatives + place, mask=there, other=0)
        mask = there[:, None] & used
        difference = tl.load(table + word[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        difference -= tl.load(table + negative[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        violation = margin + 0.5 * tl.sum(asked * difference, axis=1)
        violated = there & (violation > 0)
        loss += tl.where(violated, violation, 0.0)
        d_asked += tl.where(violated[:, None], 0.5 * difference, 0.0)
        tl.store(active + place, violated, mask=inside)
    tl.store(reconstruction + row, loss, mask=inside)
    tl.store(d_query + tile, d_asked, mask=inside[:, None])

"""Dot products of each query with some rows of a table, without writing the rows out."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_BLOCK = 128  # queries; with 40 rows of 102 values each 2 MB


def row_products(query: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """query[b] . table[index[b, k]]: (B, D), (U, D), (B, K) -> (B, K)."""
    if query.device.type == "cpu" and not torch.compiler.is_compiling():
        products: Tensor = _RowProducts.apply(query, table, index)  # type: ignore[no-untyped-call]
        return products
    rows = functional.embedding(index, table)  # (B, K, D) exists once, in eager mode; compiled, it can fuse
    return torch.matmul(rows, query.unsqueeze(-1)).squeeze(-1)


class _RowProducts(torch.autograd.Function):
    """On the CPU the rows of a block of queries fit the cache; gradients are weighted sums of rows (bags)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, index: Tensor) -> Tensor:
        products = query.new_empty(index.shape)
        for start in range(0, index.shape[0], _BLOCK):
            part = slice(start, start + _BLOCK)
            rows = functional.embedding(index[part], table)  # (b, K, D)
            torch.bmm(rows, query[part].unsqueeze(-1), out=products[part].unsqueeze(-1))
        ctx.save_for_backward(query, table, index)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        query, table, index = ctx.saved_tensors
        grad = grad.contiguous()
        grad_query = functional.embedding_bag(index, table, mode="sum", per_sample_weights=grad)
        ids, pairs = index.flatten().sort(stable=True)  # the pairs of each row of the table
        starts = torch.searchsorted(ids, torch.arange(table.shape[0], dtype=ids.dtype))
        grad_table = functional.embedding_bag(
            (pairs // index.shape[1]).to(ids.dtype),
            query,
            starts.to(ids.dtype),
            mode="sum",
            per_sample_weights=grad.flatten()[pairs],
        )
        return grad_query, grad_table, None

"""Matrix products of bf16 operands with float32 results, and products summed over very many rows."""

import math

import torch
from torch import Tensor

N_PARTS = 64  # at most, of the sum over all rows in a weight's gradient; each is a matrix product of its own


def project(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """rows weight' + bias: (N, K) bf16, (D, K), (D,) -> (N, D) float32.

    The operands are rounded, the result is not: a mean is then the same number wherever it is used, and the
    terms of a divergence cancel.
    """
    result: Tensor = _Projection.apply(rows, weight, bias)
    return result


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight, bias):
        narrow = weight.to(torch.bfloat16)
        ctx.save_for_backward(rows, narrow)
        return _product(rows, narrow.T).add_(bias)

    @staticmethod
    def backward(ctx, gradient):
        rows, narrow = ctx.saved_tensors
        narrow_gradient = gradient.to(torch.bfloat16)
        return (
            narrow_gradient @ narrow,
            product_over_rows(narrow_gradient, rows),
            gradient.sum(dim=0),
        )


def product_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """left' right in float32, the sum over all leading rows in parts, so that enough of the GPU takes part."""
    left, right = left.flatten(0, -2), right.flatten(0, -2)
    n_parts = math.gcd(N_PARTS, left.shape[0])
    left = left.unflatten(0, (n_parts, -1)).transpose(1, 2)
    return torch.bmm(left, right.unflatten(0, (n_parts, -1))).sum(dim=0, dtype=torch.float32)


def _product(left: Tensor, right: Tensor) -> Tensor:
    if left.device.type == "cuda":
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()  # where kernels are only interpreted

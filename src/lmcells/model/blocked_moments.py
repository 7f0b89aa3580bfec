"""The CPU's moment table: blocks of words small enough for the cache, and a backward written by hand.

Of U words with n sections each, h = ReLU(W_w R_w + W_m R_m + b) is (U, n, H): twenty-five megabytes at 10,000
words. Autograd writes and reads as much a dozen times; here only (U, n) and (U, H) leave the cache.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmcells.model.heads import GaussianHeads
from lmcells.model.moments import Moments, raised
from lmcells.model.precision import full_precision

_BLOCK = 512  # words; with 10 sections and 64 hidden units 1.3 MB a tensor


def blocked_moments(
    from_words: Tensor,
    from_metadata: Tensor,
    sections: Tensor,
    *,
    heads: GaussianHeads,
    variance_floor: float,
) -> Moments:
    """`linear_mixture_moments` of relu(from_words[u] + from_metadata[sections[u]]), U rows.

    (U, H), (M, H), (U, n) -> (U,), (U, d), (U,), (U,).
    """
    weight, bias = heads.mean.weight, heads.mean.bias  # (d, H), (d,)
    with full_precision(weight):
        a0, weighted, quadratic, a3 = _BlockedMoments.apply(  # type: ignore[no-untyped-call]
            from_words.to(weight.dtype),
            from_metadata.to(weight.dtype),
            sections,
            heads.log_variance.weight[0],
            heads.log_variance.bias[0],
            weight.T @ weight,
            2 * (bias @ weight),
            variance_floor,
        )
        return Moments(
            a0=a0,
            a1=functional.linear(weighted, weight) + a0.unsqueeze(-1) * bias,  # (U, H) -> (U, d)
            a2=quadratic + bias.square().sum() * a0,
            a3=a3,
        )


class _BlockedMoments(torch.autograd.Function):
    """a0, mean h/v, mean (h . G h + g . h)/v and a3, where log v = raised(u . h + c)."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        from_words: Tensor,
        from_metadata: Tensor,
        sections: Tensor,
        u: Tensor,
        c: Tensor,
        square: Tensor,  # G: (H, H), symmetric
        linear: Tensor,  # g: (H,)
        floor: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (n_words, n_draws), dim = sections.shape, from_words.shape[1]
        raw, length, precision = (from_words.new_empty(n_words, n_draws) for _ in range(3))
        weighted = torch.empty_like(from_words)
        for rows, hidden in _hidden_by_block(from_words, from_metadata, sections):
            flat = hidden.view(-1, dim)  # (r * n, H)
            torch.addmv(c, flat, u, out=raw[rows].view(-1))
            torch.exp(-raised(raw[rows], floor), out=precision[rows])
            applied = torch.addmm(linear, flat, square)  # G h + g
            torch.sum(applied.mul_(flat), dim=1, out=length[rows].view(-1))
            weighted[rows] = torch.bmm(precision[rows].unsqueeze(1), hidden).squeeze(1)
        ctx.save_for_backward(from_words, from_metadata, sections, u, square, linear, raw, length, precision)
        ctx.floor = floor
        quadratic, log_variance = (length * precision).mean(dim=1), raised(raw, floor)
        return precision.mean(dim=1), weighted / n_draws, quadratic, log_variance.mean(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from_words, from_metadata, sections, u, square, linear, raw, length, precision = ctx.saved_tensors
        n_draws, dim = sections.shape[1], from_words.shape[1]
        of_a0, of_weighted, of_quadratic, of_a3 = (grad / n_draws for grad in grads)
        grad_words, grad_metadata = torch.empty_like(from_words), torch.zeros_like(from_metadata)
        grad_square, grad_vectors = torch.zeros_like(square), u.new_zeros(dim, 2)
        to_length = of_quadratic.unsqueeze(1) * precision  # (U, n)
        # d log v / d raw is the share of the network's own variance in v.
        own_share = torch.sigmoid(raw - math.log(ctx.floor)) if ctx.floor > 0 else torch.ones_like(raw)
        grad_c = torch.zeros_like(u[0])
        with full_precision(u):
            for rows, hidden in _hidden_by_block(from_words, from_metadata, sections):
                flat = hidden.view(-1, dim)
                along = torch.bmm(hidden, of_weighted[rows].unsqueeze(2)).squeeze(2)  # (r, n)
                to_precision = along.add_(of_a0[rows].unsqueeze(1)).addcmul_(
                    of_quadratic[rows].unsqueeze(1), length[rows]
                )
                to_raw = (of_a3[rows].unsqueeze(1) - to_precision * precision[rows]) * own_share[rows]
                scales = torch.stack([precision[rows], to_length[rows], to_raw], dim=2)  # (r, n, 3)
                vectors = torch.stack([linear, u]).expand(hidden.shape[0], -1, -1)
                vectors = torch.cat([of_weighted[rows].unsqueeze(1), vectors], dim=1)  # (r, 3, H)
                to_hidden = torch.bmm(scales, vectors).view(-1, dim)
                grad_vectors.addmm_(flat.T, scales.view(-1, 3)[:, 1:])
                grad_c += to_raw.sum()

                scaled = flat * to_length[rows].view(-1, 1)
                grad_square.addmm_(flat.T, scaled)
                to_hidden.addmm_(scaled, square, alpha=2)
                through = torch.ops.aten.threshold_backward(to_hidden, flat, 0)
                torch.sum(through.view_as(hidden), dim=1, out=grad_words[rows])
                grad_metadata.index_add_(0, sections[rows].flatten(), through)
        grad_linear, grad_u = grad_vectors.unbind(dim=1)
        return grad_words, grad_metadata, None, grad_u, grad_c, grad_square, grad_linear, None


def _hidden_by_block(
    from_words: Tensor, from_metadata: Tensor, sections: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    """Rows, and their h: (r, n, H)."""
    n_words, n_draws = sections.shape
    for start in range(0, n_words, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n_words))
        hidden = from_metadata.index_select(0, sections[rows].flatten()).view(
            -1, n_draws, from_words.shape[1]
        )
        yield rows, hidden.add_(from_words[rows].unsqueeze(1)).relu_()

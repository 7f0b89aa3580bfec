"""The moment table: all that the mean divergence to a mixture's components depends on.

For components N(mu_b, v_b I), b = 1..n, of equal weight, four averages suffice:

    a0 = mean 1/v,  a1 = mean mu/v,  a2 = mean |mu|^2/v,  a3 = mean log v,

    KLbar(q) = mean_b KL(q || N(mu_b, v_b I))
             = 1/2 ( (d v_q + |mu_q|^2) a0 - 2 mu_q . a1 + a2 - d + d a3 - d log v_q ).

Once computed for a word, each of its occurrences as context or negative costs one dot product. The terms are large and
nearly cancel, so everything here is float32 or better, whatever the precision of the networks.

`mixture_moments` is the definition, from explicit means; on the CPU `blocked_moments` computes the same for means
W h + b from h alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmcells.model.gaussian import Gaussian, full_precision

if TYPE_CHECKING:
    from lmcells.model.networks import GaussianHeads

_QUERY_BLOCK = 128  # queries; with 40 rows of 102 values each 2 MB
_WORD_BLOCK = 512  # words; with 10 sections and 64 hidden units 1.3 MB a tensor


@dataclass(frozen=True, slots=True)
class Moments:
    """The four averages of U mixtures."""

    a0: Tensor  # (U,) mean 1/v
    a1: Tensor  # (U, d) mean mu/v
    a2: Tensor  # (U,) mean |mu|^2/v
    a3: Tensor  # (U,) mean log v


def expected_divergence(posterior: Gaussian, moments: Moments, index: Tensor) -> Tensor:
    """KLbar of each posterior to the mixtures of its rows: (B,), U rows, (B, K) -> (B, K).

    One dot product per pair, between [-2 mu_q ; d v_q + |mu_q|^2 ; 1] and [a1 ; a0 ; a2 + d a3].
    """
    with full_precision(posterior.mean):
        q = posterior.at_least_float32()
        dim = q.dim
        rest = torch.stack([moments.a0, moments.a2 + dim * moments.a3], dim=-1)
        table = torch.cat([moments.a1, rest], dim=-1)  # (U, d + 2)
        scale = dim * torch.exp(q.log_variance) + q.mean.square().sum(dim=-1)  # (B,)
        query = torch.cat([-2 * q.mean, torch.stack([scale, torch.ones_like(scale)], dim=-1)], dim=-1)
        product = row_products(query, table, index)  # (B, d + 2), (U, d + 2), (B, K) -> (B, K)
        return 0.5 * (product - (dim + dim * q.log_variance).unsqueeze(-1))


def raised(log_variance: Tensor, floor: float) -> Tensor:
    """log(v + floor), without overflow at any v."""
    if floor == 0:
        return log_variance
    return torch.logaddexp(log_variance, torch.full_like(log_variance, math.log(floor)))


def mixture_moments(components: Gaussian, *, variance_floor: float) -> Moments:
    """Moments of mixtures given by their components: (U, n, d) -> U rows. The floor is added to each v."""
    with full_precision(components.mean):
        components = components.at_least_float32()
        log_variance = raised(components.log_variance, variance_floor)  # (U, n)
        precision = torch.exp(-log_variance)
        return Moments(
            a0=precision.mean(dim=1),
            a1=(components.mean * precision.unsqueeze(-1)).mean(dim=1),  # (U, n, d) -> (U, d)
            a2=(components.mean.square().sum(dim=-1) * precision).mean(dim=1),
            a3=log_variance.mean(dim=1),
        )


def blocked_moments(
    from_words: Tensor,
    from_metadata: Tensor,
    sections: Tensor,
    kept: Tensor | None = None,
    *,
    heads: "GaussianHeads",
    variance_floor: float,
) -> Moments:
    """`mixture_moments` of heads(h), on the CPU: h = relu(from_words[u] + from_metadata[sections[u]]), 0 unless kept.

    (U, H), (M, H), (U, n), (U, n, H) -> U rows, in blocks of words that fit the cache, with a backward written by
    hand. All of h is (U, n, H), 25 MB at 10,000 words, and autograd would write and read it a dozen times; here only
    (U, n) and (U, H) leave the cache: a1 = W (mean h/v) + b a0, and |W h + b|^2 = h . (W'W h + 2 W'b) + |b|^2. The
    products must be true float32: with TF32 a1 and a2 would round apart and no longer cancel.
    """
    weight, bias = heads.mean.weight, heads.mean.bias  # (d, H), (d,)
    with full_precision(weight):
        a0, weighted, quadratic, a3 = _BlockedMoments.apply(  # type: ignore[no-untyped-call]
            from_words.to(weight.dtype),
            from_metadata.to(weight.dtype),
            sections,
            kept,
            heads.log_variance.weight[0],
            heads.log_variance.bias[0],
            weight.T @ weight,
            2 * (bias @ weight),
            variance_floor,
        )
        a1 = functional.linear(weighted, weight) + a0.unsqueeze(-1) * bias  # (U, H) -> (U, d)
        return Moments(a0, a1, a2=quadratic + bias.square().sum() * a0, a3=a3)


class _BlockedMoments(torch.autograd.Function):
    """a0, mean h/v, mean (h . G h + g . h)/v and a3, where log v = raised(u . h + c)."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        from_words: Tensor,
        from_metadata: Tensor,
        sections: Tensor,
        kept: Tensor | None,
        u: Tensor,
        c: Tensor,
        square: Tensor,  # G: (H, H), symmetric
        linear: Tensor,  # g: (H,)
        floor: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (n_words, n_draws), dim = sections.shape, from_words.shape[1]
        raw, length, precision = (from_words.new_empty(n_words, n_draws) for _ in range(3))
        weighted = torch.empty_like(from_words)
        for rows, hidden in _hidden_by_block(from_words, from_metadata, sections, kept):
            flat = hidden.view(-1, dim)  # (r * n, H)
            torch.addmv(c, flat, u, out=raw[rows].view(-1))
            torch.exp(-raised(raw[rows], floor), out=precision[rows])
            applied = torch.addmm(linear, flat, square)  # G h + g
            torch.sum(applied.mul_(flat), dim=1, out=length[rows].view(-1))
            weighted[rows] = torch.bmm(precision[rows].unsqueeze(1), hidden).squeeze(1)
        ctx.save_for_backward(
            from_words, from_metadata, sections, kept, u, square, linear, raw, length, precision
        )
        ctx.floor = floor
        quadratic, log_variance = (length * precision).mean(dim=1), raised(raw, floor)
        return precision.mean(dim=1), weighted / n_draws, quadratic, log_variance.mean(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from_words, from_metadata, sections, kept, *rest = ctx.saved_tensors
        u, square, linear, raw, length, precision = rest
        n_draws, dim = sections.shape[1], from_words.shape[1]
        of_a0, of_weighted, of_quadratic, of_a3 = (grad / n_draws for grad in grads)
        grad_words, grad_metadata = torch.empty_like(from_words), torch.zeros_like(from_metadata)
        grad_square, grad_vectors = torch.zeros_like(square), u.new_zeros(dim, 2)
        grad_c = torch.zeros_like(u[0])
        to_length = of_quadratic.unsqueeze(1) * precision  # (U, n)
        # d log v / d raw is the share of the network's own variance in v.
        own_share = torch.sigmoid(raw - math.log(ctx.floor)) if ctx.floor > 0 else torch.ones_like(raw)
        with full_precision(u):
            for rows, hidden in _hidden_by_block(from_words, from_metadata, sections, kept):
                flat = hidden.view(-1, dim)
                to_precision = torch.bmm(hidden, of_weighted[rows].unsqueeze(2)).squeeze(2)  # (r, n)
                to_precision.add_(of_a0[rows].unsqueeze(1))
                to_precision.addcmul_(of_quadratic[rows].unsqueeze(1), length[rows])
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
        return grad_words, grad_metadata, None, None, grad_u, grad_c, grad_square, grad_linear, None


def _hidden_by_block(
    from_words: Tensor, from_metadata: Tensor, sections: Tensor, kept: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """Rows, and their h: (r, n, H)."""
    (n_words, n_draws), dim = sections.shape, from_words.shape[1]
    for start in range(0, n_words, _WORD_BLOCK):
        rows = slice(start, min(start + _WORD_BLOCK, n_words))
        hidden = from_metadata.index_select(0, sections[rows].flatten()).view(-1, n_draws, dim)
        hidden.add_(from_words[rows].unsqueeze(1)).relu_()
        yield rows, hidden if kept is None else hidden.mul_(kept[rows])


def row_products(query: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """query[b] . table[index[b, k]], on the CPU without gathering all rows: (B, D), (U, D), (B, K) -> (B, K)."""
    if query.device.type == "cpu" and not torch.compiler.is_compiling():
        products: Tensor = _RowProducts.apply(query, table, index)  # type: ignore[no-untyped-call]
        return products
    rows = functional.embedding(index, table)  # (B, K, D), unless torch.compile fuses it
    return torch.matmul(rows, query.unsqueeze(-1)).squeeze(-1)


class _RowProducts(torch.autograd.Function):
    """In blocks of queries whose rows fit the cache; gradients are weighted sums of rows (`embedding_bag`)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, index: Tensor) -> Tensor:
        products = query.new_empty(index.shape)
        for start in range(0, index.shape[0], _QUERY_BLOCK):
            part = slice(start, start + _QUERY_BLOCK)
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
        queries = (pairs // index.shape[1]).to(ids.dtype)
        starts = torch.searchsorted(ids, torch.arange(table.shape[0], dtype=ids.dtype)).to(ids.dtype)
        weights = grad.flatten()[pairs]
        grad_table = functional.embedding_bag(queries, query, starts, mode="sum", per_sample_weights=weights)
        return grad_query, grad_table, None

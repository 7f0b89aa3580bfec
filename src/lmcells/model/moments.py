"""The moment table: all that a mean divergence to a mixture needs to know about the mixture.

For components N(mu_b, v_b I), b = 1..n, of equal weight, four averages suffice:

    a0 = mean 1/v,  a1 = mean mu/v,  a2 = mean |mu|^2/v,  a3 = mean log v,

    KLbar(q) = mean_b KL(q || N(mu_b, v_b I))
             = 1/2 ( (d v_q + |mu_q|^2) a0 - 2 mu_q . a1 + a2 - d + d a3 - d log v_q ).

Once computed for a word, every place where it is context or negative costs one dot product. The terms are
large and cancel, so everything here is float32 or better, whatever the networks run in.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.model.gaussian import Gaussian
from lmcells.model.precision import at_least_float32, full_precision
from lmcells.model.row_products import row_products


@dataclass(frozen=True, slots=True)
class Moments:
    """The four averages of U mixtures."""

    a0: Tensor  # (U,) mean 1/v
    a1: Tensor  # (U, d) mean mu/v
    a2: Tensor  # (U,) mean |mu|^2/v
    a3: Tensor  # (U,) mean log v


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


def linear_mixture_moments(
    hidden: Tensor, log_variance: Tensor, *, weight: Tensor, bias: Tensor, variance_floor: float
) -> Moments:
    """Moments of mixtures with means W h + b, from h (U, n, H) and without any (U, n, d) in between.

    a1 = W (mean h/v) + b a0, and |W h + b|^2 = h . (W'W h + 2 W'b) + |b|^2. The products must be true
    float32: with TF32 switched on a1 and a2 would round apart and no longer cancel.
    """
    with full_precision(hidden):
        hidden = at_least_float32(hidden)
        log_variance = raised(at_least_float32(log_variance), variance_floor)  # (U, n)
        precision = torch.exp(-log_variance)
        a0 = precision.mean(dim=1)
        weighted = torch.matmul(precision.unsqueeze(1), hidden).squeeze(1) / hidden.shape[1]  # -> (U, H)
        applied = functional.linear(
            hidden, weight.T @ weight, 2 * (bias @ weight)
        )  # W'W h + 2 W'b: (U, n, H)
        squared = (applied * hidden).sum(dim=-1) + bias.square().sum()  # (U, n)
        return Moments(
            a0=a0,
            a1=functional.linear(weighted, weight) + a0.unsqueeze(-1) * bias,  # (U, H) -> (U, d)
            a2=(squared * precision).mean(dim=1),
            a3=log_variance.mean(dim=1),
        )


def expected_divergence(posterior: Gaussian, moments: Moments, index: Tensor) -> Tensor:
    """KLbar of each posterior to the mixtures of its rows: (B,), U rows, (B, K) -> (B, K).

    One dot product a pair, between [-2 mu_q ; d v_q + |mu_q|^2 ; 1] and [a1 ; a0 ; a2 + d a3].
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
    """log(v + floor), safe at any v."""
    if floor == 0:
        return log_variance
    return torch.logaddexp(log_variance, torch.full_like(log_variance, math.log(floor)))

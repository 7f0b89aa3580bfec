"""InfoNCE with one table, against cross-entropy."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.training.contrastive import contrast


def prototypes(n: int, seed: int) -> Tensor:
    drawn = torch.randn(n, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(drawn, dim=-1)


def by_cross_entropy(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    similarity = one @ other.T / temperature
    partner = torch.arange(one.shape[0])
    forth, back = (
        functional.cross_entropy(similarity, partner),
        functional.cross_entropy(similarity.T, partner),
    )
    return (forth + back) / 2


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("n", [2, 33])
def test_value_and_gradients_are_those_of_cross_entropy(n: int, temperature: float) -> None:
    results = []
    for loss in (contrast, by_cross_entropy):
        one, other = (prototypes(n, seed).requires_grad_() for seed in (0, 1))
        value = loss(one, other, temperature=temperature)
        results.append((value, *torch.autograd.grad(3 * value, (one, other))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_guessing_is_worth_the_logarithm_of_the_number() -> None:
    alike = functional.normalize(torch.ones(16, 4), dim=-1)
    assert float(contrast(alike, alike, temperature=0.1)) == pytest.approx(math.log(16), rel=1e-5)


def test_nothing_overflows_at_the_lowest_temperatures() -> None:
    one, other = (prototypes(64, seed).float().requires_grad_() for seed in (0, 1))
    value = contrast(one, other, temperature=0.02)
    value.backward()
    assert torch.isfinite(value)
    for rows in (one, other):
        assert rows.grad is not None
        assert torch.isfinite(rows.grad).all()


def test_the_precision_of_products_elsewhere_is_left_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    contrast(prototypes(4, 0), prototypes(4, 1), temperature=0.1)
    assert torch.get_float32_matmul_precision() == before

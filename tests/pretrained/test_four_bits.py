"""Directions in four bits."""

import numpy as np
import pytest

from lmcells.pretrained.quantized import from_four_bits, to_four_bits


def prototypes(n: int, dim: int) -> np.ndarray:
    rows = np.random.default_rng(3).normal(size=(n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("dim", [100, 99, 12])
def test_a_direction_comes_back_nearly_where_it_was(dim: int) -> None:
    given = prototypes(500, dim)
    packed = to_four_bits(given)
    found = from_four_bits(packed, dim=dim)
    assert packed.shape == (500, (dim + 1) // 2)
    assert packed.dtype == np.uint8
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    cosines = (found * given).sum(axis=1)
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.93


def test_the_cosine_with_any_other_direction_errs_by_a_hundredth() -> None:
    given, others = prototypes(500, 100), prototypes(50, 100)[::-1]
    errors = from_four_bits(to_four_bits(given), dim=100) @ others.T - given @ others.T
    assert errors.std() < 0.012


def test_rounding_twice_is_rounding_once() -> None:
    """Up to the length, which is made 1 again: so most levels, not all, are the same."""
    once = from_four_bits(to_four_bits(prototypes(200, 100)), dim=100)
    twice = from_four_bits(to_four_bits(once), dim=100)
    assert (once * twice).sum(axis=1).min() > 0.98


def test_no_directions_are_no_bytes() -> None:
    assert from_four_bits(to_four_bits(np.zeros((0, 7))), dim=7).shape == (0, 7)

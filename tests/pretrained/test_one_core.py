import numpy as np
import pytest

from lmcells.pretrained.layers import matmul_on_one_core, rows_on_one_core


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 11, 64])
def test_a_product_in_pieces_is_the_product(n_rows: int) -> None:
    random = np.random.default_rng(n_rows)
    left = random.normal(size=(n_rows, 100)).astype(np.float32)
    right = random.normal(size=(2, 100, 256)).astype(np.float32)
    np.testing.assert_allclose(matmul_on_one_core(left, right), left @ right, rtol=1e-4, atol=1e-4)


def test_even_the_widest_product_has_a_row() -> None:
    assert rows_on_one_core(64, 64) == 64
    assert rows_on_one_core(10_000, 10_000) == 1

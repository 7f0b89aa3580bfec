"""Tables in eight bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lmcells.pretrained.quantized import SCALE, expanded, from_eight_bits, to_eight_bits


@given(
    arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-50, 50, width=32)
    )
)
def test_every_number_comes_back_within_a_level_of_its_row(rows: np.ndarray) -> None:
    levels, scale = to_eight_bits(rows)
    back = from_eight_bits(levels, scale)
    level = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, 1e-4)
    assert levels.dtype == np.int8
    assert (np.abs(back - rows) <= 0.6 * level).all()


def test_only_tables_with_a_scale_are_expanded() -> None:
    rows = np.array([[1.0, -2.0], [0.0, 0.0]], np.float32)
    levels, scale = to_eight_bits(rows)
    found = expanded({"table": levels, "table" + SCALE: scale, "bias": rows[0]})
    assert set(found) == {"table", "bias"}
    np.testing.assert_allclose(found["table"], rows, atol=0.01)
    assert found["bias"] is not None

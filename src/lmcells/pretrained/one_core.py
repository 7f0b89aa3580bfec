"""Matrix products in pieces so small that OpenBLAS computes each on one core.

It takes threads for products of more than 2^18 multiplications, and its threads wait for each other by spinning: where
another process wants a core too, that was measured to make the network six times slower. Cores are better used by
running several batches, each on its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_MOST = 1 << 18  # multiplications in one product: OpenBLAS' SMP_THRESHOLD_MIN * GEMM_MULTITHREAD_THRESHOLD


def rows_on_one_core(width: int, out: int) -> int:
    """How many rows (n, width) @ (width, out) may have."""
    return max(1, _MOST // max(1, width * out))


def matmul_on_one_core(left: npt.NDArray[Any], right: Floats) -> Floats:
    """(n, k), (..., k, m) -> (..., n, m)."""
    rows = rows_on_one_core(*right.shape[-2:])
    out = np.empty((*right.shape[:-2], left.shape[0], right.shape[-1]), np.float32)
    for first in range(0, left.shape[0], rows):
        piece = slice(first, first + rows)
        np.matmul(left[piece], right, out=out[..., piece, :])
    return out

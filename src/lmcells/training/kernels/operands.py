"""What all kernels share: the width of rows, the precision of operands, and dropout whose mask is never stored.

Operands of matrix products are bf16 and results float32. Triton's interpreter (TRITON_INTERPRET=1), which runs the
kernels on the CPU, has no inline assembly, and its `tl.dot` multiplies bf16 as if their bits were integers: there
operands are float32 and `tanh` is a formula.
"""

import math
import os
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
NARROW = torch.float32 if INTERPRETED else torch.bfloat16  # dtype of operands
HIDDEN = 64  # units of the LSTM in each direction, and of the model network
WIDTH = 128  # columns of every row, zero-padded: the sides of a tile are powers of two

# The sum over rows in a weight's gradient is split into parts, each a matrix product of its own.
_PART_ROWS = 1024  # at least
_N_PARTS = 64  # at most


def product_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """left' right in float32, summed over all leading rows, in parts that keep the whole GPU busy."""
    left, right = left.flatten(0, -2), right.flatten(0, -2)
    n_parts = math.gcd(_N_PARTS, left.shape[0])
    while n_parts > 1 and left.shape[0] < n_parts * _PART_ROWS:
        n_parts //= 2
    left = left.unflatten(0, (n_parts, -1)).transpose(1, 2)
    return torch.bmm(left, right.unflatten(0, (n_parts, -1))).sum(dim=0, dtype=torch.float32)


def narrow_autocast(device: torch.device) -> torch.autocast:
    """Run torch's own operations in the precision of the operands, as a context manager."""
    return torch.autocast(device.type, torch.bfloat16, enabled=not INTERPRETED)


@dataclass(frozen=True, slots=True)
class Dropout:
    """A dropout whose mask the kernels recompute where they need it, from the step's seed: (1,) int32."""

    rate: float
    seed: Tensor


def seed_and_constants(
    dropout: Dropout | None, *, unread: Tensor, prefix: str = ""
) -> tuple[Tensor, dict[str, float]]:
    """A dropout as arguments of a launch; without one, the kernel gets `unread` as its seed.

    An element is dropped if its hash is below THRESHOLD.
    """
    if dropout is None:
        return unread, {f"{prefix}THRESHOLD": 0, f"{prefix}SCALE": 1.0}
    threshold = round(dropout.rate * 2**32)
    return dropout.seed, {f"{prefix}THRESHOLD": threshold, f"{prefix}SCALE": 1 / (1 - dropout.rate)}


@triton.jit
def kept(index, seed, THRESHOLD: tl.constexpr):
    """Whether dropout keeps an element: a hash of its index and the step's seed, recomputed in backward.

    The mixer is Wellons' lowbias32; for dropout it is enough that neighbours look independent.
    """
    mixed = (index.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return mixed >= THRESHOLD


@triton.jit
def load_rows(
    table, id_of_row, row, there, width: tl.constexpr, seed_of_step, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of a table (V, width) as a tile, dropped out, zero where not `there`: (ROWS,) ids -> (ROWS, WIDTH).

    A width known to the compiler lets it load four columns at once; so does reading what dropout leaves out.
    """
    column = tl.arange(0, WIDTH)
    mask = there[:, None] & (column < width)[None, :]
    at = id_of_row.to(tl.int64)[:, None] * width + column[None, :]
    values = tl.load(table + at, mask=mask, other=0.0) * SCALE
    if THRESHOLD > 0:
        is_kept = kept(row[:, None] * WIDTH + column[None, :], tl.load(seed_of_step), THRESHOLD)
        values = tl.where(is_kept, values, 0.0)
    return values


@triton.jit
def tile_of_program(n_rows, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows, whether each exists, columns, and the elements' offsets: (ROWS,), (ROWS,), (WIDTH,), (ROWS, WIDTH)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    return row, row < n_rows, column, row[:, None] * WIDTH + column[None, :]


@triton.jit
def exact_tanh(x):
    return 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)


@triton.jit
def head_weights(weight, v_weight, unit, column, width, DIM: tl.constexpr):
    """Both heads' weights, [mean ; log-variance ; zeros]: unit (..K..), column (..128..), broadcast."""
    there = unit < width
    weights = tl.load(weight + column * width + unit, mask=there & (column < DIM), other=0.0)
    return weights + tl.load(v_weight + unit + column * 0, mask=there & (column == DIM), other=0.0)


@triton.jit
def head_bias(bias, v_bias, column, DIM: tl.constexpr):
    return tl.load(bias + column, mask=column < DIM, other=0.0) + tl.where(
        column == DIM, tl.load(v_bias), 0.0
    )

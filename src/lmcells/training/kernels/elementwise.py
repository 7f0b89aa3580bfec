"""Small device functions that several kernels share."""

import os

import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run on the CPU, to be checked where there is no GPU; it knows no inline assembly."""


def drop_threshold(rate: float) -> int:
    """The hash value below which an element is dropped, so that `rate` of all are."""
    return round(rate * 2**32)


@triton.jit
def kept(index, seed, THRESHOLD: tl.constexpr):
    """Dropout that is nowhere stored: a hash of the element's index and the step's seed, redone in backward.

    The mixer is Wellons' lowbias32; dropout asks for no more than that neighbours look independent.
    """
    mixed = (index.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    mixed = mixed ^ (mixed >> 16)
    return mixed >= THRESHOLD


@triton.jit
def tanh(x, INTERPRETED: tl.constexpr):
    """One instruction, exact to 2^-11: better than the bf16 around it."""
    if INTERPRETED:
        result = 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)
    else:
        result = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@triton.jit
def sigmoid(x, INTERPRETED: tl.constexpr):
    return 0.5 * tanh(0.5 * x, INTERPRETED) + 0.5

"""Where float32 is needed: divergences cancel in bf16, so they are computed outside autocast."""

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """Return bf16 and fp16 as float32; float32 and float64 as they are."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def full_precision(like: Tensor) -> torch.autocast:
    """Switch autocast off on the device of `like`, as a context manager."""
    return torch.autocast(device_type=like.device.type, enabled=False)

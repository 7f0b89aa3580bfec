"""Which numbers a run computes with."""

import torch

from lmcells.errors import ConfigError


def uses_bf16(precision: str, device: torch.device) -> bool:
    """Whether networks run in bf16: where it is asked for, and by default on CUDA; never on the CPU."""
    if precision == "bf16" and device.type == "cpu":
        raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
    return precision == "bf16" or (precision == "auto" and device.type == "cuda")

"""The training step of the LMC in Triton kernels: the same loss and gradients as the model's own, faster.

Nothing here is imported unless a CUDA device and Triton are there: ask `kernels_available()` first, then
import `FusedLoss` from `lmcells.training.kernels.loss`.
"""

from importlib.util import find_spec

import torch


def kernels_available(device: torch.device | str = "cuda") -> bool:
    """Whether `device` can run the kernels: a CUDA device, and Triton to compile for it."""
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        return False
    return find_spec("triton") is not None


__all__ = ["kernels_available"]

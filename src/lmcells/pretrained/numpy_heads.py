"""Isotropic Gaussians in numpy, and the heads that make them from a hidden state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.pretrained.one_core import Floats, matmul_on_one_core


@dataclass(frozen=True, slots=True)
class NumpyGaussian:
    """N(mean, v I), one or many; see `lmcells.model.Gaussian`."""

    mean: Floats  # (..., d)
    log_variance: Floats  # (...)


class NumpyHeads:
    """Two linear heads, mean (d) and log-variance (1), as one product."""

    def __init__(self, weight: Floats, bias: Floats) -> None:
        self._weight = weight  # (H, d + 1)
        self._bias = bias  # (d + 1,)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take `heads.mean` and `heads.log_variance`, weight and bias each."""
        weight, bias = (
            np.concatenate(
                [np.asarray(arrays[f"heads.{head}.{part}"], np.float32) for head in ("mean", "log_variance")]
            )
            for part in ("weight", "bias")
        )
        return cls(np.ascontiguousarray(weight.T), bias)

    def __call__(self, hidden: Floats) -> NumpyGaussian:
        """(..., H) -> a Gaussian each."""
        out = matmul_on_one_core(hidden.reshape(-1, hidden.shape[-1]), self._weight)
        out += self._bias
        out = out.reshape(*hidden.shape[:-1], self._bias.size)  # (..., d + 1)
        return NumpyGaussian(out[..., :-1], out[..., -1])

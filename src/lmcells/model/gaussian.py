"""The isotropic Gaussian, and the divergence between two of them: in float32, since its terms nearly cancel."""

from dataclasses import dataclass

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """Return bf16 and fp16 as float32; float32 and float64 unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def full_precision(like: Tensor) -> torch.autocast:
    """Switch autocast off on the device of `like`, as a context manager."""
    return torch.autocast(device_type=like.device.type, enabled=False)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(mean, v I), one or a batch of them; the scalar is the logarithm of the *variance* v."""

    mean: Tensor  # (..., d)
    log_variance: Tensor  # (...)

    def __post_init__(self) -> None:
        if self.log_variance.shape != self.mean.shape[:-1]:
            raise ValueError(
                f"log_variance has shape {tuple(self.log_variance.shape)}; a mean of shape "
                f"{tuple(self.mean.shape)} needs {tuple(self.mean.shape[:-1])}."
            )

    @property
    def dim(self) -> int:
        return self.mean.shape[-1]

    def at_least_float32(self) -> "Gaussian":
        return Gaussian(at_least_float32(self.mean), at_least_float32(self.log_variance))


def kl_divergence(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q || p) in nats, batch dimensions broadcast: (..., d) and (..., d) -> (...).

    1/2 ( d v_q/v_p + |mu_q - mu_p|^2 / v_p - d + d log(v_p / v_q) ), computed in float32 or better. The
    variances meet only as the difference r of their logarithms: exp(r) - 1 - r does not cancel near zero, and
    nothing overflows in float32 while log-variances stay within +-40.
    """
    q, p = q.at_least_float32(), p.at_least_float32()
    ratio = q.log_variance - p.log_variance
    distance = (q.mean - p.mean).square().sum(dim=-1)  # (..., d) -> (...)
    return 0.5 * (q.dim * (torch.expm1(ratio) - ratio) + distance * torch.exp(-p.log_variance))

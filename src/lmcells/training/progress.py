"""What a run says about itself while it goes on."""

import resource
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A report: means over the centers since the last one, and where the run stands."""

    step: int
    n_steps: int
    epoch: int  # from 1
    n_epochs: int
    centers: int  # so far, of all processes
    centers_per_second: float
    reconstruction: float  # the hinge, a center
    prior_divergence: float  # KL(q || p), a center
    agreement: float | None  # None when the term is off
    gradient_norm: float  # before clipping, the mean over steps
    seconds: float  # of training so far, over all resumptions
    seconds_left: float
    peak_memory: int  # bytes, of this process' device

    def losses(self) -> dict[str, float]:
        """The parts of the loss by name."""
        parts = {"reconstruction": self.reconstruction, "prior_divergence": self.prior_divergence}
        return parts if self.agreement is None else {**parts, "agreement": self.agreement}

    def to_metrics(self) -> dict[str, Any]:
        """The line of metrics.jsonl: what a later reader needs."""
        skipped = ("n_steps", "n_epochs", "seconds_left")
        return {name: value for name, value in asdict(self).items() if name not in skipped}


def peak_memory(device: torch.device) -> int:
    """The most bytes that were in use at once: of a GPU its tensors, otherwise the process' resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

"""The LMC's training step in Triton kernels, and a whole step as one CUDA graph.

**What the kernels must equal.** `kernels.loss.FusedLoss(model)` is `LatentMeaningCells.loss` and `.posterior` of
`lmcells.model`: the same losses and the same gradient of every parameter. Dropout is applied to the same layers, but in
the moment table's hidden layer it is drawn for each drawn section. On a GPU, where operands are rounded to
bf16 and TF32, relative errors stay below 1 % (losses) and 3 % (gradients); under Triton's interpreter, in float32,
below 0.01 %. `tests/training/test_kernels.py` holds them to it, as `tests/model/test_objective.py` holds the model to
the paper's formulas written as loops.

Nothing in this file needs Triton, but the kernels do: call `kernels_available()` before importing `FusedLoss` from
`lmcells.training.kernels.loss`.
"""

from collections.abc import Callable, Iterable
from importlib.util import find_spec

import torch


def kernels_available(device: torch.device | str = "cuda") -> bool:
    """Whether `device` can run the kernels: a CUDA device, and Triton to compile for it."""
    return (
        torch.device(device).type == "cuda" and torch.cuda.is_available() and find_spec("triton") is not None
    )


def run_aside(step: Callable[[], None]) -> None:
    """Run a step on a side stream: a graph that is captured later must not depend on the default stream."""
    before, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(before)
    with torch.cuda.stream(aside):
        step()
    before.wait_stream(aside)


class CapturedStep:
    """A training step as one CUDA graph: one launch instead of hundreds, and no gaps between them.

    `step` takes no arguments, and reads and writes tensors that stay at their addresses. It must not wait for the
    device, and its optimiser must be `capturable`. Random numbers from `generators` and from torch's own CUDA generator
    advance with each replay as they would without a graph. The warm-up steps are real: they update the parameters.
    """

    def __init__(
        self, step: Callable[[], None], *, generators: Iterable[torch.Generator] = (), n_warm_up: int = 3
    ) -> None:
        for _ in range(n_warm_up):
            run_aside(step)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph):
            step()

    def __call__(self) -> None:
        self._graph.replay()

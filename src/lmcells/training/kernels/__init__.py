"""The LMC's training step in Triton kernels, and a whole step as one CUDA graph.

**What the kernels must equal.** `kernels.loss.FusedLoss(model)` is `LatentMeaningCells.loss` and `.posterior` of
`lmcells.model`: the same losses and the same gradient of every parameter. Dropout is applied to the same layers, but in
the moment table's hidden layer it is drawn for each drawn section. On a GPU, where operands are rounded to
bf16 and TF32, relative errors stay below 1 % (losses) and 3 % (gradients); under Triton's interpreter, in float32,
below 0.01 %. `tests/training/test_kernels.py` holds them to it, as `tests/model/test_objective.py` holds the model to
the paper's formulas written as loops.

**Branches.** Kernels of a small batch leave most of the GPU idle, so parts of a step that do not need each other run
side by side (`beside`, `join`): the moment table beside the LSTM, forward and back; sorts of ids beside both; rows of
Adam that a step does not read beside all of it. The values are the same as one after another.

Nothing in this file needs Triton, but the kernels do: call `kernels_available()` before importing `FusedLoss` from
`lmcells.training.kernels.loss`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

# The branches of a step. Forward: the moment table; sorts of sections, of words and of metadata; what only weights
# decide. Backward: gradients of the model network's words; of its sections; of its weights; of other weights, on two.
# Adam's rows that are not read.
TABLE, SECTIONS, GROUPS, METADATA, WEIGHTS, ADAM = range(6)
# Priorities of streams. The LSTM, on the step's own stream, goes first: what follows it then runs beside the table.
FIRST, URGENT, LAST = -2, -1, 0


def kernels_available(device: torch.device | str = "cuda") -> bool:
    """Whether `device` can run the kernels: a CUDA device, and Triton to compile for it."""
    return (
        torch.device(device).type == "cuda" and torch.cuda.is_available() and find_spec("triton") is not None
    )


@cache
def _stream_of(branch: int, device: torch.device) -> torch.cuda.Stream:
    """Adam's branch gets what the others leave of the device."""
    return torch.cuda.Stream(device, priority=LAST if branch == ADAM else URGENT)


@contextmanager
def beside(branch: int, *read: Tensor) -> Iterator[None]:
    """Launch what follows on a branch, after all that this stream has launched so far; on a CPU, just run it.

    `read` are the tensors that the branch reads and nobody keeps until it is joined; the first says which device.
    """
    if not read[0].is_cuda:
        yield
        return
    stream = _stream_of(branch, read[0].device)
    stream.wait_stream(torch.cuda.current_stream())
    for tensor in read:
        tensor.record_stream(stream)
    with torch.cuda.stream(stream):
        yield


def join(branch: int, *made: Tensor) -> None:
    """Let this stream wait for what a branch has launched so far, and read the tensors it `made`."""
    if made[0].is_cuda:
        here = torch.cuda.current_stream()
        here.wait_stream(_stream_of(branch, made[0].device))
        for tensor in made:
            tensor.record_stream(here)


def on_branch(branch: int, *parameters: Tensor) -> tuple[Tensor, ...]:
    """The parameters, whose gradients a backward makes on a branch: autograd then collects them there."""
    is_cuda, device = parameters[0].is_cuda, parameters[0].device
    with torch.cuda.stream(_stream_of(branch, device)) if is_cuda else nullcontext():
        collected: tuple[Tensor, ...] = _Collected.apply(*parameters)
    return collected


class _Collected(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, *parameters):
        return tuple(each.view_as(each) for each in parameters)

    @staticmethod
    def backward(_ctx, *gradients):
        return gradients


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
        with torch.cuda.graph(self._graph, stream=torch.cuda.Stream(priority=FIRST)):
            step()

    def __call__(self) -> None:
        self._graph.replay()

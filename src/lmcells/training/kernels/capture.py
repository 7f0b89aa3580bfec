"""A whole training step as one CUDA graph: hundreds of launches become one, and the gaps between them go."""

from collections.abc import Callable, Iterable

import torch


class CapturedStep:
    """Replays `step`: a function of no arguments that reads and writes tensors which stay where they are.

    It must not wait for the device, and its optimiser must be `capturable`. Random numbers from `generators` and
    from torch's own CUDA generator go on from replay to replay as they would without a graph. The warm-up steps
    are real ones: they move the parameters.
    """

    def __init__(
        self, step: Callable[[], None], *, generators: Iterable[torch.Generator] = (), n_warm_up: int = 3
    ) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(n_warm_up):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph):
            step()

    def __call__(self) -> None:
        self._graph.replay()

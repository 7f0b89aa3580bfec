"""The steps of a run on a GPU as one CUDA graph: without it, launching hundreds of kernels takes most of a step."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from lmcells.training.kernels.capture import CapturedStep
from lmcells.training.shard_reader import Centers

_N_PLAIN = 3  # the first steps compile kernels and create the optimiser's state, which a graph cannot hold


class StepGraph:
    """Takes steps by replaying a graph; each chunk of the corpus, having tensors of its own, has its own graph."""

    def __init__(
        self, move: Callable[[list[Centers]], None], *, generators: Iterable[torch.Generator]
    ) -> None:
        self._move = move
        self._generators = list(generators)
        self._n_plain = _N_PLAIN
        self._fixed: Centers | None = None
        self._captured: CapturedStep | None = None

    def step(self, centers: Centers) -> None:
        """Take one step at the given centers."""
        if self._n_plain:
            self._n_plain -= 1
            with _aside():
                self._move([centers])
            return
        if self._fixed is None or self._fixed.source is not centers.source:
            self._capture(centers)
        assert self._fixed is not None
        assert self._captured is not None
        self._fixed.places.copy_(centers.places)
        self._fixed.present.copy_(centers.present)
        self._captured()

    def _capture(self, centers: Centers) -> None:
        fixed = Centers(centers.source, centers.places.clone(), centers.present.clone(), centers.n_present)
        self._fixed, self._captured = fixed, None  # the graph before it gives back its memory first
        self._captured = CapturedStep(lambda: self._move([fixed]), generators=self._generators, n_warm_up=0)


@contextmanager
def _aside() -> Iterator[None]:
    """Work on another stream than the default one, which a graph that is captured later must not depend on."""
    before, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(before)
    with torch.cuda.stream(aside):
        yield
    before.wait_stream(aside)

"""One ranker on one dataset, from scores to a result."""

import time
from collections.abc import Sequence

from lmcells.evaluation.bootstrap import bootstrap_intervals
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.leakage import Leakage
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.rankers import NamedRanker
from lmcells.evaluation.results import ModelResult
from lmcells.expansion.inventory import SenseInventory


def run_model(
    named: NamedRanker,
    examples: Sequence[Example],
    inventory: SenseInventory,
    *,
    leakage: Leakage | None = None,
    seed: int = 0,
) -> ModelResult:
    """Score every example, measure, and put intervals around the metrics."""
    started = time.perf_counter()
    predictions = predict(named.name, named.ranker, examples, inventory)
    seconds = time.perf_counter() - started
    return ModelResult(
        model=named.name,
        predictions=predictions,
        metrics=measure(predictions),
        intervals=_intervals(predictions, seed=seed),
        n_parameters=named.n_parameters,
        hours_to_peak=named.hours_to_peak,
        seconds=seconds,
        contexts={example.id: example for example in examples},
        leakage=leakage,
        section_mapping={}
        if named.sections is None
        else {str(how): n for how, n in named.sections.counts.items()},
    )


def _intervals(predictions: Predictions, *, seed: int) -> dict[str, Interval]:
    """Bootstrap over notes; of one note there is nothing to draw from."""
    if not predictions.cluster.max(initial=0):
        return {}
    return bootstrap_intervals(predictions, seed=seed)

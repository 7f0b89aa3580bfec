"""One model on one dataset: all that the terminal, `--json` and the report show."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lmcells.evaluation.dataset import Example
from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.leakage import Leakage
from lmcells.evaluation.metrics import Metrics
from lmcells.evaluation.predictions import Predictions


@dataclass(frozen=True, eq=False)
class ModelResult:
    """What a model said, how good it was, and what it cost."""

    model: str
    predictions: Predictions = field(repr=False)
    metrics: Metrics
    intervals: dict[str, Interval]  # by the name of the metric; empty when all examples are of one note
    n_parameters: int | None  # without embeddings; None when the model has none
    hours_to_peak: float | None  # of training, where the model folder tells
    seconds: float  # to score all examples
    contexts: Mapping[str, Example] = field(repr=False)  # by example id; patient data
    leakage: Leakage | None = None  # None: there was no corpus to compare with
    section_mapping: Mapping[str, int] = field(default_factory=dict)  # how headers were mapped -> examples

    def to_json(self) -> dict[str, Any]:
        """One object of `lmcells evaluate --json`; never any note text."""
        return {
            "model": self.model,
            **self.metrics.to_json(),
            "intervals": {name: asdict(interval) for name, interval in self.intervals.items()},
            "n_parameters": self.n_parameters,
            "hours_to_peak": self.hours_to_peak,
            "seconds": self.seconds,
            "excluded": [asdict(exclusion) for exclusion in self.predictions.excluded],
            "section_mapping": dict(self.section_mapping),
            "leakage": None if self.leakage is None else self.leakage.to_json(),
        }

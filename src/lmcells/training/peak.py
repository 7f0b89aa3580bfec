"""When a run was at its best: the paper's hours of pre-training until the scores peak."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmcells.training.metrics import read_metrics

METRIC = "macro_f1"  # the headline of every table


@dataclass(frozen=True, slots=True)
class Peak:
    """The best of all evaluations of a run, and when it was reached."""

    metric: str
    score: float  # the mean over the datasets
    step: int
    hours: float  # of training; evaluations do not count

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def peak_of(output: Path, *, metric: str = METRIC) -> Peak | None:
    """The first of a run's best evaluations, over all resumptions, or None where it was never evaluated by it."""
    peak = None
    for line in read_metrics(output):
        datasets = [scores for scores in line.get("evaluation", {}).values() if isinstance(scores, dict)]
        found = [scores[metric] for scores in datasets if metric in scores]
        if not found:
            continue
        score = sum(found) / len(found)
        if peak is None or score > peak.score:
            peak = Peak(metric, score, line["step"], line["hours"])
    return peak

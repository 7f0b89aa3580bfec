"""What a model folder says about how its model was trained."""

from typing import Any, Protocol

from lmcells.training.loop import TrainingResult
from lmcells.training.peak import Peak
from lmcells.training.settings import TrainingSettings


class SeededSettings(Protocol):
    """Settings of a run of whatever kind."""

    @property
    def seed(self) -> int: ...
    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        ...


class FinishedRun(Protocol):
    """The result of a run of whatever kind."""

    @property
    def n_steps(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def made_with(self) -> dict[str, Any]: ...
    @property
    def peak(self) -> Peak | None: ...


def run_record(result: FinishedRun, *, settings: SeededSettings) -> dict[str, Any]:
    """What is known of every run: its settings, its corpus, how long it took, and when it was at its best."""
    peak = result.peak
    hours_to_peak = {} if peak is None else {"hours_to_peak": peak.hours, "peak": peak.to_dict()}
    return {
        "seed": settings.seed,
        "settings": settings.to_dict(),
        "corpus": result.made_with["corpus"]["fingerprint"],
        "steps": result.n_steps,
        "seconds": result.seconds,
        "hours": result.seconds / 3600,
        **hours_to_peak,
    }


def training_record(result: TrainingResult, *, settings: TrainingSettings) -> dict[str, Any]:
    """The record of a cell model, as plain data for JSON."""
    return {
        **run_record(result, settings=settings),
        "centers": result.n_centers,
        "losses": {} if result.last is None else result.last.losses(),
    }


def printed_record(record: dict[str, Any]) -> dict[str, Any]:
    """What a command prints of a record in the end: how it went, not what was asked for."""
    return {name: value for name, value in record.items() if name not in ("seed", "settings", "corpus")}

"""What every kind of run shares: step, report, evaluate, save, until there is no step left or somebody asks to stop."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.training.checkpoint import has_checkpoints
from lmcells.training.clock import Cadence
from lmcells.training.evaluations import EvaluatedRun, Evaluation, evaluated
from lmcells.training.failures import TrainingStopped
from lmcells.training.interruption import StopRequest
from lmcells.training.metrics import MetricsLog


class Rhythm(Protocol):
    """The settings that say how often something is done."""

    @property
    def checkpoint_minutes(self) -> float: ...
    @property
    def evaluate_minutes(self) -> float: ...
    @property
    def report_steps(self) -> int: ...


class Report(Protocol):
    """What a run says about itself."""

    def to_metrics(self) -> dict[str, Any]:
        """The line of metrics.jsonl."""
        ...


class DrivenRun(EvaluatedRun, Protocol):
    """A run that can be driven to its end."""

    output: Path

    @property
    def settings(self) -> Rhythm: ...

    def steps(self) -> Iterator[None]:
        """Train one step at a time, from where the run stands to its end."""
        ...


class Due(NamedTuple):
    """What the place where a run stands asks for, whatever the clock and the counters say."""

    report: bool
    evaluate: bool
    save: bool


R = TypeVar("R", bound=DrivenRun)
P = TypeVar("P", bound=Report)


def require_startable(corpus: Corpus, output: Path, *, resume: bool) -> None:
    """Refuse a corpus without tokens, and a folder that holds another run."""
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if not resume and has_checkpoints(output):
        raise ConfigError(f"{output} holds a run already. Go on with --resume, or write to another folder.")


def drive(
    run: R,
    stop: StopRequest,
    *,
    due: Callable[[R], Due],
    report: Callable[[R], P],
    save: Callable[[R], None],
    on_progress: Callable[[P], None] | None = None,
    evaluate: Evaluation | None = None,
) -> P | None:
    """Train until no step is left; -> the last report, if any step was left to do."""
    settings, is_main = run.settings, run.world.is_main
    run.model.train()
    run.clock.start()
    checkpoints = Cadence(run.clock, minutes=settings.checkpoint_minutes)
    evaluations = Cadence(run.clock, minutes=settings.evaluate_minutes)
    last = None
    with MetricsLog(run.output, from_step=run.step) if is_main else nullcontext() as metrics:
        for _ in run.steps():
            place = due(run)
            stopping, saving, evaluating = _agreed(
                run, place, stop.received is not None, checkpoints.is_due, evaluations.is_due
            )
            saving = saving or stopping or place.save
            evaluating = evaluate is not None and (evaluating or place.evaluate)
            if saving or evaluating or place.report or run.step % settings.report_steps == 0:
                last = report(run)
                if metrics is not None:
                    metrics.write(last.to_metrics())
                if on_progress is not None and is_main:
                    on_progress(last)
            if evaluating:
                if evaluate is not None and metrics is not None:
                    metrics.write(evaluated(run, evaluate))
                evaluations.restart()
            if saving:
                save(run)
                checkpoints.restart()
            if stopping:
                name = stop.received.name if stop.received else "a signal to another process"
                raise TrainingStopped(
                    f"stopped by {name} at step {run.step:,}; go on with --resume and the same settings."
                )
    return last


def _agreed(run: DrivenRun, place: Due, *wishes: bool) -> tuple[bool, ...]:
    """What any process wants, all do. On GPUs they ask each other only when they report: it takes a wait."""
    if run.world.size == 1:
        return wishes
    if run.world.device.type == "cuda" and run.step % run.settings.report_steps and not place.report:
        return tuple(False for _ in wishes)
    return tuple(run.world.largest(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())

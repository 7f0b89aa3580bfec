"""Training a cell model until all epochs are done or somebody asks to stop."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import nn

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.model import CellModel, ModelConfig
from lmcells.training.checkpoint import has_checkpoints, restore_run, save_run
from lmcells.training.distributed import World, joined, own_randomness
from lmcells.training.progress import (
    Cadence,
    Clock,
    MetricsLog,
    Peak,
    Progress,
    TrainingStopped,
    peak_memory,
    peak_of,
    require_finite,
)
from lmcells.training.run import Run
from lmcells.training.settings import TrainingSettings

# Ending a run at a good moment when a signal asks for it.


SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Remembers the first SIGTERM or SIGINT while it is open; a second one acts as it always does.

    Outside the main thread, where Python allows no handlers, it never hears anything.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()


# Scores of a model while it trains, from whoever evaluates it.


Evaluation = Callable[[Any, float], Mapping[str, Any]]
"""The model, of whatever kind, and the hours it was trained -> scores."""


class EvaluatedRun(Protocol):
    """A run whose model can be evaluated."""

    step: int
    clock: Clock
    world: World

    @property
    def model(self) -> nn.Module: ...


def evaluated(run: EvaluatedRun, evaluate: Evaluation) -> dict[str, Any]:
    """Ask the hook; neither its time nor its randomness is part of the run."""
    hours = run.clock.seconds / 3600
    run.model.eval()
    with run.clock.paused(), own_randomness(run.world.device), torch.no_grad():
        scores = dict(evaluate(run.model, hours))
    run.model.train()
    return {"step": run.step, "hours": hours, "evaluation": scores}


# What a run of a cell model reports while it goes on.


def report(run: Run) -> Progress:
    """Read the losses from the device, and see that they are numbers."""
    means = run.totals.read(run.world, n_shards=run.n_shards)
    seconds, passed = run.clock.lap()
    require_finite(
        {
            "reconstruction": means.reconstruction,
            "prior divergence": means.prior_divergence,
            "contrastive": means.contrastive,
            "gradient norm": means.gradient_norm,
        },
        step=run.step,
        advice="Lower training.learning_rate or set training.gradient_clip",
    )
    per_second = means.n_rows / max(passed, 1e-9)
    left = run.settings.epochs * run.centers_per_epoch - run.centers
    return Progress(
        step=run.step,
        n_steps=run.settings.epochs * run.steps_per_epoch,
        epoch=run.epoch + 1 if run.step_in_epoch else run.epoch,
        n_epochs=run.settings.epochs,
        centers=run.centers,
        centers_per_second=per_second,
        reconstruction=means.reconstruction,
        prior_divergence=means.prior_divergence,
        contrastive=means.contrastive if run.settings.n_contrastive_spans else None,
        gradient_norm=means.gradient_norm,
        seconds=seconds,
        seconds_left=left / per_second,
        peak_memory=peak_memory(run.world.device),
    )


# What every kind of run shares: step, report, evaluate, save, until there is no step left or somebody asks to stop.


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


# Training a cell model until all epochs are done or somebody asks to stop.


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A trained model, in evaluation mode, and how it came about."""

    model: CellModel
    n_steps: int
    n_centers: int
    seconds: float
    made_with: dict[str, Any]
    last: Progress | None  # None where there was nothing left to do
    peak: Peak | None  # None where it was not evaluated


def train(
    corpus: Corpus,
    *,
    model_config: ModelConfig,
    settings: TrainingSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    evaluate: Evaluation | None = None,
) -> TrainingResult:
    """Train a model on a corpus; checkpoints and metrics.jsonl are written to `output`.

    With `resume` a run goes on from its newest whole checkpoint, or starts if there is none; on the CPU it then
    ends with the same numbers, bit for bit, as if it had never stopped. SIGTERM and SIGINT write a checkpoint and
    raise TrainingStopped. `evaluate` is called while training, on the main process; what it returns is logged.
    The global random state is left as it was.
    """
    require_startable(corpus, output, resume=resume)
    with joined(device) as world, own_randomness(world.device), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = Run(corpus, config=model_config, settings=settings, world=world, output=output)
        if resume:
            restore_run(run)
        last = drive(
            run, stop, due=_due, report=report, save=save_run, on_progress=on_progress, evaluate=evaluate
        )
        run.model.eval()
        return TrainingResult(
            run.model,
            run.step,
            run.centers,
            run.clock.seconds,
            made_with=run.identity,
            last=last,
            peak=peak_of(output),
        )


def _due(run: Run) -> Due:
    """The end of an epoch asks for everything."""
    epoch_is_done = run.step_in_epoch == 0
    return Due(report=epoch_is_done, evaluate=epoch_is_done, save=epoch_is_done)


# What a model folder says about how its model was trained.


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

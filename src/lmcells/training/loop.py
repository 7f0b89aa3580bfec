"""The training loop of cell models and of language models: step, report, evaluate, save, until the end or a signal.

A `Task` says what is trained: its batches, its loss, and what is checked. Everything else is the same for all.
"""

import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.training.checkpoint import FOLDER, has_checkpoints, restore_task, save_task
from lmcells.training.distributed import World, join_world, own_randomness
from lmcells.training.metrics import (
    METRICS,
    TENSORBOARD,
    MetricsLog,
    Peak,
    Progress,
    TrainingStopped,
    find_peak,
    peak_memory,
    require_finite,
)
from lmcells.training.settings import MAY_CHANGE, LoopSettings

M = TypeVar("M", bound=nn.Module)
B = TypeVar("B")

Evaluation = Callable[[Any, float], Mapping[str, Any]]
"""The model, of whatever kind, and the hours it was trained -> scores."""


class StopRequest:
    """Remembers the first SIGTERM or SIGINT while it is open; a second one acts as usual.

    Python allows signal handlers in the main thread only; in any other it never hears anything.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self.__exit__()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            signals = (signal.SIGTERM, signal.SIGINT)
            self._previous = {number: signal.signal(number, self._on_signal) for number in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class Clock:
    """Seconds of training, over all resumptions, without pauses."""

    def __init__(self, seconds_before: float = 0.0) -> None:
        self._before, self._started = seconds_before, time.monotonic()

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


class Timer:
    """Is due every so many minutes of a clock; never, if they are 0."""

    def __init__(self, clock: Clock, *, minutes: float) -> None:
        self._clock, self._minutes, self._last = clock, minutes, clock.seconds

    @property
    def is_due(self) -> bool:
        return self._minutes > 0 and self._clock.seconds - self._last >= 60 * self._minutes

    def restart(self) -> None:
        self._last = self._clock.seconds


def clip_gradients(parameters: Iterable[nn.Parameter], *, max_norm: float) -> Tensor:
    """Scale all gradients down to a joint norm of at most `max_norm`, unless it is 0; return the norm before.

    It never waits for the device.
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if max_norm > 0:
        clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


class Task(ABC, Generic[M, B]):
    """What is trained: a model with its optimizer, the batches of an epoch, and a step on one.

    `epoch` and `step_in_epoch` say where the next step begins, from 0; `step` and `n_examples` what was done.
    """

    unit: ClassVar[str]  # what is counted: centers or words
    loss_names: ClassVar[tuple[str, ...]]
    saves_at_checks: ClassVar[
        bool
    ]  # and evaluates; otherwise only as the settings' minutes say, and at the end
    steps_per_epoch: int
    examples_per_epoch: int | None = None  # None where the end is not known

    def __init__(
        self,
        corpus: Corpus,
        model: M,
        *,
        settings: LoopSettings,
        world: World,
        identity: Mapping[str, Any],
    ) -> None:
        """`identity` is what must be the same to resume, beside the settings, the corpus and the device."""
        self.model, self.settings, self.world = model, settings, world
        device = world.device
        training = {name: value for name, value in settings.to_dict().items() if name not in MAY_CHANGE}
        self.identity = {
            **identity,
            "training": training | identity.get("training", {}),
            "corpus": {"fingerprint": corpus.manifest.fingerprint},
            "device": {"type": device.type},
        }
        if settings.precision == "bf16" and device.type == "cpu":
            raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
        self.uses_bf16 = settings.precision != "float32" and device.type == "cuda"
        # One fused pass over all parameters, in a form that a CUDA graph can hold.
        rate = torch.tensor(settings.learning_rate, device=device)
        is_cuda = device.type == "cuda"
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=is_cuda)
        self.step, self.epoch, self.step_in_epoch, self.n_examples = 0, 0, 0, 0
        self.clock = Clock()
        # Sums since the last report stay on the device, so that no step waits to read them; the norm comes last.
        self.sums = torch.zeros(len(self.loss_names) + 1, dtype=torch.float64, device=device)
        self._reported = (0, 0, 0.0)  # step, examples and seconds of the last report

    @abstractmethod
    def batches(self) -> Iterator[B]:
        """The batches of this epoch from `step_in_epoch` on."""

    @abstractmethod
    def train_on(self, batch: B) -> int:
        """Take one step and add its losses to `sums`; -> how many examples it had."""

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """Of the next step."""

    @abstractmethod
    def mean_losses(self, sums: list[float], *, n_steps: int, n_examples: int) -> dict[str, float | None]:
        """The losses of a report by name, from sums over these steps and examples of all processes."""

    @abstractmethod
    def outcome(self, last: Progress | None) -> dict[str, Any]:
        """What this kind of task adds to the record of a finished run."""

    @abstractmethod
    def own_state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps beside model, optimizer and dropout; every process takes part."""

    @abstractmethod
    def restore_own_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `own_state` returned."""

    def check(self) -> bool:
        """Called after each step; -> whether it is followed by a report, and perhaps an evaluation and a checkpoint."""
        return self.step_in_epoch == 0

    @property
    def held_out_losses(self) -> dict[str, float]:
        """What the last check found, for the report."""
        return {}

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self.epoch >= self.settings.epochs

    def final_model(self) -> M:
        """The trained model, in evaluation mode."""
        return self.model.eval()

    def peak(self, output: Path) -> Peak | None:
        """When the run was at its best."""
        return find_peak(output)

    def steps(self) -> Iterator[bool]:
        """Train one step at a time to the end; -> whether it was followed by a check."""
        while not self.is_over:
            for batch in self.batches():
                self.optimizer.param_groups[0]["lr"].fill_(self.learning_rate)
                self.n_examples += self.train_on(batch)
                self.step += 1
                self.step_in_epoch += 1
                if self.step_in_epoch == self.steps_per_epoch:
                    self.epoch, self.step_in_epoch = self.epoch + 1, 0
                yield self.check()
                if self.is_over:
                    return

    def apply_gradients(self) -> None:
        """Clip the gradients and let Adam take its step; it never waits for the device."""
        self.sums[-1] += clip_gradients(self.model.parameters(), max_norm=self.settings.gradient_clip)
        self.optimizer.step()

    def autocast(self) -> torch.autocast:
        """bf16 for what runs inside, where the settings and the device say so."""
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.uses_bf16)

    def report(self) -> Progress:
        """Read the losses from the device, and see that they are numbers."""
        *sums, norm = self.world.sum(self.sums).tolist()
        self.sums.zero_()
        now, settings, per_epoch = self.clock.seconds, self.settings, self.examples_per_epoch
        step, n_examples, seconds = self._reported
        self._reported = (self.step, self.n_examples, now)
        n_steps, n_examples = self.step - step, self.n_examples - n_examples
        per_second = n_examples / max(now - seconds, 1e-9)
        losses = self.mean_losses(sums, n_steps=max(n_steps, 1), n_examples=max(n_examples, 1))
        gradient_norm = norm / (max(n_steps, 1) * self.world.size)
        require_finite({**losses, "gradient norm": gradient_norm}, step=self.step)
        return Progress(
            step=self.step,
            n_steps=None if per_epoch is None else settings.epochs * self.steps_per_epoch,
            epoch=self.epoch + 1 if self.step_in_epoch else self.epoch,
            n_epochs=settings.epochs,
            unit=self.unit,
            n_examples=self.n_examples,
            examples_per_second=per_second,
            losses=losses | self.held_out_losses,
            gradient_norm=gradient_norm,
            learning_rate=self.learning_rate,
            seconds=now,
            seconds_left=per_epoch and (settings.epochs * per_epoch - self.n_examples) / per_second,
            peak_memory=peak_memory(self.world.device),
        )

    def resume_at(
        self, *, step: int, epoch: int, step_in_epoch: int, n_examples: int, seconds: float
    ) -> None:
        """Go to where a checkpoint was written."""
        self.step, self.epoch, self.step_in_epoch, self.n_examples = step, epoch, step_in_epoch, n_examples
        self.clock = Clock(seconds)
        self._reported = (step, n_examples, seconds)


@dataclass(frozen=True, slots=True)
class TrainingResult(Generic[M]):
    """A trained model, in evaluation mode, and how it came about."""

    model: M
    record: dict[str, Any]  # what the model folder says about the training: plain data for JSON
    last: Progress | None  # None where there was nothing left to do


def run_task(
    create_task: Callable[[World], Task[M, Any]],
    corpus: Corpus,
    *,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    evaluate: Evaluation | None = None,
) -> TrainingResult[M]:
    """Train until the task is over; checkpoints and metrics.jsonl are written to `output`.

    With `resume` a run goes on from its newest complete checkpoint, or starts if there is none; on the CPU it then
    ends with the same numbers, bit for bit, as if it had never stopped. With `overwrite` an earlier run in `output`
    is removed. SIGTERM and SIGINT write a checkpoint and raise TrainingStopped. `evaluate` is called while
    training, on the main process; what it returns is logged. The global random state is left as it was.
    """
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if not resume and not overwrite and has_checkpoints(output):
        raise ConfigError(
            f"{output} holds a run already. Continue with --resume, replace it with --overwrite, or write to "
            "another folder."
        )
    with join_world(device) as world, own_randomness(world.device), StopRequest() as stop:
        task = create_task(world)
        if overwrite and world.is_main:
            _remove_run(output)
        output.mkdir(parents=True, exist_ok=True)
        if resume:
            restore_task(task, output)
        last = _loop(task, output, stop, on_progress=on_progress, evaluate=evaluate)
        seconds, peak = task.clock.seconds, task.peak(output)
        record = {
            "seed": task.settings.seed,
            "settings": task.settings.to_dict(),
            "corpus": corpus.manifest.fingerprint,
            "steps": task.step,
            "seconds": seconds,
            "hours": seconds / 3600,
            **({} if peak is None else {"hours_to_peak": peak.hours, "peak": peak.to_dict()}),
            **task.outcome(last),
        }
        return TrainingResult(task.final_model(), record, last)


def _remove_run(output: Path) -> None:
    """Remove what a run writes, and nothing else that lies in its folder."""
    for name in (FOLDER, TENSORBOARD):
        shutil.rmtree(output / name, ignore_errors=True)
    (output / METRICS).unlink(missing_ok=True)


def _loop(
    task: Task[M, Any],
    output: Path,
    stop: StopRequest,
    *,
    on_progress: Callable[[Progress], None] | None,
    evaluate: Evaluation | None,
) -> Progress | None:
    """Train until no step is left; -> the last report, if any step was left to do."""
    settings, is_main = task.settings, task.world.is_main
    task.model.train()
    task.clock.start()
    checkpoints = Timer(task.clock, minutes=settings.checkpoint_minutes)
    evaluations = Timer(task.clock, minutes=settings.evaluate_minutes)
    last = None
    with MetricsLog(output, from_step=task.step) if is_main else nullcontext() as metrics:
        for checked in task.steps():
            stopping, saving, evaluating = _agree(
                task, checked, stop.received is not None, checkpoints.is_due, evaluations.is_due
            )
            saves, evaluates = (
                task.is_over or (checked and (task.saves_at_checks or minutes == 0))
                for minutes in (settings.checkpoint_minutes, settings.evaluate_minutes)
            )
            saving = saving or stopping or saves
            evaluating = evaluate is not None and (evaluating or evaluates)
            if saving or evaluating or checked or task.step % settings.report_steps == 0:
                last = task.report()
                if metrics is not None:
                    metrics.write(last.to_metrics())
                if on_progress is not None and is_main:
                    on_progress(last)
            if evaluating:
                if evaluate is not None and metrics is not None:
                    metrics.write(_evaluate(task, evaluate))
                evaluations.restart()
            if saving:
                save_task(task, output)
                checkpoints.restart()
            if stopping:
                name = stop.received.name if stop.received else "a signal to another process"
                raise TrainingStopped(
                    f"stopped by {name} at step {task.step:,}; go on with --resume and the same settings."
                )
    return last


def _agree(task: Task[M, Any], checked: bool, *wishes: bool) -> tuple[bool, ...]:
    """What any process wants, all do. On GPUs they ask each other only when they report: it takes a wait."""
    if task.world.size == 1:
        return wishes
    if task.world.device.type == "cuda" and task.step % task.settings.report_steps and not checked:
        return tuple(False for _ in wishes)
    return tuple(task.world.max(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())


def _evaluate(task: Task[M, Any], evaluate: Evaluation) -> dict[str, Any]:
    """Ask the hook; neither its time nor its randomness is part of the run."""
    hours = task.clock.seconds / 3600
    task.model.eval()
    with task.clock.paused(), own_randomness(task.world.device), torch.no_grad():
        scores = dict(evaluate(task.model, hours))
    task.model.train()
    return {"step": task.step, "hours": hours, "evaluation": scores}

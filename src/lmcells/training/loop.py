"""The training loop of cell models and of language models: step, report, evaluate, save, until the end or a signal.

A `lmcells.training.task.Task` says what is trained; everything else is the same for all.
"""

import errno
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import gettempdir
from types import FrameType
from typing import Any, Generic

import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError, ModelError
from lmcells.files import locked
from lmcells.training.checkpoint import FOLDER, newest_step, restore_task, save_task
from lmcells.training.distributed import best_threads, join_world, own_randomness
from lmcells.training.metrics import (
    METRICS,
    TENSORBOARD,
    MetricsLog,
    Progress,
    TrainingDiverged,
    TrainingFailed,
    TrainingStopped,
    find_peak,
)
from lmcells.training.settings import LoopSettings
from lmcells.training.task import M, Task

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_MEMORY = re.compile(r"[^.\n]*(?:out of memory|can't allocate memory|ALLOC_FAILED)[^.\n]*")
_REPORT_SECONDS = 15.0  # between two reports on a CPU, at most
_FIRST_SECONDS = 1.0  # a first step that takes longer is reported
Evaluation = Callable[[Any, float], Mapping[str, Any]]
"""A model of any kind, and the hours it was trained -> scores."""


@contextmanager
def stop_requests() -> Iterator[list[str]]:
    """Collect the name of the first SIGTERM or SIGINT in the list it yields; a second one acts as usual.

    Python allows signal handlers only in the main thread; in any other the list stays empty.
    """
    received: list[str] = []
    previous: dict[int, Any] = {}

    def put_back() -> None:
        while previous:
            signal.signal(*previous.popitem())

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number).name)
        put_back()

    if threading.current_thread() is threading.main_thread():
        previous |= {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        put_back()


@dataclass(frozen=True, slots=True)
class TrainingResult(Generic[M]):
    """A trained model, in evaluation mode, and a record of its training."""

    model: M
    record: dict[str, Any]  # what the model folder says about the training: plain data for JSON


def run_task(
    create_task: Callable[..., Task[M, Any]],
    corpus: Corpus,
    *,
    model_config: Any,
    settings: LoopSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    on_start: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    evaluate: Evaluation | None = None,
) -> TrainingResult[M]:
    """Train until the task, a subclass of `Task`, is over; checkpoints and metrics.jsonl are written to `output`.

    `resume` continues from the newest complete checkpoint, or starts if there is none; on the CPU the result is bit for
    bit that of a run that never stopped. `overwrite` removes an earlier run in `output`. SIGTERM and SIGINT write a
    checkpoint and raise TrainingStopped. `on_start` gets a line that says what is about to run. `evaluate` is called
    during training, on the main process, and its scores are logged. The global random state is left unchanged.
    """
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if not resume and not overwrite and newest_step(output) is not None:
        raise ConfigError(
            f"{output} already holds a run. Continue with --resume, replace it with --overwrite, or write to "
            "another folder."
        )
    with (
        explain_failures(output),
        join_world(device) as world,
        own_randomness(world.device),
        stop_requests() as signals,
        ExitStack() as stack,
    ):
        if world.device.type == "cpu":
            stack.enter_context(best_threads())
        task = create_task(corpus, config=model_config, settings=settings, world=world)
        if world.is_main:
            stack.enter_context(locked(output, by="another training run"))
            if overwrite:
                _remove_run(output)
        output.mkdir(parents=True, exist_ok=True)
        if resume:
            restore_task(task, output)
        if world.is_main:
            on_start(task.announcement())
        last = _loop(task, output, signals, on_progress=on_progress, evaluate=evaluate)
        seconds, peak = task.clock.seconds, find_peak(output)
        record = {
            "seed": settings.seed,
            "settings": asdict(settings),
            "corpus": corpus.manifest.fingerprint,
            "steps": task.step,
            "seconds": seconds,
            "hours": seconds / 3600,
            **({} if peak is None else {"hours_to_peak": peak["hours"], "peak": peak}),
            **task.finish(last),
        }
        return TrainingResult(task.model.eval(), record)


@contextmanager
def explain_failures(output: Path) -> Iterator[None]:
    """Say in one line what to do about a full disk, too little memory or a loss that is no number.

    What was written is complete.
    """
    try:
        yield
    except FloatingPointError as error:
        advice = (
            "Lower training.learning_rate or set training.gradient_clip, and begin again: train with --overwrite, or "
            "reproduce with the changed config"
        )
        raise TrainingDiverged(f"{error}. {advice}; {_last_checkpoint(output)}.") from None
    except (RuntimeError, MemoryError) as error:  # torch has several errors for it
        found = _NO_MEMORY.search(str(error))
        if found is None and not isinstance(error, MemoryError):
            raise
        reason = found[0].strip() if found else "out of memory"
        advice = "Lower training.batch_size or training.chunk_tokens, or use a larger device"
        raise TrainingFailed(
            f"too little memory to train: {reason}. {advice}; {_last_checkpoint(output)}."
        ) from None
    except OSError as error:
        if error.errno not in _DISK_IS_FULL:
            raise
        where = error.filename2 or error.filename or f"a file in {output} or {gettempdir()}"
        advice = "Free some space, then continue with --resume"
        raise TrainingFailed(
            f"{where} cannot be written: {error.strerror}. {advice}; {_last_checkpoint(output)}."
        ) from None


def _last_checkpoint(output: Path) -> str:
    step = newest_step(output)
    return "there is no checkpoint yet" if step is None else f"the checkpoint of step {step:,} is intact"


def _remove_run(output: Path) -> None:
    """Remove what a run writes, and nothing else in its folder."""
    for name in (FOLDER, TENSORBOARD, "best"):
        shutil.rmtree(output / name, ignore_errors=True)
    (output / METRICS).unlink(missing_ok=True)


def _loop(
    task: Task[M, Any],
    output: Path,
    signals: list[str],
    *,
    on_progress: Callable[[Progress], None],
    evaluate: Evaluation | None,
) -> Progress | None:
    """Train until no step is left; return the last report, None if there was no step."""
    settings, clock, is_main = task.settings, task.clock, task.world.is_main
    task.start()
    saved_at = evaluated_at = reported_at = clock.seconds
    last = None
    first = task.step
    is_slow = task.world.device.type == "cpu" and task.world.size == 1
    with MetricsLog(output, from_step=task.step) if is_main else nullcontext() as metrics:
        for checked in task.steps():
            stopping, saving, evaluating = _agree(
                task,
                checked,
                bool(signals),
                _is_due(settings.checkpoint_minutes, clock.seconds - saved_at),
                _is_due(settings.evaluate_minutes, clock.seconds - evaluated_at),
            )
            always = task.is_over or (checked and task.saves_at_checks)
            evaluating |= always or (checked and settings.evaluate_minutes == 0) or task.is_evaluation_point
            evaluating &= evaluate is not None
            # An evaluation may keep these weights, so a run that is killed must not go back to before it.
            saving |= stopping or always or evaluating or (checked and settings.checkpoint_minutes == 0)
            # On a CPU steps are slow: the first report says early how long the run will take.
            patience = _REPORT_SECONDS if task.step > first + 1 else _FIRST_SECONDS
            waiting = is_slow and clock.seconds - reported_at > patience
            if saving or evaluating or checked or waiting or task.step % settings.report_steps == 0:
                last, reported_at = task.report(), clock.seconds
                if metrics is not None:
                    metrics.write(last.metrics)
                    on_progress(last)
            if evaluating:
                if evaluate is not None and metrics is not None:
                    metrics.write(_evaluate(task, evaluate))
                evaluated_at = clock.seconds
            if saving:
                save_task(task, output)
                saved_at = clock.seconds
            if stopping:
                name = signals[0] if signals else "a signal to another process"
                raise TrainingStopped(
                    f"stopped by {name} at step {task.step:,}; continue with --resume and the same settings."
                )
    return last


def _is_due(minutes: float, seconds_since: float) -> bool:
    return minutes > 0 and seconds_since >= 60 * minutes


def _agree(task: Task[M, Any], checked: bool, *wishes: bool) -> tuple[bool, ...]:
    """What any process wants, all do. On GPUs they ask each other only at reports: asking waits for the device."""
    if task.world.size == 1:
        return wishes
    if task.world.device.type == "cuda" and task.step % task.settings.report_steps and not checked:
        return tuple(False for _ in wishes)
    return tuple(task.world.max(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())


def _evaluate(task: Task[M, Any], evaluate: Evaluation) -> dict[str, Any]:
    """Call the hook; neither its time nor its random numbers are part of the run."""
    hours = task.clock.seconds / 3600
    task.model.eval()
    with task.clock.paused(), own_randomness(task.world.device), torch.no_grad():
        try:
            scores = dict(evaluate(task.model, hours))
        except ModelError as error:
            reason = str(error).partition(". ")[0]
            raise FloatingPointError(f"evaluation after step {task.step:,}: {reason}") from None
    task.model.train()
    return {"step": task.step, "hours": hours, "evaluation": scores}

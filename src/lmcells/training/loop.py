"""The loop: descend, report, evaluate, save, until all epochs are done or somebody asks to stop."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError
from lmcells.model import CellModel, ModelConfig
from lmcells.training.checkpoint import has_checkpoints
from lmcells.training.clock import Cadence
from lmcells.training.distributed import joined
from lmcells.training.failures import TrainingStopped
from lmcells.training.interruption import StopRequest
from lmcells.training.metrics import MetricsLog
from lmcells.training.progress import Progress
from lmcells.training.randomness import own_randomness
from lmcells.training.reporting import Evaluation, evaluated, report
from lmcells.training.run import Run
from lmcells.training.run_checkpoint import restore_run, save_run
from lmcells.training.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A trained model, in evaluation mode, and how it came about."""

    model: CellModel
    n_steps: int
    n_centers: int
    seconds: float
    made_with: dict[str, Any]
    last: Progress | None  # None where there was nothing left to do


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
    if corpus.tokens.size == 0:
        raise CorpusError(f"{corpus.folder} has no tokens to train on. Lower --min-count or give more notes.")
    if not resume and has_checkpoints(output):
        raise ConfigError(f"{output} holds a run already. Go on with --resume, or write to another folder.")
    with joined(device) as world, own_randomness(world.device), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = Run(corpus, config=model_config, settings=settings, world=world, output=output)
        if resume:
            restore_run(run)
        last = _until_the_end(run, stop, on_progress=on_progress, evaluate=evaluate)
        run.model.eval()
        return TrainingResult(
            run.model, run.step, run.centers, run.clock.seconds, made_with=run.identity, last=last
        )


def _until_the_end(
    run: Run,
    stop: StopRequest,
    *,
    on_progress: Callable[[Progress], None] | None,
    evaluate: Evaluation | None,
) -> Progress | None:
    """Train until the last epoch is done; -> the last report, if any step was left to do."""
    settings, is_main = run.settings, run.world.is_main
    run.model.train()
    run.clock.start()
    checkpoints = Cadence(run.clock, minutes=settings.checkpoint_minutes)
    evaluations = Cadence(run.clock, minutes=settings.evaluate_minutes)
    last = None
    with MetricsLog(run.output, from_step=run.step) if is_main else nullcontext() as metrics:
        for _ in run.steps():
            stopping, saving, evaluating = _agreed(
                run, stop.received is not None, checkpoints.is_due, evaluations.is_due
            )
            epoch_is_done = run.step_in_epoch == 0
            saving = saving or stopping or epoch_is_done
            evaluating = evaluate is not None and (evaluating or epoch_is_done)
            if saving or evaluating or run.step % settings.report_steps == 0:
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
                save_run(run)
                checkpoints.restart()
            if stopping:
                name = stop.received.name if stop.received else "a signal to another process"
                raise TrainingStopped(
                    f"stopped by {name} at step {run.step:,}; go on with --resume and the same settings."
                )
    return last


def _agreed(run: Run, *wishes: bool) -> tuple[bool, ...]:
    """What any process wants, all do. On GPUs they ask each other only when they report: it takes a wait."""
    if run.world.size == 1:
        return wishes
    if run.world.device.type == "cuda" and run.step % run.settings.report_steps and run.step_in_epoch:
        return tuple(False for _ in wishes)
    return tuple(run.world.largest(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())

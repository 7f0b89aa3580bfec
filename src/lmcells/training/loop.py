"""Training a cell model until all epochs are done or somebody asks to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.model import CellModel, ModelConfig
from lmcells.training.distributed import joined
from lmcells.training.drive import Due, drive, require_startable
from lmcells.training.evaluations import Evaluation
from lmcells.training.interruption import StopRequest
from lmcells.training.peak import Peak, peak_of
from lmcells.training.progress import Progress
from lmcells.training.randomness import own_randomness
from lmcells.training.reporting import report
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

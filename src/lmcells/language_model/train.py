"""Training a language model until its held-out loss is flat."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.model import LanguageModel
from lmcells.language_model.progress import LanguageModelProgress, report
from lmcells.language_model.run import Ending, LanguageModelRun
from lmcells.language_model.run_checkpoint import restore_run, save_run
from lmcells.language_model.settings import LanguageModelSettings
from lmcells.training.distributed import joined
from lmcells.training.drive import Due, drive, require_startable
from lmcells.training.evaluations import Evaluation
from lmcells.training.interruption import StopRequest
from lmcells.training.metrics import read_metrics
from lmcells.training.peak import Peak, peak_of
from lmcells.training.randomness import own_randomness


@dataclass(frozen=True, slots=True)
class LanguageModelResult:
    """The model as it was when its held-out loss was lowest, in evaluation mode, and how it came about."""

    model: LanguageModel
    n_steps: int
    n_words: int
    seconds: float
    held_out_loss: float
    ending: Ending
    made_with: dict[str, Any]
    last: LanguageModelProgress | None  # None where there was nothing left to do
    peak: Peak  # of the scores, or of the held-out loss where there are none


def train_language_model(
    corpus: Corpus,
    *,
    config: LanguageModelConfig,
    settings: LanguageModelSettings,
    output: Path,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[LanguageModelProgress], None] | None = None,
    evaluate: Evaluation | None = None,
) -> LanguageModelResult:
    """Train until the held-out loss is flat or all epochs are done; checkpoints and metrics.jsonl go to `output`.

    With `resume` a run goes on from its newest whole checkpoint, or starts if there is none; on the CPU it then ends
    with the same numbers, bit for bit. SIGTERM and SIGINT write a checkpoint and raise TrainingStopped. `evaluate` is
    called while training; what it returns is logged. The global random state is left as it was.
    """
    require_startable(corpus, output, resume=resume)
    if config.n_words != len(corpus.words):
        raise ConfigError(f"n_words is {config.n_words:,}; {corpus.folder} has {len(corpus.words):,} words.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a language model is trained by one process. Start it without torchrun.")
    with joined(device) as world, own_randomness(world.device), StopRequest() as stop:
        output.mkdir(parents=True, exist_ok=True)
        run = LanguageModelRun(corpus, config=config, settings=settings, world=world, output=output)
        if resume:
            restore_run(run)
        last = drive(
            run, stop, due=_due, report=report, save=save_run, on_progress=on_progress, evaluate=evaluate
        )
        seconds = run.clock.seconds
        run.model.load_state_dict(run.best)
        run.model.eval()
        return LanguageModelResult(
            run.model,
            run.step,
            run.centers,
            seconds,
            held_out_loss=run.flatness.lowest,
            ending=run.ending or "epochs",
            made_with=run.identity,
            last=last,
            peak=peak_of(output) or _lowest_loss(output),
        )


def _due(run: LanguageModelRun) -> Due:
    """A check asks for a report, the end for everything; small corpora have too many checks to save at each."""
    settings, checked, over = run.settings, run.measured is not None, run.ending is not None
    return Due(
        report=checked,
        evaluate=over or (checked and settings.evaluate_minutes == 0),
        save=over or (checked and settings.checkpoint_minutes == 0),
    )


def _lowest_loss(output: Path) -> Peak:
    """The first check with the lowest held-out loss of all."""
    checks = [line for line in read_metrics(output) if "held_out_loss" in line]
    lowest = min(checks, key=lambda line: line["held_out_loss"])
    return Peak("held_out_loss", lowest["held_out_loss"], lowest["step"], lowest["seconds"] / 3600)

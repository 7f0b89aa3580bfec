"""What a language model's run says about itself while it goes on."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lmcells.training.failures import require_finite
from lmcells.training.progress import peak_memory

if TYPE_CHECKING:
    from lmcells.language_model.run import LanguageModelRun


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelProgress:
    """A report: means since the last one, and where the run stands. Losses are nats a word, of both directions."""

    step: int
    epoch: int  # from 1
    n_epochs: int
    words: int  # so far
    words_per_second: float
    loss: float  # of training
    held_out_loss: float | None  # None where it was not measured with this report
    best_held_out_loss: float | None
    gradient_norm: float
    learning_rate: float
    seconds: float
    peak_memory: int

    def to_metrics(self) -> dict[str, Any]:
        """The line of metrics.jsonl."""
        return {
            name: value for name, value in asdict(self).items() if name != "n_epochs" and value is not None
        }


def report(run: "LanguageModelRun") -> LanguageModelProgress:
    """Read the losses from the device, and see that they are numbers."""
    sums = run.totals.read_sums(run.world)
    seconds, passed = run.clock.lap()
    loss = sums.parts[0] / max(sums.n_steps, 1)
    require_finite(
        {"loss": loss, "gradient norm": sums.gradient_norm},
        step=run.step,
        advice="Lower training.learning_rate",
    )
    return LanguageModelProgress(
        step=run.step,
        epoch=run.epoch + 1 if run.step_in_epoch else run.epoch,
        n_epochs=run.settings.epochs,
        words=run.centers,
        words_per_second=sums.n_rows / max(passed, 1e-9),
        loss=loss,
        held_out_loss=run.measured,
        best_held_out_loss=run.flatness.lowest if run.best else None,
        gradient_norm=sums.gradient_norm,
        learning_rate=run.learning_rate,
        seconds=seconds,
        peak_memory=peak_memory(run.world.device),
    )

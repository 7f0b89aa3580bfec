"""What a run of a cell model reports while it goes on."""

from lmcells.training.failures import require_finite
from lmcells.training.progress import Progress, peak_memory
from lmcells.training.run import Run


def report(run: Run) -> Progress:
    """Read the losses from the device, and see that they are numbers."""
    means = run.totals.read(run.world, n_shards=run.n_shards)
    seconds, passed = run.clock.lap()
    require_finite(
        {
            "reconstruction": means.reconstruction,
            "prior divergence": means.prior_divergence,
            "agreement": means.agreement,
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
        agreement=means.agreement if run.settings.n_agreement_units else None,
        gradient_norm=means.gradient_norm,
        seconds=seconds,
        seconds_left=left / per_second,
        peak_memory=peak_memory(run.world.device),
    )

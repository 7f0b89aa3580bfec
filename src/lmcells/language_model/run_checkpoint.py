"""A language model's run to a checkpoint, and back."""

from lmcells.language_model.run import LanguageModelRun
from lmcells.training.run_state import read_state, under, write_state


def save_run(run: LanguageModelRun) -> None:
    """Write a checkpoint, the best weights so far among it."""
    own = {f"best.{name}": value for name, value in run.best.items()}
    write_state(run, own | {"flatness": run.flatness.state(), "draws": run.draws.get_state()})


def restore_run(run: LanguageModelRun) -> None:
    """Go back to the newest whole checkpoint, if there is one."""
    tensors = read_state(run)
    if tensors is None:
        return
    run.best = {name: value.to(run.world.device) for name, value in under("best.", tensors).items()}
    run.flatness.restore(tensors["flatness"])
    run.draws.set_state(tensors["draws"])

"""The state of a run on disk: tensors in the safetensors format, and JSON that vouches for them.

`checkpoints/00001200.safetensors` is written first, `00001200.json` with its checksum last; both appear whole or
not at all. The two newest are kept. Nothing is ever unpickled.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor, nn

import lmcells
from lmcells.errors import FormatError
from lmcells.files import read_json, read_tensors, sha256, write_json, write_tensors
from lmcells.training.distributed import World, dropout_states, restore_dropout
from lmcells.training.progress import Clock
from lmcells.training.run import Run, require_same_run
from lmcells.training.step import optimizer_tensors, restore_optimizer

# The state of a run on disk: tensors in the safetensors format, and JSON that vouches for them.
#
# `checkpoints/00001200.safetensors` is written first, `00001200.json` with its checksum last; both appear whole or
# not at all. The two newest are kept. Nothing is ever unpickled.


FOLDER = "checkpoints"
FORMAT = "lmcells-checkpoint"
VERSION = 1
KEPT = 2


class DamagedCheckpoint(UserWarning):
    """A checkpoint cannot be used; an earlier one is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that a run needs to go on as if it had never stopped."""

    step: int
    epoch: int  # from 0
    step_in_epoch: int
    centers: int
    seconds: float
    made_with: dict[str, Any]  # model, training, corpus: what must be the same to go on
    tensors: dict[str, npt.NDArray[Any]]

    def save(self, output: Path) -> None:
        """Write it, then drop all but the two newest."""
        folder = output / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        tensor_path, path = _tensor_path(folder, self.step), folder / f"{self.step:08d}.json"
        path.unlink(missing_ok=True)  # of a run before this one: it would vouch for other tensors
        write_tensors(tensor_path, self.tensors)
        body = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": lmcells.__version__,
            "step": self.step,
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "centers": self.centers,
            "seconds": self.seconds,
            "made_with": self.made_with,
            "tensors": {"bytes": tensor_path.stat().st_size, "sha256": sha256(tensor_path)},
        }
        write_json(path, {**body, "sha256": _checksum(body)}, indent=1)
        for old in list(_newest_first(folder))[KEPT:]:
            old.unlink()
            _tensor_path(folder, int(old.stem)).unlink(missing_ok=True)


def load_newest(output: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None where there are none at all; a damaged one is warned of."""
    paths = list(_newest_first(output / FOLDER))
    for path in paths:
        try:
            return _load(path)
        except (FormatError, OSError) as error:
            warnings.warn(f"{error} Trying the checkpoint before it.", DamagedCheckpoint, stacklevel=2)
    if paths:
        raise FormatError(
            f"{output / FOLDER} has no checkpoint that can be used. Remove it to start from the beginning."
        )
    return None


def has_checkpoints(output: Path) -> bool:
    """Whether a run has left any state here, whole or not."""
    return any(_newest_first(output / FOLDER))


def _newest_first(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem), reverse=True))


def _tensor_path(folder: Path, step: int) -> Path:
    return folder / f"{step:08d}.safetensors"


def _load(path: Path) -> Checkpoint:
    try:
        body = read_json(path)
    except ValueError:
        raise FormatError(f"{path} is damaged: it is not JSON.") from None
    if not isinstance(body, dict) or body.pop("sha256", None) != _checksum(body):
        raise FormatError(f"{path} is damaged: its checksum differs.")
    if body["format"] != FORMAT or body["version"] != VERSION:
        raise FormatError(
            f"{path} has checkpoint format {body['version']}, this lmcells ({lmcells.__version__}) reads {VERSION}."
        )
    tensor_path = _tensor_path(path.parent, body["step"])
    if not tensor_path.is_file() or sha256(tensor_path) != body["tensors"]["sha256"]:
        raise FormatError(f"{tensor_path} is damaged: its checksum differs.")
    tensors = read_tensors(tensor_path)
    names = ("step", "epoch", "step_in_epoch", "centers", "seconds", "made_with")
    return Checkpoint(**{name: body[name] for name in names}, tensors=tensors)


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# What every kind of run needs to go on as if it had never stopped, to a checkpoint and back.


class ResumableRun(Protocol):
    """A run that can be stopped and go on."""

    output: Path
    optimizer: torch.optim.Adam
    world: World
    clock: Clock
    identity: dict[str, Any]
    step: int
    epoch: int
    step_in_epoch: int
    centers: int

    @property
    def model(self) -> nn.Module: ...


def write_state(run: ResumableRun, own: Mapping[str, Tensor]) -> None:
    """Write a checkpoint, with what this kind of run has besides; every process takes part, the main one writes."""
    tensors = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    moments = optimizer_tensors(run.model, run.optimizer)
    tensors |= {f"optimizer.{name}": value for name, value in moments.items()}
    for name, state in dropout_states(run.world.device).items():
        for rank, of_rank in enumerate(run.world.gathered(state)):
            tensors[f"{name}.{rank}"] = of_rank
    tensors |= own
    if run.world.is_main:
        Checkpoint(
            step=run.step,
            epoch=run.epoch,
            step_in_epoch=run.step_in_epoch,
            centers=run.centers,
            seconds=run.clock.seconds,
            made_with=run.identity,
            tensors={name: value.cpu().numpy() for name, value in tensors.items()},
        ).save(run.output)
    run.world.wait()


def read_state(run: ResumableRun) -> dict[str, Tensor] | None:
    """Go back to the newest whole checkpoint and return its tensors, or None if there is none."""
    found = load_newest(run.output)
    if found is None:
        return None
    require_same_run(found.made_with, run.identity, output=run.output)
    tensors = {name: torch.from_numpy(value) for name, value in found.tensors.items()}
    run.model.load_state_dict(under("model.", tensors))
    restore_optimizer(run.model, run.optimizer, under("optimizer.", tensors))
    restore_dropout(run.world, tensors)
    run.step, run.epoch, run.step_in_epoch = found.step, found.epoch, found.step_in_epoch
    run.centers = found.centers
    run.clock = Clock(found.seconds)
    return tensors


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


# A run of a cell model to a checkpoint, and back.


def save_run(run: Run) -> None:
    """Write a checkpoint; every process gives the random states of its shards."""
    states = torch.stack([sampler.generator.get_state() for sampler in run.samplers])
    draws = {
        f"draws.{rank + turn * run.world.size}": state
        for rank, of_rank in enumerate(run.world.gathered(states))
        for turn, state in enumerate(of_rank)
    }
    write_state(run, draws)


def restore_run(run: Run) -> None:
    """Go back to the newest whole checkpoint, if there is one."""
    tensors = read_state(run)
    if tensors is None:
        return
    for reader, sampler in zip(run.readers, run.samplers, strict=True):
        sampler.generator.set_state(tensors[f"draws.{reader.shard}"])

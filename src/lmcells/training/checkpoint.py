"""The state of a run on disk: tensors in the safetensors format, and JSON with their checksum.

`checkpoints/00001200.safetensors` is written first, `00001200.json` last, each whole or not at all. The two newest are
kept. Nothing is ever unpickled.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch

import lmcells
from lmcells.errors import ConfigError, FormatError
from lmcells.files import read_json, read_tensors, sha256, under, write_json, write_tensors
from lmcells.training.distributed import dropout_states, restore_dropout
from lmcells.training.metrics import TrainingWarning
from lmcells.training.settings import MAY_CHANGE

if TYPE_CHECKING:
    from lmcells.training.task import Task

FOLDER = "checkpoints"
FORMAT = "lmcells-checkpoint"
VERSION = 1
KEPT = 2

_POSITION = ("step", "epoch", "step_in_epoch")
_ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")  # of each parameter

# Settings that older checkpoints lack, with the value that was in effect then.
_ADDED_LATER: dict[str, dict[str, Any]] = {
    "model": {"masked_span_reach": 2, "hidden_dropout": False},
    "training": {"contrastive_reads_all": False},
}


class DamagedCheckpoint(TrainingWarning):
    """A checkpoint cannot be used; the one before it is tried."""


State = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]  # what the JSON says, and the tensors


def write_checkpoint(output: Path, state: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Write the state at `state["step"]`, then drop all but the two newest."""
    folder = output / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{state['step']:08d}.json"
    tensor_path = path.with_suffix(".safetensors")
    path.unlink(missing_ok=True)  # an earlier run's, whose checksum is of other tensors
    write_tensors(tensor_path, tensors)
    described = {"bytes": tensor_path.stat().st_size, "sha256": sha256(tensor_path)}
    header = {"format": FORMAT, "version": VERSION, "written_by": lmcells.__version__}
    body = {**header, **state, "tensors": described}
    write_json(path, {**body, "sha256": _checksum(body)}, indent=1)
    # A later one was damaged, or the run would have continued from it: it does not count.
    usable = [each for each in _newest_first(output) if int(each.stem) <= state["step"]]
    for old in usable[KEPT:]:
        old.unlink()
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_newest(output: Path) -> State | None:
    """The newest complete checkpoint, or None if there is no checkpoint; warns of damaged ones."""
    paths = _newest_first(output)
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


def newest_step(output: Path) -> int | None:
    """The step of the newest checkpoint; None if there is none."""
    return next((int(path.stem) for path in _newest_first(output)), None)


def save_task(task: "Task[Any, Any]", output: Path) -> None:
    """Write all that a run needs to continue as if it had never stopped; all processes call it, the main one writes."""
    tensors = {f"model.{name}": value for name, value in task.model.state_dict().items()}
    for name, parameter in task.model.named_parameters():
        if state := task.optimizer.state.get(parameter):
            tensors |= {f"optimizer.{entry}.{name}": state[entry] for entry in _ADAM_STATE}
    tensors |= dropout_states(task.world) | task.own_state()
    if task.world.is_main:
        where = {name: getattr(task, name) for name in _POSITION}
        rest = {"centers": task.n_examples, "seconds": task.clock.seconds, "made_with": task.identity}
        rest["threads"] = torch.get_num_threads()
        write_checkpoint(output, where | rest, {name: value.cpu().numpy() for name, value in tensors.items()})
    task.world.wait()


def restore_task(task: "Task[Any, Any]", output: Path) -> None:
    """Restore the newest complete checkpoint, if there is one."""
    found = load_newest(output)
    if found is None:
        return
    state, arrays = found
    if task.world.device.type == "cpu" and "threads" in state:
        torch.set_num_threads(state["threads"])  # with another number the last digits of sums differ
    _require_same_run(state["made_with"], task.identity, output=output)
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    task.model.load_state_dict(under("model.", tensors))
    for name, parameter in task.model.named_parameters():
        if f"optimizer.step.{name}" in tensors:
            task.optimizer.state[parameter] = {
                entry: tensors[f"optimizer.{entry}.{name}"].to(parameter.device, copy=True)
                for entry in _ADAM_STATE
            }
    restore_dropout(task.world, tensors)
    task.restore_own_state(tensors)
    for name in _POSITION:
        setattr(task, name, state[name])
    task.n_examples, task.clock.seconds_before = state["centers"], state["seconds"]


def _newest_first(output: Path) -> list[Path]:
    return sorted((output / FOLDER).glob("[0-9]*.json"), key=lambda path: int(path.stem), reverse=True)


def _load(path: Path) -> State:
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
    tensor_path = path.with_suffix(".safetensors")
    if not tensor_path.is_file() or sha256(tensor_path) != body["tensors"]["sha256"]:
        raise FormatError(f"{tensor_path} is damaged: its checksum differs.")
    return body, read_tensors(tensor_path)


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _require_same_run(found: dict[str, Any], wanted: dict[str, Any], *, output: Path) -> None:
    """Refuse to resume with other settings, naming the first that differs."""
    for table, values in wanted.items():
        had = _ADDED_LATER.get(table, {}) | found.get(table, {})
        for name, value in values.items():
            if had.get(name) != value:
                raise ConfigError(
                    f"{output} was trained with {table}.{name} = {had.get(name)!r}, now it is {value!r}. Resume with "
                    f"the same settings (only {', '.join(MAY_CHANGE)} may change), or write to another folder."
                )

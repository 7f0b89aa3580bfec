"""What must be the same for a run to go on where it stopped."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.model import ModelConfig
from lmcells.training.settings import MAY_CHANGE, TrainingSettings

# Settings that came after runs had been started, with the value that those runs had in effect.
_ADDED_LATER: dict[str, dict[str, Any]] = {
    "model": {"gap_reach": 2},
    "training": {"agreement_reads_all": False},
}


def run_identity(
    corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, n_shards: int, device: torch.device
) -> dict[str, Any]:
    """Model, training, corpus and device as plain data."""
    training = {name: value for name, value in settings.to_dict().items() if name not in MAY_CHANGE}
    if settings.final_learning_rate < 1:
        training["epochs"] = settings.epochs  # the learning rate of every step depends on where the end is
    return {
        "model": asdict(config),
        "training": {**training, "shards": n_shards},
        "corpus": {"fingerprint": corpus.manifest.fingerprint},
        "device": {"type": device.type},
    }


def require_same_run(found: dict[str, Any], wanted: dict[str, Any], *, output: Path) -> None:
    """Refuse to go on with other settings, naming the first that differs."""
    for table, values in wanted.items():
        had = _ADDED_LATER.get(table, {}) | found.get(table, {})
        for name, value in values.items():
            before = had.get(name)
            if before != value:
                raise ConfigError(
                    f"{output} was trained with {table}.{name} = {before!r}, now it is {value!r}. Resume with the "
                    f"same settings (only {', '.join(MAY_CHANGE)} may change), or write to another folder."
                )

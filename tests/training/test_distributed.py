"""Two processes with a shard each train as one process with both."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lmcells.errors import ConfigError
from lmcells.training import train
from lmcells.training.checkpoint import load_newest
from lmcells.training.distributed import choose_device
from training.small_runs import planted_corpus, tiny_config, tiny_settings

SETTINGS: dict[str, Any] = {"epochs": 2, "shards": 2, "contrastive_weight": 1.0, "contrastive_spans": 16}

SCRIPT = """
import sys, torch
from pathlib import Path
from training.small_runs import tiny_config, tiny_settings
from lmcells.corpus import Corpus
from lmcells.training import train
torch.set_num_threads(1)
corpus = Corpus.open(sys.argv[1])
train(corpus, model_config=tiny_config(corpus, dropout=0.0), settings=tiny_settings(**{settings}),
      output=Path(sys.argv[2]), device="cpu")
"""


def curve(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_processes_have_the_loss_curve_of_one_with_the_joint_batch(tmp_path: Path) -> None:
    corpus = planted_corpus(tmp_path / "notes", n_notes=61)  # the shards differ in length
    script = SCRIPT.replace("{settings}", repr(SETTINGS))
    # The variables that torchrun sets.
    common = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, corpus.folder, tmp_path / "two"],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    train(
        corpus,
        model_config=tiny_config(corpus, dropout=0.0),
        settings=tiny_settings(**SETTINGS),
        output=tmp_path / "one",
        device="cpu",
    )
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert [line["step"] for line in one] == [line["step"] for line in two]
    assert one[-1]["centers"] == two[-1]["centers"] == 2 * corpus.tokens.size
    for name in ("reconstruction", "prior_divergence", "contrastive", "gradient_norm"):
        assert [line[name] for line in two] == pytest.approx([line[name] for line in one], rel=1e-4)
    checkpoints = [load_newest(tmp_path / name) for name in ("one", "two")]
    assert checkpoints[0] is not None
    assert checkpoints[1] is not None
    first, second = (checkpoint.tensors for checkpoint in checkpoints if checkpoint is not None)
    for name, value in first.items():
        if name.startswith("model."):
            torch.testing.assert_close(
                torch.from_numpy(second[name]), torch.from_numpy(value), atol=1e-4, rtol=1e-3
            )
    for shard in range(2):
        assert (first[f"draws.{shard}"] == second[f"draws.{shard}"]).all()


@pytest.mark.parametrize("name", ["gpu", "cuda:x"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device is"):
        choose_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="no CUDA device"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")

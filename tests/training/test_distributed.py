"""Two processes with a shard each train as one process with both."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from lmcells.errors import ConfigError
from lmcells.training import distributed
from lmcells.training.cells import train
from lmcells.training.checkpoint import load_newest
from lmcells.training.distributed import best_threads, choose_device
from lmcells.training.metrics import read_metrics
from training.small_runs import planted_corpus, tiny_config, tiny_settings

SETTINGS: dict[str, Any] = {"epochs": 2, "shards": 2, "contrastive_weight": 1.0, "contrastive_spans": 16}

SCRIPT = """
import sys
from pathlib import Path
from training.small_runs import tiny_config, tiny_settings
from lmcells.corpus import Corpus
from lmcells.training.cells import train
corpus = Corpus.open(sys.argv[1])
train(corpus, model_config=tiny_config(corpus, dropout=0.0), settings=tiny_settings(**{settings}),
      output=Path(sys.argv[2]), device="cpu")
"""


def test_two_processes_have_the_loss_curve_of_one_with_the_joint_batch(tmp_path: Path) -> None:
    corpus = planted_corpus(tmp_path / "notes", n_notes=31)  # the shards differ in length
    (tmp_path / "script.py").write_text(SCRIPT.replace("{settings}", repr(SETTINGS)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    path = os.pathsep.join(each for each in sys.path if each)
    process = subprocess.Popen(
        [*launcher, tmp_path / "script.py", corpus.folder, tmp_path / "two"],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    config, settings = tiny_config(corpus, dropout=0.0), tiny_settings(**SETTINGS)
    train(corpus, model_config=config, settings=settings, output=tmp_path / "one", device="cpu")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    one, two = (list(read_metrics(tmp_path / name)) for name in ("one", "two"))
    assert [line["step"] for line in one] == [line["step"] for line in two]
    assert one[-1]["centers"] == two[-1]["centers"] == 2 * corpus.tokens.size
    for name in ("reconstruction", "prior_divergence", "contrastive", "gradient_norm"):
        assert [line[name] for line in two] == pytest.approx([line[name] for line in one], rel=1e-4)
    first, second = (load_newest(tmp_path / name) for name in ("one", "two"))
    assert first is not None
    assert second is not None
    for name, value in first[1].items():
        if name.startswith("model."):
            found = torch.from_numpy(second[1][name])
            torch.testing.assert_close(found, torch.from_numpy(value), atol=1e-4, rtol=1e-3)
    for shard in range(2):
        assert (first[1][f"draws.{shard}"] == second[1][f"draws.{shard}"]).all()


@pytest.mark.parametrize("name", ["gpu", "cuda:x"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device is"):
        choose_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="no CUDA device"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")


def test_threads_are_those_that_measure_best(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(distributed, "_seconds_with", {1: 3.0, 2: 1.0, 4: 2.0, 6: 4.0}.__getitem__)
    try:
        torch.set_num_threads(6)
        with best_threads():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 6
        monkeypatch.setenv("OMP_NUM_THREADS", "6")
        with best_threads():
            assert torch.get_num_threads() == 6
    finally:
        torch.set_num_threads(before)


def test_measuring_threads_takes_a_moment() -> None:
    started = time.perf_counter()
    assert 0 < distributed._seconds_with(1) < time.perf_counter() - started
    torch.set_num_threads(1)

"""Checkpoints: a run that was killed goes on bit for bit; damage is seen."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, FormatError
from lmcells.files import read_tensors
from lmcells.training import TrainingResult, train
from lmcells.training.checkpoint import Checkpoint, DamagedCheckpoint, load_newest
from training.small_runs import planted_corpus, tiny_config, tiny_settings

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "contrastive_weight": 1.0,
    "contrastive_spans": 8,
    "chunk_tokens": 1500,
}

# Trains as the tests do, and slowly, so that there is time to kill it.
SCRIPT = """
import sys, time, torch
from pathlib import Path
from training.small_runs import tiny_config, tiny_settings
from lmcells.corpus import Corpus
from lmcells.training import train
torch.set_num_threads(1)
corpus = Corpus.open(sys.argv[1])
def on_progress(progress):
    print(progress.step, flush=True)
    time.sleep(0.2)
train(corpus, model_config=tiny_config(corpus), settings=tiny_settings(**{settings}), output=Path(sys.argv[2]),
      device="cpu", on_progress=on_progress)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=100)


def run(corpus: Corpus, output: Path, *, resume: bool = False, **settings: Any) -> TrainingResult:
    return train(
        corpus,
        model_config=tiny_config(corpus),
        settings=tiny_settings(**{**SETTINGS, **settings}),
        output=output,
        device="cpu",
        resume=resume,
    )


@pytest.fixture(scope="module")
def uninterrupted(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    torch.set_num_threads(1)
    return run(corpus, tmp_path_factory.mktemp("whole")).model.state_dict()


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def start(corpus: Corpus, output: Path, settings: dict[str, Any]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("{settings}", repr(settings)), corpus.folder, output],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_after_sigkill_a_run_ends_as_if_nothing_had_happened(
    corpus: Corpus, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    process = start(corpus, tmp_path, {**SETTINGS, "checkpoint_minutes": 1e-9, "report_steps": 1})
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 7:  # in the middle of the first epoch
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    found = load_newest(tmp_path)
    assert found is not None
    assert 5 <= found.step < 20
    assert found.epoch == 0
    assert_same(run(corpus, tmp_path, resume=True).model.state_dict(), uninterrupted)


def test_sigterm_writes_a_checkpoint_from_which_a_run_goes_on_bit_for_bit(
    corpus: Corpus, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    process = start(corpus, tmp_path, SETTINGS)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "stopped by SIGTERM at step" in errors
    found = load_newest(tmp_path)
    assert found is not None
    assert found.step_in_epoch > 0
    assert_same(run(corpus, tmp_path, resume=True).model.state_dict(), uninterrupted)
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))


def test_a_finished_run_can_go_on_for_more_epochs(
    corpus: Corpus, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    run(corpus, tmp_path, epochs=1)
    assert_same(run(corpus, tmp_path, resume=True).model.state_dict(), uninterrupted)
    again = run(corpus, tmp_path, resume=True)
    assert again.last is None
    assert_same(again.model.state_dict(), uninterrupted)


def test_resume_without_a_checkpoint_starts(
    corpus: Corpus, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    assert_same(run(corpus, tmp_path, resume=True).model.state_dict(), uninterrupted)


@pytest.mark.parametrize(
    "damage", ["tensors cut", "tensors changed", "tensors gone", "json cut", "json changed"]
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_used(
    corpus: Corpus, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], damage: str
) -> None:
    run(corpus, tmp_path)
    newest = max((tmp_path / "checkpoints").glob("*.json"))
    path = newest if damage.startswith("json") else newest.with_suffix(".safetensors")
    content = bytearray(path.read_bytes())
    if damage.endswith("cut"):
        path.write_bytes(content[: len(content) // 2])
    elif damage.endswith("gone"):
        path.unlink()
    else:
        place = content.index(b'"centers": ') + 11 if path == newest else len(content) - 100
        content[place] = ord("1") if content[place] != ord("1") else ord("2")
        path.write_bytes(content)
    with pytest.warns(DamagedCheckpoint, match="is damaged.*before it"):
        found = load_newest(tmp_path)
    assert found is not None
    assert found.epoch == 1
    with pytest.warns(DamagedCheckpoint):
        assert_same(run(corpus, tmp_path, resume=True).model.state_dict(), uninterrupted)


def test_the_two_newest_checkpoints_are_kept_and_hold_plain_tensors(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, epochs=4)
    files = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert len(files) == 4
    assert {Path(name).suffix for name in files} == {".json", ".safetensors"}
    tensors = read_tensors(tmp_path / "checkpoints" / files[-1])
    assert "model.prior.hidden.weight" in tensors
    assert "optimizer.exp_avg.prior.hidden.weight" in tensors


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(
        step=3, epoch=0, step_in_epoch=3, centers=9, seconds=1.0, made_with={}, tensors={"a": np.zeros(2)}
    )
    monkeypatch.setattr("lmcells.training.checkpoint.VERSION", 2)
    checkpoint.save(tmp_path)
    monkeypatch.undo()
    with (
        pytest.warns(DamagedCheckpoint, match="has checkpoint format 2"),
        pytest.raises(FormatError, match="no checkpoint that can be used"),
    ):
        load_newest(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.5}, r"training.learning_rate = 0.001, now it is 0.5"),
        ({"seed": 8}, "training.seed"),
    ],
)
def test_a_run_does_not_go_on_with_other_settings(
    corpus: Corpus, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    run(corpus, tmp_path, epochs=1)
    with pytest.raises(ConfigError, match=message):
        run(corpus, tmp_path, resume=True, **settings)


def test_a_run_is_not_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, epochs=1)
    with pytest.raises(ConfigError, match="holds a run already"):
        run(corpus, tmp_path)

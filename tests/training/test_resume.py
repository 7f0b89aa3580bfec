"""Checkpoints: a run that was killed goes on bit for bit; damage is noticed; other settings are refused."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.files import locked, read_tensors
from lmcells.model import CellModel
from lmcells.training import Progress, TrainingStopped
from lmcells.training.checkpoint import DamagedCheckpoint, State, load_newest, write_checkpoint
from lmcells.training.loop import TrainingResult
from lmcells.training.metrics import read_metrics
from training.small_runs import planted_corpus, tiny_run

SETTINGS = {"epochs": 2, "contrastive_weight": 1.0, "contrastive_spans": 8, "chunk_tokens": 1500}
SPAN_READER: dict[str, Any] = {"masks_span": True, "masked_span_dim": 5}

# Trains as the tests do, and is killed in the middle of the first epoch.
KILLED = """
import os, signal, sys
from pathlib import Path
from training.small_runs import tiny_run
from lmcells.corpus import Corpus
def kill_after_7(progress):
    if progress.metrics["step"] == 7:
        os.kill(os.getpid(), signal.SIGKILL)
tiny_run(Corpus.open(sys.argv[1]), Path(sys.argv[2]), on_progress=kill_after_7, **{settings})
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=100)


def run(corpus: Corpus, output: Path, **given: Any) -> TrainingResult[CellModel]:
    return tiny_run(corpus, output, **{**SETTINGS, **given})


@pytest.fixture(scope="module")
def finished(
    corpus: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, torch.Tensor]]:
    """The folder of a run that was never stopped, and its weights."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(corpus, folder).model.state_dict()


def assert_same(result: TrainingResult[CellModel], expected: dict[str, torch.Tensor]) -> None:
    found = result.model.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def newest_of(output: Path) -> State:
    checkpoint = load_newest(output)
    assert checkpoint is not None
    return checkpoint


def test_after_sigkill_a_run_ends_as_if_nothing_had_happened(
    corpus: Corpus, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    settings = {**SETTINGS, "checkpoint_minutes": 1e-9, "report_steps": 1}
    process = subprocess.run(
        [sys.executable, "-c", KILLED.replace("{settings}", repr(settings)), corpus.folder, tmp_path],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    state, _ = newest_of(tmp_path)
    assert (state["step"], state["epoch"]) == (6, 0)
    assert_same(run(corpus, tmp_path, resume=True), finished[1])


def test_sigterm_writes_a_checkpoint_from_which_a_run_goes_on_bit_for_bit(
    corpus: Corpus, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    def stop_at_5(progress: Progress) -> None:
        if progress.metrics["step"] == 5:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(TrainingStopped, match="stopped by SIGTERM at step 6"):
        run(corpus, tmp_path, on_progress=stop_at_5)
    assert newest_of(tmp_path)[0]["step_in_epoch"] == 6
    assert_same(run(corpus, tmp_path, resume=True), finished[1])
    steps = [line["step"] for line in read_metrics(tmp_path)]
    assert steps == sorted(set(steps))


def test_a_finished_run_can_go_on_for_more_epochs(
    corpus: Corpus, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    run(corpus, tmp_path, epochs=1, resume=True)  # without a checkpoint it starts
    assert_same(run(corpus, tmp_path, resume=True), finished[1])
    again = run(corpus, tmp_path, resume=True)
    assert again.record["losses"] == {}  # nothing was left to do
    assert_same(again, finished[1])


@pytest.mark.parametrize(
    "damage", ["tensors cut", "tensors changed", "tensors gone", "json cut", "json changed"]
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_used(
    corpus: Corpus, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor]], damage: str
) -> None:
    output = Path(shutil.copytree(finished[0] / "checkpoints", tmp_path / "checkpoints")).parent
    newest = max((output / "checkpoints").glob("*.json"))
    path = newest if damage.startswith("json") else newest.with_suffix(".safetensors")
    content = bytearray(path.read_bytes())
    if damage.endswith("cut"):
        path.write_bytes(content[: len(content) // 2])
    elif damage.endswith("gone"):
        path.unlink()
    else:
        at = content.index(b'"centers": ') + 11 if path == newest else len(content) - 100
        content[at] = ord("1") if content[at] != ord("1") else ord("2")
        path.write_bytes(content)
    with pytest.warns(DamagedCheckpoint, match="is damaged.*before it"):
        assert newest_of(output)[0]["epoch"] == 1
    if damage == "tensors cut":
        with pytest.warns(DamagedCheckpoint):
            assert_same(run(corpus, output, resume=True), finished[1])


def test_the_two_newest_checkpoints_are_kept_and_hold_plain_tensors(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, epochs=3)
    files = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert len(files) == 4
    assert {Path(name).suffix for name in files} == {".json", ".safetensors"}
    tensors = read_tensors(tmp_path / "checkpoints" / files[-1])
    assert "model.prior.hidden.weight" in tensors
    assert "optimizer.exp_avg.prior.hidden.weight" in tensors


def test_two_checkpoints_are_kept_besides_a_damaged_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"step": 9}, {"a": np.zeros(2)})
    (tmp_path / "checkpoints" / "00000009.safetensors").write_bytes(b"")
    for step in (4, 5, 6):
        write_checkpoint(tmp_path, {"step": step}, {"a": np.zeros(2)})
    (tmp_path / "checkpoints" / "00000006.safetensors").write_bytes(b"")
    with pytest.warns(DamagedCheckpoint):
        assert newest_of(tmp_path)[0]["step"] == 5


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmcells.training.checkpoint.VERSION", 2)
    write_checkpoint(tmp_path, {"step": 3}, {"a": np.zeros(2)})
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
    corpus: Corpus, finished: tuple[Path, dict[str, torch.Tensor]], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run(corpus, finished[0], resume=True, **settings)


def test_two_runs_never_write_to_one_folder(corpus: Corpus, tmp_path: Path) -> None:
    message = "is being worked on by another training run"
    with locked(tmp_path, by="this test"):
        for option in ("resume", "overwrite"):
            with pytest.raises(InputError, match=message):
                run(corpus, tmp_path, **{option: True})


def test_a_run_is_overwritten_only_when_asked_to(
    corpus: Corpus, tmp_path: Path, finished: tuple[Path, dict[str, torch.Tensor]]
) -> None:
    run(corpus, tmp_path, epochs=1, seed=5)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="already holds a run"):
        run(corpus, tmp_path)
    assert_same(run(corpus, tmp_path, overwrite=True), finished[1])
    assert (tmp_path / "mine.txt").is_file()
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        path.name for path in (finished[0] / "checkpoints").iterdir()
    }


def test_a_run_of_before_a_setting_was_added_goes_on_with_the_value_that_was_in_effect(
    corpus: Corpus, tmp_path: Path
) -> None:
    expected = run(corpus, tmp_path / "new", model=SPAN_READER).model.state_dict()
    run(corpus, tmp_path / "old", model=SPAN_READER, epochs=1)
    state, tensors = newest_of(tmp_path / "old")
    del state["made_with"]["model"]["masked_span_reach"]
    write_checkpoint(tmp_path / "old", state, tensors)
    with pytest.raises(ConfigError, match=r"model\.masked_span_reach = 2, now it is 4\. Resume with"):
        run(corpus, tmp_path / "old", model={**SPAN_READER, "masked_span_reach": 4}, resume=True)
    assert_same(run(corpus, tmp_path / "old", model=SPAN_READER, resume=True), expected)

"""metrics.jsonl and TensorBoard: losses under their names, no step twice, and when the scores peaked."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lmcells.corpus import Corpus
from lmcells.training.metrics import METRICS, TENSORBOARD, MetricsLog, find_peak
from training.small_runs import planted_corpus, tiny_run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=60)


def run(corpus: Corpus, output: Path, **given: Any) -> None:
    tiny_run(corpus, output, evaluate=lambda _model, _hours: {"casi": {"accuracy": 0.5}}, **given)


def lines_of(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / METRICS).read_text().splitlines()]


def scalars_of(output: Path, name: str) -> dict[int, float]:
    """What TensorBoard shows: step -> value."""
    events = EventAccumulator(str(output / TENSORBOARD))
    events.Reload()
    return {event.step: event.value for event in events.Scalars(name)}


def test_tensorboard_shows_both_losses_under_their_names(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, report_steps=2)
    reports = [line for line in lines_of(tmp_path) if "evaluation" not in line]
    assert len(reports) > 2
    for name in ("reconstruction", "prior_divergence"):
        expected = {line["step"]: pytest.approx(line[name], rel=1e-6) for line in reports}
        assert scalars_of(tmp_path, name) == expected
    assert list(scalars_of(tmp_path, "evaluation/casi/accuracy").values()) == [0.5]


def test_after_a_resume_tensorboard_has_forgotten_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, from_step=0) as log:
        for step in (1, 2, 3):
            log.write({"step": step, "reconstruction": 10.0})
    with MetricsLog(tmp_path, from_step=1) as log:
        log.write({"step": 2, "reconstruction": 20.0})
    assert scalars_of(tmp_path, "reconstruction") == {1: 10.0, 2: 20.0}
    assert [(line["step"], line["reconstruction"]) for line in lines_of(tmp_path)] == [(1, 10.0), (2, 20.0)]


def test_without_tensorboard_training_writes_its_metrics_all_the_same(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # importing it raises ImportError
    run(corpus, tmp_path)
    assert not (tmp_path / TENSORBOARD).exists()
    assert lines_of(tmp_path)[-2]["prior_divergence"] > 0


def test_a_half_written_last_line_is_dropped(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('{"step": 1}\n{"step": 2}\n{"st')
    with MetricsLog(tmp_path, from_step=2) as log:
        log.write({"step": 3})
    assert [line["step"] for line in lines_of(tmp_path)] == [1, 2, 3]


def write_evaluations(folder: Path, evaluations: Sequence[Mapping[str, Any]]) -> None:
    lines = [
        {"step": 10 * n, "hours": n / 4, "evaluation": each} for n, each in enumerate(evaluations, start=1)
    ]
    (folder / METRICS).write_text(
        "".join(json.dumps(line) + "\n" for line in [{"step": 1, "loss": 2.0}, *lines])
    )


def test_the_peak_is_the_first_of_the_best(tmp_path: Path) -> None:
    write_evaluations(tmp_path, [{"dev": {"macro_f1": score}} for score in (0.2, 0.5, 0.5, 0.4)])
    assert find_peak(tmp_path) == {"metric": "macro_f1", "score": 0.5, "step": 20, "hours": 0.5}


def test_the_peak_counts_datasets_alike(tmp_path: Path) -> None:
    write_evaluations(
        tmp_path,
        [{"a": {"macro_f1": 0.9}, "b": {"macro_f1": 0.1}}, {"a": {"macro_f1": 0.6}, "b": {"macro_f1": 0.6}}],
    )
    peak = find_peak(tmp_path)
    assert peak is not None
    assert (peak["step"], peak["score"]) == (20, pytest.approx(0.6))


@pytest.mark.parametrize("evaluations", [[], [{}], [{"dev": {"accuracy": 0.5}}], [{"seconds": 3.0}]])
def test_a_run_that_was_not_scored_has_no_peak(tmp_path: Path, evaluations: list[dict[str, Any]]) -> None:
    write_evaluations(tmp_path, evaluations)
    assert find_peak(tmp_path) is None
    assert find_peak(tmp_path / "elsewhere") is None


def test_a_peak_after_the_checkpoint_that_a_run_continued_from_is_forgotten(tmp_path: Path) -> None:
    write_evaluations(tmp_path, [{"dev": {"macro_f1": score}} for score in (0.2, 0.3, 0.9)])
    with MetricsLog(tmp_path, from_step=20):
        pass
    assert find_peak(tmp_path) == {"metric": "macro_f1", "score": 0.3, "step": 20, "hours": 0.5}

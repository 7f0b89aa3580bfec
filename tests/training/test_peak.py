"""The best evaluation of a run, from its metrics."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmcells.training.progress import METRICS, MetricsLog, Peak, peak_of


def write(folder: Path, evaluations: Sequence[Mapping[str, Any]]) -> None:
    lines = [
        {"step": 10 * n, "hours": n / 4, "evaluation": each} for n, each in enumerate(evaluations, start=1)
    ]
    (folder / METRICS).write_text(
        "".join(json.dumps(line) + "\n" for line in [{"step": 1, "loss": 2.0}, *lines])
    )


def test_it_is_the_first_of_the_best(tmp_path: Path) -> None:
    write(tmp_path, [{"dev": {"macro_f1": score}} for score in (0.2, 0.5, 0.5, 0.4)])
    assert peak_of(tmp_path) == Peak("macro_f1", 0.5, 20, 0.5)


def test_datasets_count_alike(tmp_path: Path) -> None:
    write(
        tmp_path,
        [{"a": {"macro_f1": 0.9}, "b": {"macro_f1": 0.1}}, {"a": {"macro_f1": 0.6}, "b": {"macro_f1": 0.6}}],
    )
    peak = peak_of(tmp_path)
    assert peak is not None
    assert (peak.step, peak.score) == (20, pytest.approx(0.6))


@pytest.mark.parametrize("evaluations", [[], [{}], [{"dev": {"accuracy": 0.5}}], [{"seconds": 3.0}]])
def test_a_run_that_was_not_scored_has_none(tmp_path: Path, evaluations: list[dict[str, Any]]) -> None:
    write(tmp_path, evaluations)
    assert peak_of(tmp_path) is None
    assert peak_of(tmp_path / "elsewhere") is None


def test_what_came_after_the_checkpoint_that_a_run_went_on_from_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path, [{"dev": {"macro_f1": score}} for score in (0.2, 0.3, 0.9)])
    with MetricsLog(tmp_path, from_step=20):
        pass
    assert peak_of(tmp_path) == Peak("macro_f1", 0.3, 20, 0.5)

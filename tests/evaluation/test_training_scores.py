"""Which weights are kept while a model trains; that their scores are the table's is tested with `lmcells reproduce`."""

import json
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from expansion.clinic import INVENTORY, THERAPY, clinic_corpus
from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.evaluation.evaluate import TrainingScorer
from lmcells.expansion import save_inventory
from lmcells.expansion.windows import Mention
from lmcells.training.loop import explain_failures
from lmcells.training.metrics import TrainingFailed


def test_a_choice_needs_other_datasets_and_senses_for_each(tmp_path: Path) -> None:
    corpus = clinic_corpus(tmp_path / "corpus")
    datasets = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for path in datasets:
        write_dataset(path, [Example("e", "gait PT", 5, 7, "PT", None, THERAPY.long_form, "n/1")])
    save_inventory(INVENTORY, tmp_path / "i.json")
    with pytest.raises(ConfigError, match="give --evaluate at least twice"):
        TrainingScorer(
            datasets[:1], inventories=[tmp_path / "i.json"], corpus=corpus, keep_in=tmp_path / "best"
        )
    with pytest.raises(
        ConfigError, match="found 2 for 3 --evaluate datasets; allowed: one for all, or one for each"
    ):
        TrainingScorer(datasets, inventories=[tmp_path / "i.json"] * 2, corpus=corpus)
    with pytest.raises(ConfigError, match="two datasets are called 'a'"):
        TrainingScorer(
            [*datasets, tmp_path / "x" / "a.jsonl"], inventories=[tmp_path / "i.json"], corpus=corpus
        )


def test_the_first_of_the_best_is_kept_and_what_a_stopped_run_left_is_not(tmp_path: Path) -> None:
    kept = tmp_path / "best" / "casi"

    def offer(name: str, score: float, hours: float) -> str:
        def save() -> Path:
            (tmp_path / name).mkdir()
            (tmp_path / name / "weights").write_text(name)
            return tmp_path / name

        TrainingScorer._keep_if_best(kept, score, hours, save)
        return (kept / "weights").read_text()

    assert offer("first", 0.5, 1.0) == "first"
    assert offer("equal", 0.5, 2.0) == "first"
    assert offer("better", 0.7, 3.0) == "better"
    assert offer("worse", 0.6, 4.0) == "better"
    assert json.loads((tmp_path / "best" / "casi.json").read_text()) == {
        "macro_f1_of_others": 0.7,
        "hours": 3.0,
    }
    assert (
        offer("resumed", 0.2, 2.5) == "resumed"
    )  # from a checkpoint before the best: that was another future
    assert not (tmp_path / "equal").exists()


@dataclass
class Answers:
    """Chooses the first sense of a dataset's short form, or the second, example by example."""

    chosen: dict[int, list[int]]  # number of examples in the dataset -> the answers

    def scores(self, mentions: Sequence[Mention]) -> list[npt.NDArray[np.float64]]:
        return [np.eye(2)[each] for each in self.chosen[len(mentions)]]


def test_for_each_dataset_the_weights_that_have_the_best_macro_f1_on_the_others_are_kept(
    tmp_path: Path,
) -> None:
    names = [sense.long_form for sense in INVENTORY.senses("PT")]
    save_inventory(INVENTORY, tmp_path / "i.json")
    datasets = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, labels in zip(datasets, ([0], [0, 0, 0, 1]), strict=True):
        rows = [
            Example(f"e{number}", "gait PT", 5, 7, "PT", None, names[label], "n/1")
            for number, label in enumerate(labels)
        ]
        write_dataset(path, rows)
    scorer = TrainingScorer(
        datasets,
        inventories=[tmp_path / "i.json"],
        corpus=clinic_corpus(tmp_path / "corpus"),
        keep_in=tmp_path / "best",
    )
    # The first weights are right on a, and have the higher accuracy on b; the second have the higher macro F1 on b.
    for hours, answers in enumerate(({1: [0], 4: [0, 0, 0, 0]}, {1: [1], 4: [1, 1, 0, 1]}), start=1):
        saved = tmp_path / f"after {hours}"
        saved.mkdir()
        (saved / "weights").write_text(saved.name)
        ranker = Answers(answers)
        scores = scorer._score(lambda _, ranker=ranker: ranker, hours, lambda saved=saved: saved)  # type: ignore[misc]
        assert scores["b"]["accuracy"] == (0.75, 0.5)[hours - 1]
    assert (tmp_path / "best" / "b" / "weights").read_text() == "after 1"
    assert (tmp_path / "best" / "a" / "weights").read_text() == "after 2"


def test_a_disk_that_is_full_when_weights_are_kept_is_told_in_one_line(tmp_path: Path) -> None:
    kept, saved = tmp_path / "best" / "casi", tmp_path / "saved"
    saved.mkdir()
    (saved / "weights").write_bytes(bytes(100))
    TrainingScorer._keep_if_best(kept, 0.5, 1.0, lambda: saved)
    (saved / "weights").write_bytes(bytes(10_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with (
            pytest.raises(TrainingFailed, match=r"best/.*/weights cannot be written: File too large\. Free"),
            explain_failures(tmp_path),
        ):
            TrainingScorer._keep_if_best(kept, 0.7, 2.0, lambda: saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (kept / "weights").stat().st_size == 100

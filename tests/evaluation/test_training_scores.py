"""Which weights are kept while a model trains; that their scores are the table's is tested with `lmcells reproduce`."""

import json
from pathlib import Path

import pytest

from expansion.clinic import INVENTORY, THERAPY, clinic_corpus
from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.evaluation.evaluate import TrainingScorer
from lmcells.expansion import save_inventory


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
        ConfigError, match="found 2 for 3 of --evaluate; allowed: one for all, or one for each"
    ):
        TrainingScorer(datasets, inventories=[tmp_path / "i.json"] * 2, corpus=corpus)


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

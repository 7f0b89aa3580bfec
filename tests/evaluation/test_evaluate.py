"""`lmcells.evaluate` from Python: it ranks as `Expander` does, and finds test notes in the training corpus."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lmcells
from corpora import corpus_of
from expansion.clinic import CLOTTING, INVENTORY, STENOSIS, THERAPY, clinic_corpus, random_model
from lmcells import Expander
from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.evaluation.evaluate import check_leakage, form_of
from lmcells.expansion import save_inventory
from lmcells.expansion.calibration import Calibration

ROWS = [  # text, section, sense
    ("gait and strength with PT on the stairs", "PLAN", THERAPY),
    ("PT and bleeding on warfarin, plasma given", "LABS", CLOTTING),
    ("long PT", None, CLOTTING),
    ("walks, PT twice weekly", "ZQXJ", THERAPY),
    ("murmur of MS, valve calcified", "Physical examination", STENOSIS),
]


def examples() -> list[Example]:
    return [
        Example(
            f"e{n}", text, (start := text.index(name)), start + 2, name, section, sense.long_form, f"n/{n}"
        )
        for n, (text, section, sense) in enumerate(ROWS)
        for name in [sense.short_form]
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated model that ranks by divergence, and knows the sections PLAN and LABS."""
    root = tmp_path_factory.mktemp("model")
    folder = random_model(root / "lmc", clinic_corpus(root / "corpus"), "lmc").folder
    Calibration(temperature=1.7).save(folder)
    return folder


@pytest.mark.parametrize("model", ["default", "lmc"])
def test_probabilities_are_those_of_the_expander(folder: Path, model: str) -> None:
    name = str(folder) if model == "lmc" else model
    (result,) = lmcells.evaluate(name, dataset=examples(), inventory=INVENTORY)
    expander = Expander.from_pretrained(name, only_inventory=INVENTORY)
    for row, example in enumerate(examples()):
        sections = [(0, len(example.text), example.section)]
        (expansion,) = expander(example.text, sections=sections)
        assert (expansion.start, expansion.end) == (example.start, example.end)
        probability_of = {each.long_form: each.probability for each in expansion.candidates}
        expected = [probability_of[sense.long_form] for sense in INVENTORY.senses(example.short_form)]
        found = np.exp(result.predictions.log_probabilities[row])
        # A dataset says that one of the candidates is meant; in a note it may be none of them.
        np.testing.assert_allclose(
            found, np.array(expected) / sum(expected), atol=1e-5
        )  # float32, in other batches


def test_files_and_objects_give_the_same_results(folder: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path / "d.jsonl", examples())
    save_inventory(INVENTORY, tmp_path / "i.json")
    (tmp_path / "map.json").write_text(json.dumps({"ZQXJ": "PLAN"}))
    names = [folder, "random"]
    from_files = lmcells.evaluate(
        names,
        dataset=tmp_path / "d.jsonl",
        inventory=str(tmp_path / "i.json"),
        section_map=tmp_path / "map.json",
    )
    from_objects = lmcells.evaluate(
        names, dataset=iter(examples()), inventory=list(INVENTORY), section_map={"ZQXJ": "PLAN"}
    )
    assert [result.model for result in from_files] == [str(folder), "random"]
    for one, other in zip(from_files, from_objects, strict=True):
        np.testing.assert_array_equal(one.predictions.log_probabilities, other.predictions.log_probabilities)
        assert one.intervals == other.intervals
    assert from_files[0].section_mapping["mapped"] == 1


def test_warnings_and_progress_are_told(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d.jsonl", examples())
    with (tmp_path / "d.jsonl").open("a") as file:
        file.write("not json\n")
    told: dict[str, list[str]] = {"models": [], "warnings": []}
    lmcells.evaluate(
        ["random", "dominant"],
        dataset=tmp_path / "d.jsonl",
        inventory=INVENTORY,
        on_model=told["models"].append,
        on_warning=told["warnings"].append,
    )
    assert told["models"] == ["random", "dominant"]
    assert told["warnings"] == ["1 rows skipped: not JSON (first at d.jsonl:6)"]


def corpus_with(*documents: str) -> Any:
    return SimpleNamespace(folder="corpus", metadata_names=lambda _: list(documents))


def test_notes_of_the_corpus_are_listed_with_their_examples(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["PLAN: pain", "PLAN: gait", "PLAN: stairs"])
    leakage = check_leakage(["t/1", "t/1", "t/9", "t/0"], corpus)
    assert leakage == {
        "n_leaked_notes": 2,
        "n_notes": 3,
        "n_leaked_examples": 3,
        "n_incomparable_notes": 0,
        "n_corpus_notes": 3,
        "leaked_notes": ["t/0", "t/1"],
    }


def test_other_notes_of_the_same_source_are_no_leakage() -> None:
    leakage = check_leakage(["mimic3/12"], corpus_with("mimic3/7", "mimic3/900"))
    assert (leakage["leaked_notes"], leakage["n_incomparable_notes"]) == ([], 0)
    assert check_leakage([], corpus_with("a/1"))["leaked_notes"] == []


@pytest.mark.parametrize(
    "note_id",
    ["12", "mimic/12", "mimic3/noteevents/12", "mimic3/n12", "MIMIC3/12", "mimic3/12-DS-3", "casi/12"],
)
def test_ids_that_could_never_match_are_an_error(note_id: str) -> None:
    with pytest.raises(InputError, match="cannot match any note") as error:
        check_leakage([note_id], corpus_with("mimic3/7", "mimic3/900"))
    assert "\n" not in str(error.value)
    assert repr(note_id) in str(error.value)
    assert "mimic3/7" in str(error.value)
    with pytest.raises(InputError, match="cannot match any note"):
        check_leakage([note_id], corpus_with())


def test_ids_that_could_never_match_beside_others_are_counted() -> None:
    leakage = check_leakage(["a/1", "b/2", "b/3"], corpus_with("a/1", "a/2"))
    assert (leakage["leaked_notes"], leakage["n_incomparable_notes"]) == (["a/1"], 2)


def test_the_form_of_an_id_is_its_source_and_kinds_of_characters() -> None:
    assert form_of("mimic4/99-DS-7") == "mimic4/0-a-0"
    assert form_of("mtsamples/mt00765") == "mtsamples/x"
    assert form_of("765") == "0"

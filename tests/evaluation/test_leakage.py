"""Test notes in the training corpus are found; a check that could find nothing is an error."""

from pathlib import Path

import pytest

from corpora import corpus_of
from lmcells.errors import InputError
from lmcells.evaluation.evaluate import check_leakage, find_leakage, form_of


def test_notes_of_the_corpus_are_listed_with_their_examples(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["PLAN: pain", "PLAN: gait", "PLAN: stairs"])
    leakage = check_leakage(["t/1", "t/1", "t/9", "t/0"], corpus)
    assert leakage.leaked == ("t/0", "t/1")
    assert (leakage.n_notes, leakage.n_examples, leakage.n_corpus_notes) == (3, 3, 3)
    assert leakage.to_json()["leaked_notes"] == ["t/0", "t/1"]


def test_other_notes_of_the_same_source_are_no_leakage() -> None:
    leakage = find_leakage(["mimic3/12"], ["mimic3/7", "mimic3/900"], corpus_name="corpus")
    assert leakage.leaked == ()
    assert leakage.n_incomparable == 0


@pytest.mark.parametrize(
    "note_id",
    ["12", "mimic/12", "mimic3/noteevents/12", "mimic3/n12", "MIMIC3/12", "mimic3/12-DS-3", "casi/12"],
)
def test_ids_that_could_never_match_are_an_error(note_id: str) -> None:
    with pytest.raises(InputError, match="can match nothing") as error:
        find_leakage([note_id], ["mimic3/7", "mimic3/900"], corpus_name="corpus")
    assert "\n" not in str(error.value)
    assert repr(note_id) in str(error.value)
    assert "mimic3/7" in str(error.value)


def test_ids_that_could_never_match_beside_others_are_counted() -> None:
    leakage = find_leakage(["a/1", "b/2", "b/3"], ["a/1", "a/2"], corpus_name="corpus")
    assert leakage.leaked == ("a/1",)
    assert leakage.n_incomparable == 2


def test_a_corpus_without_documents_can_match_nothing() -> None:
    with pytest.raises(InputError, match="can match nothing"):
        find_leakage(["a/1"], [], corpus_name="corpus")


def test_a_dataset_without_notes_leaks_nothing() -> None:
    assert find_leakage([], ["a/1"], corpus_name="corpus").leaked == ()


def test_the_form_of_an_id_is_its_source_and_kinds_of_characters() -> None:
    assert form_of("mimic4/99-DS-7") == "mimic4/0-a-0"
    assert form_of("mtsamples/mt00765") == "mtsamples/x"
    assert form_of("765") == "0"

"""Datasets that build on each other, and corpora: `configs/paper-mimic-strict.toml` on invented files."""

import gzip
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.reproduce.small_protocol import WORDS_OF, changed, write_protocol
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.reproduce import Step, Steps, Workspace, execute, load_protocol, plan_steps
from lmcells.evaluation.reproduce.data_steps import corpus_step
from lmcells.expansion import load_inventory
from lmcells.notes.readers import ReadReport
from note_files import write_noteevents

CONFIG = Path(__file__).parents[3] / "configs" / "paper-mimic-strict.toml"
N_NOTES = 200


def note_text(draw: random.Random) -> str:
    senses_of_pt = list(WORDS_OF.items())[:2]
    return "\n\n".join(
        f"{header.title()}: {' '.join(draw.choices(words, k=8))} {long_form} {' '.join(draw.choices(words, k=8))}."
        for long_form, (header, words) in senses_of_pt
    )


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    draw = random.Random(0)
    rows = [
        {"ROW_ID": number, "SUBJECT_ID": number, "CATEGORY": "Nursing", "TEXT": note_text(draw)}
        for number in range(1, N_NOTES + 1)
    ]
    write_noteevents(tmp_path / "NOTEEVENTS.csv.gz", rows, gzip=True)
    monkeypatch.setenv("MIMIC_NOTES", str(tmp_path / "NOTEEVENTS.csv.gz"))
    senses = {"PT": ("physical therapy", "prothrombin time"), "MS": ("mitral stenosis", "sclerosis")}
    casi = [
        f"{short}|{long}|{short}|8|9|REHAB|seen by {short} today, visit {visit}\n"
        for short, long_forms in senses.items()
        for long in long_forms
        for visit in range(3)
    ]
    forms = "sf,target_lf_sense,target_label\nPT,physical therapy,physical therapy;physiotherapy\n"
    sections = "casi_section,mimic_section\nREHAB,PLAN\n"
    for name, text in {"CASI": "".join(casi), "CASI_FORMS": forms, "CASI_SECTIONS": sections}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    return plan_steps(load_protocol(CONFIG), Workspace(tmp_path / "out"))


def test_datasets_and_corpora_are_made_in_order_and_test_notes_stay_out(steps: Steps) -> None:
    chosen, workspace = steps.matching(["dataset", "corpus"]), steps.workspace
    assert execute(steps, chosen)
    assert all(steps.is_done(step.name) for step in chosen)
    assert load_inventory(workspace.dataset("casi-senses", ".inventory.json")).short_forms == ("MS", "PT")
    reverse = list(read_dataset(workspace.dataset("mimic-rs-strict"), report=ReadReport()))
    assert {example.short_form for example in reverse} == {"PT"}
    tested = {example.note_id for example in reverse}
    assert 5 < len(tested) < 50
    casi = list(read_dataset(workspace.dataset("casi"), report=ReadReport()))
    assert {example.short_form for example in casi} == {"PT"}
    assert {example.section for example in casi} == {"PLAN"}
    assert {example.long_form for example in casi} == {
        sense.long_form for sense in load_inventory(workspace.dataset("casi", ".inventory.json")).senses("PT")
    }
    held_out = set(workspace.dataset("mimic-rs-strict", ".notes.txt").read_text().split())
    assert tested <= held_out
    trained = set(Corpus.open(workspace.corpus("main")).metadata_names("document"))
    assert trained.isdisjoint(held_out)
    assert len(trained) == N_NOTES - len(held_out)
    assert tested < set(Corpus.open(workspace.corpus("leaky")).metadata_names("document"))
    assert not workspace.corpus("main").with_name("corpus.packed").exists()


def test_rows_that_cannot_be_read_are_told_with_the_first_place(steps: Steps, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "NOTEEVENTS.csv.gz", "at") as file:
        file.write('301,1,2\n302,1,,,,,"Nursing",,,1,"withdrawn"\n303,1,,,,,"Nursing",,,,"never closed\n')
    with (tmp_path / "CASI").open("a") as file:
        file.write("PT|too few\n")
    said: list[str] = []
    execute(steps, steps.matching(["dataset", "corpus/main"]), say=said.append)
    told = {line.partition(":")[0]: line.partition(". Rows skipped: ")[2] for line in said}
    assert told["dataset/casi"] == "fewer than 7 columns: 1 (first at CASI:13)"
    for name in ("dataset/mimic-rs", "dataset/mimic-rs-strict", "corpus/main"):
        assert told[name].startswith("too few fields: 1 (first at NOTEEVENTS.csv.gz:")
        assert "marked as an error (ISERROR is 1): 1 (first" in told[name]
        assert "quote never closed: 1 (first" in told[name]


def test_a_dataset_without_examples_says_what_took_them(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "CASI").write_text((tmp_path / "CASI").read_text().replace("|8|", "|9|"))
    said: list[str] = []
    execute(steps, steps.matching(["dataset/casi-senses"]), say=said.append)
    why = "no example is left (offset misses the short form: 12). Check its sources."
    assert said[0] == f"dataset/casi-senses: dataset 'casi-senses': {why}"


def test_notes_that_an_earlier_share_held_out_are_forgotten(tmp_path: Path) -> None:
    """Otherwise the corpus would leave them out, and not those of the dataset as it is now."""
    config = write_protocol(tmp_path)

    def tested_and_trained() -> tuple[set[str], set[str]]:
        steps = plan_steps(load_protocol(config), Workspace(tmp_path / "out"))
        assert execute(steps, steps.matching(["dataset", "corpus"]))
        examples = read_dataset(steps.workspace.dataset("reverse"), report=ReadReport())
        trained = Corpus.open(steps.workspace.corpus("main")).metadata_names("document")
        return {example.note_id for example in examples}, set(trained)

    changed(config, 'kind = "reverse"', 'kind = "reverse"\nshare = 0.5')
    some, trained = tested_and_trained()
    assert some.isdisjoint(trained)
    changed(config, "share = 0.5", "share = 1.0")
    every, trained = tested_and_trained()
    assert some < every
    assert every.isdisjoint(trained)


def test_what_is_licensed_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIMIC_NOTES", "CASI", "CASI_FORMS", "CASI_SECTIONS", "BERT_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    steps = plan_steps(load_protocol(CONFIG), Workspace(tmp_path))
    said = {name: steps.state(name) for name in ("dataset/casi-senses", "dataset/casi", "corpus/leaky")}
    assert "University of Minnesota" in said["dataset/casi-senses"][1]
    assert "physionet.org/content/mimiciii/1.4/. Then: export MIMIC_NOTES=PATH" in said["corpus/leaky"][1]
    assert all(state == "cannot run" and "is not set" in why for state, why in said.values())


def test_how_notes_are_read_decides_the_corpus_and_packing_does_not(tmp_path: Path) -> None:
    protocol = load_protocol(write_protocol(tmp_path))
    workspace = Workspace(tmp_path / "out")

    def step(**changes: Any) -> Step:
        changed = replace(protocol, corpus=replace(protocol.corpus, exclude=(), **changes))
        return corpus_step("main", changed, workspace, workers=1)

    def key(**changes: Any) -> str:
        return Steps([step(**changes)], workspace).key("corpus/main")

    assert key(pack=False) == key()
    assert len({key(), key(stop_words=True), key(spelled_out=0.5), key(min_count=3)}) == 4
    steps = Steps([step(stop_words=True)], workspace)
    assert execute(steps, list(steps))
    assert Corpus.open(workspace.corpus("main")).reads_stop_words

"""Datasets that build on each other, and corpora: `configs/paper-mimic.toml` on invented files."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.reproduce.small_protocol import write_protocol
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.reproduce import Steps, Workspace, execute, load_protocol, plan_steps
from lmcells.evaluation.reproduce.data_steps import corpus_step
from lmcells.expansion import load_inventory
from lmcells.notes.readers import ReadReport
from note_files import write_noteevents

CONFIG = Path(__file__).parents[3] / "configs" / "paper-mimic.toml"
WORDS_OF = {
    "physical therapy": ("Plan", "exercise gait walking strength stairs balance"),
    "prothrombin time": ("Labs", "bleeding clotting warfarin seconds plasma bruise"),
}
N_NOTES = 200


def note_text(draw: random.Random) -> str:
    lines = []
    for long_form, (header, words) in WORDS_OF.items():
        before, after = (" ".join(draw.choices(words.split(), k=8)) for _ in range(2))
        lines.append(f"{header}: {before} {long_form} {after}.")
    return "\n\n".join(lines)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    draw = random.Random(0)
    rows = [
        {"ROW_ID": number, "SUBJECT_ID": number, "CATEGORY": "Nursing", "TEXT": note_text(draw)}
        for number in range(1, N_NOTES + 1)
    ]
    write_noteevents(tmp_path / "NOTEEVENTS.csv.gz", rows, gzip=True)
    senses = (
        ("PT", "physical therapy"),
        ("PT", "prothrombin time"),
        ("MS", "mitral stenosis"),
        ("MS", "sclerosis"),
    )
    casi = [
        f"{short}|{long}|{short}|8|9|REHAB|seen by {short} today, visit {visit}"
        for short, long in senses
        for visit in range(3)
    ]
    (tmp_path / "casi.txt").write_text("\n".join(casi))
    (tmp_path / "forms.csv").write_text(
        "sf,target_lf_sense,target_label\nPT,physical therapy,physical therapy;physiotherapy\n"
    )
    (tmp_path / "sections.csv").write_text("casi_section,mimic_section\nREHAB,PLAN\n")
    for name, file in {
        "MIMIC_NOTES": "NOTEEVENTS.csv.gz",
        "CASI": "casi.txt",
        "CASI_FORMS": "forms.csv",
        "CASI_SECTIONS": "sections.csv",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / file))
    return plan_steps(load_protocol(CONFIG, checks_models=False), Workspace(tmp_path / "out"))


def test_datasets_and_corpora_are_made_in_order_and_test_notes_stay_out(steps: Steps) -> None:
    chosen, workspace = steps.matching(["dataset", "corpus"]), steps.workspace
    assert execute(steps, chosen)
    assert all(steps.is_done(step.name) for step in chosen)
    assert load_inventory(workspace.inventory("casi-senses")).short_forms == ("MS", "PT")
    reverse = list(read_dataset(workspace.dataset("mimic-rs"), report=ReadReport()))
    assert {example.short_form for example in reverse} == {"PT"}
    tested = {example.note_id for example in reverse}
    assert 5 < len(tested) < 50
    casi = list(read_dataset(workspace.dataset("casi"), report=ReadReport()))
    assert {example.short_form for example in casi} == {"PT"}
    assert {example.section for example in casi} == {"PLAN"}
    assert {example.long_form for example in casi} == {
        sense.long_form for sense in load_inventory(workspace.inventory("casi")).senses("PT")
    }
    trained = set(Corpus.open(workspace.corpus("main")).metadata_names("document"))
    assert trained.isdisjoint(tested)
    assert len(trained) == N_NOTES - len(tested)
    assert tested < set(Corpus.open(workspace.corpus("leaky")).metadata_names("document"))
    assert not workspace.corpus("main").with_name("corpus.packed").exists()


def test_what_is_licensed_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIMIC_NOTES", "CASI", "CASI_FORMS", "CASI_SECTIONS", "BERT_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    steps = plan_steps(load_protocol(CONFIG, checks_models=False), Workspace(tmp_path))
    said = {name: steps.state(name).why for name in ("dataset/casi-senses", "corpus/main", "dataset/casi")}
    assert "University of Minnesota" in said["dataset/casi-senses"]
    assert "physionet.org" in steps.state("corpus/leaky").why
    assert all("is not set" in why for why in said.values())


def test_how_notes_are_read_decides_the_corpus_and_packing_does_not(tmp_path: Path) -> None:
    protocol = load_protocol(write_protocol(tmp_path), checks_models=False)
    workspace = Workspace(tmp_path / "out")

    def key(**changes: object) -> str:
        changed = replace(protocol, corpus=replace(protocol.corpus, exclude=(), **changes))  # type: ignore[arg-type]
        return Steps([corpus_step("main", changed, workspace, workers=1)], workspace).key("corpus/main")

    assert key(pack=False) == key()
    assert len({key(), key(stop_words=True), key(spelled_out=0.5), key(min_count=3)}) == 4


def test_a_protocols_corpus_has_stop_words_where_it_says_so(tmp_path: Path) -> None:
    protocol = load_protocol(write_protocol(tmp_path), checks_models=False)
    corpus = replace(protocol.corpus, stop_words=True, exclude=())
    workspace = Workspace(tmp_path / "out")
    step = corpus_step("main", replace(protocol, corpus=corpus), workspace, workers=1)
    step.run(lambda _: True)
    assert Corpus.open(workspace.corpus("main")).reads_stop_words

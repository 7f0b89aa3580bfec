"""Notes of many requests, expanded together: as if each had come alone, and each wrong one wrong alone."""

import json
from typing import Any

import pytest

from expansion.clinic import INVENTORY
from lmcells import Expander
from lmcells.errors import InputError, InventoryError, UnknownShortForm
from lmcells.expansion import Sense, SenseInventory, expand_text
from lmcells.expansion.layers import extend
from lmcells.service.jobs import Job, NoteQueue
from lmcells.service.messages import InventoryEdits, ManyNotes, OneNote, SenseMessage, SenseName
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.worker import Worker, edit_inventory
from service.serving import NOTE

ADDED = {"add": [{"short_form": "PT", "long_form": "gait"}], "remove": [{"short_form": "MS"}]}


@pytest.fixture(scope="module")
def worker(expander: Expander) -> Worker:
    return Worker(NoteQueue(), expander, ServiceMetrics())


def asked(**values: Any) -> Job:
    return Job((ManyNotes if "notes" in values else OneNote).model_validate(values))


def run(worker: Worker, *jobs: Job) -> None:
    worker.expand([(job, index) for job in jobs for index in range(len(job.notes))])


def names(expansions: Any) -> list[Any]:
    return [(each.start, each.short_form, each.section, each.long_form, each.source) for each in expansions]


def test_answers_are_those_of_the_library(worker: Worker, expander: Expander) -> None:
    plain = asked(text=NOTE)
    own_sections = asked(text=NOTE, sections=[{"start": 0, "end": 10, "header": "LABS"}])
    own_senses = asked(text=NOTE, inventory=ADDED)
    many = asked(notes=[{"id": "a", "text": NOTE}, {"id": "b", "text": ""}], expanded_text="replace")
    run(worker, plain, own_sections, own_senses, many)
    assert names(plain.answers[0].expansions) == names(expander(NOTE))
    assert names(own_sections.answers[0].expansions) == names(expander(NOTE, sections=[(0, 10, "LABS")]))
    changed = [{"short_form": "MS", "action": "forbid"}, Sense("PT", "gait")]
    assert names(own_senses.answers[0].expansions) == names(expander(NOTE, inventory=changed))
    first, second = many.answers[0], many.answers[1]
    assert (first.id, second.id, second.expansions) == ("a", "b", [])
    assert first.expanded == expand_text(NOTE, expander(NOTE))
    assert [note["id"] for note in json.loads(many.answered.result(0))["notes"]] == ["a", "b"]


def test_an_explanation_stands_beside_each_ranked_expansion(worker: Worker) -> None:
    job = asked(text=NOTE, explain=True)
    run(worker, job)
    answer = job.answers[0]
    assert answer.explanations is not None
    for expansion, explanation in zip(answer.expansions, answer.explanations, strict=True):
        assert (explanation is None) == (expansion.source == "definition")
        for word in explanation.words if explanation else ():
            assert NOTE[word.start : word.end].lower() == word.word or word.word == "<digit>"


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "PT", "sections": [{"start": 0, "end": 99, "header": "X"}]},
        {"text": "PT", "inventory": {"remove": [{"short_form": "XYZ"}]}},
        {"text": "PT", "inventory": {"rules": [{"short_form": "PT", "action": "pin"}]}},
    ],
)
def test_a_wrong_request_fails_alone(worker: Worker, wrong: dict[str, Any]) -> None:
    bad, good = asked(**wrong), asked(text=NOTE)
    run(worker, bad, good)
    assert isinstance(bad.answered.exception(0), InputError)
    assert good.answered.exception(0) is None


def test_a_note_that_breaks_the_library_takes_no_other_with_it(
    expander: Expander, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Expander.expand_read

    def breaks_on_two_notes_of_length_three(self: Expander, notes: Any, lexicon: Any) -> Any:
        if any(len(note) == 3 for note in notes):
            raise ZeroDivisionError
        return whole(self, notes, lexicon)

    monkeypatch.setattr(Expander, "expand_read", breaks_on_two_notes_of_length_three)
    broken, fine = asked(text="PT, PT, PT"), asked(text="PT, PT")
    metrics = ServiceMetrics()
    run(Worker(NoteQueue(), expander, metrics), broken, fine)
    assert isinstance(broken.answered.exception(0), ZeroDivisionError)
    assert fine.answered.exception(0) is None
    counted = metrics.render().decode()
    assert "lmcells_notes_total 1.0" in counted  # tried twice, answered once
    assert 'lmcells_expansions_total{outcome="model"} 2.0' in counted


def test_nothing_is_done_for_who_has_left(worker: Worker) -> None:
    job = asked(text=NOTE)
    job.answered.cancel()
    run(worker, job)
    assert job.answers == {}
    job.fail(ValueError())
    assert job.answered.cancelled()


# Inventories of requests

ADD = SenseMessage(short_form="CVA", long_form="cerebrovascular accident", forms=("stroke",), concept_id="C7")


def test_edits_are_those_of_the_library() -> None:
    edits = InventoryEdits(add=(ADD,), remove=(SenseName(short_form="PT", long_form="Prothrombin Time"),))
    expected = extend(
        INVENTORY,
        [
            Sense("CVA", "cerebrovascular accident", ("stroke",), "C7"),
            {"short_form": "PT", "long_form": "prothrombin time", "action": "forbid"},
        ],
    )
    assert dict(edit_inventory(INVENTORY, edits).by_short_form) == dict(expected.by_short_form)


def test_removing_all_senses_leaves_none() -> None:
    assert edit_inventory(INVENTORY, InventoryEdits(remove=(SenseName(short_form="MS"),))).senses("MS") == ()


def test_rules_of_a_request_pin_by_the_metadata_of_its_notes(worker: Worker) -> None:
    pin = {"short_form": "MS", "long_form": "mitral stenosis", "action": "pin", "where": {"category": "Echo"}}
    notes = [{"text": "MS", "metadata": {"category": "echo"}}, {"text": "MS"}]
    job = asked(notes=notes, inventory={"rules": [pin]})
    alone = asked(text="MS and PT", inventory={"rules": [pin | {"where": {}}], "only": True})
    run(worker, job, alone)
    sources = [job.answers[index].expansions[0].source for index in (0, 1)]
    assert sources == ["pinned", "model"]
    assert [each.short_form for each in alone.answers[0].expansions] == ["MS"]


def test_a_sense_may_be_replaced() -> None:
    edits = InventoryEdits(
        add=(SenseMessage(short_form="PT", long_form="physical therapy", forms=("physio",)),),
        remove=(SenseName(short_form="PT", long_form="physical therapy"),),
    )
    assert edit_inventory(INVENTORY, edits).senses("PT")[-1].forms == ("physio",)


def test_contradictions_are_named() -> None:
    with pytest.raises(UnknownShortForm, match=r"'XYZ' is not in the inventory \(2 short forms\)"):
        edit_inventory(INVENTORY, InventoryEdits(remove=(SenseName(short_form="XYZ"),)))
    wrong = InventoryEdits(remove=(SenseName(short_form="PT", long_form="prothrombin tim"),))
    with pytest.raises(InventoryError, match=r"is not a sense of 'PT'\. Nearest: 'prothrombin time'"):
        edit_inventory(INVENTORY, wrong)


def test_equal_edits_share_an_inventory_and_few_are_kept(
    expander: Expander, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert edit_inventory(INVENTORY, InventoryEdits()) is INVENTORY
    edited: list[InventoryEdits] = []

    def edit(inventory: SenseInventory, edits: InventoryEdits) -> SenseInventory:
        edited.append(edits)
        return edit_inventory(inventory, edits)

    monkeypatch.setattr("lmcells.service.worker.edit_inventory", edit)
    worker = Worker(NoteQueue(), expander, ServiceMetrics())
    senses = [{"short_form": "X", "long_form": f"sense {number}"} for number in range(20)]
    for each in [*senses[:2], *senses[:2], *senses, senses[0]]:
        job = asked(text="PT", inventory={"add": [each]})
        run(worker, job)
        assert job.answered.result(0)
    assert len(edited) == 20 + 1  # the first was no longer kept

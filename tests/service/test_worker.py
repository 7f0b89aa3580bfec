"""Notes of many requests, expanded together: as if each had come alone, and each wrong one wrong alone."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from expansion.clinic import INVENTORY
from lmcells import Expander
from lmcells.errors import InputError, InventoryError, UnknownShortForm
from lmcells.expansion import Sense, SenseInventory, expand_text
from lmcells.expansion.inventory_files import load_rules
from lmcells.expansion.layers import extend
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.service.jobs import Job
from lmcells.service.messages import InventoryEdits, ManyNotes, NoteAnswer, OneNote
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.worker import Worker, Workers, lane_of, rules_of
from service.serving import NOTE

ADDED = {"add": [{"short_form": "PT", "long_form": "gait"}], "remove": [{"short_form": "MS"}]}


@pytest.fixture(scope="module")
def worker(expander: Expander) -> Worker:
    return Worker(expander, ServiceMetrics())


def answer(job: Job, index: int = 0) -> NoteAnswer:
    return NoteAnswer.model_validate_json(job.answers[index])


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
    assert names(answer(plain).expansions) == names(expander(NOTE))
    assert names(answer(own_sections).expansions) == names(expander(NOTE, sections=[(0, 10, "LABS")]))
    changed = [{"short_form": "MS", "action": "forbid"}, Sense("PT", "gait")]
    assert names(answer(own_senses).expansions) == names(expander(NOTE, inventory=changed))
    first, second = answer(many), answer(many, 1)
    assert (first.id, second.id, second.expansions) == ("a", "b", ())
    assert first.expanded is not None
    assert first.expanded.text == expand_text(NOTE, expander(NOTE)).text
    assert [note["id"] for note in json.loads(many.answered.result(0))["notes"]] == ["a", "b"]


def test_an_explanation_stands_beside_each_ranked_expansion(worker: Worker) -> None:
    job = asked(text=NOTE, explain=True)
    run(worker, job)
    said = answer(job)
    assert said.explanations is not None
    for expansion, explanation in zip(said.expansions, said.explanations, strict=True):
        assert (explanation is None) == (expansion.source == "definition")
        for word in explanation.words if explanation else ():
            assert NOTE[word.start : word.end].lower() == word.word or word.word == "<digit>"


def test_single_mentions_are_explained_as_all_are(worker: Worker) -> None:
    every = asked(text=NOTE, explain=True)
    run(worker, every)
    explained = answer(every).explanations or ()
    starts = [expansion.start for expansion in answer(every).expansions]
    for index, start in enumerate(starts):
        one = asked(text=NOTE, explain=[start])
        run(worker, one)
        given = answer(one).explanations or ()
        assert [each for number, each in enumerate(given) if number != index] == [None] * (len(starts) - 1)
        found, expected = given[index], explained[index]
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.section_effect == pytest.approx(expected.section_effect, abs=1e-4)
            effects = [[each.effect or 0.0 for each in one.words] for one in (found, expected)]
            assert effects[0] == pytest.approx(effects[1], abs=1e-4)


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
    run(Worker(expander, metrics), broken, fine)
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


def test_work_stops_when_nobody_waits_any_more(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second batch of a note is not ranked when its request has run out of time during the first."""
    monkeypatch.setattr("lmcells.expansion.ranking._BATCH", 2)
    job = asked(text="PT, " * 20)
    n_batches = 0
    posterior = PosteriorRanker.posterior

    def given_up(*given: Any) -> Any:
        nonlocal n_batches
        n_batches += 1
        job.answered.cancel()
        return posterior(*given)

    monkeypatch.setattr(PosteriorRanker, "posterior", given_up)
    run(Worker(expander, ServiceMetrics()), job)
    assert (n_batches, job.answers) == (1, {})


# Lanes


@pytest.mark.parametrize(
    ("request_", "lane"),
    [
        ({"text": "PT"}, "interactive"),
        ({"text": "PT", "explain": True}, "interactive"),
        ({"text": "x" * 3_000}, "interactive"),
        ({"text": "x" * 3_000, "explain": True}, "bulk"),
        ({"text": "PT", "inventory": {"remove": [{"short_form": "MS"}]}}, "interactive"),
        ({"text": "PT", "inventory": {"remove": [{"short_form": "MS"}] * 400}}, "bulk"),
        ({"text": "x" * 3_000, "inventory": {"remove": [{"short_form": "MS"}] * 50}}, "bulk"),
        ({"text": "x" * 6_000, "inventory": {"remove": [{"short_form": "MS"}] * 1_000}}, "heavy"),
        ({"notes": [{"text": "x" * 1_000}] * 300}, "bulk"),
        ({"text": "PT " * 20_000}, "heavy"),
        ({"text": "x" * 10_000, "explain": True}, "heavy"),
        ({"notes": [{"text": "PT"}, {"text": "x" * 100_000}]}, "heavy"),
    ],
)
def test_requests_go_by_their_size(request_: dict[str, Any], lane: str) -> None:
    assert lane_of(asked(**request_)) == lane


def test_one_note_stops_nobody(expander: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a heavy note and a bulk of notes are worked on, and others of their size wait, a small one is answered."""
    go_on = Event()
    whole = Expander.expand_read

    def slow(self: Expander, notes: Any, lexicon: Any) -> Any:
        if sum(map(len, notes)) > 100:
            assert go_on.wait(30)
        return whole(self, notes, lexicon)

    monkeypatch.setattr(Expander, "expand_read", slow)
    workers = Workers(expander, ServiceMetrics())
    many = "PT " * 150
    heavy, bulk = {"text": many + "x " * 30_000}, {"notes": [{"text": many}, *[{"text": "x " * 300}] * 99]}
    assert [lane_of(asked(**each)) for each in (heavy, bulk)] == ["heavy", "bulk"]
    large, more = ([asked(**heavy), asked(**bulk)] for _ in range(2))
    for job in (*large, *more):
        workers.put(job)
    small = asked(text=NOTE)
    workers.put(small)
    try:
        assert small.answered.result(10)
        assert not any(job.answered.done() for job in large)
    finally:
        go_on.set()
        for job in (*large, *more):
            assert job.answered.result(60)
        workers.stop()


# Inventories of requests


def edited(**edits: Any) -> SenseInventory:
    return extend(INVENTORY, rules_of(InventoryEdits.model_validate(edits), INVENTORY))


ADD = {"short_form": "CVA", "long_form": "cerebrovascular accident", "forms": ["stroke"], "concept_id": "C7"}


def test_edits_are_those_of_the_library() -> None:
    expected = extend(
        INVENTORY,
        [
            Sense("CVA", "cerebrovascular accident", ("stroke",), "C7"),
            {"short_form": "PT", "long_form": "prothrombin time", "action": "forbid"},
        ],
    )
    assert edited(add=[ADD], remove=[{"short_form": "PT", "long_form": "Prothrombin Time"}]) == expected


def test_removing_all_senses_leaves_none() -> None:
    assert edited(remove=[{"short_form": "MS"}]).senses("MS") == ()


def test_rules_of_a_request_pin_by_the_metadata_of_its_notes(worker: Worker) -> None:
    pin = {"short_form": "MS", "long_form": "mitral stenosis", "action": "pin", "where": {"category": "Echo"}}
    notes = [{"text": "MS", "metadata": {"category": "echo"}}, {"text": "MS"}]
    job = asked(notes=notes, inventory={"rules": [pin]})
    alone = asked(text="MS and PT", inventory={"rules": [pin | {"where": {}}], "only": True})
    run(worker, job, alone)
    sources = [answer(job, index).expansions[0].source for index in (0, 1)]
    assert sources == ["pinned", "model"]
    assert [each.short_form for each in answer(alone).expansions] == ["MS"]


@pytest.mark.parametrize(
    "misspelt", [{"sectoin": "PLAN"}, {"where": {"catgeory": "Echo"}}, {"actoin": "pin"}]
)
def test_a_misspelt_key_of_a_rule_is_refused(misspelt: dict[str, Any]) -> None:
    rule = {"short_form": "MS", "long_form": "mitral stenosis"}
    with pytest.raises((InputError, ValueError), match=r"looks like a misspelt '(section|category|action)'"):
        edited(add=[ADD], rules=[rule | misspelt])


def test_a_request_pins_a_short_form_once_in_a_place() -> None:
    pins = [
        {"short_form": "MS", "long_form": name, "action": "pin", "where": {"section": where}}
        for name, where in (("mitral stenosis", "HPI"), ("multiple sclerosis", "PLAN"), ("morphine", "HPI"))
    ]
    assert edited(rules=pins[:2])
    with pytest.raises(
        InventoryError, match=r"entry 3: 'MS' is already pinned there \(entry 1\)\. Keep one\."
    ):
        edited(rules=pins)


def test_rules_are_read_as_in_files(tmp_path: Path) -> None:
    rules = [
        {
            "short_form": "MS",
            "long_form": "mitral stenosis",
            "action": "Pin",
            "Section": "CARDIOLOGY",
            "ward": "B2",
        },
        {
            "short_form": "PT",
            "action": "forbid",
            "long_form": "",
            "where": {"section": "PLAN"},
            "forms": None,
        },
        {
            "short_form": "AF",
            "long_form": "flutter",
            "concept_id": 4068155,
            "error_prone": "yes",
            "n_notes": 3,
        },
    ]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    in_request = rules_of(InventoryEdits.model_validate({"rules": rules}), INVENTORY)
    assert in_request == [rule for _, rule in load_rules(tmp_path / "rules.json")]
    assert in_request[0].where == (("section", "CARDIOLOGY"), ("ward", "B2"))


def test_a_sense_may_be_replaced() -> None:
    replaced = {"short_form": "PT", "long_form": "physical therapy"}
    senses = edited(add=[replaced | {"forms": ["physio"]}], remove=[replaced]).senses("PT")
    assert senses[-1].forms == ("physio",)


@pytest.mark.parametrize(
    ("edits", "error", "message"),
    [
        (
            {"remove": [{"short_form": "XYZ"}]},
            UnknownShortForm,
            r"'XYZ' is not in the inventory \(2 short forms\)",
        ),
        (
            {"add": [ADD, ADD | {"long_form": "Cerebrovascular  accident"}]},
            InventoryError,
            r"^inventory\.add\.1: .* is already .* \(inventory\.add\.0\)\. Leave one out",
        ),
        (
            {"remove": [{"short_form": "PT", "long_form": "prothrombin tim"}]},
            InventoryError,
            r"is not a sense of 'PT'\. Nearest: 'prothrombin time'",
        ),
    ],
)
def test_contradictions_are_named(edits: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        edited(**edits)


def test_a_long_form_without_words_breaks_nothing(worker: Worker) -> None:
    job = asked(text="CT-guided PT", inventory={"add": [{"short_form": "CT-guided", "long_form": "--"}]})
    run(worker, job)
    assert len(answer(job).expansions) == 2


def test_a_removed_short_form_is_not_found_as_another(expander: Expander) -> None:
    """Without its senses PT was taken for "Pt", a patient."""
    both = Expander(expander.model, [*INVENTORY, Sense("Pt", "patient")])
    text = "Pt seen by PT"
    every_sense = [{"short_form": "PT", "long_form": sense.long_form} for sense in INVENTORY.senses("PT")]
    for remove in ([{"short_form": "PT"}], every_sense):
        job = asked(text=text, inventory={"remove": remove})
        run(Worker(both, ServiceMetrics()), job)
        assert [each.start for each in answer(job).expansions] == [0]


def test_equal_edits_share_an_inventory_and_few_are_kept(
    expander: Expander, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[object] = []
    lexicon = expander.lexicon
    monkeypatch.setattr(expander, "lexicon", lambda *layers: prepared.append(layers) or lexicon(*layers))
    worker = Worker(expander, ServiceMetrics())
    senses = [{"short_form": "X", "long_form": f"sense {number}"} for number in range(20)]
    for each in [*senses[:2], *senses[:2], *senses, senses[0]]:
        job = asked(text="PT", inventory={"add": [each]})
        run(worker, job)
        assert job.answered.result(0)
    assert len(prepared) == 20 + 1  # the first was no longer kept

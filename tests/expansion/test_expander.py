"""Whole notes: what a model decides, streams, inventories by call, and where the parts come from."""

import math
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

import lmcells
from expansion.clinic import INVENTORY, UNHEARD
from lmcells import Expander
from lmcells.errors import InputError, InventoryError, ModelError, UnknownShortForm
from lmcells.expansion import Expansion, Sense, SenseInventory, save_inventory
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.explain import explain
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.lexicon import Lexicon
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import CellRanker, share_within_notes
from lmcells.expansion.windows import Mention
from lmcells.notes.note import Note, Section
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import shipped_model

NOTE = "PLAN: Pt in PT for gait.\n\nLABS: PT 12, warfarin.\n\nPMH: multiple sclerosis (MS), MS."
OTHER = [{"short_form": "CVA", "long_form": "cerebrovascular accident", "concept_id": "C7"}]


@pytest.fixture(scope="module")
def model(plain_model: PretrainedModel) -> PretrainedModel:
    return plain_model


class Disagreeing(CellRanker):
    """Each mention is sure of another of two senses."""

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        return [np.roll([6.0, 1.0], at) for at in range(len(mentions))]


def test_mentions_that_disagree_are_not_refused_for_it(model: PretrainedModel) -> None:
    strict = Calibration(least_score=5.5)
    expand = Expander(model, INVENTORY, calibration=strict, make_ranker=Disagreeing)
    first, second = expand("PLAN: PT for gait, then PT.")
    assert first.long_form != second.long_form
    assert first.abstained is second.abstained is None


@pytest.fixture(scope="module")
def expander(model: PretrainedModel) -> Expander:
    return Expander(model, INVENTORY)


def close(left: list[Expansion], right: list[Expansion]) -> bool:
    """The same but for the last digits: a product of matrices rounds by the number of rows."""
    same = [each.to_dict() | {"probability": 0, "candidates": 0} for each in left] == [
        each.to_dict() | {"probability": 0, "candidates": 0} for each in right
    ]
    return same and all(
        a.long_form == b.long_form and math.isclose(a.probability, b.probability, abs_tol=1e-5)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one.candidates, other.candidates, strict=True)
    )


def test_a_note_is_expanded(expander: Expander) -> None:
    expansions = expander(NOTE)
    assert [NOTE[each.start : each.end] for each in expansions] == ["Pt", "PT", "PT", "MS", "MS"]
    assert [each.section for each in expansions][::2] == ["PLAN", "LABORATORY DATA", "PAST MEDICAL HISTORY"]
    for each in expansions[:3]:
        assert each.source == "model"
        assert each.long_form == each.candidates[0].long_form
        assert each.probability == max(candidate.probability for candidate in each.candidates)
        assert sum(candidate.probability for candidate in each.candidates) == pytest.approx(1)
        assert each.abstained is None
    for each in expansions[3:]:
        assert (each.source, each.long_form) == ("definition", "multiple sclerosis")


def test_probabilities_are_those_of_the_ranking(expander: Expander, model: PretrainedModel) -> None:
    text = "gait with PT on stairs"
    (found,) = expander(text)
    (scores,) = CellRanker(model, INVENTORY).scores([Mention(text, 10, 12, "PT", None)])
    expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    names = [sense.long_form for sense in INVENTORY.senses("PT")]
    by_name = {candidate.long_form: candidate.probability for candidate in found.candidates}
    assert [by_name[name] for name in names] == pytest.approx(expected.tolist(), abs=1e-5)


def test_each_expansion_is_explained_as_the_note_as_a_whole_decides_it(model: PretrainedModel) -> None:
    note = NOTE + "\n\nPLAN: more PT."
    expand = Expander(model, INVENTORY, calibration=Calibration(temperature=2.0))
    expansions, explanations = expand(note), expand.explain(note)
    assert [each is None for each in explanations] == [each.source == "definition" for each in expansions]
    lexicon = expand.lexicon()
    read = lexicon.read(note)
    mentions = [each.mention for each in read if each.mention is not None]
    own = lexicon.ranker.scores(mentions)
    evidence = [
        shared - alone for shared, alone in zip(share_within_notes([mentions], own), own, strict=True)
    ]
    assert any(each.any() for each in evidence)
    expected = explain(lexicon.ranker, mentions, evidence=evidence, temperature=2.0)
    assert [each for each in explanations if each is not None] == expected


def test_what_is_explained_is_the_answer_not_another_sense(
    monkeypatch: pytest.MonkeyPatch, model: PretrainedModel
) -> None:
    note = "LABS: seen by PT for gait and warfarin today."

    def effects(prior: list[float], **rules: Any) -> list[float | None]:
        monkeypatch.setattr(Lexicon, "prior_of", lambda *_: (prior, 0.0))
        (explanation,) = Expander(model, INVENTORY).explain(note, **rules)
        assert explanation is not None
        return [explanation.section_effect, *(word.effect for word in explanation.words)]

    therapy, clotting = effects([50.0, 0.0]), effects([0.0, 50.0])
    assert any(therapy)
    assert therapy == pytest.approx([-effect for effect in clotting if effect is not None], abs=1e-4)
    forbidden = {"short_form": "PT", "long_form": "prothrombin time", "action": "forbid", "section": "LABS"}
    assert set(effects([0.0, 0.0], inventory=[forbidden])) == {None}  # no other sense is left


def test_an_unlikely_answer_is_withheld(model: PretrainedModel) -> None:
    unsure = Expander(model, INVENTORY, calibration=Calibration(least_probability=1.0, temperature=1e6))
    (found,) = unsure("seen by PT today")
    assert (found.long_form, found.probability, found.abstained) == (None, None, "low_confidence")
    assert len(found.candidates) == 2
    unfit = Expander(model, INVENTORY, calibration=Calibration(least_score=1e9))
    assert unfit("seen by PT today")[0].abstained == "no_sense_fits"


def test_a_long_form_that_no_model_can_know_is_said_to_be_so(expander: Expander) -> None:
    (found,) = expander("seen by PT today", only_inventory=[UNHEARD])
    assert (found.long_form, found.abstained) == (None, "no_known_long_form")


def test_a_stream_gives_what_single_calls_give(expander: Expander) -> None:
    notes = [NOTE, "", "no short form", "PT", NOTE + "\n\nPLAN: MS and PT"] * 3
    single = [expander(note) for note in notes]
    for batch_size in (1, 2, 4, 100):
        streamed = list(expander.pipe(notes, batch_size=batch_size))
        assert all(close(one, other) for one, other in zip(streamed, single, strict=True))
    assert list(expander.pipe([])) == []


def given_sections(number: int) -> tuple[Section, ...] | None:
    """Of "PT in PT, MS": two that meet in the middle, none at all, or as they are found."""
    two = (Section("Plan", "PLAN", 0, 0, 5), Section("Labs", "LABORATORY DATA", 5, 5, 12))
    return (two, (), None)[number % 3]


def test_a_stream_takes_notes_with_sections_of_their_own(expander: Expander) -> None:
    notes = [Note(str(number), "PT in PT, MS", sections=given_sections(number)) for number in range(9)]
    single = [expander(note.text, sections=note.sections) for note in notes]
    assert {(one[0].section, one[1].section) for one in single} == {("PLAN", "LABORATORY DATA"), (None, None)}
    for batch_size in (1, 2, 4, 100):
        streamed = list(expander.pipe(notes, batch_size=batch_size))
        assert all(close(one, other) for one, other in zip(streamed, single, strict=True))


def test_a_stream_mixes_texts_notes_and_any_object_with_sections(expander: Expander) -> None:
    @dataclass(frozen=True)
    class Document:
        text: str
        sections: list[dict[str, object]]

    document = Document("PT", [{"start": 0, "end": 2, "header": "Plan"}])
    stream = expander.pipe([("LABS: PT", 1), (document, 2), (Note("x", "PLAN: PT"), 3)], as_tuples=True)
    assert [(found.section, context) for (found,), context in stream] == [
        ("LABORATORY DATA", 1),
        ("PLAN", 2),
        ("PLAN", 3),
    ]


def counting(ranked: list[int]) -> type[Any]:
    """Return a ranker that notes how many mentions it ranks together."""

    class Counting:
        def __init__(self, _: PretrainedModel, __: SenseInventory) -> None: ...

        def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
            ranked.append(len(mentions))
            return [np.zeros(2)] * len(mentions)

    return Counting


def test_notes_with_sections_are_ranked_together_and_read_as_they_are_needed(model: PretrainedModel) -> None:
    ranked: list[int] = []
    taken: list[int] = []

    def endless() -> Iterator[Note]:
        for number in count():
            taken.append(number)
            yield Note(str(number), "PT in PT, MS", sections=given_sections(number))

    stream = Expander(model, INVENTORY, make_ranker=counting(ranked)).pipe(endless(), batch_size=8)
    assert [len(next(stream)) for _ in range(9)] == [3] * 9
    assert (len(taken), ranked) == (16, [24, 24])


def test_a_stream_of_notes_with_sections_keeps_none_of_them(expander: Expander) -> None:
    class Document:
        def __init__(self) -> None:
            self.text, self.sections = "seen by PT", [(0, 10, "Plan")]

    kept: list[weakref.ref[Document]] = []

    def documents() -> Iterator[Document]:
        for _ in range(50):
            document = Document()
            kept.append(weakref.ref(document))
            yield document

    most = max(sum(each() is not None for each in kept) for _ in expander.pipe(documents(), batch_size=5))
    assert most <= 1  # that which the source itself holds


def test_wrong_sections_in_a_stream_are_refused_and_never_quoted(expander: Expander) -> None:
    with pytest.raises(
        InputError, match=r"^sections: number 1 is 0-99, the one before ends at 0, the text has 9 char"
    ):
        list(expander.pipe([Note("x", "secret PT", sections=(Section("A", "A", 0, 0, 99),))]))
    for wrong, kind in ((b"secret PT", "bytes"), (SimpleNamespace(text="secret PT"), "SimpleNamespace")):
        with pytest.raises(InputError, match=rf"^a note is text .* found: {kind}\.$"):
            list(expander.pipe([wrong]))
    with pytest.raises(InputError, match=r"^a note is text \(str\), found: int\.$"):
        list(expander.pipe([SimpleNamespace(text=1, sections=None)]))


def test_a_stream_carries_what_stands_beside_the_notes(expander: Expander) -> None:
    pairs = [("PT", {"id": 1}), ("nothing", {"id": 2})]
    streamed = list(expander.pipe(pairs, as_tuples=True))
    assert [context for _, context in streamed] == [{"id": 1}, {"id": 2}]
    assert [len(expansions) for expansions, _ in streamed] == [1, 0]


def test_a_batch_of_long_notes_ends_early(model: PretrainedModel) -> None:
    ranked: list[int] = []
    many = Expander(model, INVENTORY, make_ranker=counting(ranked))
    list(many.pipe(["PT " * 3000] * 6, batch_size=100))
    assert ranked == [9000, 9000]


def test_an_inventory_may_be_given_by_call(expander: Expander, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    save_inventory(SenseInventory.from_senses([Sense("CVA", "stroke")]), path)
    for given, long_form in ((OTHER, "cerebrovascular accident"), (path, "stroke"), (str(path), "stroke")):
        (found,) = expander("PT after CVA", only_inventory=given)
        assert [each.short_form for each in expander("PT after CVA", inventory=given)] == ["PT", "CVA"]
        assert found.candidates[0].long_form == long_form
    assert expander("PT after CVA")[0].short_form == "PT"
    assert expander("CVA", inventory=OTHER)[0].candidates[0].concept_id == "C7"
    assert [len(each) for each in expander.pipe(["CVA", "PT"], only_inventory=OTHER)] == [1, 0]
    assert [len(each) for each in expander.pipe(["CVA", "PT"], inventory=OTHER)] == [1, 1]


def test_a_file_that_changed_is_read_again(expander: Expander, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for short_form in ("CVA", "CABG"):
        save_inventory(SenseInventory.from_senses([Sense(short_form, "x")]), path)
        assert len(expander(short_form, inventory=path)) == 1


def test_changing_between_inventories_builds_each_once(model: PretrainedModel) -> None:
    built: list[object] = []

    class Counting(CellRanker):
        def over(self, *layer: Any) -> Self:
            built.append(layer)
            return super().over(*layer)

    expander = Expander(model, INVENTORY, make_ranker=Counting)
    second = SenseInventory.from_senses(INVENTORY.senses("PT"))
    for _ in range(5):
        expander("PT")
        expander("PT", inventory=second)
        expander("CVA", inventory=[dict(OTHER[0])])
    assert len(built) == 2
    for number in range(20):
        expander("PT", inventory=[{"short_form": "PT", "long_form": f"sense {number}"}])
    assert len(expander._lexicons._kept) == 8


@pytest.mark.parametrize(
    ("inventory", "message"),
    [
        ([], "the inventory is empty"),
        ("absent.csv", "cannot be read"),
        (7, "cannot be a int"),
        ({"short_form": "PT", "long_form": "x"}, "cannot be a dict"),
        (
            [{"short_form": "PT", "long_form": "x", "action": "ban"}],
            "entry 1: action: found 'ban', allowed: add",
        ),
    ],
)
def test_an_impossible_inventory_is_refused(expander: Expander, inventory: object, message: str) -> None:
    with pytest.raises((InventoryError, InputError), match=message):
        expander("PT", only_inventory=inventory)  # type: ignore[arg-type]
    assert issubclass(UnknownShortForm, InventoryError)


def test_sections_may_be_given_by_call(expander: Expander) -> None:
    assert expander("PT", sections=[(0, 2, "Plan")])[0].section == "PLAN"
    assert expander("PLAN: PT", sections=[])[0].section is None


def test_what_is_no_text_is_refused_and_never_quoted(expander: Expander) -> None:
    with pytest.raises(InputError, match=r"^a note is text \(str\), found: bytes\.$"):
        expander(b"secret PT")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch_size: found 0"):
        expander.pipe(["PT"], batch_size=0)


def test_an_expander_survives_pickle(expander: Expander) -> None:
    expander(NOTE)
    assert pickle.loads(pickle.dumps(expander))(NOTE) == expander(NOTE)


def test_threads_share_an_expander(expander: Expander) -> None:
    expected = expander(NOTE)
    results: list[list[Expansion]] = []
    inventories = [None, SenseInventory.from_senses(INVENTORY), list(INVENTORY)]

    def work(number: int) -> None:
        results.append(expander(NOTE, inventory=inventories[number % 3]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 12


def test_a_folder_brings_its_calibration(model: PretrainedModel, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in model.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    assert Expander.from_pretrained(folder, only_inventory=INVENTORY).calibration == Calibration()
    Calibration(temperature=7).save(folder)
    assert Expander.from_pretrained(folder, only_inventory=INVENTORY).calibration == Calibration(
        temperature=7
    )
    own = Expander.from_pretrained(
        str(folder), only_inventory=INVENTORY, calibration=Calibration(temperature=2)
    )
    assert own.calibration.temperature == 2
    with pytest.raises(ModelError, match="does not exist"):
        Expander.from_pretrained(tmp_path / "absent", only_inventory=INVENTORY)


def test_without_a_shipped_model_a_folder_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lmcells.pretrained.__file__", str(tmp_path / "__init__.py"))
    for folder in (None, "default"):
        with pytest.raises(
            ModelError, match=r"^this build comes without a model\. Give a model folder[^\n]*$"
        ):
            Expander.from_pretrained(folder, only_inventory=INVENTORY)
    (tmp_path / "default").mkdir()
    assert shipped_model() == tmp_path / "default"


def test_without_a_shipped_inventory_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, model: PretrainedModel
) -> None:
    shipped_inventory.cache_clear()
    monkeypatch.setattr("lmcells.expansion.layers.SHIPPED_INVENTORY", "absent.csv")
    with pytest.raises(InputError, match=r"^this build has no inventory\. Give one[^\n]*$"):
        Expander.from_pretrained(model.folder)
    shipped_inventory.cache_clear()


def test_importing_is_quick_and_needs_no_torch() -> None:
    code = (
        "import sys, time; start = time.process_time(); import lmcells; seconds = time.process_time() - start;"
        "assert 'numpy' not in sys.modules; from lmcells import Expander; assert 'torch' not in sys.modules;"
        "print(seconds)"
    )
    seconds = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(seconds) < 0.3


def test_the_package_has_no_other_names() -> None:
    assert lmcells.Expander is Expander
    with pytest.raises(AttributeError, match="no attribute 'Expandr'"):
        _ = lmcells.Expandr  # type: ignore[attr-defined]

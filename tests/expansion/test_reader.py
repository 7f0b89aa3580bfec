"""What there is to expand in a note: sections, definitions and mentions together."""

from typing import Any

import pytest

from lmcells.errors import InputError
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.inventory import SenseLookup, form_key
from lmcells.expansion.layers import extend
from lmcells.expansion.reader import NoteReader, Occurrence
from lmcells.notes.note import Section

INVENTORY = SenseInventory.from_senses(
    [
        Sense("PT", "physical therapy", ("physical therapy", "physiotherapy"), "C1"),
        Sense("PT", "prothrombin time"),
        Sense("PE", "physical examination", ("physical examination", "physical exam")),
        Sense("PE", "pulmonary embolism"),
        Sense("AF", "atrial fibrillation"),
        Sense("PAF", "paroxysmal atrial fibrillation"),
        Sense("BID", "twice a day", ("twice a day", "twice daily")),
    ]
)
READ = NoteReader(INVENTORY)


def meanings(text: str) -> list[tuple[str, str | None]]:
    return [
        (text[each.start : each.end], each.defined.long_form if each.defined else None) for each in READ(text)
    ]


def test_a_mention_stands_in_the_body_of_its_section() -> None:
    text = "Seen today.\n\nPLAN: PT twice weekly.\n\nLABS: PT 12 seconds."
    plan, labs = READ(text)
    assert (plan.section, labs.section) == ("PLAN", "LABORATORY DATA")
    for each in (plan, labs):
        assert each.mention is not None
        assert each.mention.text[each.mention.start : each.mention.end] == "PT"
        assert text[each.start : each.end] == "PT"
        assert each.mention.section == each.section
    assert plan.mention is not None
    assert plan.mention.text.strip() == "PT twice weekly."


def test_text_under_no_header_is_in_no_section() -> None:
    assert [each.section for each in READ("PT daily\n\nPLAN: PT")] == [None, "PLAN"]


def test_mentions_carry_the_tokens_of_their_note() -> None:
    text = "PLAN: PT and again PT.\n\nLABS: PT 12"
    found = READ(text)
    assert len({id(each.mention.note) for each in found if each.mention}) == 1
    for each in found:
        assert each.mention is not None
        assert each.mention.note is not None
        assert each.mention.note.text is text
        assert text.startswith(each.mention.text, each.mention.offset)
        assert each.mention.offset + each.mention.start == each.start


def test_a_mention_in_a_long_section_sees_a_part_of_it() -> None:
    text = "PLAN: " + "word " * 10_000 + "PT" + " word" * 10_000
    (found,) = READ(text)
    assert found.mention is not None
    assert len(found.mention.text) < 1200
    assert set(found.mention.text.split()) == {"word", "PT"}
    assert found.mention.text[found.mention.start : found.mention.end] == "PT"


def test_the_ends_of_a_long_section_are_not_cut() -> None:
    first, second, third = READ("PLAN: PT first " + "word " * 400 + "PT last" + "x" * 3000 + " PT")
    for each, opening in ((first, "PT first word"), (second, "word word"), (third, "PT")):
        assert each.mention is not None
        assert each.mention.text.strip().startswith(opening)
    assert second.mention is not None
    assert second.mention.text.endswith("PT")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("atrial fibrillation (AF). AF again", [("AF", "atrial fibrillation")] * 2),
        ("AF first, then AF (Atrial  fibrillation)", [("AF", "atrial fibrillation")] * 2),
        ("physiotherapy (PT), PTs", [("PT", "physical therapy"), ("PTs", "physical therapy")]),
        ("paroxysmal AF (PAF)", [("AF", None), ("PAF", "paroxysmal atrial fibrillation")]),
        ("aspirin twice daily (BID)", [("BID", "twice a day")]),
        ("partial tear (PT) and PT", [("PT", "partial tear"), ("PT", "partial tear")]),
        ("physical therapy (PT) for the pt", [("PT", "physical therapy"), ("pt", None)]),
        (
            "PT. Then physical therapy (PT), PT; prothrombin time (PT), PT",
            [("PT", None), *[("PT", "physical therapy")] * 2, *[("PT", "prothrombin time")] * 2],
        ),
        (
            "ZZT here, zigzag zone test (ZZT), zzt and ZZTs",
            [*[("ZZT", "zigzag zone test")] * 2, ("ZZTs", "zigzag zone test")],
        ),
        (
            "PE - posterior edge\nAF - anterior face\n2 PE",
            [*[("PE", "posterior edge"), ("AF", "anterior face")], ("PE", "posterior edge")],
        ),
        ("PE: lungs clear\n\nPE ruled out", [("PE", "physical examination"), ("PE", None)]),
        ("Physical Therapy of 1988 (PT)", [("PT", "physical therapy")]),
    ],
)
def test_what_a_note_says_itself(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert meanings(text) == expected


def test_a_form_with_one_sense_written_as_in_the_inventory_needs_no_ranking() -> None:
    senses = [("vs", "versus"), ("Cr", "creatinine"), ("TIA", "transient ischemic attack"), ("low", "lower")]
    senses.append(("HIPAA", "Health Insurance Portability and Accountability Act"))
    read = NoteReader(SenseInventory.from_senses([Sense(*each) for each in senses]))
    text = "TIA vs CVA, Cr 1.2; VS, cr and tia, too low; HiPAA, hipaa, hIPAA"
    found = {text[each.start : each.end]: each.defined for each in read(text)}
    assert {written for written, defined in found.items() if defined is not None} == {
        "TIA",
        "vs",
        "Cr",
        "HiPAA",
    }


HEADERS = NoteReader(
    SenseInventory.from_senses(
        [
            Sense("RESP", "response"),
            Sense("RESP", "respiratory"),
            Sense("MS", "mental status"),
            Sense("MS", "musculoskeletal"),
            Sense("RX", "treatment"),
            Sense("RX", "medication"),
            Sense("rx", "therapy"),
            Sense("IC", "informed consent"),
            Sense("IC", "inspiratory capacity"),
            Sense("POH", "past ocular history"),
            Sense("POH", "past obstetric history"),
        ]
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PHYSICAL EXAM:\nRESP: clear", "respiratory"),  # the sense that its alias names
        ("RX: aspirin daily", "medication"),
        ("PHYSICAL EXAM:\nRESP - clear", None),  # a sub-heading needs a colon
        ("PLAN:\nRESP: clear", None),  # and its section
        ("REVIEW OF SYSTEMS:\nMS: no pain", None),  # two senses name a sub-heading
        ("IC: given", "informed consent"),  # without an alias: the only sense that names a section
        ("IC - given", None),
        ("POH: none", None),
        ("rx: aspirin daily", "medication"),  # "rx" is a short form of its own, without such a sense
        ("IC: 2.1 L", None),  # a value
        ("RESP: clear", "respiratory"),  # no section is known
    ],
)
def test_a_header_has_the_sense_of_its_section(text: str, expected: str | None) -> None:
    (found,) = HEADERS(text)
    assert (found.defined and found.defined.long_form) == expected


def test_a_short_form_of_the_note_alone_waits_for_its_definition_when_there_are_two() -> None:
    text = "ZQ: zeta quotient (ZQ) and ZQ, zebra quota (ZQ)"
    assert meanings(text) == [("ZQ", "zeta quotient"), ("ZQ", "zeta quotient"), ("ZQ", "zebra quota")]


def test_a_definition_holds_for_the_spellings_that_begin_with_it() -> None:
    text = "PT: seen. Physiotherapy (PT), then P.T. and PTs; prothrombin time (PT), P.T."
    told = [long_form for _, long_form in meanings(text)]
    assert told == [None, *["physical therapy"] * 3, *["prothrombin time"] * 2]


def test_the_grammar_does_not_read_what_an_inventory_forbids() -> None:
    senses = [Sense("HR", "heart rate"), Sense("HR", "hour"), Sense("no", "number")]
    reader = NoteReader(SenseInventory.from_senses(senses))
    text = "HR 72, batch no 12"
    assert [(each.short_form, each.source) for each in reader(text)] == [("HR", "grammar"), ("no", "grammar")]
    forbidden = [
        {"short_form": s, "long_form": f, "action": "forbid"} for s, f in (("HR", "heart rate"), ("no", "*"))
    ]
    left = reader.over(extend(SenseInventory.from_senses(senses), forbidden))(text)
    assert [(each.short_form, each.source) for each in left] == [("HR", "model")]


@pytest.mark.parametrize("unit", ["PT q6h ", "PT: physical therapy\n", "physical therapies (PTs) PT "])
def test_time_is_linear_on_hostile_text(unit: str) -> None:
    pinned = extend(INVENTORY, [{"short_form": "PT", "long_form": "prothrombin time", "action": "pin"}])
    n = 200_000 // len(unit)  # minutes, if time were quadratic
    assert len(READ.over(pinned)(unit * n)) >= n


def test_nothing_is_kept_of_the_short_forms_that_a_note_defines() -> None:
    reader = READ.over(INVENTORY)
    reader("ZQ: seen.\nZeta quotient (ZQ), zebra quota (ZQ).\nPE: normal.")
    assert "ZQ" not in reader._header_senses


def test_a_defined_sense_brings_its_concept() -> None:
    (found,) = READ("physical therapy (PT)")
    assert found.defined is not None
    assert found.defined.concept_id == "C1"
    assert found.mention is None


def sections_of(given: Any, text: str = "PT and PT and PT") -> list[str | None]:
    return [each.section for each in READ(text, given)]


class Titled:
    """Some other library's section."""

    def __init__(self, start: int, end: int, header: str) -> None:
        self.start, self.end, self.header = start, end, header


@pytest.mark.parametrize(
    "given",
    [
        [(0, 5, "Plan"), (7, 16, "Labs")],
        [{"start": 0, "end": 5, "header": "Plan"}, {"start": 7, "end": 16, "header": "Labs"}],
        [Titled(0, 5, "Plan"), Titled(7, 16, "Labs")],
        [Section("Plan", "PLAN", 0, 0, 5), Section("Labs", "LABS", 7, 7, 16)],
        ((0, 5, "Plan"), [7, 16, "Labs"]),
    ],
)
def test_the_caller_s_own_sections_are_taken(given: Any) -> None:
    assert sections_of(given) == ["PLAN", "LABS", "LABS"]


def test_gaps_between_the_caller_s_sections_are_no_section() -> None:
    assert sections_of([(7, 10, "Labs")]) == [None, "LABS", None]
    assert sections_of([]) == [None, None, None]
    assert sections_of([(0, 16, None)]) == [None, None, None]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(0, 99, "x")], "0-99, the one before ends at 0, the text has 16 characters"),
        ([(0, 9, "x"), (5, 12, "y")], "number 2 is 5-12, the one before ends at 9"),
        ([(-1, 9, "x")], "number 1 is -1-9"),
        ([("0", 9, "x")], "no start and end"),
        ([(0, 9)], "no start and end"),
        ([(0, 9, 3)], "the header of number 1 is a int"),
        ([{"start": 0, "end": 4, "header": "x", "body_start": 9}], "begins outside"),
        ("PLAN", "found a str"),
        (7, "found a int"),
    ],
)
def test_impossible_sections_are_refused_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        sections_of(given)
    assert "\n" not in str(refused.value)


def test_sections_can_be_left_out() -> None:
    read = NoteReader(INVENTORY, sections="none")
    assert [each.section for each in read("PLAN: PT")] == [None]
    with pytest.raises(InputError, match="found 'best', allowed: rules, paper, none"):
        NoteReader(INVENTORY, sections="best")


def test_a_note_without_short_forms_has_nothing() -> None:
    empty: list[Occurrence] = []
    assert READ("") == empty
    assert READ("Nothing here (at all): = yes") == empty


def test_senses_are_looked_up_in_any_number_and_case() -> None:
    lookup = SenseLookup(INVENTORY)
    for words in ("Physical Therapies", "PHYSICAL-THERAPY", "physiotherapy", "physical\ntherapy"):
        assert lookup("PT", words) == INVENTORY.senses("PT")[0]
    assert lookup("pt", "prothrombin times") == INVENTORY.senses("PT")[1]
    assert lookup("PT", "patient") is None
    assert lookup("XX", "patient") is None
    assert form_key("diagnosis of the axis") == ("diagnosis", "of", "the", "axis")

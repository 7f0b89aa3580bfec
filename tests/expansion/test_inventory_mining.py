"""An inventory proposed from the abbreviation definitions in notes, and which spellings are one long form."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory
from lmcells.expansion.inventory_check import REPEATED_FORM, SHARED_FORM, review_inventory
from lmcells.expansion.inventory_mining import DefinitionCounts, ProposedSense, group_variants, is_typo
from lmcells.notes.note import Note
from lmcells.notes.readers.records import join_sections

PIECES = [
    *(
        "atrial fibrillation",
        "Atrial-Fibrillation",
        "atrial fibrillations",
        "amniotic fluid",
        "a;f",
        "straße and STRASSE",
    ),
    *(
        "(AF)",
        "(Af)",
        "(A.F.)",
        "[AF]",
        "AF = ",
        "(SAS)",
        ".",
        ";",
        ",",
        "\n",
        "\x00",
        "[**Name (AF) 12**]",
        "___",
        '"',
        "’s",
    ),
]


def propose(*texts: str, known: SenseInventory | None = None) -> list[ProposedSense]:
    definitions = DefinitionCounts(known)
    for number, text in enumerate(texts):
        definitions.add(Note(str(number), text))
    return definitions.propose()


def found(*texts: str, known: SenseInventory | None = None) -> list[tuple[str, tuple[str, ...], int]]:
    proposed = propose(*texts, known=known)
    return [(each.sense.short_form, each.sense.forms, each.n_notes) for each in proposed]


def test_what_notes_define_becomes_senses_with_the_number_of_notes() -> None:
    assert found(
        "Known atrial fibrillation (AF). Atrial fibrillation (AF) is treated.",
        "Amniotic fluid (AF) was clear.",
        "AF = atrial fibrillation",
        "Nothing here.",
    ) == [("AF", ("atrial fibrillation",), 2), ("AF", ("Amniotic fluid",), 1)]


def test_the_most_frequent_spelling_is_the_long_form_and_case_is_no_form_of_its_own() -> None:
    proposed = propose(
        "End stage renal disease (ESRD)",
        "end-stage renal disease (ESRD)",
        "End-Stage Renal Disease (ESRD)",
        "his end-stage renal disease (ESRD)",
        "end stage renal diseases (ESRD)",
    )
    (only,) = proposed
    assert only.sense.long_form == "end-stage renal disease"
    assert only.sense.forms == (
        "end-stage renal disease",
        "End stage renal disease",
        "end stage renal diseases",
    )
    assert only.n_notes == 5


def test_of_cases_as_frequent_the_one_with_fewer_capitals_is_taken() -> None:
    assert found("Atrial Fibrillation (AF)", "atrial fibrillation (AF)") == [
        ("AF", ("atrial fibrillation",), 2)
    ]


def test_a_note_that_writes_a_sense_in_two_ways_counts_once() -> None:
    text = "atrial fibrillation (AF), and again atrial-fibrillation (AF)"
    assert found(text, text) == [("AF", ("atrial fibrillation", "atrial-fibrillation"), 2)]


def test_a_sense_stands_under_its_most_frequent_way_to_write_the_short_form() -> None:
    hemoglobin = "hemoglobin (Hb)", "hemoglobin (Hb)", "hemoglobin (HB)"
    assert found(*hemoglobin, "heart block (HB)") == [("HB", ("heart block",), 1), ("Hb", ("hemoglobin",), 3)]


def test_senses_are_sorted_by_short_form_then_count_then_name() -> None:
    texts = [
        "physical therapy (PT)",
        "prothrombin time (PT)",
        "atrial fibrillation (AF)",
        "prothrombin time (PT)",
    ]
    texts += ["posterior tibial (PT)", "messenger RNA (mRNA)", "mitral valve (MV)"]
    expected = ["atrial fibrillation", "messenger RNA", "mitral valve", "prothrombin time"]
    expected += ["physical therapy", "posterior tibial"]
    for order in (texts, texts[::-1]):
        assert [each.sense.long_form for each in propose(*order)] == expected


def test_definitions_do_not_cross_the_sections_that_a_file_gives() -> None:
    text, sections = join_sections(
        [(None, "He has atrial fibrillation"), (None, "(AF) and mitral valve (MV)")]
    )
    definitions = DefinitionCounts()
    definitions.add(Note("1", text, sections=sections))
    assert [each.sense.short_form for each in definitions.propose()] == ["MV"]
    assert [short_form for short_form, _, _ in found(text)] == ["AF", "MV"]


def test_a_header_belongs_to_its_section() -> None:
    text, sections = join_sections([("Abbreviations", "AF, atrial fibrillation; MV, mitral valve")])
    definitions = DefinitionCounts()
    definitions.add(Note("1", text, sections=sections))
    assert definitions.n_definitions == 2


@pytest.mark.parametrize(
    "text",
    [
        "seen with Dr. Ann Frey (AF)",
        "Mrs Ann Frey (AF) called",
        "[**First Name (FN) 12**]",
        "atrial ___ fibrillation (AF)",
        "atrial [**Name 3**] fibrillation (AF)",
        "atrial;fibrillation (AF)",
    ],
)
def test_names_marks_and_what_separates_forms_define_nothing(text: str) -> None:
    assert found(text) == []


def test_a_known_inventory_tells_what_letters_do_not_and_what_is_one_sense() -> None:
    known = SenseInventory.from_senses(
        [
            Sense("OS", "left eye", ("left eye", "oculus sinister"), "C0229090"),
            Sense("OS", "overall survival"),
        ]
    )
    texts = ("drops for the left eye (OS)", "oculus sinister (OS)", "left eye (OS)")
    assert found(*texts) == [("OS", ("oculus sinister",), 1)]
    (only,) = propose(*texts, known=known)
    assert only == (Sense("OS", "left eye", ("left eye", "oculus sinister"), "C0229090"), 3)


def test_memory_grows_with_distinct_definitions_alone() -> None:
    definitions = DefinitionCounts()
    for number in range(50):
        definitions.add(Note(str(number), "atrial fibrillation (AF), mitral valve (MV)"))
    assert (definitions.n_notes, definitions.n_definitions, definitions.n_wordings) == (50, 100, 2)


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join), max_size=6))
def test_what_is_proposed_is_an_inventory_that_survives_both_files(texts: list[str]) -> None:
    proposed = propose(*texts)
    inventory = SenseInventory.from_senses(each.sense for each in proposed)
    assert not {REPEATED_FORM, SHARED_FORM} & {finding.rule for finding in review_inventory(inventory)}
    if proposed:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("senses.csv", "senses.json"):
                save_inventory(inventory, Path(folder) / name)
                assert load_inventory(Path(folder) / name) == inventory


@given(st.permutations([*PIECES[:4], "x"]))
def test_the_order_of_notes_changes_nothing(long_forms: list[str]) -> None:
    texts = [f"{long_form} (AF)" for long_form in long_forms]
    assert propose(*texts) == propose(*sorted(texts))


WORDS = [
    "atrial",
    "fibrillation",
    "fibrilation",
    "Flutter",
    "flutters",
    "of",
    "the",
    "disease",
    "A",
    "B",
    "é",
    "-",
]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("atrial fibrillation", "Atrial Fibrillation"),
        ("end-stage renal disease", "end stage renal disease"),
        ("non-steroidal anti-inflammatory drugs", "nonsteroidal antiinflammatory drug"),
        ("trans-rectal ultrasound", "transrectal ultrasound"),
        ("deep vein thrombosis", "deep vein thromboses"),
        ("pulmonary embolus", "pulmonary emboli"),
        ("conditioned medium", "conditioned media"),
        ("information criterion", "information criteria"),
        ("gastroesophageal reflux", "gastro-oesophageal reflux"),
        ("gastroesophageal reflux", "gastrooesophageal reflux"),
        ("primitive neuroectodermal tumor", "primitive neuroectodermal tumours"),
        ("randomized trial", "randomised trials"),
        ("cost-effectiveness analysis", "cost-effectiveness analyses"),
        ("total leukocyte count", "total leucocyte count"),
        ("visual analog scale", "visual analogue scale"),
        ("Bacillus Calmette-Guérin", "Bacillus Calmette-Guerin"),
        ("lower limit of quantification", "lower limit of quantiﬁcation"),
        ("Große Zelle", "GROSSE ZELLE"),
        ("Bruton's tyrosine kinase", "Bruton tyrosine kinase"),
        ("quality of life", "quality of the life"),
        ("chronic obstructive pulmonary disease", "chronic obstructive pulmonary disorder"),
        ("partial thromboplastin time", "partial thomboplastin time"),
        ("acute lymphocytic leukemia", "acute lymphocytic lekuemia"),
    ],
)
def test_spellings_of_one_long_form_are_one(one: str, other: str) -> None:
    assert group_variants([one, other]) == [[one, other]]
    assert group_variants([other, one]) == [[other, one]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hypertension", "hypotension"),
        ("creatine kinase", "creatinine kinase"),
        ("intercellular adhesion molecule", "intracellular adhesion molecule"),
        ("influenza A virus", "influenza B virus"),
        ("glutaric aciduria type I", "glutaric aciduria type II"),
        ("interleukin-6", "interleukin-8"),
        ("optic nerve", "otic nerve"),
        ("abduction", "adduction"),
        ("nitrate reductase", "nitrite reductase"),
        ("disease", "syndrome"),
    ],
)
def test_what_may_be_another_meaning_stays_another(one: str, other: str) -> None:
    assert group_variants([one, other]) == [[one], [other]]


def test_what_is_connected_by_steps_is_one_group() -> None:
    steps = [
        "randomised control trials",
        "randomized control trial",
        "randomized controll trial",
        "amniotic fluid",
    ]
    assert group_variants(steps) == [steps[:3], steps[3:]]


def test_spellings_of_a_known_sense_are_one() -> None:
    known = {"alanine aminotransferase": "ALT", "alanine transaminase": "ALT", "Alanine Transaminases": None}
    assert group_variants(list(known)) == [
        ["alanine aminotransferase"],
        ["alanine transaminase", "Alanine Transaminases"],
    ]
    assert group_variants(list(known), known=known.get) == [list(known)]


@pytest.mark.parametrize(
    ("word", "other", "slip"),
    [
        ("resuscitation", "resucitation", True),
        ("fluorescence", "flourescence", True),
        ("cytosine", "cytokine", False),
        ("adenine", "adenosine", False),
        ("casual", "causal", True),
    ],
)
def test_a_slip_leaves_out_adds_or_moves_a_letter_and_replaces_none(
    word: str, other: str, slip: bool
) -> None:
    assert is_typo(word, other) is slip
    assert is_typo(other, word) is slip


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), max_size=12),
    st.randoms(),
)
def test_groups_do_not_depend_on_the_order_and_lose_nothing(long_forms: list[str], random: Random) -> None:
    shuffled = list(long_forms)
    random.shuffle(shuffled)
    groups = {frozenset(group) for group in group_variants(long_forms)}
    assert {frozenset(group) for group in group_variants(shuffled)} == groups
    assert sorted(form for group in groups for form in group) == sorted(set(long_forms))

"""Which spellings are taken for one long form, and which are left two."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.expansion.inventory_mining import group_variants, is_slip

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
    assert is_slip(word, other) is slip
    assert is_slip(other, word) is slip


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

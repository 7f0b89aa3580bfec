"""The model that ships: it is small, loads quickly, knows the shipped inventory, and is right on plain cases."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lmcells import Expander, expansion
from lmcells.analysis.mixtures import phrase_mixture
from lmcells.expansion import Sense
from lmcells.expansion.layers import SHIPPED_INVENTORY, shipped_inventory
from lmcells.expansion.long_form_moments import long_form_words
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import shipped_model

NOTE = """\
PAST MEDICAL HISTORY: CVA in 2019, HTN, DM, s/p CABG. MI in 2015 with a stent to the LAD.

LABORATORY DATA: PT 13.2, INR 1.1, BUN 20, WBC 9.8.

PLAN: Taken to the OR for repair under general anesthesia. AF on warfarin. MS 2 mg IV given for pain.
"""
EXPECTED = {
    "CVA": "cerebrovascular accident",
    "HTN": "hypertension",
    "DM": "diabetes mellitus",
    "s/p": "status post",
    "CABG": "coronary artery bypass graft",
    "MI": "myocardial infarction",
    "LAD": "left anterior descending",
    "PT": "prothrombin time",
    "INR": "international normalized ratio",
    "OR": "operating room",
    "AF": "atrial fibrillation",
    "MS": "morphine sulfate",
    "IV": "intravenous",
}


@pytest.fixture(scope="module")
def expander() -> Expander:
    return Expander.from_pretrained()


@pytest.mark.parametrize(
    "note",
    [
        "LABS: PT 14, INR 2.",
        "LABORATORY DATA: INR 2.3, PT 14.",
        "LABORATORY DATA: PT was 14 seconds with INR 1.2.",
    ],
)
def test_a_short_form_with_one_sense_is_answered_in_a_plain_line(expander: Expander, note: str) -> None:
    found = {each.short_form: each.long_form for each in expander(note)}
    assert found["INR"] == "international normalized ratio"


def test_phrases_with_stop_words_are_known_as_written(expander: Expander) -> None:
    model = expander.model
    assert model.reads_stop_words
    assert model.phrase_store is not None
    assert model.phrase_store.find(("shortness", "of", "breath"))
    assert phrase_mixture(model, "rule out").name == "rule out"
    with_and_after = Sense("X", "with", ("with", "after"))
    assert long_form_words(with_and_after, model) == [model.word_ids["with"], model.word_ids["after"]]
    assert long_form_words(Sense("X", "out of bed"), model) == [model.word_ids["bed"]]


def test_plain_cases_are_expanded(expander: Expander) -> None:
    found = {expansion.short_form: expansion for expansion in expander(NOTE)}
    assert {name: found[name].long_form for name in EXPECTED} == EXPECTED
    for each in found.values():
        assert NOTE[each.start : each.end] == each.short_form


def test_a_threshold_holds_for_all_answers_but_pinned_ones(expander: Expander) -> None:
    note = "VS: HTN, BID, q6h, devel rash, zig zag zone (ZZZ), MS"
    pinned = [{"short_form": "MS", "long_form": "mitral stenosis", "action": "pin"}]
    strict = Expander(
        expander.model, expander.inventory, calibration=replace(expander.calibration, least_probability=0.995)
    )
    for each in strict(note, inventory=pinned):
        assert each.candidates[0].probability >= 0.995 or each.abstained, each.short_form
    assert {each.source for each in strict(note, inventory=pinned) if each.abstained} > {
        "header",
        "grammar",
        "definition",
    }
    assert strict(note, inventory=pinned)[-1].source == "pinned"


@pytest.mark.parametrize(
    "text",
    [
        "THE PATIENT WAS GIVEN US DOLLARS OR A PET.",
        "There are NO known allergies. NO fever.",
        "Bilirubin < 2 OR surgery, dose 2 mg/kg OR placebo, performance status 0-1 OR Karnofsky 80.",
        "There IS also a nodule. It IS small.",
        "ON exam there is swelling. DO NOT give it again.",
        "NONE OF 9 LYMPH NODES. LOW RISK.",
    ],
)
def test_a_word_in_capitals_may_be_the_word(expander: Expander, text: str) -> None:
    assert [text[each.start : each.end] for each in expander(text) if each.long_form] == []


@pytest.mark.parametrize(
    ("text", "short_form", "long_form"),
    [
        ("Went to OR emergently, then OR staff came.", "OR", "operating room"),
        ("TAKEN TO THE OR FOR REPAIR OR REVISION.", "OR", "operating room"),
        ("HIGH GRADE PIN IN BOTH LOBES OF THE PROSTATE.", "PIN", "prostatic intraepithelial neoplasia"),
        ("US OF THE ABDOMEN SHOWED GALLSTONES.", "US", "ultrasound"),
        ("Approved by the US Food and Drug Administration.", "US", "United States"),
        ("ASTROCYTOMA (WHO GRADE II).", "WHO", "World Health Organization"),
        ("STUDIES: CT, MRI, MRA, PET, and EEG.", "PET", "positron emission tomography"),
    ],
)
def test_a_word_in_capitals_may_be_a_short_form(
    expander: Expander, text: str, short_form: str, long_form: str
) -> None:
    found = [each.long_form for each in expander(text) if each.short_form == short_form]
    assert found
    assert set(found) == {long_form}


@pytest.mark.parametrize(
    "text", ["see www.site.co.uk", "notes.md and site.org", "DOB: MM/DD/YYYY", "DIAGNOSIS (ES)"]
)
def test_names_of_sites_and_forms_to_fill_in_are_no_short_forms(expander: Expander, text: str) -> None:
    assert {each.short_form for each in expander(text)} <= {"DOB"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R otitis media, L TM clear.", ["right", "left"]),
        ("s/p R TKA and L THA", ["right", "left"]),
        ("Rhonchi L and R, grip 4/5 (L), 5/5 (R).", ["left", "right", "left", "right"]),
        ("Temp 103.4 R, given Tylenol.", ["rectal"]),
        ("BP 110/60, P 88, R 16.", ["pulse", "respiratory rate"]),
        ("LABS: WBC 14.2 H, hgb 9.9 L, plt 120 L.", ["high", "low", "low"]),
        ("2 L of saline were given.", ["liter"]),
        ("Complains of N and V since yesterday.", ["nausea", "vomiting"]),
        ("Na 140 mEq/L, ALT 30 U/L. Mr. R saw Dr. L. EKG: R axis 60.", []),
        ("S: feels well.\nO: lungs clear.\nP: rest.", ["subjective", "objective", "plan"]),
        ("S - feels well.\nO - lungs clear.", ["subjective", "objective"]),
    ],
)
def test_single_letters_are_read_by_their_context(expander: Expander, text: str, expected: list[str]) -> None:
    assert [each.long_form for each in expander(text) if len(each.short_form) == 1] == expected


def test_pm_after_a_sleep_aid_is_part_of_its_name(expander: Expander) -> None:
    found = [
        each.start for each in expander("Tylenol PM at bedtime. Vomited Friday PM, Lasix PM dose given.")
    ]
    assert found == [38, 48]


@pytest.mark.parametrize("text", ["30 y/o p/w 3.5 cm x 2 cm mass", "P/w a 2 day h/o pain"])
def test_a_form_with_a_slash_and_one_sense_needs_no_context(expander: Expander, text: str) -> None:
    assert "presents with" in [each.long_form for each in expander(text)]


def test_what_is_explained_are_the_expansions(expander: Expander) -> None:
    note = "NO fever. Went to OR for repair OR revision, MI in 2015, recvd antib. There IS a nodule."
    expanded = expander(note)
    assert "NO" not in {each.short_form for each in expanded}
    assert len(expander.explain(note)) == len(expanded)


def test_model_and_inventory_take_twenty_megabytes_at_most() -> None:
    inventory = Path(expansion.__file__).with_name(SHIPPED_INVENTORY)
    files = [inventory, *shipped_model().iterdir()]
    assert sum(path.stat().st_size for path in files) <= 20_000_000


def test_its_files_are_whole() -> None:
    PretrainedModel.from_pretrained(shipped_model(), verify=True)


def test_it_expands_from_a_cold_start_without_torch() -> None:
    code = (
        "import sys; from lmcells import Expander; found = Expander.from_pretrained()('Pt with CVA and MS.'); "
        "assert 'torch' not in sys.modules; print(found[1].short_form)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "CVA\n"


def test_it_can_know_nearly_every_long_form_of_the_shipped_inventory() -> None:
    ranker = MaskedSpanRanker(PretrainedModel.from_pretrained(shipped_model()), shipped_inventory())
    known = ranker.known(shipped_inventory().short_forms)
    senses = [sense for of_short_form in known.values() for sense in of_short_form.senses]
    n_unknown = sum(sense.by_words is None for sense in senses)
    assert n_unknown / len(senses) < 0.02


def test_its_card_names_data_licences_scores_and_limits() -> None:
    card = (shipped_model() / "README.md").read_text(encoding="utf-8")
    for heading in ("## Data", "## Scores", "## Intended use and limits", "## Licence"):
        assert heading in card


def test_a_pickled_expander_is_small_and_answers_the_same(expander: Expander) -> None:
    note = (
        NOTE + "The patient was dyspnoeic after pneumonectomized lungs; qwk f/u, CXR pndg."
    )  # out-of-vocabulary too
    expected = expander(note)
    pickled = pickle.dumps(expander)
    assert len(pickled) < 40_000_000
    code = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, note], input=pickled, capture_output=True, check=True)
    assert done.stdout.decode().strip() == repr(expected)

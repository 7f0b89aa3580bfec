"""The inventory that the package carries: well-formed, in order, and free of senses that say the same thing twice."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import lmcells.expansion
from lmcells.expansion import SenseInventory, load_inventory, save_inventory
from lmcells.expansion.finder import Found, ShortFormFinder
from lmcells.expansion.inventory_check import review_inventory
from lmcells.expansion.inventory_files import COLUMNS
from lmcells.expansion.layers import shipped_inventory
from lmcells.notes.tokens import iterate_tokens

PATH = Path(lmcells.expansion.__file__).with_name("clinical_inventory.csv")

# Spelt alike, and yet different things to a clinician.
DIFFERENT = {
    ("adv", "advised", "advanced"),  # what was said; how far a disease is
    ("amb", "ambulatory", "ambulance"),  # on foot; on wheels
    ("BPM", "beats per minute", "breaths per minute"),  # the pulse; the respiration
    ("C. diff", "C diff", "C. diff"),  # of several words, so a dot in it is looked for
    ("CaP", "CAP", "CaP"),  # cancer of the prostate; what else has these letters
    ("COR", "coronary", "coronal"),  # of the heart; a plane
    ("Cr", "CR", "Cr"),  # the laboratory's creatinine; what else has these letters
    ("compl", "complaint", "compliant"),  # what hurts; who follows advice
    ("cond", "condition", "conduction"),  # an illness; of nerves, of the heart
    ("cont", "continued", "continuous"),  # what goes on; what does not pause
    ("dec", "decreased", "deceased"),  # less; dead
    ("DN", "diabetic nephropathy", "diabetic neuropathy"),  # of the kidney; of the nerves
    ("DoD", "DOD", "DoD"),  # a department; dates too
    ("DOS", "date of surgery", "day of surgery"),  # a calendar date; the time of an event
    ("exp", "expired", "exposure"),  # a death or a date; to an agent
    ("fL", "FL", "fL"),  # a unit of volume; what else has these letters
    ("freq", "frequent", "frequency"),  # often; of the bladder
    ("GR", "grain", "gram"),  # a fifteenth of the other
    ("GTT", "drops", "drip"),  # into the eye; into the vein
    ("H", "high", "height"),  # of a value; of a patient
    ("H. pylori", "H pylori", "H. pylori"),  # of several words, so a dot in it is looked for
    ("HEP", "heparin", "hepatic"),  # a drug; of the liver
    ("I&D", "incision and drainage", "irrigation and debridement"),  # of an abscess; of an open fracture
    ("IND", "indication", "induction"),  # a reason to treat; a phase of labour, anaesthesia or chemotherapy
    ("LL", "lower limb", "lower lid"),  # leg; eyelid
    ("Mg", "MG", "Mg"),  # the laboratory's magnesium; what else has these letters
    ("MoM", "MOM", "MoM"),  # a ratio or a hip; a parent or a laxative
    ("MPJ", "metacarpophalangeal joint", "metatarsophalangeal joint"),  # of the hand; of the foot
    ("mRS", "MRS", "mRS"),  # a scale; spectroscopy too
    ("palp", "palpation", "palpitations"),  # what the hand does; what the heart does
    ("phys", "physician", "physical"),  # a person; of the body
    ("pred", "prednisone", "prednisolone"),  # two drugs
    ("Pt", "PT", "Pt"),  # a patient; what is done to the patient
    ("PPD", "packs per day", "pads per day"),  # what is smoked; what is leaked into
    ("PI", "protease inhibitor", "proteasome inhibitor"),  # for HIV; for myeloma
    ("RLL", "right lower leg", "right lower lid"),
    ("RPT", "repeat", "report"),  # once more; what is written
    ("RS", "Reye syndrome", "Rett syndrome"),  # two eponyms
    ("sCr", "SCR", "sCr"),  # a value; a care record too
    ("sev", "severe", "several"),  # how bad; how many
    ("tox", "toxic", "toxoid"),  # a poison; a vaccine
    ("UL", "upper limb", "upper lid"),
    ("uL", "UL", "uL"),  # a unit of volume; what else has these letters
    ("UL", "upper limb", "upper limit"),  # the arm; of a reference range
    ("vs", "VS", "vs"),  # versus; vital signs too
}

# One frequent short form of each field, and senses that it must not lack.
EXPECTED = {
    "RCA": {"right coronary artery", "root cause analysis"},
    "PE": {"pulmonary embolism", "physical examination", "pleural effusion", "preeclampsia"},
    "MS": {"multiple sclerosis", "mental status", "morphine sulfate", "mitral stenosis", "musculoskeletal"},
    "UC": {"ulcerative colitis", "urine culture", "uterine contraction"},
    "PD": {"Parkinson's disease", "peritoneal dialysis", "progressive disease"},
    "DM": {"diabetes mellitus", "dermatomyositis"},
    "ART": {"antiretroviral therapy", "assisted reproductive technology"},
    "ALL": {"acute lymphoblastic leukemia"},
    "LN": {"lymph node", "lupus nephritis"},
    "AC": {"acromioclavicular", "before meals"},
    "ROM": {"range of motion", "rupture of membranes"},
    "BPD": {"bronchopulmonary dysplasia", "borderline personality disorder", "biparietal diameter"},
    "SI": {"suicidal ideation", "sacroiliac"},
    "OD": {"right eye", "overdose"},
    "TM": {"tympanic membrane"},
    "BCG": {"bacillus Calmette-Guerin"},
    "AK": {"actinic keratosis", "above knee"},
    "MAC": {"monitored anesthesia care", "Mycobacterium avium complex"},
    "LOC": {"loss of consciousness", "level of consciousness"},
    "PDL": {"periodontal ligament"},
    "PO": {"by mouth", "postoperative"},
    "s/p": {"status post"},
    "Pt": {"patient"},
    "PT": {"physical therapy", "prothrombin time", "posterior tibial"},
    "CI": {"confidence interval", "cardiac index"},
    "OR": {"operating room", "odds ratio"},
    "HR": {"heart rate", "hazard ratio", "human resources"},
    "RR": {"respiratory rate", "relative risk"},
    "SD": {"standard deviation"},
    "IPV": {"inactivated poliovirus vaccine", "intimate partner violence"},
    "DTaP": {"diphtheria tetanus and acellular pertussis"},
    "US": {"ultrasound", "United States"},
    "AS": {"aortic stenosis", "ankylosing spondylitis"},
    "IS": {"incentive spirometry"},
    "NO": {"nitric oxide"},
    "AM": {"morning"},
    "PM": {"post meridiem", "pacemaker"},
    "IT": {"intrathecal"},
    "LA": {"left atrium", "Los Angeles"},
    "FD": {"fire department", "fully dilated"},
    "PERC": {"percutaneous", "pulmonary embolism rule-out criteria"},
    "SUV": {"standardized uptake value", "sport utility vehicle"},
    "ASL": {"arterial spin labeling", "American Sign Language"},
}


@pytest.fixture(scope="module")
def inventory() -> SenseInventory:
    return load_inventory(PATH)


def test_it_is_as_large_as_promised(inventory: SenseInventory) -> None:
    n_ambiguous = sum(len(inventory.senses(short_form)) > 1 for short_form in inventory.short_forms)
    assert len(inventory) >= 2500
    assert n_ambiguous >= 1000
    assert inventory.n_senses >= 5000


def test_the_quick_reader_reads_the_same(inventory: SenseInventory) -> None:
    assert replace(shipped_inventory(), has_priors=False) == inventory


def test_no_two_senses_say_the_same(inventory: SenseInventory) -> None:
    found = {(finding.short_form, finding.first, finding.second) for finding in review_inventory(inventory)}
    assert found == DIFFERENT


def test_it_is_sorted_so_that_a_change_is_one_place_in_a_diff() -> None:
    with PATH.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == COLUMNS
    short_forms = [row[0] for row in rows[1:]]
    assert short_forms == sorted(short_forms, key=lambda short_form: (short_form.casefold(), short_form))
    assert b"\r" not in PATH.read_bytes()


def test_each_short_form_can_be_found(inventory: SenseInventory) -> None:
    find = ShortFormFinder(inventory)
    for short_form in inventory.short_forms:
        assert find(short_form) == [Found(0, len(short_form), short_form)]


def test_each_form_holds_a_word_that_a_corpus_keeps(inventory: SenseInventory) -> None:
    for sense in inventory:
        for form in sense.forms:
            assert list(iterate_tokens(form)), (sense.short_form, form)


def test_the_long_form_is_the_first_of_its_forms_and_none_is_the_short_form(
    inventory: SenseInventory,
) -> None:
    for sense in inventory:
        assert sense.forms[0] == sense.long_form
        assert sense.short_form.casefold() not in {form.casefold() for form in sense.forms}


def test_what_is_written_is_plain(inventory: SenseInventory) -> None:
    for sense in inventory:
        assert sense.concept_id is None  # no code system that needs a licence
        for form in sense.forms:
            assert form == " ".join(form.split())
            assert not set(form) & set('"*?!_=<>|[]{}()'), form


def test_no_short_form_has_more_senses_than_a_reader_can_weigh(inventory: SenseInventory) -> None:
    assert max(len(inventory.senses(short_form)) for short_form in inventory.short_forms) <= 8


@pytest.mark.parametrize("short_form", EXPECTED)
def test_frequent_short_forms_of_every_field_have_their_senses(
    inventory: SenseInventory, short_form: str
) -> None:
    assert {sense.long_form for sense in inventory.senses(short_form)} >= EXPECTED[short_form]


def test_senses_that_patient_safety_lists_name_are_marked(inventory: SenseInventory) -> None:
    marked = {(sense.short_form, sense.long_form) for sense in inventory if sense.error_prone}
    named = {("qd", "once daily"), ("MS", "morphine sulfate"), ("U", "unit"), ("IU", "international unit")}
    assert named < marked
    assert ("MS", "multiple sclerosis") not in marked


def test_it_survives_a_file(inventory: SenseInventory, tmp_path: Path) -> None:
    save_inventory(inventory, tmp_path / "copy.csv")
    assert load_inventory(tmp_path / "copy.csv") == inventory

"""Where short forms are found in a text, and where what looks like one is something else."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.finder import Found, ShortFormFinder
from lmcells.expansion.ordinary_words import NOT_SHORTHAND

SHORT_FORMS = (
    "PT OT OR MI CT CTA CTS A&O A IV MS HTN s/p c/o PO BID HbA1c PaO2 T2 q4h NO IS AS US PET CAP DC d/c PM HR PT/INR "
    "OCT y/o C&S 5-FU Na+ COVID-19 ABC RA pO2 St IA IB CO BI PR RR ST OS VAS VA IVC PAD INC EM DD LYMPH"
).split()
FIND = ShortFormFinder([*SHORT_FORMS, "GI bleed", "ECHO", "qhs"])


def found(text: str, find: ShortFormFinder = FIND) -> list[tuple[str, str]]:
    return [(text[place.start : place.end], place.short_form) for place in find(text)]


def short_forms(text: str) -> list[str]:
    return [short_form for _, short_form in found(text)]


@pytest.mark.parametrize("written", ["OR", "O.R.", "US", "PET", "NO"])
def test_capitals_are_a_short_form(written: str) -> None:
    assert found(f"Seen in the {written} today") == [(written, written.replace(".", ""))]


@pytest.mark.parametrize("word", "or is as no it us may am he pet cap Or No Is Us Pet Cap As".split())
def test_an_english_word_is_none(word: str) -> None:
    assert found(f"{word} so it {word} was") == []
    assert word.lower() in NOT_SHORTHAND


@pytest.mark.parametrize("word", ["aspects", "dress", "prism", "respect", "vain"])
def test_an_english_word_is_not_a_name_made_of_letters(word: str) -> None:
    find = ShortFormFinder(["ASPECTS", "DRESS", "PRISm", "ReSPECT", "VAIN"])
    assert found(f"{word.capitalize()} or {word}", find) == []
    assert len(found(f"the {word.upper()} study", find)) == 1


@pytest.mark.parametrize(
    ("written", "short_form"),
    [
        ("pt", "PT"),
        ("Pt", "PT"),
        ("htn", "HTN"),
        ("Htn", "HTN"),
        ("S/P", "s/p"),
        ("C/O", "c/o"),
        ("bid", "BID"),
        ("qHS", "qhs"),
        ("echo", "ECHO"),
    ],
)
def test_shorthand_is_found_in_another_case(written: str, short_form: str) -> None:
    assert found(f"The {written} was seen") == [(written, short_form)]


@pytest.mark.parametrize("written", ["HbA1c", "HBA1c", "hba1c", "HBA1C"])
def test_four_characters_may_be_in_any_case(written: str) -> None:
    assert found(f"{written} of 7.1") == [(written, "HbA1c")]


def test_two_capitals_and_a_small_letter_belong_to_a_short_form_with_one_sense() -> None:
    find = ShortFormFinder(
        SenseInventory.from_senses(
            [
                Sense("HCG", "human chorionic gonadotropin"),
                Sense("PNX", "pneumothorax"),
                Sense("AVR", "aortic valve replacement"),
                Sense("PVT", "portal vein thrombosis"),
                Sense("PVT", "paroxysmal ventricular tachycardia"),
            ]
        )
    )
    text = "serum hCG, HcG, HCg, pNX, lead aVR, VF/pVT, Hcg"
    assert found(text, find) == [(written, "HCG") for written in ("hCG", "HCg", "Hcg")]
    assert found("HbS trait, GHb 8 %", ShortFormFinder(["HBs", "GHB"])) == []


def test_a_hyphen_before_a_number_is_optional() -> None:
    find = ShortFormFinder(["GLP1", "ICD-9", "T2"])
    assert found("GLP-1, GLP-12, ICD9, T-2", find) == [("GLP-1", "GLP1"), ("ICD9", "ICD-9")]


def test_a_capital_s_is_a_plural_if_the_inventory_knows_one() -> None:
    find = ShortFormFinder(
        SenseInventory.from_senses(
            [
                Sense(
                    "PVC", "premature ventricular contraction", forms=("premature ventricular contractions",)
                ),
                Sense("CPR", "cardiopulmonary resuscitation"),
                Sense("ARM", "anorectal malformation", forms=("anorectal malformations",)),
                Sense("MED", "medication", forms=("medications",)),
                Sense("Meds", "medications"),
            ]
        )
    )
    text = "BENIGN PVCS, recorded in CPRS, BOTH ARMS, MEDS: none"
    assert found(text, find) == [("PVCS", "PVC"), ("MEDS", "Meds")]


def test_mixed_case_of_few_characters_is_as_in_the_inventory() -> None:
    assert short_forms("pT N0 Mx, stage pT2") == []
    assert short_forms("PaO2 and pO2") == ["PaO2", "pO2"]


def test_the_inventory_s_own_spelling_comes_first() -> None:
    find = ShortFormFinder(["PT", "pt"])
    assert found("PT for the pt", find) == [("PT", "PT"), ("pt", "pt")]
    assert found("CTS and CTs") == [("CTS", "CTS"), ("CTs", "CT")]


@pytest.mark.parametrize(
    "text",
    [
        "NO EVIDENCE OF FRACTURE IS SEEN AS WELL",
        "ALLERGIES: NO KNOWN DRUG ALLERGIES",
        "SHE SHOULD FAST OR REST at home, then drink",
    ],
)
def test_among_words_in_capitals_a_function_word_is_a_word(text: str) -> None:
    assert found(text) == []


def test_among_words_in_capitals_other_short_forms_are_found() -> None:
    assert short_forms("HISTORY OF MI AND HTN, NO CHEST PAIN") == ["MI", "HTN"]
    assert short_forms("TAKEN TO THE OR FOR REPAIR OR REVISION") == ["OR"]
    assert found("GLIOMA (WHO GRADE II), MALE WHO HAS PAIN", ShortFormFinder(["WHO"])) == [("WHO", "WHO")]


def test_a_header_in_capitals_says_nothing_about_what_follows_it() -> None:
    assert short_forms("DISPOSITION: OR") == ["OR"]
    assert short_forms("STUDIES: CT, MRI, MRA, PET, and EEG") == ["CT", "PET"]


def test_a_note_in_capitals_is_so_on_every_line() -> None:
    note = "PATIENT DENIES CHEST PAIN.\nWOUND CLEANED WITH SALINE AND DRESSED\nOR\nCT"
    assert short_forms(note) == ["CT"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PTs agree", [("PTs", "PT")]),
        ("PT's and PT’s", [("PT", "PT"), ("PT", "PT")]),
        ("pts improve", [("pts", "PT")]),
        ("ORS AND RAs", [("RAs", "RA")]),
        ("DC'd, d/c'd", [("DC'd", "DC"), ("d/c'd", "d/c")]),
        ("p.o. b.i.d.", [("p.o.", "PO"), ("b.i.d.", "BID")]),
        ("P.O. q4h", [("P.O.", "PO"), ("q4h", "q4h")]),
        ("given po.", [("po", "PO")]),
        ("a 27y/o, 27 y/o and 3 Y/O", [("y/o", "y/o"), ("y/o", "y/o"), ("Y/O", "y/o")]),
        ("s/p MI", [("s/p", "s/p"), ("MI", "MI")]),
        ("C&S, PT&OT", [("C&S", "C&S"), ("PT", "PT"), ("OT", "OT")]),
        ("C & S, A & O x 3, PT & OT", [("C & S", "C&S"), ("A & O", "A&O"), ("PT", "PT"), ("OT", "OT")]),
        ("CT & C  &S, ABC & SX & C & SA", [("CT", "CT"), ("C  &S", "C&S"), ("ABC", "ABC")]),
        ("post-MI, CT-guided", [("MI", "MI"), ("CT", "CT")]),
        ("CTA not CTAX or XCT", [("CTA", "CTA")]),
        ("A&Ox3, A&O", [("A&O", "A&O"), ("A&O", "A&O")]),
        ("T2 T22 T2a", [("T2", "T2")]),
        ("PT/OT, PT/INR", [("PT", "PT"), ("OT", "OT"), ("PT/INR", "PT/INR")]),
        ("5-FU, Na+, COVID-19.", [("5-FU", "5-FU"), ("Na+", "Na+"), ("COVID-19", "COVID-19")]),
        ("GI\nbleed", [("GI\nbleed", "GI bleed")]),
        ("(MI) [CT] “US”", [("MI", "MI"), ("CT", "CT"), ("US", "US")]),
        ("CT\r\nMI\tHTN|RA\n", [("CT", "CT"), ("MI", "MI"), ("HTN", "HTN"), ("RA", "RA")]),
        ("naïve café PT 😀 MI", [("PT", "PT"), ("MI", "MI")]),
        ("[**Hospital CT**] CT", [("CT", "CT")]),
    ],
)
def test_ways_to_write_a_short_form(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "stage IV cancer",
        "stage IA, type Ib",
        "stage IIIB or IV, stages IA-IV",
        "seen on mm/dd/yy and mm/dd/yyyy",
        "born MM/DD/YYYY, seen DD.MM.YY",
        "a III/IV murmur, IV/VI",
        "nerves II-IV, function IV through XII",
        "IV. PLAN",
        "A. first",
        "at 8 PM, 1:50 p.m.",
        "over 24 hr",
        "Dr. ABC and Mr. PT",
        "Ms. Smith, MS. SMITH",
        "Dallas, OR 97338",
        "lives in Ann Arbor, MI, and was born in Salem, OR",
        "From Eugene, OR, new here; a hospital near St Paul, MI.",
        "a co-worker, co-amoxiclav",
        "specimen PT-MS-0042, LAB-PT-20417",
        "given Recombivax-PT, a Port-A-PT",
        "St. Mary",
        "diagnosis(pt)",
        "02 OCT 2001, OCT 12",
        "a RR interval, the PR interval, ST depression, ST-segment changes",
        "the cervical os, the left vas deferens, the right vas",
        "DSM-IV and DSM IV criteria",
        "(Accuray, Inc., Sunnyvale)",
        "sequence PT_000458.3",
        "a mass of 0.5 em",
        "He plays. SHE SAID THAT HE OR SHE IS ALLERGIC TO PENICILLIN. Serious",
    ],
)
def test_numerals_units_names_and_marks_are_no_short_forms(text: str) -> None:
    assert found(text) == []


def test_sides_are_found_in_small_letters_where_the_whole_text_is_in_lower_case() -> None:
    find = ShortFormFinder(["R", "L", "S"])
    text = "pain in l hip and r knee, no s seen"
    assert [text[each.start : each.end] for each in find(text)] == ["l", "r"]
    assert find("The SPECIMEN is a l hip, MARGINS r to left.") == []


@pytest.mark.parametrize(
    "text",
    [
        "hepatitis C antibody, Hep B&C neg, vitamin C",
        "hepatitis A, B, and C",
        "T wave inversion, T-cell lymphoma",
        "troponin T, type C, Group C strep, Child-Pugh class B or C, stages A, B, and C",
        "Cassettes 4A-4C, block C",
        "12C: representative section",
        "A: right ureter B: left ureter C:left nodes",
        "(A) margin (B) node (C) teeth",
        "20A-20B nodes, 20C one node bisected",
        "mitomycin-C, IBS-C, C reactive protein, (DAS28)-C-reactive protein",
        "ST/T changes, a: node b: node c: node",
        "variants c.713C > T and c.517C>T",
        'T and B cell deficiencies, inverted "T" waves, T inversion',
        "mitomycin C, tooth C, category C, lot #1276C",
        "bisected\n(C) LEFT SELECTIVE NECK DISSECTION",
    ],
)
def test_a_letter_that_is_a_name_is_no_short_form(text: str) -> None:
    assert found(text, ShortFormFinder(["C", "T"])) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h/o hepatitis C, T 98.6, K 4.2", "TK"),
        ("AV block. P 62", "P"),
        ("metabolic panel K 4.2", "K"),
        ("troponin T, K, Mg", "K"),
        ("17M s/p MVC, his sister 8F", "MF"),
        ("T 98.6 P 80", "TP"),
        ("S: better. O: afebrile. A: stable. P: home", "P"),
        ("Sex-F, weakness (F) noted, C: none", "FFC"),
        ("temp 98F, A: none, C: mild", "FC"),
        ("VITALS-T 98.6, Labs-K 3.2, status-M, low-K diet", "TKMK"),
        ("S: ok. O: P: 72 R: 16 T: 98.6", "PT"),
        ("S: ok. O: N: alert. A: stable. P: home", "P"),
        ("(M) 45 yo\n(F) 34 yo\n(T) 98.6", "MFT"),
        ("In all cases P < 0.05, 1.15F after 15E", "PF"),
        ("[18F]-fluoride, 18F-FDG", ""),
    ],
)
def test_vital_signs_laboratory_values_and_ages_are_short_forms(text: str, expected: str) -> None:
    assert "".join(short_form for _, short_form in found(text, ShortFormFinder("TKPCMF"))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PMH: COPD, PAD. Now presents with cough", ["PAD"]),
        ("PATIENT WAS TAKEN TO OR. He did well", ["OR"]),
        ("followed at the VA and I have reviewed", ["VA"]),
        ("thrombus in the\nIVC. No effusion", ["IVC"]),
        ("IA/IV chemotherapy", ["IA", "IV"]),
        ("ST changed his diet, RR changed to 24", ["ST", "RR"]),
        ("va 20/20, os 20/40, vas 5/10", ["VA", "OS", "VAS"]),
        ("co-oximetry", ["CO"]),
        ("4 mg IV, IV fluids; nerves III, IV, VI", ["IV", "IV"]),
        ("stage IIIB, IV carboplatin", ["IV"]),
        ("BP 120, PT_12 sec, HR_72", ["PT", "HR"]),
        ("Inc. pain at night. Plan:\nInc. dose, worse, Inc cough", ["INC"] * 3),
        ("PT____ and PT ___", ["PT", "PT"]),
        ("sphincter inc, wt inc. 2 lb", ["INC", "INC"]),
        ("severe MS.\n\nPLAN: rest", ["MS"]),
        ("severe MS. PAST MEDICAL HISTORY: none", ["MS"]),
        ("known MS. PT twice weekly", ["MS", "PT"]),
        ("AND UNDER US GUIDANCE A NEEDLE WAS PLACED", ["US"]),
    ],
)
def test_what_only_resembles_a_look_alike_is_found(text: str, expected: list[str]) -> None:
    assert short_forms(text) == expected


@pytest.mark.parametrize(
    ("text", "short_form"),
    [
        ("submitted in 4AR, 4AS and 4AT", "AS"),
        ("in cassettes AS to AV, in slide AS, (slide AS)", "AS"),
        ("stage II, III, or IV, stage IIIA, IIIB, IIIC or IV", "IV"),
        ("seen on Month DD, YYYY", "DD"),
        ("Dear Dr. XYZ: I saw ABC today", "ABC"),
        ("reviewed by M.R., M.D.; M.R. Ph.D.", "MR"),
        ("M.R. denies pain; M.R. is a 45-year-old man, M.R. is a 45 y/o man", "MR"),
        ("Read by: CT Walsh, MD", "CT"),
        ("Merck Co., Delta Co. clinic", "Co"),
        ("State: TX", "TX"),
        ("Jane Doe", "DOE"),
        ("stool heme negative, heme + stools", "heme"),
        ("D/T: [**2154-1-3**]", "d/t"),
        ("T: [**2154-1-3**] 12:31", "T"),
        ("LOS +3L, neg 1.2L, EBL 2 L", "L"),
        ("(Sartorius AG, Germany)", "AG"),
        ("a node of 2 x O.B x 0.5 cm", "OB"),
        ("Vertex Pharmaceuticals, Inc., Boston", "INC"),
        ("tumor Ta, stage Ta, superficial (Ta or T1)", "TA"),
        ("COX2 inhibitors, cox2", "CO"),
        ("CDX2 positive, cdx2", "CD"),
        ("a patent os, 1 cm os", "OS"),
        ("lot 0262AA, 62010AA", "AA"),
        ("vaccine (Wistar RA 27/3)", "RA"),
        ("L M P: 10/16/06, I N R", "M"),
    ],
)
def test_labels_masks_and_stages_are_no_short_forms(text: str, short_form: str) -> None:
    assert found(text, ShortFormFinder([short_form])) == []


def test_due_to_before_a_number_is_no_date_of_dictation() -> None:
    assert found("pain d/t: 2 fractures, D/T: 3/4/2012", ShortFormFinder(["d/t"])) == [("d/t", "d/t")]


@pytest.mark.parametrize(
    ("text", "short_form"), [("denies N V D", "N"), ("UOP 1200cc", "cc"), ("1000NS", "NS")]
)
def test_letters_apart_and_units_after_numbers_are_short_forms(text: str, short_form: str) -> None:
    assert found(text, ShortFormFinder([short_form])) == [(short_form, short_form)]


@pytest.mark.parametrize(
    ("text", "short_form"),
    [
        ("stage T3, N1b M0; T3 NX", "T3"),
        ("pT3a N0 MO, pT2 NO/MO, MO (Distant metastases", "MO"),
        ("CN VI palsy, cranial nerves III, IV and VI", "VI"),
        ("level IA, neck levels IB, IA", "IA"),
        ("absence of RS complex, sectioned. RS-13.\nB. Liver", "RS"),
        ("the 6 Ps", "PS"),
        ("made As and Ds", "DS"),
        ("through NF-kB", "NF"),
        ("normal T- or B-cells", "T"),
        ("acquired C1-INH deficiency", "INH"),
        ("G-6-PD deficiency, anti-PD-L2", "PD"),
        ("works at ABC. ABC who is 10 years old", "ABC"),
        ("A boy named T.S, well. T.S's mother said", "TS"),
        ("MM/DD/YYYY\n\nJane Roe, O.D.\n", "OD"),
    ],
)
def test_codes_and_initials_are_no_short_forms(text: str, short_form: str) -> None:
    assert found(text, ShortFormFinder([short_form])) == []


@pytest.mark.parametrize(
    ("text", "short_form", "n"),
    [
        ("free T4/T3, T3 5.2, T3 normal", "T3", 3),
        ("IA chemotherapy", "IA", 1),
        ("ended with T", "T", 1),
        ("lungs RS clear, RS: wheeze", "RS", 2),
        ("PS 6, 3 mg PS", "PS", 2),
        ("on INH, RIF/INH, post-INH", "INH", 3),
        ("PD-guided, anti-PD, PD-1", "PD", 3),
        ("drops O.D. daily,\nPred Forte q4h O.D.", "OD", 2),
        ("rates of 29CR + 29PR, 4PR", "PR", 2),
        ("heart block HR 40, nerve blocks. HR 50", "HR", 2),
        ("heel slides LE 2x10, nerve blocks LE", "LE", 2),
        ("3Na+/2K+ per cycle", "K+", 1),
        ("IV antibiotics for stage II disease, IV fluids, ZOFRAN 4 MG IV, X 2 DOSES", "IV", 3),
        ("ABC/3TC, resistance to ABC, XYZAL", "ABC", 2),
        ("seen by Dr. XYZ, ABCs intact", "ABC", 1),
        ("Jane Roe, M.D., Ph.D., M.D. Ph.D.", "MD", 2),
        ("sent to E.R. MD notified, E.R. RN at bedside", "ER", 2),
        ("3x wk x 1 month, 3 x WK x 6", "WK", 2),
        ("A&OX3, a&ox3", "A&O", 2),
        ("Pt AOX3, NAD", "AO", 1),
        ("serum AG 12, Elevated AG, lactate 4, (Legionella AG) neg, (Elevated AG, lactate 4)", "AG", 4),
        ("CK 45000", "CK", 1),
    ],
)
def test_what_only_resembles_labels_masks_and_stages_is_found(text: str, short_form: str, n: int) -> None:
    assert [name for _, name in found(text, ShortFormFinder([short_form]))] == [short_form] * n


def test_labels_of_a_list_are_known_by_those_around_them() -> None:
    find = ShortFormFinder("PCM")
    assert found('BFS: "left ureter" C: "bladder" D: "nodes" E1-4: "uterus"', find) == []
    assert found("O1-3: nodes all embedded P: left ureter Q: margin", find) == []
    assert [name for _, name in found("S: fine O: well A: better P: home", find)] == ["P"]
    assert [name for _, name in found("O: clear A: URI P: rest\n\nVitals: T: 98 HR: 80 R: 16", find)] == ["P"]
    assert [name for _, name in found("P: 80 Q: none R: 16 N: none C: 2 D: 3 E: 4", find)] == ["P", "C"]


@pytest.mark.parametrize(
    "text",
    [
        "a l~mph node, mu·ti ple c^llec with r~spons",
        "nt^ure of «the» specimen, ti «malignancy»",
        "loss of lp and 19q, Ip/19q",
        "ROUTINE H&E Xl BLOCK",
        "intraoperati~ti finding",
    ],
)
def test_what_a_scanner_misread_is_no_short_form(text: str) -> None:
    assert found(text, ShortFormFinder(["TI", "NT", "LP", "IP", "XL", "MPH"])) == []


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("plt 100/mm^3, wbc 5/mm^3 in this pt; 10^9 /L", 1),
        ("•pt is well\n• pt went home\n•pt called", 3),
        ("sick all night...the pt...no fever...went home", 1),
        ("for ~five days the pt slept ~four hours, wt~70, K~4", 1),
        ('pt felt "tired","weak","dizzy"!', 1),
        ("pt c/o sob.\\nhx of htn.\\n pt called", 2),
        ("paid £8.80 x 2 (£17.60); pt exempt", 1),
        ("one stray mark, c^llected from the pt", 1),
        ("«PT» £2 {PT} t~ken for PT", 3),
    ],
)
def test_marks_that_are_meant_and_capitals_are_no_sign_of_a_scanner(text: str, n: int) -> None:
    assert [name for _, name in found(text, ShortFormFinder(["PT"]))] == ["PT"] * n


def test_a_letter_is_a_short_form_elsewhere() -> None:
    find = ShortFormFinder(["C", "T", "L"])
    assert found("T 38C. 37.5 C, C spine", find) == [("T", "T"), ("C", "C"), ("C", "C"), ("C", "C")]
    assert found("2L of saline", ShortFormFinder(SenseInventory.from_senses([Sense("L", "liter")]))) == [
        ("L", "L")
    ]


def test_a_unit_is_found_where_the_inventory_has_it_as_a_sense() -> None:
    inventory = SenseInventory.from_senses([Sense("PM", "post meridiem"), Sense("PM", "pacemaker")])
    assert found("at 8 PM", ShortFormFinder(inventory)) == [("PM", "PM")]
    assert found("5 mg", ShortFormFinder(["mg"])) == [("mg", "mg")]


def test_a_heart_rate_after_a_number_is_no_hour() -> None:
    assert short_forms("Resp: 18 HR: 66, RR 18 HR 66") == ["HR", "RR", "HR"]
    assert short_forms("inhaled NO, OCT of the retina") == ["NO", "OCT"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k 4.2, bun 22", ["K", "BUN"]),
        ("ca 8.9 mg 2.1 bun 22 t: 98.6", ["MG", "BUN", "T"]),
        ("25 mg 2 tabs, 5 mg, in mg", []),
        ("vitamin k, a bun, the map, type t", []),
    ],
)
def test_laboratory_values_in_small_letters_need_a_number(text: str, expected: list[str]) -> None:
    find = ShortFormFinder(["K", "BUN", "MG", "T", "MAP"])
    assert [short_form for _, short_form in found(text, find)] == expected


def test_intravenous_is_found_beside_the_numerals() -> None:
    assert short_forms("IV fluids, stage IV, given IV.") == ["IV", "IV"]


def test_exact_finds_only_what_is_given_and_its_plural() -> None:
    find = ShortFormFinder(["EXT", "IL-6"], exact=True)
    assert found("EXT ext Ext EXTs IL-6 il-6 IL-60", find) == [
        ("EXT", "EXT"),
        ("EXTs", "EXT"),
        ("IL-6", "IL-6"),
    ]


def test_nothing_is_found_in_nothing() -> None:
    assert FIND("") == []
    assert ShortFormFinder([])("PT") == []
    assert ShortFormFinder(["or", "..."])("or ...") == []


@given(
    st.lists(
        st.sampled_from([*SHORT_FORMS, "the", "or", "é", "STAGE", "😀", "8", "(", ".", "\r\n", "&", "s"])
    ),
    st.text(" \t\n-/", max_size=2),
)
def test_what_is_found_lies_in_order_within_the_text(words: list[str], between: str) -> None:
    text = between.join(words)
    places = FIND(text)
    assert all(left.end <= right.start for left, right in pairwise(places))
    for place in places:
        assert 0 <= place.start < place.end <= len(text)
        written = text[place.start : place.end].replace(".", "").lower()
        assert written.split()[0].startswith(place.short_form.lower()[:2])
        assert not text[place.end : place.end + 1].isalpha() or text[place.end] in "xX"


@given(st.text(alphabet="PTOR.&/ '-\n1stxI", max_size=60), st.text(alphabet=" \n", min_size=1, max_size=3))
def test_white_space_around_a_text_moves_what_is_found(text: str, space: str) -> None:
    moved = [Found(start + len(space), end + len(space), short) for start, end, short in FIND(text)]
    assert FIND(space + text) == moved


@pytest.mark.parametrize(
    ("piece", "size"),
    [
        ("PT, ", 100_000),
        *((piece, 5_000) for piece in ("AB:C:", "112E 12F ", "A & ", "C & S ", "(C) ", "< OR a ")),
    ],
)
def test_time_is_linear_on_hostile_text(piece: str, size: int) -> None:
    """If a rule looked at all of the text for each short form, this would take minutes."""
    find = ShortFormFinder([*SHORT_FORMS, "C", "F"])
    text = piece * (size // len(piece))
    assert all(0 <= each.start < each.end <= len(text) for each in find(text))


@pytest.mark.parametrize(
    ("text", "short_form"),
    [
        ("the serosa appears hemorr hagic", "hemorr"),
        ("clinically relevant cardio-vascular disease", "cardio"),
        ("a saw was used to resect the head", "resect"),
        ("dressed with Op-Site", "op"),
        ("TRYING TO RE-LIGHT A FIRECRACKER", "RE"),
        ("0.25% Neo-Synephrine", "neo"),
        ("POSTOPERATIVE DIAGNOSIS (ES): cataract", "ES"),
        ("no pain per se", "se"),
    ],
)
def test_parts_of_words_brands_and_verbs_are_no_short_forms(text: str, short_form: str) -> None:
    assert found(text, ShortFormFinder([short_form])) == []


@pytest.mark.parametrize(
    ("text", "short_form"), [("temp oral 98.6", "temp"), ("s/p resect of mass", "resect")]
)
def test_a_short_form_beside_a_word_is_found(text: str, short_form: str) -> None:
    assert [name for _, name in found(text, ShortFormFinder([short_form]))] == [short_form]

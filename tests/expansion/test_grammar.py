"""Counted, joined and sided forms, and codes."""

import pytest

from lmcells.expansion.grammar import find_codes, find_counted

FORMS = pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nebs q6h prn", {"q6h": "every 6 hours"}),
        ("q4hours", {"q4hours": "every 4 hours"}),
        ("nocturia q.1h. The", {"q.1h.": "every 1 hour"}),
        ("q. 8 hours", {"q. 8 hours": "every 8 hours"}),
        ("q2wk", {"q2wk": "every 2 weeks"}),
        ("q 4-6 hrs, q4 to 6h", {"q 4-6 hrs": "every 4-6 hours", "q4 to 6h": "every 4-6 hours"}),
        ("boluses q30–60 sec", {"q30–60 sec": "every 30-60 seconds"}),
        ("2 puffs 4hrly", {"4hrly": "every 4 hours"}),
        ("oriented x3.", {"x3": "times three"}),
        ("Keflex x10 days", {"x10": "for 10"}),
        ("x 7-10 days, X 2 to 3hr", {"x 7-10": "for 7-10", "X 2 to 3": "for 2-3"}),
        ("limp x 30 sec, pain x 6 1/2 mos", {"x 30": "for 30", "x 6 1/2": "for 6 1/2"}),
        ("emesis x 2-3; H&E X 1 D", {"x 2-3": "times two to three", "X 1": "times one"}),
        ("A&Ox3", {"A&Ox3": "alert and oriented times three"}),
        ("G3P2012 at term", {"G3P2012": "gravida 3 para 2012"}),
        ("a G3 P 2-0-0-2", {"G3 P 2-0-0-2": "gravida 3 para 2-0-0-2"}),
        ("POD#3", {"POD#3": "postoperative day 3"}),
        (
            "D5W and D5 1/2NS",
            {"D5W": "5% dextrose in water", "D5 1/2NS": "5% dextrose in half normal saline"},
        ),
        ("27yo and 45 y/o M", {"yo": "year old", "y/o": "year old", "M": "male"}),
        ("a 6 mo old", {"mo": "month"}),
        ("nursing, 4 1/2 mo old", {"mo": "month"}),
        ("22MO M with burn", {"MO": "month old"}),
        ("resolved 6 mo later", {"mo": "months"}),
        ("f/u 3mo, then stop", {"mo": "months"}),
        ("She is 6 mo s/p CABG", {"mo": "months"}),
        ("a 6mo infant", {"mo": "month old"}),
        ("T98.6 BP120/80", {"T": "temperature", "BP": "blood pressure"}),
        ("for 3/7, in 2/52", {"3/7": "3 days", "2/52": "2 weeks"}),
        ("seen at 39w2d, 28 w 5d", {"39w2d": "39 weeks 2 days", "28 w 5d": "28 weeks 5 days"}),
        ("AKI on CKD 2/2 sepsis", {"2/2": "secondary to"}),
        ("PAIN (ACUTE) 2/2 FALL", {"2/2": "secondary to"}),
        (
            "seen 2/2 with fever, ill on 2/2 but better, pupils 2/2 right, in 2/2 nodes, growth 2/2 bottles",
            {},
        ),
        ("tx w/ fever, p/vax", {"w/": "with", "p/": "after"}),
        ("better w/IV", {"w/": "with"}),
        ("P/nap fussy", {"P/": "after"}),
        ("rash p/1st dose, w/2 doses", {"p/1st": "after first", "w/2": "with 2"}),
        ("edema L>R", {"L": "left", "R": "right"}),
        ("R-sided pain", {"R": "right"}),
        ("PAIN IN R-KNEE, none in L. hip", {"R": "right", "L": "left"}),
        ("amox x 5/7, review 6/52", {"x 5/7": "for 5 days", "6/52": "6 weeks"}),
        ("glargine 22u, rash 10d ago", {"u": "units", "d": "days"}),
        ("q2 turns, q15 checks, lost", {"q2": "every 2 hours", "q15": "every 15 minutes"}),
        (
            "E4VTM6 on HD5, C2D15 given",
            {"E4VTM6": "eyes 4 verbal intubated motor 6", "HD5": "hospital day 5", "C2D15": "cycle 2 day 15"},
        ),
        ("SEIZURE X2 AT HOME", {"X2": "times two"}),
        ("K 2.7 (L), glucose 250 (H), flat", {"L": "low", "H": "high"}),
        ("Na 131 L, on 2 L, lot 05821L, 120 L/min", {"L": "low"}),
        ("strength 4/5 (L), C5-6 (R), grade 2 (L)", {}),
        ("BP 120/80, P 72 and regular, R 14", {"P": "pulse", "R": "respiratory rate"}),
        ("BP 120/80, P80, R 16.", {"P": "pulse", "R": "respiratory rate"}),
        ("T1P0A0L1", {}),
        ("skin w dry, a w male, in w fever", {"w": "with"}),
        ("fever w/t102.5, T36.6, t11, T12", {"w/": "with", "t": "temperature", "T": "temperature"}),
        ("seen /w fever, n/w, 1 /w2", {"/w": "with"}),
        ("right CN7 palsy, CN1, CN22", {"CN": "cranial nerve"}),
        ("woke this am, late p.m., I am well, 9 am, the amount", {"am": "morning", "p.m.": "evening"}),
        ("Zocor q. daily, q am", {"q.": "every", "q": "every", "am": "morning"}),
        ("Lap appendectomy, in her lap and", {"Lap": "laparoscopic"}),
        ("sponge, lap, and needle counts", {"lap": "laparotomy"}),
        (
            "WBC 12.1, lymph 40. PLT 196K, Lymph: 2 cm, 139K 3.9, lot 1276K, #812K",
            {"lymph": "lymphocytes", "K": "thousand"},
        ),
        ("temp inc to 103, inc of urine, inc c/d/i, meds inc aspirin", {"inc": "increased"}),
        ("exp inc WBC, 40", {"inc": "increased"}),
        ("rx with Motrin, allergic reaction rx with hives, Rx with 2 refills", {"rx": "treated"}),
        ("lot 12 exp 8/4/06 was given and then the pt exp 8/10 pain", {"exp": "expiration"}),
        ("serous otitis med, dental med", {"med": "media"}),
        ("given 02, on 02/03/04, on 02 July, on 02 MAR, on 02 occasions", {"02": "oxygen"}),
        ("fell 3x daily, 2x3 cm, 10x lens, x-ray", {"x": "times"}),
        ("trial No.4, batch nos. 044A, no pain, a lot no fever", {"No.": "number", "nos": "numbers"}),
        ("Ref. Physician, ref range", {"Ref.": "referring"}),
        ("Sect. Site PCs", {"Sect.": "section", "PCs": "pieces"}),
        ("1: SP: Left kidney, 2. SP: tube draining", {"SP": "specimen"}),
        ("HIE x 1\nHIE x 72 hours", {"HIE": "hematoxylin and eosin", "x 1": "times one", "x 72": "for 72"}),
        ("Bcx 2/2 NGTD, labs 2/2 showed, discharged 2/2 to rehab", {}),
        ("IVF 3 L. Chest clear, seen by Dr. L. Knee", {}),
        ("cancer in 4/12 cores, fevers since 3/7 and, scheduled for 3/7 at", {}),
        ("IOP (mmHg): OD 21, 22 (L). Grip: 60, 45 (L).", {}),
        ("60 mg p/day, p/protocol, P/ continue", {}),
        ("syncope w/up, meds w/held, the w/end", {}),
        ("Xience 3.0mm x 18 stent, 6F x 24 stent, factor X 45", {}),
        ("cut at 5 u thick, T42.4X2A, n, v intact", {}),
        ("Histology: G3, P16 positive", {}),
        ("TWO HR 150, THREE HR 130", {}),
        ("Any pain? No. 6/10, alcohol: no.\n2. HTN", {}),
        ("HR: 145, 24 HR 20 mg, PER HR 100 ML, HR 72 (95% CI)", {"HR": "heart rate"}),
        ("98.6, T 98 HR-88, R - 18.", {"R": "respiratory rate"}),
        ("positive for p63, p40 and p16", {}),
        ("t104 R 12 hrs", {"t": "temperature"}),
        ("aspirin 100 q.8, then", {"q.8": "every 8 hours"}),
        ("Tylenol q6 prn, q8", {"q6": "every 6 hours"}),
        ("exp n,v,d today, vitamin d, don't", {"n": "nausea", "v": "vomiting", "d": "diarrhea"}),
        ("no n or v; a, n, o", {"n": "nausea", "v": "vomiting"}),
        ("bp 136/76, p 84, r 18", {"p": "pulse", "r": "respiratory rate"}),
        ("Seen.\n72F, SOBOE, then 18F Foley. Temp: 99F, HR\n98F, 72", {"F": "female"}),
        ("Seen. 72M with pain", {"M": "male"}),
        ("gr II murmur, codeine gr 1/2, st II, st elevation", {"gr": "grade", "st": "stage"}),
        ("OA gr 3. cell ct 850, renal cell CT chest, NPO p MN", {"gr": "grade", "ct": "count", "p": "after"}),
        ("BS in all quads, hip flex quads, lives w wife, 5 w", {"quads": "quadrants", "w": "with"}),
        ("Ceftriaxone 1 gr IV, Gr 3 P2", {}),
        ("Next appt 2/2 cardiology, surgery 2/2 Dr. Smith, shock 2/2 pathology", {"2/2": "secondary to"}),
        ("nodes 5/52 positive, 7/52 were involved, amox tds 5/7", {"5/7": "5 days"}),
        ("transferred to 5w, cautery at 30w setting, seen in 5w", {"w": "weeks"}),
        ("Fluzone HD65+ on HD3", {"HD3": "hospital day 3"}),
        ("tumor 4.8 (W), 3.5 (H)", {}),
        ("Narcan x2 w/ response", {"x2": "times two", "w/": "with"}),
        ("FS q6 w/ meals", {"w/": "with"}),
        ("suction q shift", {"q": "every"}),
        ("D/C Foley, d/c the IVF, dc home meds, d/c on ASA", {"D/C": "discontinue", "d/c": "discontinue"}),
        ("Abx d/c'd, drip was DC'd", {"d/c'd": "discontinued", "DC'd": "discontinued"}),
        ("Came in on insulin d/c'd home, abx, d/c'd to rehab, ASA d/c planning, rec'd vanco d/c home", {}),
        ("RESP: clear. ID: afebrile. GI: 3 stools", {"ID": "infectious disease", "GI": "gastrointestinal"}),
        ("ID: 45 yo", {"yo": "year old"}),
        ("RENAL: fine. Patient ID: shown, CV: stable", {"CV": "cardiovascular"}),
        ("CV: sent, GI: 70, ID: 12345, then RESP: clear", {"CV": "cardiovascular"}),
        ("\ncc: Dr. Jones\ncc: cough", {"cc": "carbon copy"}),
        ("TF 120 cc/kg/d, TF at 60 cc/hr", {"TF": "total fluids"}),
        ("Cl-99 HCO3-30, CO2-based", {"HCO3": "bicarbonate"}),
        ("Tm 99.4, Tc 98.2, Tc 180, Tc 99 scan", {"Tm": "maximum temperature", "Tc": "current temperature"}),
        ("Plt Ct-312, Plt CT-guided", {"Ct": "count"}),
        ("Troponin 1.30 ng/mL HI, eos 0.9 % *LO*, 3 mg/dL HI-RES, 5/6 HI", {"HI": "high", "LO": "low"}),
        ("BMx2", {"BM": "bowel movement"}),
        ("s/s drainage, s/s of infection", {"s/s": "serosanguineous"}),
        ("\ncc:[**Last Name**]", {"cc": "carbon copy"}),
        ("CT d/c'd, CTs to sxn", {"CT": "chest tube", "d/c'd": "discontinued", "CTs": "chest tubes"}),
        ("CT to abdomen, CT w/ water-soluble contrast", {"w/": "with"}),
        ("CT TO SXN, wires d/c'd", {"CT": "chest tube", "d/c'd": "discontinued"}),
        ("abd inc with staples, INC D+I, INC OF STOOL", {"inc": "incision", "INC": "incision"}),
        ("ED: 34F BIBA, Temp: 99F with chills", {"F": "female"}),
        ("SBR GR II, mobs L4/5 gr III, 1 gr IV", {"GR": "grade", "gr": "grade"}),
        ("head ct, weak quads, neonatal HIE, lymph node 2, given rx, pt exp pain, no. of, No.", {}),
    ],
)


@FORMS
def test_what_is_counted_or_joined_is_read_out(text: str, expected: dict[str, str]) -> None:
    assert {text[each.start : each.end]: each.long_form for each in find_counted(text)} == expected


def test_id_before_the_systems_is_not_one_of_them() -> None:
    text = "ID: Mr. Smith\nCV: stable\nRESP: clear"
    assert [text[each.start : each.end] for each in find_counted(text)] == ["CV"]


@FORMS
def test_forms_are_read_at_any_distance_from_each_other(text: str, expected: dict[str, str]) -> None:
    for between in (" and ", " The patient slept well, ate and walked. " * 9):
        found = find_counted(between.join([text] * 3))
        assert [each.long_form for each in found] == list(expected.values()) * 3


@pytest.mark.parametrize(
    "text",
    [
        "4 x 3 x 2 cm",
        "4x3 cm",
        "x-ray",
        "on 6/7/04",
        "x3.5",
        "submitted, X1 and X2.",
        "19aug94 mom noticed",
        "w/o",
        "BP 90/52, then 98/52 mmHg, cut 40/52",
        "48 H, 72 H, 120 H, size 34 L, drained 20 L, well",
        "flexion 110 (L) 120 (R), kidneys 10.2 (R), 9.8 (L), lesion 2.5 (L) upper lobe, grip 60 L, 70 R",
        "Admitted 3/12 after a fall, seen 6/7 prior to 5/7 of the nodes",
        "O: RR 12 A: HTN P: 10 mg lisinopril",
        "BP 120/80, R 12 mm nodule",
        "T10 R 12 rib",
        "131 L                                        of saline",
        "co q10 daily, q2 nights, answered q3 and q4, del q2",
        '3" x 2", 5"x3"',
        "from right to left x 6 .8 cm",
        "2 inch x 3 inch, counts (x 10^9/L)",
        "silk x 3-0",
        "rotavirus G1 G2 G3 G4 P1",
        "MRI w/wo contrast",
        "P/W blast injury, O&P/enteric",
        "2:45 mom called",
    ],
)
def test_dimensions_dates_labels_and_other_forms_are_left_alone(text: str) -> None:
    assert find_counted(text) == []


def test_codes_are_read_out_when_asked_for() -> None:
    text = "pT3a, L5 and CD20"
    assert [(text[each.start : each.end], each.long_form) for each in find_codes(text)] == [
        ("pT3a", "pathologic primary tumor 3a"),
        ("L5", "lumbar 5"),
        ("CD20", "cluster of differentiation 20"),
    ]
    assert find_counted(text) == []

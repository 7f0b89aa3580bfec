"""Sections by rules: what is a header, what only looks like one, and what users add."""

import json
import os
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.errors import FormatError
from lmcells.notes.section_rules import SectionRules
from lmcells.notes.section_styles import find_paper_sections
from lmcells.notes.sections import header_key

ROOT = Path(__file__).parents[2]
RULES = SectionRules()


def headers(text: str, rules: SectionRules = RULES) -> list[str]:
    return [section.header for section in rules(text) if section.header is not None]


def names(text: str, rules: SectionRules = RULES) -> list[str]:
    return [section.name for section in rules(text)]


def test_the_letters_of_a_soap_note_on_one_line_are_headers() -> None:
    note = "S: cough x 3d. O: HR 110, clear. A: URI. P: rest, PT."
    assert names(note) == ["SUBJECTIVE", "OBJECTIVE", "ASSESSMENT", "PLAN"]
    assert names(f"Seen today. {note}") == ["", "SUBJECTIVE", "OBJECTIVE", "ASSESSMENT", "PLAN"]
    for other in ("Slides. A: skin. P: node.", "Vitals. P: 80. O: 98. A: none."):
        assert names(other) == [""]


def test_the_first_label_of_a_list_is_no_assessment() -> None:
    assert names("S: cough\nO: clear\nA: URI\nP: rest") == ["SUBJECTIVE", "OBJECTIVE", "ASSESSMENT", "PLAN"]
    assert "ASSESSMENT" not in names("SPECIMENS:\nA: skin of the nose\n\nA: Received fresh.")
    assert "ASSESSMENT" in names("HPI: cough\nPE: crackles\nA: pneumonia\nRx: rest")


PIECES = [
    *[
        "\n",
        "\n\n",
        " ",
        "\t",
        "\r\n",
        ":",
        " :",
        "1. ",
        "10) ",
        "# ",
        "A. ",
        "**",
        *"()&-é",
        "\x1c",
        "word ",
    ],
    *"HPI|PLAN|Past Medical History|HEENT|PE|ASSESSMENT & PLAN|SOMETHING NEW|Something New".split("|"),
    *"The plan is as follows|none|Time|10:30|XYZ, M.D.|MY HEADER|my header".split("|"),
]
any_note = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


@pytest.fixture
def own_rules(tmp_path: Path) -> SectionRules:
    path = tmp_path / "rules.json"
    own = {"My Header": ["MH", "pt concerns"], "ALLERGIES": ["NKDA status"], "HEENT": []}
    path.write_text(json.dumps(own))
    return SectionRules(path)


# Sections


@settings(max_examples=800)
@given(any_note)
def test_sections_touch_and_cover_the_note_and_begin_with_their_header(text: str) -> None:
    sections = RULES(text)
    assert "".join(text[s.start : s.end] for s in sections) == text
    assert all(left.end == right.start for left, right in pairwise(sections))
    for section in sections:
        assert section.start < section.end
        if section.header is None:
            assert (section.name, section.start, section.body_start) == ("", 0, 0)
        else:
            assert section.header in text[section.start : section.body_start]
            assert section.header == section.header.strip()
            assert section.name == section.name.upper()
            assert section.body_start <= section.end
            before = text[: section.start]
            assert not before or before[-1] in "\n \t*_#=~-:"  # a line, or running text


def test_an_empty_note_has_no_sections() -> None:
    assert RULES("") == ()


def test_text_before_the_first_header_is_no_section() -> None:
    text = "Dictated today.\n\nPLAN: rest"
    before, plan = RULES(text)
    assert (before.header, before.name) == (None, "")
    assert (plan.header, text[plan.body_start : plan.end]) == ("PLAN", " rest")


def test_a_header_without_a_body_ends_the_previous_section() -> None:
    text = "HPI: cough\nPMH:\nMEDS: aspirin"
    assert [text[s.body_start : s.end] for s in RULES(text)] == [" cough\n", "\n", " aspirin"]


def test_the_raw_header_is_kept_and_numbering_belongs_to_the_section() -> None:
    text = "10) Past Med. Hx : asthma"
    (section,) = RULES(text)
    assert (section.header, section.name) == ("Past Med. Hx", "PAST MEDICAL HISTORY")
    assert text[section.start : section.body_start] == "10) Past Med. Hx :"


def test_an_unknown_header_is_named_after_itself() -> None:
    assert names("2.  FETAL  SURVEY (LEVEL II): normal") == ["FETAL SURVEY (LEVEL II)"]


# What the paper's expression gets wrong


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("PAST MEDICAL HISTORY\n", "PAST MEDICAL HISTORY"),  # no colon
        ("Past Medical History\n", "PAST MEDICAL HISTORY"),
        ("PLAN :", "PLAN"),  # a space before the colon
        ("ASSESSMENT & PLAN:", "ASSESSMENT AND PLAN"),
        ("PRE-OPERATIVE DIAGNOSIS:", "PREOPERATIVE DIAGNOSIS"),
        ("FAMILY, MEDICAL, AND SOCIAL HISTORY:", "FAMILY HISTORY"),
        ("HISTORY OF PRESENT ILLNESS (HPI):", "HISTORY OF PRESENT ILLNESS"),
        ("P:", "PLAN"),  # one letter
        ("PE:", "PHYSICAL EXAM"),  # two letters
        ("10) RECOMMENDATIONS:", "RECOMMENDATIONS"),
    ],
)
def test_finds_headers_that_the_paper_misses(header: str, name: str) -> None:
    text = f"Seen today.\n\n{header} something else."
    assert names(text) == ["", name]
    assert name not in [section.name for section in find_paper_sections(text)]


SENTENCES = [
    *["The plan is as follows:", "She was told:", "Time: 10:30", "A_[x]^:"],
    "We discussed the risks and benefits of surgery and the following options:",
    "        COLUMN    OTHER COLUMN    Last column:",
]


@pytest.mark.parametrize("line", SENTENCES)
def test_sentences_and_fragments_are_not_headers(line: str) -> None:
    text = f"HPI: cough.\n{line}\nand rest.\n\n{line} rest."
    assert headers(text) == ["HPI"]
    assert len(find_paper_sections(text)) > 1


# Which lines are headers


@pytest.mark.parametrize(
    "line", ["Time: 10:30", "TIME: 10:30", "DOB: 1/1/1950", "Dear Dr. Smith:", "Sodium: 140"]
)
def test_fields_and_values_are_not_headers(line: str) -> None:
    assert headers(f"\n\n{line}\n\n") == []


@pytest.mark.parametrize(
    "line", ["WBC: 12.3", "FL/BPD: 81 (71-87)", "LIDOCAINE WITH 1:100,000 EPINEPHRINE", "L5-S1: bulge"]
)
def test_measurements_in_capitals_are_not_headers(line: str) -> None:
    assert headers(f"IMPRESSION: well.\n\n{line}\n\n") == ["IMPRESSION"]


@pytest.mark.parametrize(
    "numbering", ["1. ", "1.", "10) ", "(2) ", "3.) ", "A. ", "IV. ", "# ", "## ", "#2. ", "**"]
)
def test_numbering_and_emphasis_may_stand_before_a_header(numbering: str) -> None:
    (section,) = RULES(f"{numbering}SOCIAL HISTORY: none")
    assert (section.header, section.name, section.start) == ("SOCIAL HISTORY", "SOCIAL HISTORY", 0)


def test_markdown_headings_are_headers() -> None:
    text = "## Plan\nrest\n**Follow-up:** in a week\n**Home Medications**\nnone"
    assert headers(text) == ["Plan", "Follow-up", "Home Medications"]


def test_headers_may_be_indented_and_lines_may_end_as_on_windows() -> None:
    text = " INDICATION:  fall.\r\n\r\n FINDINGS:\r\n No bleeding.\r\n\r\n IMPRESSION\r\n Normal.\r\n"
    assert headers(text) == ["INDICATION", "FINDINGS", "IMPRESSION"]


def test_title_case_headers_of_a_discharge_summary_are_found() -> None:
    text = """Admission Date:  [**2118-6-2**]       Discharge Date:  [**2118-6-14**]

Date of Birth:  [**2050-1-1**]        Sex:  F

Service: MEDICINE

Allergies:
Penicillins

Attending:[**First Name3 (LF) 1**]
Chief Complaint:
cough

Major Surgical or Invasive Procedure:
none

History of Present Illness:
Cough since
Monday.

Past Medical History:
1. COPD
2. CHF: EF 35%

Social History:
Lives alone.
Family History:
NC

Physical Exam:
VS: T 98
Gen: NAD
CV: RRR

Brief Hospital Course:
# COPD: steroids

# CHF: lasix

Discharge Medications:
1. Aspirin 81 mg Tablet Sig: One (1)
Tablet PO DAILY.

Discharge Condition:
stable

Followup Instructions:
Provider: [**Name**] Phone:[**1**]
"""
    assert names(text) == [
        *["ADMISSION DATE", "SERVICE", "ALLERGIES", "ATTENDING", "CHIEF COMPLAINT", "PROCEDURE"],
        *[
            "HISTORY OF PRESENT ILLNESS",
            "PAST MEDICAL HISTORY",
            "SOCIAL HISTORY",
            "FAMILY HISTORY",
            "PHYSICAL EXAM",
        ],
        *["HOSPITAL COURSE", "DISCHARGE MEDICATIONS", "DISCHARGE CONDITION", "FOLLOW UP"],
    ]


def test_short_headers_on_crowded_lines_are_found() -> None:
    text = (
        "HPI: CP\nPMH: HTN\nMEDS: asa\nSH: none\nPE: T 98\nHEENT: ok\nLABS: wbc 12\nA/P: r/o MI\n1. CP: tele"
    )
    assert headers(text) == ["HPI", "PMH", "MEDS", "SH", "PE", "LABS", "A/P"]


def test_a_sub_heading_belongs_to_its_section_and_stands_alone_elsewhere() -> None:
    assert names("PHYSICAL EXAM:\nHEENT: normal\n\nLUNGS: clear\n\nPLAN: rest") == ["PHYSICAL EXAM", "PLAN"]
    assert names("NEURO: alert\nRESP: clear\nGI: soft\n") == ["NEUROLOGIC", "RESPIRATORY", "GASTROINTESTINAL"]


def test_an_unknown_header_needs_a_blank_line_where_other_headers_have_one() -> None:
    spaced = "HPI: cough\n\nFETAL SURVEY: fine\n\nPLAN: rest\nSUTURES: out"
    assert headers(spaced) == ["HPI", "FETAL SURVEY", "PLAN"]
    assert headers("HPI: cough\nFETAL SURVEY: fine\nPLAN: rest") == ["HPI", "FETAL SURVEY", "PLAN"]


def test_unknown_title_case_is_a_header_only_where_headers_are_in_title_case() -> None:
    title_case = "Plan: rest\n\nFetal Survey: fine\n\nAllergies: none"
    assert headers(title_case) == ["Plan", "Fetal Survey", "Allergies"]
    assert headers("PLAN: rest\n\nFetal Survey: fine\n\nALLERGIES: none") == ["PLAN", "ALLERGIES"]


def test_items_of_a_list_are_not_headers() -> None:
    text = "PLAN:\n\n1. Pain: better\n2. Diet\n3. HYPERTENSION.\n\n4. GERD: stable\n# COPD: inhalers"
    assert headers(text) == ["PLAN", "GERD"]  # after a blank line nothing tells GERD from a header


def test_signatures_and_shouted_lines_are_not_headers() -> None:
    assert headers("Doing well.\n\nJANE DOE, M.D.\n\nMM/DD/YYYY\n\nGENERAL HOSPITAL\n") == []
    assert headers("PATIENT DOING WELL.\n\nDUCTAL CARCINOMA\n\nMARGINS FREE\n\nSEEN TWICE") == []


# Headers that do not open a line of their own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PMH: CVA in 2019, HTN. PLAN: to the OR for CABG.", ["PMH", "PLAN"]),
        ("pmh: htn, dm\nmeds: asa\nplan: d/c home", ["pmh", "meds", "plan"]),
        ("hpi: 50 yo m w/ cp. pmh: htn, dm. pe: nad. plan: admit.", ["hpi", "pmh", "pe", "plan"]),
        ("HPI: cough\n\nplan: rest", ["HPI", "plan"]),
        ("PMH - HTN\nPLAN - rest\nMEDS -- asa\nLABS – wbc", ["PMH", "PLAN", "MEDS", "LABS"]),
        ("-PLAN-\nrest\n- LABS: wbc\n~~~PE~~~\nok", ["PLAN", "LABS", "PE"]),
        ("=== PLAN ===\nrest\n--- Labs ---\nwbc\n*** HPI ***\ncough", ["PLAN", "Labs", "HPI"]),
        (
            "## Plan\nrest\n### Wound Care\nok\n*Labs:* wbc\n__Meds:__ asa",
            ["Plan", "Wound Care", "Labs", "Meds"],
        ),
        ("**Plan:** rest. **Labs:** wbc 12.", ["Plan", "Labs"]),
        ("Well. Past Medical History: HTN; DM. Plan: rest.", ["Past Medical History", "Plan"]),
        ("Seen today. Impression: stable.\nSecond line.", ["Impression"]),
        ("Known HTN. PLAN: rest.", ["PLAN"]),
        ("KNOWN HTN. PLAN: REST.\nP.R.N. MEDICATIONS: NONE.", ["PLAN", "P.R.N. MEDICATIONS"]),
        ("HX: 1. HTN 2. DM MEDICATIONS: asa daily ALLERGIES: none", ["HX", "MEDICATIONS", "ALLERGIES"]),
        ("HISTORY: well. PHYSICAL EXAM NECK: supple. PLAN 1. Rest.", ["HISTORY", "PHYSICAL EXAM", "PLAN"]),
        ("HISTORY: well. FETAL SURVEY: fine. PLAN: rest.", ["HISTORY", "FETAL SURVEY", "PLAN"]),
    ],
)
def test_headers_in_running_text_and_with_marks_around_them_are_found(text: str, expected: list[str]) -> None:
    assert headers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "He has a plan: rest. She said: ok. BP: 120/80. HR: 80. T: 98. See http://x.org. Time: 10:30.",
        "She has had many problems for a long time now, and was given\nmedications: aspirin and others",
        "- aspirin\n- Tylenol\n-----\n12 - 14\nEXTERNAL - NOTHING",
    ],
)
def test_running_text_is_no_header(text: str) -> None:
    assert headers(text) == []


def test_under_headers_of_lines_running_text_has_only_capitals_of_the_table() -> None:
    text = "HPI: cough. FETAL SURVEY: fine. Plan: rest. LABS: wbc.\n\nMEDS: none.\n\nPMH: none."
    assert headers(text) == ["HPI", "LABS", "MEDS", "PMH"]


# The user's own rules


def test_an_own_alias_is_a_header_with_or_without_a_colon(own_rules: SectionRules) -> None:
    text = "MH\nfine\npt concerns\nnone\nHPI: cough\nMy header: yes"
    assert names(text, own_rules) == ["MY HEADER", "MY HEADER", "HISTORY OF PRESENT ILLNESS", "MY HEADER"]
    assert headers(text) == ["HPI"]


def test_own_aliases_extend_the_shipped_ones_and_win(own_rules: SectionRules) -> None:
    assert names("NKDA Status: yes\nDRUG ALLERGIES: none", own_rules) == ["ALLERGIES", "ALLERGIES"]
    assert names("PE:\nHEENT: normal\nLUNGS: clear", own_rules) == ["PHYSICAL EXAM", "HEENT"]


@pytest.fixture(scope="module")
def odd_rules(tmp_path_factory: pytest.TempPathFactory) -> SectionRules:
    path = tmp_path_factory.mktemp("rules") / "own.json"
    path.write_text('{"MY HEADER": ["é", "word"]}', encoding="utf-8")
    return SectionRules(path)


@settings(max_examples=200)
@given(text=any_note)
def test_sections_with_own_rules_cover_the_note(text: str, odd_rules: SectionRules) -> None:
    assert "".join(text[s.start : s.end] for s in odd_rules(text)) == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("{", "line 1"),
        ("[]", "JSON list"),
        ('"PLAN"', "JSON string"),
        ('{"PLAN": "P"}', "'PLAN' are a JSON string"),
        ('{"PLAN": {"P": []}}', "'PLAN' are a JSON object"),
        ('{"PLAN": [1]}', "JSON number"),
        ('{"PLAN": [" : "]}', "cannot be a header"),
        ('{"": []}', "cannot be a header"),
        (json.dumps({"PLAN": ["P" * 81]}), "found 81"),
        ('{"PLAN": ["to do"], "ORDERS": ["To-do", "TO DO"]}', "'PLAN' and 'ORDERS'"),
        ('{"PLAN": ["a1"], "plan": ["a2"]}', "'plan' appears twice"),
    ],
)
def test_a_faulty_rule_file_is_refused_by_name_and_reason(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=r"rules\.json") as error:
        SectionRules(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_rule_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        SectionRules(tmp_path / "missing.json")
    (tmp_path / "latin.json").write_bytes(b'{"PLAN": ["\xe9"]}')
    with pytest.raises(FormatError, match="UTF-8"):
        SectionRules(tmp_path / "latin.json")


# The shipped table


def test_every_shipped_alias_leads_to_one_name() -> None:
    blocks = json.loads((ROOT / "src/lmcells/notes/section_aliases.json").read_text("utf-8"))
    groups = [blocks["sections"], *(group["headers"] for group in blocks["parts"])]
    owners: dict[str, set[str]] = {}
    for group in groups:
        for name, aliases in group.items():
            assert name == name.upper()
            for alias in [name, *aliases]:
                owners.setdefault(header_key(alias), set()).add(name)
    assert {key: found for key, found in owners.items() if len(found) > 1} == {}
    assert owners.keys().isdisjoint(map(header_key, blocks["fields"]))
    canonical = {name for group in groups for name in group}
    assert all(name in canonical for group in blocks["parts"] for name in group["within"])
    assert len(owners) > 1000


# Bulk


HOSTILE = {
    "blanks": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "a line of capitals": lambda n: "A" * n + ":",
    "lines of capitals": lambda n: ("A" * 79 + "\n") * (n // 80),
    "short lines of capitals": lambda n: "ABCDE FGH\n\n" * (n // 11),
    "columns": lambda n: ("WORD      " * 7 + "\n") * (n // 71),
    "indented lines": lambda n: ("\n" + " " * 50) * (n // 51),
    "numbering": lambda n: "\n1. 1. 1. 1." * (n // 12),
    "marks": lambda n: "\n####\n****" * (n // 10),
    "brackets": lambda n: "\nA(((((((((((((((((((((((((((:" * (n // 30),
    "sentences": lambda n: "The plan is:\n" * (n // 13),
    "a header and blank lines": lambda n: "ABCDEFG" + "\n" * n,
    "sentences of capitals": lambda n: "A. PLAN AB AB AB " * (n // 17),
    "colons": lambda n: "A: B: " * (n // 6),
    "capitals in one line": lambda n: "a " + "A " * (n // 2) + ":",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_is_linear_on_hostile_text(kind: str) -> None:
    text = HOSTILE[kind](200_000)  # minutes, if time were quadratic
    assert RULES(text)[-1].end == len(text)


def test_rules_agree_with_headers_marked_up_by_people(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(os.environ.get("LMCELLS_DATA", "")) / "dev/mtsamples_raw.parquet"
    if not path.exists():
        pytest.skip("needs LMCELLS_DATA, the folder that holds dev/")
    pytest.importorskip("pyarrow")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = runpy.run_path(str(ROOT / "benchmarks/section_detection.py"))
    notes = benchmark["read_marked_notes"](path)
    assert benchmark["score"](RULES, notes).f1 >= 0.974
    assert benchmark["score"](RULES, map(benchmark["flattened"], notes)).f1 >= 0.94

"""Definitions that a text gives itself: which are found, where they begin and end, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.notes.definitions import find_definitions

PIECES = [*"atrial fibrillation (AF) ( ) [ of é . ; MIs Abbreviations:".split(), *("AF (", "AF =", "\r\n")]


def defined(text: str) -> list[tuple[str, str]]:
    return [(each.short_form, each.long_form) for each in find_definitions(text)]


@pytest.mark.parametrize(
    ("text", "short_form", "long_form"),
    [
        ("He has atrial fibrillation (AF).", "AF", "atrial fibrillation"),
        ("He has AF (atrial fibrillation).", "AF", "atrial fibrillation"),
        ("known AF (i.e., atrial fibrillation) since", "AF", "atrial fibrillation"),
        ("two cerebrovascular accidents (CVAs)", "CVA", "cerebrovascular accidents"),
        ("coronary artery bypass graft [CABG]", "CABG", "coronary artery bypass graft"),
        ("an electrocardiogram (ECG; normal)", "ECG", "electrocardiogram"),
        ("type 2 diabetes mellitus (T2DM, 2010)", "T2DM", "type 2 diabetes mellitus"),
        ("alanine aminotransferase (ALT), ALT 20", "ALT", "alanine aminotransferase"),
        ("high triglycerides (TG)", "TG", "triglycerides"),
        (
            "Beck Depression Inventory, Second Edition (BDI-II)",
            "BDI-II",
            "Beck Depression Inventory, Second Edition",
        ),
        ("a CT/MRI (magnetic resonance imaging)", "MRI", "magnetic resonance imaging"),
        ("Sterol delta8-delta7 isomerases (SIs), SIs", "SI", "Sterol delta8-delta7 isomerases"),
        ("levels of interleukin-6 (IL-6)", "IL-6", "interleukin-6"),
        ("immunoglobulin G (IgG)", "IgG", "immunoglobulin G"),
        ("messenger RNA (mRNA)", "mRNA", "messenger RNA"),
        ("culture and sensitivity (C&S)", "C&S", "culture and sensitivity"),
        ("quality of life (QoL)", "QoL", "quality of life"),
        ("hemoglobin (Hb)", "Hb", "hemoglobin"),
        ("drugs to prevent postpartum hemorrhage (PPH)", "PPH", "postpartum hemorrhage"),
        ("the hazard ratio (HR 0.5)", "HR", "hazard ratio"),
        ("the prothrombin\n  time (PT)", "PT", "prothrombin time"),
        ("Legend: AF = atrial fibrillation; x", "AF", "atrial fibrillation"),
        ("by mouth twice, physical therapy (P.T.)", "PT", "physical therapy"),
        ("PT (prothrombin time 12 s)", "PT", "prothrombin time"),
        ("rheumatoid arthritis (or RA) is", "RA", "rheumatoid arthritis"),
        (
            "crib death (LLT, SIDS), sudden infant death syndrome (LLT, SIDS)",
            "SIDS",
            "sudden infant death syndrome",
        ),
        ("an agent (angiotensin receptor blocker, ARB)", "ARB", "angiotensin receptor blocker"),
        ("a study (CBC, complete blood count)", "CBC", "complete blood count"),
        (
            "Pupils equal, round, and reactive to light (PERRL)",
            "PERRL",
            "Pupils equal, round, and reactive to light",
        ),
        ("nitric oxide (NO)", "NO", "nitric oxide"),
        ("history of (h/o) falls", "h/o", "history of"),
        ("vasovagal syncope (vvs)", "vvs", "vasovagal syncope"),
        ("interferon gamma (IFN-γ)", "IFN-γ", "interferon gamma"),
        ("tumor necrosis factor-alpha (TNF-alpha)", "TNF-alpha", "tumor necrosis factor-alpha"),
        ("beta-amyloid precursor protein (APP)", "APP", "beta-amyloid precursor protein"),
        ("post-myocardial infarction (MI)", "MI", "myocardial infarction"),
        ("poly(ADP-ribose) polymerase (PARP)", "PARP", "poly(ADP-ribose) polymerase"),
        ("lipoprotein(a) (Lp(a))", "Lp(a)", "lipoprotein(a)"),
        (
            "interleukin-1 (IL1R) receptor antagonist (IL-1RA)",
            "IL-1RA",
            "interleukin-1 (IL1R) receptor antagonist",
        ),
        ("carbonic anhydrase XIV (CA14)", "CA14", "carbonic anhydrase XIV"),
        ("two-dimensional echo (2DE)", "2DE", "two-dimensional echo"),
        ("cervical intraepithelial neoplasia 1 (CIN 1)", "CIN 1", "cervical intraepithelial neoplasia 1"),
        ("Wolff-Parkinson-White syndrome (WPW)", "WPW", "Wolff-Parkinson-White syndrome"),
        ("origin recognition complex (ORC5)", "ORC5", "origin recognition complex"),
        ("methicillin-resistant S. aureus (MRSA)", "MRSA", "methicillin-resistant S. aureus"),
        ("dexamethasone (Dex)", "Dex", "dexamethasone"),
        ("PCR (, polymerase chain reaction)", "PCR", "polymerase chain reaction"),
        ("the type 1 protein phosphatase (PP1)", "PP1", "type 1 protein phosphatase"),
        ("the 70-kDa heat shock protein (Hsp70)", "Hsp70", "70-kDa heat shock protein"),
        ("levels of beta-amyloid (Abeta)", "Abeta", "beta-amyloid"),
        ("DNA topoisomerase I (Top1p)", "Top1p", "topoisomerase I"),
        ("HIV type 1 (HIV-1)", "HIV-1", "HIV type 1"),
        ("temperature-sensitive (Ts(-)) mutants", "Ts(-)", "temperature-sensitive"),
        ("BNP (brain natriuretic peptide or B-type peptide)", "BNP", "brain natriuretic peptide"),
        ("cytochrome c oxidase (COX) deficiency", "COX", "cytochrome c oxidase"),
        ("exposed to methotrexate (MTX)", "MTX", "methotrexate"),
        ("dolutegravir (DTG, 2.5 mg/kg)", "DTG", "dolutegravir"),
        ("data of The Cancer Genome Atlas (TCGA)", "TCGA", "The Cancer Genome Atlas"),
        ("with 3,3'-diaminobenzidine (DAB)", "DAB", "3,3'-diaminobenzidine"),
        ("treatment of Type 2 diabetes mellitus (Type 2 DM)", "Type 2 DM", "Type 2 diabetes mellitus"),
    ],
)
def test_a_definition_is_found(text: str, short_form: str, long_form: str) -> None:
    assert defined(text) == [(short_form, long_form)]


def test_a_definition_inside_another_is_found_too() -> None:
    text = "FIF [fibroblast growth factor (FGF)-interacting-factor]"
    assert dict(defined(text)) == {
        "FIF": "fibroblast growth factor (FGF)-interacting-factor",
        "FGF": "fibroblast growth factor",
    }


def test_a_list_of_abbreviations_is_read() -> None:
    text = "Abbreviations: AF, atrial fibrillation; BP, blood pressure; MI, myocardial infarction."
    listed = {"AF": "atrial fibrillation", "BP": "blood pressure", "MI": "myocardial infarction"}
    assert dict(defined(text)) == listed


@pytest.mark.parametrize(
    "text",
    [
        "SECTIONS\nRA-right apical margin\nAD --adrenal gland\nTK - tumor with adjacent kidney (2)",
        "Sections: RA - right apical margin, AD - adrenal gland; TK: tumor with kidney submitted whole",
        "RA = right apex\n\n* AD — adrenal\n* TK – tumor and normal kidney",
    ],
)
def test_a_legend_is_read(text: str) -> None:
    beginnings = {"RA": "right ap", "AD": "adrenal", "TK": "tumor "}
    found = dict(defined(text))
    assert found.keys() == beginnings.keys()
    assert all(long_form.startswith(beginnings[short_form]) for short_form, long_form in found.items())
    assert found["TK"].endswith("kidney")


def test_a_legend_entry_ends_with_a_noun() -> None:
    legend = "PBM -- posterior bone margin shaved\nAM -- anterior mucosal and soft tissue margin\nTA-tumor and adrenal"
    assert dict(defined(legend)) == {
        "PBM": "posterior bone margin",
        "AM": "anterior mucosal and soft tissue margin",
        "TA": "tumor and adrenal",
    }


def test_one_entry_is_a_legend_if_its_initials_or_other_legends_say_so() -> None:
    assert defined("FSC - frozen section control") == [("FSC", "frozen section control")]
    assert defined("PM - proximal margin") == []
    legend = "RS - representative sections\nLN - lymph nodes"
    apart = "The specimen is received fresh. It weighs 20 grams, and is serially sectioned and submitted."
    assert ("PM", "proximal margin") in defined(f"{legend}\n{apart}\nPM - proximal margin")


NO_DEFINITIONS = [
    *["pump failure (MI, myocarditis)", "RV strain pattern (PE); PE", "pain (peritoneal irritation), pain"],
    "prostatic base (BR1A, BR1B, BR2A)",
    "PMH: asthma\nDH: nil\nFH: father has MI\nSH: single\nOE: well",
    "BP - normal\nWBC - white count elevated\nMS - muscle strength full\nCV - regular",
    "A1-A3 - apex\nNON-NEOPLASTIC KIDNEY\nC2-C12 - cervix\nFl - five lymph nodes",
    *[
        "treated with placebo (PT)",
        "seen in the hospital (IH)",
        "CC: Chest congestion.",
        "PE: patient examined",
    ],
    *["AF, atrial fibrillation, was noted", "esophageal pressure (Pes)", "ptosis OD (old per pictures)"],
    *["Against Cancer (UICC)", "walks. After that (AF)", "AF (AF)", "()", "(AF) atrial fibrillation", ""],
    *[
        "could not shave (NOS)",
        "PRN (pt not sure of name)",
        "propria of the bladder (pT4b)",
        "COUGH (coughing)",
    ],
    *[
        "Gleason 4+5 (Gleason 5)",
        "some swelling (sl)",
        "human A (AF) and B (HB)",
        "TAF17 (TAF60)",
        "leg (lot ENG5466A4)",
        "Mental Health Acts of (MHA)",
        "enzymes of the family (EF1, EF2 and EF3)",
        "low-grade glioma (grade II)",
        "outcome recovered (Oct2021)",
        "made in USA, measured using a reader (Bio-Rad, Hercules, CA, USA)",
        "aldosterone 91 ng/dl (normal 4 to 16 ng/dl)",
    ],
    "as shown (Fig) and (see above) and (n = 20) (95% CI, 2-3)",
]


@pytest.mark.parametrize("text", NO_DEFINITIONS)
def test_what_is_no_definition(text: str) -> None:
    assert defined(text) == []


def test_a_short_form_that_is_used_again_needs_less_proof() -> None:
    definition = "mutants of the thyroid hormone receptor (TR)"
    assert defined(definition) == []
    assert defined(f"{definition} binds DNA, and TR mutants do not") == [("TR", "thyroid hormone receptor")]
    assert defined(f"{definition}; an old hormone receptor (TR)") == []  # used in brackets only


def test_the_inventory_knows_what_letters_do_not_tell() -> None:
    def spells(short_form: str, words: str) -> str | None:
        return words if (short_form, words) in {("BID", "twice daily"), ("CC", "chief complaint")} else None

    found = find_definitions("aspirin twice daily (BID).\nCC: chief complaint", spells)
    assert [each.long_form for each in found] == ["twice daily", "chief complaint"]
    assert find_definitions("aspirin twice daily (BID)") == []


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from([" ", "", "\t", "\n"]))
def test_both_places_hold_what_is_said_of_them(words: list[str], between: str) -> None:
    text = between.join(words)
    find_definitions(text, lambda _, long_form: long_form)  # an inventory that agrees with everything
    previous = -1
    for each in find_definitions(text):
        assert previous < each.start < each.end <= len(text)
        assert text[each.start : each.end].startswith(each.short_form[:1])
        assert " ".join(text[each.long_start : each.long_end].split()) == each.long_form
        assert each.long_end <= each.start or each.long_start >= each.end
        previous = each.start


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "((AF)",
        "AF = a ",
        "a (AB",
        "ab ab ab ab (ABABABABAB) ",
        "Abbreviations: AF, a",
        "\nRA - right a",
        "abbreviations: ",
    ],
)
def test_time_is_linear_on_hostile_text(piece: str) -> None:
    n = 100_000 // len(piece)  # minutes, if time were quadratic
    assert len(find_definitions(piece * n)) <= n

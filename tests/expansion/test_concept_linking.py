"""Concept ids by the names of OMOP's and UMLS's tables, on invented rows in their formats."""

import csv
import json
from pathlib import Path

import pytest

from lmcells.cli.main import main
from lmcells.errors import FormatError, InputError
from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory
from lmcells.expansion.concept_linking import (
    link_concepts,
    linked_inventory,
    of_vocabularies,
    read_omop_concepts,
    read_umls_names,
)

INVENTORY = SenseInventory.from_senses(
    [
        Sense("MS", "multiple sclerosis"),
        Sense("MS", "mitral stenosis", ("mitral stenosis", "stenosis of the mitral valve")),
        Sense("MS", "mental status"),
        Sense("ESRD", "end-stage renal disease"),
        Sense("PT", "physical therapy", ("physical therapy", "physiotherapy")),
        Sense("PT", "prothrombin time", concept_id="7"),
        Sense("XX", "never heard of"),
    ]
)

OMOP = """\
concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_class_id\tstandard_concept\tconcept_code\tvalid_start_date\tvalid_end_date\tinvalid_reason
101\tMultiple sclerosis\tCondition\tSNOMED\tDisorder\tS\tA1\t19700101\t20991231\t
102\tMultiple Sclerosis\tCondition\tICD10CM\tCode\t\tA2\t19700101\t20991231\t
103\tStenosis of the "mitral" valve\tCondition\tSNOMED\tDisorder\tS\tA3\t19700101\t20991231\t
104\tMental status\tObservation\tSNOMED\tFinding\tS\tA4\t19700101\t20991231\t
105\tMENTAL  STATUS\tMeasurement\tLOINC\tTest\tS\tA5\t19700101\t20991231\t
106\tEnd stage renal diseases\tCondition\tSNOMED\tDisorder\tS\tA6\t19700101\t20991231\t
107\tPhysical therapy\tProcedure\tSNOMED\tProcedure\tS\tA7\t19700101\t20201231\tU
108\tPhysiotherapy\tProcedure\tSNOMED\tProcedure\tS\tA8\t19700101\t20991231\t
109\tProthrombin time\tMeasurement\tSNOMED\tTest\tS\tA9\t19700101\t20991231\t
"""


def umls(cui: str, name: str, *, language: str = "ENG", preferred: bool = True, suppressed: str = "N") -> str:
    status, is_preferred = ("P", "Y") if preferred else ("S", "N")
    fields = [
        cui,
        language,
        status,
        "L1",
        "PF",
        "S1",
        is_preferred,
        "A1",
        "",
        "",
        "",
        "SNOMEDCT_US",
        "PT",
        "1",
        name,
    ]
    return "|".join([*fields, "0", suppressed, "256"]) + "|\n"


UMLS = (
    umls("C01", "Multiple Sclerosis")
    + umls("C02", "Mitral stenosis", preferred=False)
    + umls("C03", "Mitral Stenosis", preferred=False)
    + umls("C03", "Stenosis of the Mitral Valve")
    + umls("C04", "Mental status", language="FRE")
    + umls("C05", "mental status", suppressed="O")
    + umls("C06", "End-Stage Renal Disease", preferred=False)
    + umls("C07", "end-stage renal disease")
)


def test_names_of_omop_are_linked(tmp_path: Path) -> None:
    path = tmp_path / "CONCEPT.csv"
    path.write_text(OMOP)
    links = link_concepts(INVENTORY, read_omop_concepts(path))
    assert [(link.outcome, link.concept_id) for link in links] == [
        ("exact", "101"),  # the standard one
        ("normalised", "103"),
        ("ambiguous", None),
        ("normalised", "106"),
        ("exact", "108"),  # by another form, since the first concept is not valid any more
        ("kept", "7"),
        ("missing", None),
    ]
    assert [concept.concept_id for concept in links[2].concepts] == ["104", "105"]
    only = link_concepts(INVENTORY, of_vocabularies(read_omop_concepts(path), ["SNOMED"], path=path))
    assert only[2].concept_id == "104"
    path.write_text(OMOP.replace("\t", ","))
    assert linked_inventory(link_concepts(INVENTORY, read_omop_concepts(path))) == linked_inventory(links)


def test_names_of_umls_are_linked(tmp_path: Path) -> None:
    path = tmp_path / "MRCONSO.RRF"
    path.write_text(UMLS)
    links = link_concepts(INVENTORY, read_umls_names(path))
    assert [(link.outcome, link.concept_id) for link in links[:5]] == [
        ("exact", "C01"),
        ("exact", "C03"),  # two concepts have the long form, one has another form
        ("missing", None),
        ("exact", "C07"),  # the preferred name of one
        ("missing", None),
    ]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match=r"has no column 'concept_id'; columns found: .*\. Give OMOP's"):
        list(read_omop_concepts(tmp_path / "x"))
    with pytest.raises(FormatError, match="line 1 has 1 fields"):
        list(read_umls_names(tmp_path / "x"))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_umls_names(tmp_path / "absent"))
    (tmp_path / "x").write_text(OMOP + "St\xe9nose\n", encoding="latin-1")
    with pytest.raises(FormatError, match="is not UTF-8 text"):
        list(read_omop_concepts(tmp_path / "x"))


def test_a_vocabulary_that_the_file_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(OMOP)
    with pytest.raises(
        InputError, match=r"no valid concept of vocabulary 'SNOMEDCT'; vocabularies found: .*SNOMED"
    ):
        list(of_vocabularies(read_omop_concepts(path), ["SNOMED", "SNOMEDCT"], path=path))


def test_the_command_writes_the_senses_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "CONCEPT.csv").write_text(OMOP)
    save_inventory(INVENTORY, tmp_path / "senses.csv")
    output = tmp_path / "linked.csv"
    command = ["inventory", "link", str(tmp_path / "senses.csv"), "--concepts", str(tmp_path / "CONCEPT.csv")]
    assert main([*command, "--output", str(output), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["exact"], printed["normalised"], printed["ambiguous"], printed["missing"]) == (2, 2, 1, 1)
    assert load_inventory(output).senses("MS")[0].concept_id == "101"
    with (tmp_path / "linked.csv.report.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[2]["outcome"] == "ambiguous"
    assert rows[2]["concepts"] == "104 Mental status (SNOMED); 105 MENTAL  STATUS (LOINC)"
    assert main([*command, "--output", str(output)]) == 2
    shipped = ["inventory", "link", "shipped", *command[3:], "--output", str(tmp_path / "all.csv")]
    assert main(shipped) == 0
    found = [sense.concept_id for sense in load_inventory(tmp_path / "all.csv") if sense.concept_id]
    assert "101" in found

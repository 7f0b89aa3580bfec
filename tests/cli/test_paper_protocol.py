"""configs/paper-mimic.toml, the whole of it, on a NOTEEVENTS.csv and a CASI file in the published formats.

What is planted is in `PLANTED` and `CASI_ROWS`; every count below is worked out by hand from these two.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from cli.test_reproduce import in_this_process
from evaluation.reproduce.small_protocol import TINY, TINY_ELMO, draw_nothing
from evaluation.tiny_checkpoint import write_checkpoint
from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, NoteSplit, read_dataset
from lmcells.evaluation.reproduce import execution
from lmcells.expansion import load_inventory
from lmcells.notes.readers import ReadReport
from lmcells.notes.tokens import iterate_tokens
from note_files import write_noteevents

pytest.importorskip("matplotlib")
pytest.importorskip("transformers")
CONFIGS = Path(__file__).parents[2] / "configs"

# Section and text of each note; the words around a long form differ from note to note, unless it is said otherwise.
PLANTED = [
    *(
        ("Plan", f"begin physical therapy for {word} gait")
        for word in "left right slow stiff weak wide".split()
    ),
    ("Plan", "physiotherapy for balance"),  # another form of the sense
    (
        "Assessment",
        "physical therapy helped, prothrombin time was long",
    ),  # both of PT: kept, "even ambiguous"
    *(("Assessment", f"a prothrombin time of {word} seconds") for word in ("ten", "twenty")),
    # A header seen ten times is a section.
    ("Even Header", "prothrombin time was normal"),
    *(("Even Header", "unremarkable") for _ in range(9)),
    # The same words but for numbers and stop words: one of the two goes.
    ("Assessment", "multiple sclerosis since 2001 with a relapse"),
    ("Assessment", "the multiple sclerosis since 1998, relapse"),
    *(("Plan", f"relapse of multiple sclerosis {word}") for word in ("treated", "observed")),
    # A header seen nine times is body text: the window reaches across it, and the section is the one before.
    ("Plan", "valve surgery\nOdd Header: mitral stenosis severe"),
    ("Plan", 'murmur "heard, faint"\nOdd Header: mitral stenosis mild, morphine sulfate given'),
    *(("Plan", "quiet night\nOdd Header: unremarkable") for _ in range(7)),
    ("Plan", "IV MORPHINE SULFATE FOR THE PAIN"),
    # 12 words that a model reads on the left, among as many that it does not.
    (
        "Plan",
        "the gait of the knee and the hip and the back and the neck and the arm and the leg and the foot "
        "and the hand and the wrist and the elbow and the shoulder before the prothrombin time",
    ),
    # RA and CVA lack a long form: right atrium is found once, costovertebral angle never.
    *(("Assessment", f"rheumatoid arthritis of {word}") for word in ("hands", "knees")),
    ("Assessment", "right atrium dilated"),
    *(("Assessment", f"cerebrovascular accident {word}") for word in ("acute", "old")),
    *(("Plan", "THE PATIENT IS ALERT. THE\nWIFE IS HERE") for _ in range(3)),
]
WITHDRAWN = "Assessment: right atrium enlarged"  # ISERROR is 1: it would be the second right atrium
FOUND = {  # in all notes
    ("PT", "physical therapy"): 8,
    ("PT", "prothrombin time"): 5,
    ("MS", "multiple sclerosis"): 4,
    ("MS", "mitral stenosis"): 2,
    ("MS", "morphine sulfate"): 2,
}
MIMIC_RS = {
    **FOUND,
    ("PT", "physical therapy"): 7,
    ("MS", "multiple sclerosis"): 3,
}  # at most 7, and one repeat
FORMS = """\
sf,target_lf_sense,target_label
PT,physical therapy,physical therapy;physiotherapy
PT,prothrombin time,prothrombin time
MS,multiple sclerosis,multiple sclerosis
MS,mitral stenosis,mitral stenosis
MS,morphine sulfate,morphine sulfate
RA,rheumatoid arthritis,rheumatoid arthritis
RA,right atrium,right atrium
CVA,cerebrovascular accident,cerebrovascular accident
CVA,costovertebral angle,costovertebral angle
BM,bowel movement,bowel movement
"""
CASI_ROWS = [  # short form, long form, section, text
    *(
        ("PT", "physical therapy", "HOSPITAL COURSE", f"seen by PT for {word} gait")
        for word in "left right".split()
    ),
    *(
        ("PT", "prothrombin time", "LABS", f"a long PT of {word} seconds")
        for word in "ten twenty thirty".split()
    ),
    *(("MS", "multiple sclerosis", "", f"relapse of MS {word} today") for word in "treated observed".split()),
    *(("MS", "mitral stenosis", "", f"severe MS {word} today") for word in ("heard", "seen —")),
    ("MS", "morphine sulfate", "PLAN", "given MS for pain"),
    *(
        ("RA", long_form, "", f"{long_form[0]} RA here")
        for long_form in ("rheumatoid arthritis", "right atrium")
    ),
    *(
        ("CVA", each, "", f"{each[0]} CVA here")
        for each in ("cerebrovascular accident", "costovertebral angle")
    ),
    ("BM", "bowel movement", "", "had a BM today"),  # one sense
    ("T1", "first thoracic vertebra", "", "at T1 level"),  # a code
    ("PT", "PT scan", "", "a PT scan"),  # the short form is a word of it
    ("PT", "UNSURED SENSE", "", "some PT here"),
    ("IA", "iowa", "", "from IA now"),  # on the authors' list
    ("PT", "physical therapy", "", "no such thing here"),  # the offset misses
    ("MS", "morphine sulfate", "", "Given MS, for pain!"),  # the words of another row
]
REMOVED = {  # by the filters, in order; 5 senses of PT and MS, 4 of RA and CVA
    "nulls": 0,
    "codes": 1,
    "repeated-short-forms": 1,
    "unclear-senses": 1,
    "listed-long-forms": 1,
    "offsets": 1,
    "tokens": 0,
    "duplicates": 1,
    "single-sense": 1,
    "match-short-forms": 4,
}
N_CASI = 10


def casi_line(short_form: str, long_form: str, section: str, text: str) -> str:
    start = max(text.find(short_form), 0)
    end = start + len(short_form) - (section != "PLAN")  # inclusive in most rows of CASI
    return f"{short_form}|{long_form}|{short_form}|{start}|{end}|{section}|{text}"


def write_sources(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True)
    rows = [
        {
            "ROW_ID": number,
            "SUBJECT_ID": 1 + number // 3,
            "CATEGORY": ("Nursing", "Physician ")[number % 2],
            "DESCRIPTION": "Report",
            "TEXT": f"Plan: seen today\nAssessment: stable\n{section}: {text}",
        }
        for number, (section, text) in enumerate(PLANTED)
    ]
    rows.append({**rows[0], "ROW_ID": len(rows), "ISERROR": 1, "TEXT": WITHDRAWN})
    (folder / "casi.txt").write_text("\n".join(casi_line(*row) for row in CASI_ROWS), encoding="cp1252")
    (folder / "forms.csv").write_text(FORMS)
    (folder / "sections.csv").write_text("casi_section,mimic_section\nHOSPITAL COURSE,PLAN\nLABS,\n")
    return {
        "MIMIC_NOTES": str(write_noteevents(folder / "NOTEEVENTS.csv", rows)),
        "CASI": str(folder / "casi.txt"),
        "CASI_FORMS": str(folder / "forms.csv"),
        "CASI_SECTIONS": str(folder / "sections.csv"),
        "BERT_FOLDER": str(write_checkpoint(folder / "bert")),
    }


SMALL = TINY.replace("batch_size = 256", "batch_size = 32")  # a few steps in an epoch
CUT_DOWN = "".join(
    f'[[model]]\nname = "{name}"\nseeds = {[0, 1] if name == "lmc" else [0]}\ntraining.epochs = 1\n'
    f"{TINY_ELMO if name == 'elmo' else SMALL}"
    for name in ("lmc", "mbsge", "bsg", "elmo")
)


def reproduce(folder: Path, name: str, more: str = "", *, only: Sequence[str] = ()) -> Path:
    """Run a protocol of ours, or some of its steps, with smaller models and fewer seeds; -> its folder."""
    config = folder / f"{name}.toml"
    config.write_text(
        f'extends = "{CONFIGS / name}.toml"\nseeds = [0]\n[corpus]\nmin_count = 1\n'
        f'[[dataset]]\nname = "mimic-rs"\nmax_per_sense = 7\n{more}{CUT_DOWN}'
        "[curve]\npoints = 2\n[report]\nrounds = 5\nresamples = 5\n"
    )
    output = folder / f"{name}.out"
    arguments = ["reproduce", "--config", str(config), "--output", str(output), "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0})
        patch.setattr(execution, "_start", in_this_process)
        draw_nothing(patch)
        for variable, value in write_sources(folder / f"{name}.sources").items():
            patch.setenv(variable, value)
        assert main([*arguments, *(f"--only={step}" for step in only)]) == 0
    return output


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reproduce(tmp_path_factory.mktemp("paper"), "paper-mimic")


def examples(output: Path, name: str) -> list[Example]:
    return list(read_dataset(output / "datasets" / f"{name}.jsonl", report=ReadReport()))


def account(output: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "datasets" / f"{name}.account.json").read_text())
    return found


def test_casi_keeps_the_short_forms_all_of_whose_long_forms_are_found_twice(paper: Path) -> None:
    removed = {step["name"]: step["removed"] for step in account(paper, "casi")["steps"]}
    assert removed == REMOVED
    found = examples(paper, "casi")
    assert len(found) == N_CASI == len(CASI_ROWS) - sum(REMOVED.values())
    assert {each.short_form for each in found} == {"PT", "MS"}
    assert load_inventory(paper / "datasets" / "casi.inventory.json").n_senses == 5
    assert Counter(each.section for each in found) == {"PLAN": 3, None: 7}  # two of them mapped, LABS to none
    assert sum("seen — today" in each.text for each in found) == 1
    assert account(paper, "casi")["end_offsets"] == {"inclusive": 9, "exclusive": 1}


def test_reverse_substitution_has_the_short_forms_and_candidates_of_casi(paper: Path) -> None:
    found = examples(paper, "mimic-rs")
    assert Counter((each.short_form, each.long_form) for each in found) == MIMIC_RS
    inventories = [
        load_inventory(paper / "datasets" / f"{name}.inventory.json") for name in ("casi", "mimic-rs")
    ]
    one, other = ({(sense.short_form, sense.long_form) for sense in each} for each in inventories)
    assert one == other == set(MIMIC_RS)
    drawn = account(paper, "mimic-rs")
    assert drawn["n_notes"] == len(PLANTED)
    assert drawn["report"]["skipped"] == {"marked as an error (ISERROR is 1)": 1}
    assert drawn["too_rare"] == [["CVA", "costovertebral angle", 0], ["RA", "right atrium", 1]]
    assert drawn["dropped"] == {
        "beyond the maximum of its sense": 1,
        "repeats another example of its sense": 1,
        "short form with a long form that is found too rarely": 2 + 1 + 2,
    }
    both = [each for each in found if "prothrombin time" in each.text or "physical therapy" in each.text]
    assert both  # a window that gives the answer away is kept


def test_sections_are_those_of_the_corpus_and_rare_headers_are_body_text_in_both(paper: Path) -> None:
    corpus = Corpus.open(paper / "corpus")
    assert set(corpus.metadata_names("section")) == {"<no section>", "PLAN", "ASSESSMENT", "EVEN HEADER"}
    found = examples(paper, "mimic-rs")
    assert {each.section for each in found} == {"Plan", "Assessment", "Even Header"}
    assert {"odd", "header", "physiotherapy"} & set(corpus.words) == {
        "odd",
        "header",
    }  # the last is seen once
    assert "enlarged" not in corpus.words
    odd = sorted(each.text for each in found if each.long_form == "mitral stenosis")
    assert odd == [
        'murmur "heard, faint"\nOdd Header: MS mild, morphine sulfate given',
        "valve surgery\nOdd Header: MS severe",
    ]


def test_windows_hold_as_many_words_as_a_model_reads(paper: Path) -> None:
    (drawn,) = (each for each in examples(paper, "mimic-rs") if "elbow" in each.text)
    assert len(list(iterate_tokens(drawn.text[: drawn.start]))) == 12


def test_stop_words_go_in_notes_in_capitals_too(paper: Path) -> None:
    words = Corpus.open(paper / "corpus").words
    assert {"patient", "alert", "wife", "here"} & set(words) == {"patient", "alert", "wife"}
    assert not {"the", "is", "and", "for"} & set(words)


def test_all_models_are_in_the_table_beside_the_papers(paper: Path) -> None:
    results = (paper / "report" / "results.md").read_text()
    mimic, casi = results.split("### CASI")
    # Of PT and MS the oracle has right 7 of 12 and 3 of 7 in MIMIC RS, 3 of 5 and 2 of 5 in CASI. Its weighted F1 is
    # (7/12 * 14/19 + 3/7 * 6/10) / 2 and (3/5 * 6/8 + 2/5 * 4/7) / 2, its macro F1 (14/19 / 2 + 6/10 / 3) / 2 and
    # (6/8 / 2 + 4/7 / 3) / 2; over all examples the weighted F1 of MIMIC RS would be .366.
    for part, sizes, theirs, oracle in (
        (
            mimic,
            "19 examples, 2 short forms, 5 senses (the paper's MIMIC: 44,473 examples",
            ".74 / .78 / .69 / .81",
            "| 1 | .526 | .343 | .284 | .826 |",
        ),
        (
            casi,
            "10 examples, 2 short forms, 5 senses (the paper's CASI: 18,233 examples",
            ".71 / .73 / .51 / .79",
            "| 1 | .500 | .339 | .283 | .864 |",
        ),
    ):
        assert f"{sizes}, 41 short forms, 150 senses)" in part
        rows = {line.split("|")[1].strip(): line for line in part.splitlines() if line.startswith("| ")}
        names = ["lmc", "mbsge", "bsg", "elmo", "bert", "section-mle", "random", "dominant (oracle)"]
        assert list(rows)[1:] == names
        assert theirs in rows["lmc"]
        assert oracle in rows["dominant (oracle)"]  # and nothing of it is bold
    assert "removed: C3, C4, T1 to T4: 1; short form is a word of the long form: 1; UNSURED" in casi
    theirs = "The paper's, of 37,000: long form same as short form: 5,601; "  # its table of filters
    assert theirs in casi
    assert theirs not in mimic
    assert "Section headers: mapped: 2; mapped to none: 3; no section: 4; as written: 1." in casi
    page = unescape((paper / "report" / "casi" / "report.html").read_text())
    assert "The test set: 10 examples, 2 short forms, 5 senses (the paper's CASI: 18,233 examples, 41" in page
    tables = paper / "report" / "mimic-rs" / "tables"
    assert r"dominant (oracle) & 0.83 & 0.53 & 0.34 & 0.28 \\" in (tables / "main.tex").read_text()
    for part, other in ((mimic, "CASI"), (casi, "MIMIC RS")):
        assert f"scored with the weights that had the best macro F1 on {other}." in part


def test_of_several_seeds_the_table_has_the_mean_and_the_figures_the_best(paper: Path) -> None:
    mimic, _ = (paper / "report" / "results.md").read_text().split("### CASI")
    results = [
        json.loads((paper / f"evaluate/mimic-rs/lmc-{seed}.result.json").read_text()) for seed in (0, 1)
    ]
    one, other = (result["metrics"]["macro_f1"] for result in results)
    low, mean, high = (
        f"{f1:.3f}".lstrip("0") for f1 in (min(one, other), (one + other) / 2, max(one, other))
    )
    (row,) = (line for line in mimic.splitlines() if line.startswith("| lmc "))
    assert f"{mean} ({low} to {high})" in row.replace("*", "")
    page = unescape((paper / "report" / "mimic-rs" / "report.html").read_text())
    assert f"(seeds: lmc {int(other > one)})" in page


def test_each_test_set_is_reported_by_the_weights_that_were_best_on_the_other(paper: Path) -> None:
    for run in ("lmc-0", "lmc-1", "mbsge-0", "bsg-0", "elmo-0"):
        for here, other in (("mimic-rs", "casi"), ("casi", "mimic-rs")):
            result = json.loads((paper / "evaluate" / here / f"{run}.result.json").read_text())
            assert len(result["curve"]) == 2
            best = max(result["curve"], key=lambda point: point["evaluation"][other]["macro_f1"])
            assert {name: result["metrics"][name] for name in ("accuracy", "macro_f1", "nll")} == best[
                "evaluation"
            ][here]


def test_the_single_steps_of_the_documentation_make_the_same_test_sets(
    paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (CONFIGS.parent / "docs" / "protocol.md").read_text()
    (block,) = (block for block in page.split("```text\n") if block.startswith("lmcells dataset casi"))
    commands = block.split("```")[0].replace("\\\n", " ").splitlines()
    assert [line.split()[1] for line in commands] == [
        "dataset",
        "dataset",
        "dataset",
        "prepare",
        "train",
        "evaluate",
    ]
    sources = write_sources(tmp_path / "sources")
    names = {
        "NOTEEVENTS.csv.gz": "MIMIC_NOTES",
        "AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt": "CASI",
        "labeled_sf_lf_map.csv": "CASI_FORMS",
        "casi_mimic_section_map.csv": "CASI_SECTIONS",
    }
    cut_down = {"prepare": ["--min-count", "1"], "train": ["--epochs", "1", "--device", "cpu"]}
    monkeypatch.chdir(tmp_path)
    draw_nothing(monkeypatch)
    for line in commands:
        given = [sources[names[word]] if word in names else word for word in line.split()[1:]]
        assert main([*given, *cut_down.get(given[0], ())]) == 0
    made = list(read_dataset(tmp_path / "casi.jsonl", report=ReadReport()))
    assert made == examples(paper, "casi")
    drawn = list(read_dataset(tmp_path / "mimic_rs.jsonl", report=ReadReport()))
    most = {**MIMIC_RS, ("PT", "physical therapy"): FOUND["PT", "physical therapy"]}  # of 500 none is beyond
    assert Counter((each.short_form, each.long_form) for each in drawn) == most
    assert (tmp_path / "report" / "report.html").is_file()


def test_the_strict_test_set_is_of_notes_that_no_model_has_read(tmp_path: Path) -> None:
    share = '[[dataset]]\nname = "mimic-rs-strict"\nshare = 0.6\n[leakage]\nmodel = "bsg"\n'
    # The other models and reports are those of `paper`.
    only = "dataset corpus train/lmc-0 train/bsg* evaluate/*/lmc-0 evaluate/*/bsg* report/*strict report/overview"
    output = reproduce(tmp_path, "paper-mimic-strict", share, only=only.split())
    split = NoteSplit({"mimic-rs-strict": 0.6})
    held_out = {f"mimic3/{number}" for number in range(len(PLANTED)) if split.part_of(f"mimic3/{number}")}
    assert 0 < len(held_out) < len(PLANTED)
    assert set((output / "datasets" / "mimic-rs-strict.notes.txt").read_text().split()) == held_out
    corpus = Corpus.open(output / "corpus")
    assert not held_out & set(corpus.metadata_names("document"))
    # "Even Header" is rare in the notes that are left, so it is body text in all test sets.
    assert set(corpus.metadata_names("section")) == {"<no section>", "PLAN", "ASSESSMENT"}
    for name in ("mimic-rs", "mimic-rs-strict"):
        assert {each.section for each in examples(output, name)} == {"Plan", "Assessment"}
    strict = examples(output, "mimic-rs-strict")
    assert {each.note_id for each in strict} <= held_out
    assert not any("prothrombin time" in each.text or "physical therapy" in each.text for each in strict)
    assert load_inventory(output / "datasets" / "mimic-rs-strict.inventory.json").n_senses == 5
    result = json.loads((output / "evaluate" / "mimic-rs-strict" / "lmc-0.result.json").read_text())
    assert result["leakage"]["n_leaked_notes"] == 0
    titles = [
        line for line in (output / "report" / "results.md").read_text().splitlines() if line.startswith("###")
    ]
    assert titles == ["### MIMIC RS", "### CASI", "### MIMIC RS strict"]

"""`lmcells inventory find`, `check` and `compile`, as they are typed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from expansion.clinic import INVENTORY, UNHEARD, clinic_corpus, random_model
from expansion.masked_span_clinic import WARD_INVENTORY, stored_model, ward_corpus
from lmcells.cli.main import INTERRUPTED, main
from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory
from lmcells.pretrained import PretrainedModel
from refusals import assert_refused

MISSPELT = Sense("PT", "prothrombim tyme", ("prothrombim tyme",))
SAME_AGAIN = Sense("MS", "Mitral Stenoses", ("mitral stenoses",))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inventory")
    clinic = clinic_corpus(folder / "clinic")
    stored_model(folder / "model", clinic)
    random_model(folder / "plain", clinic, "lmc")
    ward_corpus(folder / "ward")
    save_inventory(INVENTORY.add(UNHEARD, MISSPELT, SAME_AGAIN), folder / "mine.csv")
    save_inventory(WARD_INVENTORY, folder / "ward.json")
    return folder


FIND_NOTES = [
    {"id": "1", "text": "Known atrial fibrillation (AF) and end-stage renal disease (ESRD)."},
    {"id": "2", "text": "Amniotic fluid (AF) clear. Xanthic yolk (XY). End stage renal disease (ESRD)."},
    {"id": "3", "text": "AF = atrial fibrillation; end-stage renal disease (ESRD); left eye (OS)."},
    {"id": "4", "text": "The amniotic fluid (AF), left eye (OS)."},
    {"id": "5", "text": " "},
]


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    (tmp_path / "letters.jsonl").write_text("\n".join(map(json.dumps, FIND_NOTES)))
    return tmp_path / "letters.jsonl"


def find(notes: Path, *arguments: object) -> int:
    output = notes.with_name("found.csv")
    return main(["inventory", "find", str(notes), "--output", str(output), *map(str, arguments)])


def check(folder: Path, *arguments: str, model: str = "model") -> int:
    return main(["inventory", "check", str(folder / "mine.csv"), "--model", str(folder / model), *arguments])


def compile_command(folder: Path, output: Path, *arguments: str, model: str = "model") -> list[str]:
    corpus = str(folder / "ward" / "corpus")
    named = ["--corpus", corpus, "--model", str(folder / model), "--output", str(output), "--device", "cpu"]
    return ["inventory", "compile", str(folder / "ward.json"), *named, *arguments]


def test_find_writes_what_two_notes_define(letters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert find(letters) == 0
    printed = capsys.readouterr()
    assert "notes read                             4" in printed.out
    assert "skipped: empty note                    1 (first at letters.jsonl:5)" in printed.out
    assert "definitions                            10" in printed.out
    assert "skipped: senses in fewer than 2 notes  1" in printed.out
    assert "ambiguous short forms                  1" in printed.out
    assert not any(word in (printed.out + printed.err).lower() for word in ("atrial", "fluid", "xanthic"))
    found = load_inventory(letters.with_name("found.csv"))
    assert [(sense.short_form, sense.forms) for sense in found] == [
        ("AF", ("amniotic fluid",)),
        ("AF", ("atrial fibrillation",)),
        ("ESRD", ("end-stage renal disease", "End stage renal disease")),
        ("OS", ("left eye",)),
    ]


def test_find_in_json_counts_everything(letters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = letters.with_name("found.json")
    assert find(letters, "--output", output, "--min-count", 1, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.pop("notes")["n_read"] == 4
    assert printed == {
        "inventory": str(output),
        "min_count": 1,
        "n_definitions": 10,
        "n_wordings": 7,
        "n_senses_too_rare": 0,
        "n_senses": 5,
        "n_short_forms": 4,
        "n_ambiguous_short_forms": 1,
    }
    assert load_inventory(output).n_senses == 5


def test_find_takes_known_senses_from_a_file_and_replaces_an_old_output_when_told(letters: Path) -> None:
    letters.with_name("found.csv").write_text("an older one")
    known = letters.with_name("known.json")
    save_inventory(SenseInventory.from_senses([Sense("OS", "overall survival")]), known)
    assert find(letters, "--inventory", known) == 2
    assert letters.with_name("found.csv").read_text() == "an older one"
    assert find(letters, "--inventory", known, "--overwrite") == 0
    assert load_inventory(letters.with_name("found.csv")).short_forms == ("AF", "ESRD")


def test_find_reads_several_files_and_named_columns(letters: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("key,body\n7,xanthic yolk (XY)\n8,Xanthic yolk (XY)\n")
    assert find(table, "--text-column", "body", "--id-column", "key") == 0
    assert load_inventory(tmp_path / "found.csv").short_forms == ("XY",)
    assert main(["inventory", "find", str(letters), str(letters), "--output", str(tmp_path / "two.csv")]) == 0
    assert "XY" in load_inventory(tmp_path / "two.csv")


def test_what_find_writes_has_nothing_to_look_at(
    letters: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find(letters, "--min-count", 1) == 0
    capsys.readouterr()
    found = str(letters.with_name("found.csv"))
    assert main(["inventory", "check", found, "--model", str(folder / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--min-count", "5"), "no definition was found in at least 5 of 4 notes (5 in fewer)"),
        (("--output", "found.txt"), "must end in .csv, .tsv, .tab, .json"),
        (("--output", "/dev/null/found.csv"), "cannot be written"),
        (("--inventory", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("--text-column", "body"), "body"),
    ],
)
def test_find_refuses_bad_input(
    letters: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = find(letters, *arguments)
    assert_refused(code, capsys, command="inventory", message=message)
    assert [path.name for path in letters.parent.iterdir()] == ["letters.jsonl"]


def test_find_refuses_notes_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(find(tmp_path / "nowhere"), capsys, command="inventory", message="nowhere does not exist")


def test_check_says_how_each_sense_is_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(folder, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["summary"] == {
        "senses": 7,
        "short_forms": 2,
        "ambiguous_short_forms": 2,
        "known_by_occurrences": 4,
        "known_by_words": 1,
        "with_unknown_words": 1,
        "unknown": 2,
        "may_be_the_same_twice": 2,
    }
    assert [finding["second"] for finding in printed["findings"]] == ["prothrombim tyme", "Mitral Stenoses"]
    senses = {sense["long_form"]: sense for sense in printed["senses"]}
    assert senses["xylophone"] == {
        "short_form": "PT",
        "long_form": "xylophone",
        "known": "unknown",
        "count": 0,
        "unknown_words": ["xylophone"],
        "nearest": {},
    }
    assert senses["Mitral Stenoses"]["known"] == "words"
    assert senses["Mitral Stenoses"]["unknown_words"] == ["stenoses"]
    assert senses["prothrombim tyme"]["nearest"] == {"prothrombim": "prothrombin"}


def test_check_prints_a_summary_and_the_worst(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(folder, "--corpus", str(folder / "clinic" / "corpus")) == 0
    printed = capsys.readouterr().out
    assert "known by occurrences   4" in printed
    assert "MS: 'mitral stenosis' and 'Mitral Stenoses', " in printed
    assert (
        "PT: 'prothrombim tyme', unknown; not in the vocabulary: 'prothrombim' (near 'prothrombin'), 'tyme'; "
        "0 in the corpus"
    ) in printed
    assert "--all" not in printed


def test_check_lists_all_only_when_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = INVENTORY.add(*(Sense("QQ", f"unheard{letter}") for letter in "abcdefghijklmnop"))
    save_inventory(many, tmp_path / "many.csv")
    command = ["inventory", "check", str(tmp_path / "many.csv"), "--model", str(folder / "model")]
    assert main(command) == 0
    assert "and 6 more: --all" in capsys.readouterr().out
    assert main([*command, "--all"]) == 0
    printed = capsys.readouterr().out
    assert "more: --all" not in printed
    assert printed.count("unknown; not in the vocabulary") == 16


def test_check_needs_no_torch(folder: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from lmcells.cli.main import main; sys.exit(main())"
    arguments = ["inventory", "check", str(folder / "mine.csv"), "--model", str(folder / "model")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    compiling = subprocess.run(
        [sys.executable, "-c", code, *compile_command(folder, folder / "never")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiling.returncode == 2
    assert compiling.stderr.count("\n") == 1
    assert "pip install 'lmcells[train]'" in compiling.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--model", "nowhere"), "nowhere does not exist"), (("--corpus", "nowhere"), "nowhere does not exist")],
)
def test_check_refuses_bad_input(
    folder: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(check(folder, *arguments), capsys, command="inventory", message=message)


def test_compile_writes_a_model_that_knows_more(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(compile_command(folder, tmp_path / "new", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["n_added"] == 2
    assert printed["n_senses_found"] == 2
    model = PretrainedModel.from_pretrained(tmp_path / "new", verify=True)
    assert model.phrase_store is not None
    found = model.phrase_store.find(("multiple", "rehearsal"))
    assert found is not None
    assert found.count == 24
    assert main(["inventory", "check", str(folder / "ward.json"), "--model", str(tmp_path / "new")]) == 0
    assert "known by occurrences   2" in capsys.readouterr().out


def test_compile_prints_what_became_of_the_inventory(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(compile_command(folder, tmp_path / "new")) == 0
    assert re.search(r"phrases added +2\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--min-count", "100"), "none of the long forms of 2 senses at least 100 times"),
        (("--device", "tpu"), "device is 'tpu'"),
        (("--corpus", "nowhere"), "nowhere does not exist"),
        (("--model", "nowhere"), "nowhere does not exist"),
        (("--output", "/dev/null/new"), "cannot be written"),
    ],
)
def test_compile_refuses_bad_input(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*compile_command(folder, tmp_path / "new"), *arguments])
    assert_refused(code, capsys, command="inventory", message=message)
    assert list(tmp_path.iterdir()) == []


def test_compile_refuses_a_model_without_a_phrase_network_and_replaces_only_models(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(compile_command(folder, tmp_path / "new", model="plain"))
    assert_refused(code, capsys, command="inventory", message="no phrase network and store")
    assert main(compile_command(folder, tmp_path / "new")) == 0
    assert main(compile_command(folder, tmp_path / "new", "--overwrite")) == 0
    capsys.readouterr()
    code = main(compile_command(folder, tmp_path, "--overwrite"))
    assert_refused(code, capsys, command="inventory", message="is not a model, so it is not overwritten")


def test_a_compile_that_stops_leaves_no_half_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    output = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stop)  # all files are written, and none is in its place
        assert main(compile_command(folder, output)) == INTERRUPTED
    assert not list(tmp_path.iterdir())
    assert main(compile_command(folder, output)) == 0
    PretrainedModel.from_pretrained(output, verify=True)


def test_check_lists_all_bad_rows_and_rules_that_do_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "site.csv"
    path.write_text(
        "short_form,long_form,action,ward\nMS,mitral stenosis,pin,B2\n,x,,\nPT,y,ban,\nPT,never so,forbid,\n"
    )
    assert main(["inventory", "check", str(path)]) == 2
    printed = capsys.readouterr()
    assert "line 3: has no 'short_form'" in printed.out
    assert "line 4: action: found 'ban'" in printed.out
    assert "line 5: 'PT' never meant 'never so'" in printed.out
    assert "conditions on             ward" in printed.out
    assert "2 rows cannot be used" in printed.err

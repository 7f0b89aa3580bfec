"""`lmcells dataset` as a user meets it."""

import json
from pathlib import Path
from typing import Any

import pytest

from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory
from lmcells.notes.readers import ReadReport

CASI_ROWS = [
    "PT|physical therapy|PT|8|9|PLAN|seen by PT today",
    "PT|prothrombin time|PT,|5|7||long PT, and more",
    "PT|UNSURED SENSE|PT|0|1||PT what",
    "broken",
    "MS|multiple sclerosis|MS|0|1|HISTORY|MS for years",
]
NOTES = [
    {"id": "a", "text": "PLAN: Begin physical therapy today."},
    {"id": "b", "text": "LABS: The prothrombin time was long."},
    {"id": "c", "text": "Nothing to find."},
]


@pytest.fixture
def casi(tmp_path: Path) -> Path:
    (tmp_path / "casi.txt").write_text("\n".join(CASI_ROWS))
    return tmp_path / "casi.txt"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, NOTES)))
    return tmp_path / "notes.jsonl"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    senses = [Sense("PT", "physical therapy"), Sense("PT", "prothrombin time"), Sense("XX", "absent")]
    save_inventory(SenseInventory.from_senses(senses), tmp_path / "inventory.json")
    return tmp_path / "inventory.json"


def dataset(*arguments: object) -> int:
    return main(["dataset", *map(str, arguments)])


def examples(path: Path) -> list[Example]:
    return list(read_dataset(path, report=ReadReport()))


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_casi_becomes_a_dataset_with_a_table(
    casi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "casi.jsonl"
    assert dataset("casi", casi, "--output", output, "--inventory-output", tmp_path / "inv.csv") == 0
    printed = capsys.readouterr().out
    assert "fewer than 7 columns" in printed
    assert "casi.txt:4" in printed
    assert "short form left with one sense" in printed
    assert "today" not in printed
    assert [(each.text[each.start : each.end], each.section) for each in examples(output)] == [
        ("PT", "PLAN"),
        ("PT", None),
    ]
    assert load_inventory(tmp_path / "inv.csv").n_senses == 2


def test_casi_in_json_counts_every_row(
    casi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dataset("casi", casi, "--output", tmp_path / "d.jsonl", "--keep-single-sense", "--json") == 0
    summary = printed_json(capsys)
    assert summary["n_rows"] == summary["n_examples"] + sum(step["removed"] for step in summary["steps"]) == 4
    assert summary["n_short_forms"] == 2
    assert "single-sense" not in {step["name"] for step in summary["steps"]}


def test_casi_can_be_held_to_the_short_forms_of_another_dataset(casi: Path, tmp_path: Path) -> None:
    assert dataset("casi", casi, "--output", tmp_path / "pt.jsonl") == 0
    arguments = ("--keep-single-sense", "--match-short-forms", tmp_path / "pt.jsonl")
    assert dataset("casi", casi, "--output", tmp_path / "d.jsonl", *arguments) == 0
    assert {example.short_form for example in examples(tmp_path / "d.jsonl")} == {"PT"}


def test_when_no_row_is_left_the_filter_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "casi.txt").write_text(CASI_ROWS[0])
    assert dataset("casi", tmp_path / "casi.txt", "--output", tmp_path / "d.jsonl") == 2
    captured = capsys.readouterr()
    assert "--skip single-sense" in captured.err
    assert captured.err.count("\n") == 1
    assert "rows removed" in captured.out
    assert not (tmp_path / "d.jsonl").exists()


def test_notes_become_a_dataset(
    notes: Path, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rs.jsonl"
    arguments = ("--inventory", inventory, "--inventory-output", tmp_path / "used.json")
    assert dataset("reverse", notes, "--output", output, *arguments) == 0
    printed = capsys.readouterr().out
    assert "long forms found" in printed
    assert "Begin" not in printed
    assert [(each.text, each.section, each.note_id) for each in examples(output)] == [
        ("Begin PT today.", "PLAN", "notes/a"),
        ("The PT was long.", "LABS", "notes/b"),
    ]
    assert load_inventory(tmp_path / "used.json").short_forms == ("PT",)


def test_the_dataset_keeps_its_notes_out_of_a_corpus(notes: Path, inventory: Path, tmp_path: Path) -> None:
    assert dataset("reverse", notes, "--output", tmp_path / "rs.jsonl", "--inventory", inventory) == 0
    arguments = ["--exclude-ids", tmp_path / "rs.jsonl", "--min-count", 0, "--workers", 1, "--json"]
    assert main(["prepare", str(notes), "--output", str(tmp_path / "corpus"), *map(str, arguments)]) == 0
    assert list(Corpus.open(tmp_path / "corpus").metadata_names("document")) == ["notes/c"]


def test_a_split_writes_one_dataset_a_name(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [{"id": f"{note['id']}{n}", "text": note["text"]} for n in range(30) for note in NOTES]
    (tmp_path / "many.jsonl").write_text("\n".join(map(json.dumps, many)))
    arguments = ("--inventory", inventory, "--split", "dev=0.4,test=0.4", "--json")
    assert dataset("reverse", tmp_path / "many.jsonl", "--output", tmp_path / "rs.jsonl", *arguments) == 0
    summary = printed_json(capsys)
    assert [Path(each["dataset"]).name for each in summary["datasets"]] == ["rs.dev.jsonl", "rs.test.jsonl"]
    assert summary["n_notes_in_no_part"] + sum(each["n_notes"] for each in summary["datasets"]) == len(many)
    for each in summary["datasets"]:
        assert each["n_found"] == each["n_examples"] + sum(each["dropped"].values())
        assert len(examples(Path(each["dataset"]))) == each["n_examples"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reverse", "NOTES", "--inventory", "nothing.json"), "nothing.json cannot be read"),
        (("reverse", "nothing.jsonl", "--inventory", "INVENTORY"), "does not exist"),
        (("reverse", "NOTES", "--inventory", "INVENTORY", "--split", "dev"), "split"),
        (("reverse", "NOTES", "--inventory", "INVENTORY", "--window", "0"), "--window"),
        (
            ("reverse", "NOTES", "--inventory", "INVENTORY", "--sections", "given"),
            "has no sections of its own",
        ),
        (("casi", "nothing.txt"), "cannot be read"),
        (("casi", "NOTES"), "Expected CASI as published"),
        (("casi", "CASI", "--section-map", "nothing.csv"), "section map"),
        (("casi", "CASI", "--canonical-forms", "nothing.csv"), "canonical forms"),
        (("casi", "CASI", "--match-short-forms", "nothing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...],
    message: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [request.getfixturevalue(each.lower()) if each.isupper() else each for each in arguments]
    assert dataset(*given, "--output", tmp_path / "d.jsonl") == 2
    error = capsys.readouterr().err
    assert error.startswith("lmcells dataset: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "d.jsonl").exists()


def test_an_inventory_that_never_occurs_is_an_error(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_inventory(SenseInventory.from_senses([Sense("XX", "absent")]), tmp_path / "inv.json")
    assert (
        dataset("reverse", notes, "--inventory", tmp_path / "inv.json", "--output", tmp_path / "d.jsonl") == 2
    )
    assert "no example was found in 3 notes" in capsys.readouterr().err


def test_a_dataset_does_not_take_the_place_of_its_notes(notes: Path, inventory: Path) -> None:
    assert dataset("reverse", notes, "--inventory", inventory, "--output", notes) == 2
    assert len(notes.read_text().splitlines()) == len(NOTES)


@pytest.mark.parametrize("kind", ["casi", "reverse"])
def test_help_has_an_example(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        dataset(kind, "--help")
    assert caught.value.code == 0
    assert f"lmcells dataset {kind} " in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--inventory", "--inv", "--out"])
def test_an_abbreviated_flag_is_refused(
    casi: Path, inventory: Path, tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--inventory` once was short for `--inventory-output`, and replaced the inventory it named."""
    before = inventory.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        dataset("casi", casi, "--output", tmp_path / "casi.jsonl", flag, inventory)
    assert stopped.value.code == 2
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err
    assert inventory.read_bytes() == before


def test_nothing_is_replaced_unless_told(
    casi: Path, notes: Path, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = inventory.read_bytes()
    output = tmp_path / "new.jsonl"
    assert dataset("casi", casi, "--output", output, "--inventory-output", inventory) == 2
    assert "--inventory-output" in capsys.readouterr().err
    assert inventory.read_bytes() == before
    assert not output.exists()

    (tmp_path / "rs.all.jsonl").write_text("kept")
    split = (
        "reverse",
        notes,
        "--inventory",
        inventory,
        "--output",
        tmp_path / "rs.jsonl",
        "--split",
        "all=1",
    )
    assert dataset(*split) == 2
    assert (tmp_path / "rs.all.jsonl").read_text() == "kept"
    assert dataset(*split, "--overwrite") == 0
    assert (tmp_path / "rs.all.jsonl").read_text() != "kept"

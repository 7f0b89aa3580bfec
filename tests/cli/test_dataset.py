"""`lmcells dataset` as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lmcells.cli.main import main
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory
from lmcells.notes.readers import ReadReport

Run = Callable[..., tuple[str, str]]  # arguments -> what is printed, on standard output and as error

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


@pytest.fixture
def dataset(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; an error must be one line."""

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        assert main(["dataset", *map(str, arguments)]) == code
        out, err = capsys.readouterr()
        assert code == 0 or (err.startswith("lmcells dataset: ") and err.count("\n") == 1)
        return out, err

    return run


def examples(path: Path) -> list[Example]:
    return list(read_dataset(path, report=ReadReport()))


def test_casi_becomes_a_dataset_with_a_table(dataset: Run, casi: Path, tmp_path: Path) -> None:
    output = tmp_path / "casi.jsonl"
    printed, _ = dataset("casi", casi, "--output", output, "--inventory-output", tmp_path / "inv.csv")
    for part in ("fewer than 7 columns", "casi.txt:4", "short form left with one sense"):
        assert part in printed
    assert "today" not in printed
    found = [(each.text[each.start : each.end], each.section) for each in examples(output)]
    assert found == [("PT", "PLAN"), ("PT", None)]
    assert load_inventory(tmp_path / "inv.csv").n_senses == 2


def test_casi_in_json_counts_every_row(dataset: Run, casi: Path, tmp_path: Path) -> None:
    printed, _ = dataset("casi", casi, "--output", tmp_path / "d.jsonl", "--keep-single-sense", "--json")
    summary = json.loads(printed)
    assert summary["n_rows"] == summary["n_examples"] + sum(step["removed"] for step in summary["steps"]) == 4
    assert summary["n_short_forms"] == 2
    assert "single-sense" not in {step["name"] for step in summary["steps"]}


def test_casi_can_be_held_to_the_short_forms_of_another_dataset(
    dataset: Run, casi: Path, tmp_path: Path
) -> None:
    dataset("casi", casi, "--output", tmp_path / "pt.jsonl")
    arguments = ("--keep-single-sense", "--match-short-forms", tmp_path / "pt.jsonl")
    dataset("casi", casi, "--output", tmp_path / "d.jsonl", *arguments)
    assert {example.short_form for example in examples(tmp_path / "d.jsonl")} == {"PT"}


def test_when_no_row_is_left_the_filter_is_named(dataset: Run, tmp_path: Path) -> None:
    (tmp_path / "casi.txt").write_text(CASI_ROWS[0])
    out, err = dataset("casi", tmp_path / "casi.txt", "--output", tmp_path / "d.jsonl", code=2)
    assert "--skip single-sense" in err
    assert "rows removed" in out
    assert not (tmp_path / "d.jsonl").exists()


def test_notes_become_a_dataset(dataset: Run, notes: Path, inventory: Path, tmp_path: Path) -> None:
    output = tmp_path / "rs.jsonl"
    arguments = ("--inventory", inventory, "--inventory-output", tmp_path / "used.json")
    printed, _ = dataset("reverse", notes, "--output", output, *arguments)
    assert "long forms found" in printed
    assert "Begin" not in printed
    assert [(each.text, each.section, each.note_id) for each in examples(output)] == [
        ("Begin PT today.", "PLAN", "notes/a"),
        ("The PT was long.", "LABS", "notes/b"),
    ]
    assert load_inventory(tmp_path / "used.json").short_forms == ("PT",)


def test_the_dataset_keeps_its_notes_out_of_a_corpus(
    dataset: Run, notes: Path, inventory: Path, tmp_path: Path
) -> None:
    dataset("reverse", notes, "--output", tmp_path / "rs.jsonl", "--inventory", inventory)
    arguments = ["--exclude-ids", tmp_path / "rs.jsonl", "--min-count", 0, "--workers", 1, "--json"]
    assert main(["prepare", str(notes), "--output", str(tmp_path / "corpus"), *map(str, arguments)]) == 0
    assert Corpus.open(tmp_path / "corpus").metadata_names("document") == ["notes/c"]


def test_a_split_writes_one_dataset_a_name(dataset: Run, inventory: Path, tmp_path: Path) -> None:
    many = [{"id": f"{note['id']}{n}", "text": note["text"]} for n in range(30) for note in NOTES]
    (tmp_path / "many.jsonl").write_text("\n".join(map(json.dumps, many)))
    arguments = ("--inventory", inventory, "--split", "dev=0.4,test=0.4", "--json")
    printed, _ = dataset("reverse", tmp_path / "many.jsonl", "--output", tmp_path / "rs.jsonl", *arguments)
    summary = json.loads(printed)
    assert [Path(each["dataset"]).name for each in summary["datasets"]] == ["rs.dev.jsonl", "rs.test.jsonl"]
    assert summary["n_notes_in_no_part"] + sum(each["n_notes"] for each in summary["datasets"]) == len(many)
    for each in summary["datasets"]:
        assert each["n_found"] == each["n_examples"] + sum(each["dropped"].values())
        assert len(examples(Path(each["dataset"]))) == each["n_examples"]


REVERSE = ("reverse", "NOTES", "--inventory", "INVENTORY")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reverse", "NOTES", "--inventory", "nothing.json"), "nothing.json cannot be read"),
        (("reverse", "nothing.jsonl", "--inventory", "INVENTORY"), "does not exist"),
        ((*REVERSE, "--split", "dev"), "split"),
        ((*REVERSE, "--window", "0"), "--window"),
        ((*REVERSE, "--sections", "given"), "has no sections of its own"),
        (("casi", "nothing.txt"), "cannot be read"),
        (("casi", "NOTES"), "Expected CASI as published"),
        (("casi", "CASI", "--section-map", "nothing.csv"), "section map"),
        (("casi", "CASI", "--canonical-forms", "nothing.csv"), "canonical forms"),
        (("casi", "CASI", "--match-short-forms", "nothing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    dataset: Run, arguments: tuple[str, ...], message: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    given = [request.getfixturevalue(each.lower()) if each.isupper() else each for each in arguments]
    assert message in dataset(*given, "--output", tmp_path / "d.jsonl", code=2)[1]
    assert not (tmp_path / "d.jsonl").exists()


def test_an_inventory_that_never_occurs_is_an_error(dataset: Run, notes: Path, tmp_path: Path) -> None:
    inventory = tmp_path / "inv.json"
    save_inventory(SenseInventory.from_senses([Sense("XX", "absent")]), inventory)
    _, err = dataset("reverse", notes, "--inventory", inventory, "--output", tmp_path / "d.jsonl", code=2)
    assert "no example was found in 3 notes" in err


def test_no_part_of_a_split_is_replaced_unless_told(
    dataset: Run, notes: Path, inventory: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "rs.all.jsonl"
    kept.write_text("kept")
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
    dataset(*split, code=2)
    assert kept.read_text() == "kept"
    dataset(*split, "--overwrite")
    assert kept.read_text() != "kept"

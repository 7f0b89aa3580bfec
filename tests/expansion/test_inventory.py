"""A sense inventory: what it refuses, what it answers, and that it survives a file."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import InputError, InventoryError, UnknownShortForm
from lmcells.expansion import Sense, SenseInventory, load_inventory, save_inventory

PT = (
    Sense("PT", "physical therapy", ("physical therapy", "physiotherapy"), "C0949766"),
    Sense("PT", "prothrombin time"),
)
MS = (
    Sense("MS", "multiple sclerosis"),
    Sense("MS", "morphine sulfate", ("morphine sulfate", "morphine sulphate")),
)
INVENTORY = SenseInventory.from_senses([*PT, *MS])


def write(path: Path, entries: object) -> Path:
    path.write_text(json.dumps(entries))
    return path


def test_senses_come_in_the_order_in_which_they_were_given() -> None:
    assert INVENTORY.senses("PT") == PT
    assert INVENTORY.short_forms == ("PT", "MS")
    assert (len(INVENTORY), INVENTORY.n_senses) == (2, 4)
    assert list(INVENTORY) == [*PT, *MS]
    assert "PT" in INVENTORY
    assert "XX" not in INVENTORY


def test_a_sense_without_forms_is_written_as_its_name() -> None:
    assert Sense("PT", "prothrombin time").forms == ("prothrombin time",)


def test_an_unknown_short_form_says_how_many_there_are_and_which_is_near() -> None:
    inventory = SenseInventory.from_senses([Sense("XYR", "one"), Sense("MS", "two")])
    with pytest.raises(
        UnknownShortForm, match=r"^'XYZ' is not in the inventory \(2 short forms\)\. Nearest: 'XYR'\.$"
    ):
        inventory.senses("XYZ")
    with pytest.raises(UnknownShortForm, match="Nearest: 'MS'"):
        inventory.senses("ms")


def test_changes_leave_the_inventory_as_it_was() -> None:
    added = INVENTORY.add(Sense("PT", "posterior tibial"))
    assert [sense.long_form for sense in added.senses("PT")] == [
        "physical therapy",
        "prothrombin time",
        "posterior tibial",
    ]
    assert INVENTORY.senses("PT") == PT


def test_impossible_changes_are_refused() -> None:
    with pytest.raises(InventoryError, match="already"):
        INVENTORY.add(Sense("PT", "Physical therapy"))


@pytest.mark.parametrize("name", ["inventory.json", "inventory.csv", "inventory.tsv"])
def test_an_inventory_survives_a_file(tmp_path: Path, name: str) -> None:
    save_inventory(INVENTORY, tmp_path / "new" / name)
    assert load_inventory(tmp_path / "new" / name) == INVENTORY


words = (
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(str.strip).filter(bool)
)
long_forms = words.filter(lambda long_form: long_form != "*")  # which stands for all, in a rule
senses = st.builds(Sense, words, long_forms, st.lists(words, max_size=3).map(tuple), st.none() | words)


@given(
    st.lists(
        senses, min_size=1, unique_by=lambda sense: (sense.short_form, sense.long_form.casefold().strip())
    )
)
def test_any_inventory_survives_json(
    tmp_path_factory: pytest.TempPathFactory, given_senses: list[Sense]
) -> None:
    path = tmp_path_factory.mktemp("inventory") / "inventory.json"
    try:
        inventory = SenseInventory.from_senses(given_senses)
    except InventoryError:  # two long forms that differ in white space alone
        return
    save_inventory(inventory, path)
    assert load_inventory(path) == inventory


def test_a_table_may_be_separated_by_commas_semicolons_or_tabs(tmp_path: Path) -> None:
    for separator in ",;\t":
        rows = ("short_form", "long_form", "forms"), ("PT", '"therapy, physical"', '"physio;physiotherapy"')
        (tmp_path / "i.csv").write_text("\n".join(map(separator.join, rows)))
        (sense,) = load_inventory(tmp_path / "i.csv")
        assert (sense.long_form, sense.forms) == ("therapy, physical", ("physio", "physiotherapy"))


def test_a_semicolon_inside_a_form_cannot_become_csv(tmp_path: Path) -> None:
    inventory = SenseInventory.from_senses([Sense("A", "b", ("b;c",))])
    with pytest.raises(InventoryError, match="as JSON"):
        save_inventory(inventory, tmp_path / "inventory.csv")


GOOD = {"short_form": "PT", "long_form": "physical therapy", "forms": ["physical therapy"]}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([GOOD, GOOD], r"entry 2 \(line 1\): 'physical therapy' is already a sense of 'PT' \(entry 1"),
        ([GOOD | {"forms": [" "]}], r"entry 1 \(line 1\): a form of 'PT' is empty"),
        ([GOOD | {"forms": ["x", ""]}], r"entry 1 \(line 1\): a form of 'PT' is empty"),
        ([GOOD | {"forms": "physical therapy"}], r"entry 1 \(line 1\): 'forms' must be a list"),
        ([GOOD | {"forms": [1]}], r"entry 1 \(line 1\): 'forms' must be a list of strings"),
        ([GOOD, {"short_form": "PT", "forms": ["x"]}], r"entry 2 \(line 1\): has no 'long_form'"),
        ([GOOD | {"long_form": None}], r"entry 1 \(line 1\): has no 'long_form'"),
        ([GOOD | {"long_form": 3}], r"entry 1 \(line 1\): .* must be a string"),
        ([GOOD | {"short_form": " "}], r"entry 1 \(line 1\): short_form is empty"),
        ([GOOD | {"concept_id": []}], r"entry 1 \(line 1\): 'concept_id'"),
        (["PT"], r"entry 1 \(line 1\): found: str, allowed: a sense with"),
        ({"PT": []}, "the inventory is JSON, but not a list\\. Expected a list"),
        ([], "the inventory is empty"),
    ],
)
def test_a_malformed_inventory_is_refused_with_the_entry(
    tmp_path: Path, entries: object, message: str
) -> None:
    with pytest.raises(InventoryError, match=message):
        load_inventory(write(tmp_path / "inventory.json", entries))


def test_files_that_are_no_inventory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_inventory(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("short_form,long_form")
    with pytest.raises(InventoryError, match="not JSON"):
        load_inventory(tmp_path / "text.json")
    (tmp_path / "columns.csv").write_text("short_form,forms\nPT,x\n")
    with pytest.raises(InventoryError, match="no column 'long_form'"):
        load_inventory(tmp_path / "columns.csv")
    (tmp_path / "short.csv").write_text("short_form,long_form,forms\nPT,x\n")
    assert load_inventory(tmp_path / "short.csv").senses("PT")[0].forms == ("x",)
    (tmp_path / "latin.json").write_bytes(b"\xe9")
    with pytest.raises(InventoryError, match="UTF-8"):
        load_inventory(tmp_path / "latin.json")


def test_an_inventory_is_given_in_any_of_three_ways(tmp_path: Path) -> None:
    path = tmp_path / "inventory.csv"
    save_inventory(INVENTORY, path)
    entries = [
        {
            "short_form": each.short_form,
            "long_form": each.long_form,
            "forms": list(each.forms),
            "concept_id": each.concept_id,
        }
        for each in INVENTORY
    ]
    for given_ in (INVENTORY, path, str(path), entries, list(INVENTORY)):
        assert load_inventory(given_) == INVENTORY
    with pytest.raises(InventoryError, match="is empty"):
        load_inventory([])

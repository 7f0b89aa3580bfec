"""The inventory of a request: changed where it says so, the same object again for the same changes."""

import pytest

from expansion.clinic import INVENTORY
from lmcells.errors import InventoryError, UnknownShortForm
from lmcells.expansion import Sense
from lmcells.service.messages import InventoryEdits, SenseMessage, SenseName
from lmcells.service.worker import EditedInventories, edited

ADD = SenseMessage(short_form="CVA", long_form="cerebrovascular accident", forms=("stroke",), concept_id="C7")


def test_edits_are_those_of_the_library() -> None:
    edits = InventoryEdits(add=(ADD,), remove=(SenseName(short_form="PT", long_form="Prothrombin Time"),))
    expected = INVENTORY.with_senses(
        add=[Sense("CVA", "cerebrovascular accident", ("stroke",), "C7")], remove=[("PT", "prothrombin time")]
    )
    assert dict(edited(INVENTORY, edits).by_short_form) == dict(expected.by_short_form)


def test_removing_all_senses_removes_the_short_form() -> None:
    assert "MS" not in edited(INVENTORY, InventoryEdits(remove=(SenseName(short_form="MS"),)))


def test_a_sense_may_be_replaced() -> None:
    edits = InventoryEdits(
        add=(SenseMessage(short_form="PT", long_form="physical therapy", forms=("physio",)),),
        remove=(SenseName(short_form="PT", long_form="physical therapy"),),
    )
    assert edited(INVENTORY, edits).senses("PT")[-1].forms == ("physio",)


def test_contradictions_are_named() -> None:
    with pytest.raises(UnknownShortForm, match=r"'XYZ' is not in the inventory \(2 short forms\)"):
        edited(INVENTORY, InventoryEdits(remove=(SenseName(short_form="XYZ"),)))
    with pytest.raises(InventoryError, match="already"):
        edited(INVENTORY, InventoryEdits(add=(ADD, ADD)))


def test_equal_edits_share_an_inventory_and_few_are_kept() -> None:
    inventories = EditedInventories(INVENTORY)
    assert inventories.of(None) is INVENTORY
    assert inventories.of(InventoryEdits()) is INVENTORY
    first = inventories.of(InventoryEdits(add=(ADD,)))
    assert inventories.of(InventoryEdits(add=(ADD,))) is first
    for number in range(20):
        inventories.of(InventoryEdits(add=(SenseMessage(short_form="X", long_form=f"sense {number}"),)))
    assert inventories.of(InventoryEdits(add=(ADD,))) is not first

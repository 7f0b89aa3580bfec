"""The result: frozen, compared by value, and whole after pickle and JSON."""

import json
import pickle
from dataclasses import FrozenInstanceError

import pytest

from lmcells.expansion import Candidate, Expansion

EXPANSION = Expansion(
    3, 5, "PT", "PLAN", "physical therapy", 0.9, "model",
    (Candidate("physical therapy", 0.9, "C1"), Candidate("prothrombin time", 0.1)),
)  # fmt: skip
ABSTAINED = Expansion(3, 5, "PT", None, None, None, "model", EXPANSION.candidates, "low_confidence")


@pytest.mark.parametrize("expansion", [EXPANSION, ABSTAINED])
def test_it_survives_pickle_and_json(expansion: Expansion) -> None:
    assert pickle.loads(pickle.dumps(expansion)) == expansion
    assert Expansion.from_dict(json.loads(json.dumps(expansion.to_dict()))) == expansion
    assert hash(expansion) == hash(Expansion.from_dict(expansion.to_dict()))


def test_its_fields_go_into_json_under_their_names() -> None:
    assert list(EXPANSION.to_dict()) == [
        "start", "end", "short_form", "section", "long_form", "probability", "source", "candidates", "abstained",
    ]  # fmt: skip
    assert EXPANSION.to_dict()["candidates"][1] == {
        "long_form": "prothrombin time",
        "probability": 0.1,
        "concept_id": None,
    }


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        EXPANSION.start = 4  # type: ignore[misc]


def test_the_concept_is_that_of_the_answer() -> None:
    assert EXPANSION.concept_id == "C1"
    assert ABSTAINED.concept_id is None

"""What crosses the network: frozen, strict, equal to what the library says, with examples that hold."""

import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lmcells.expansion import Candidate, Expansion
from lmcells.service import messages
from lmcells.service.jobs import write_answer
from lmcells.service.messages import (
    InventoryEdits,
    ManyNotes,
    Message,
    NoteAnswer,
    NoteMessage,
    OneNote,
    Options,
    SectionMessage,
)
from service.serving import SECRET

MODELS = {
    each
    for _, each in inspect.getmembers(messages, inspect.isclass)
    if issubclass(each, Message) and each not in (Message, Options)
}
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
CANDIDATES = st.builds(Candidate, TEXT, st.floats(0, 1), st.none() | TEXT)
EXPANSIONS = st.builds(
    Expansion,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | st.floats(0, 1),
    st.sampled_from(["model", "definition"]),
    st.lists(CANDIDATES, max_size=3).map(tuple),
    st.none() | TEXT,
)


@given(EXPANSIONS)
def test_an_expansion_survives_the_network(expansion: Expansion) -> None:
    sent = write_answer("a", [expansion] * 501, None, None)  # more than are written at once
    received = NoteAnswer.model_validate_json(sent)
    assert received.expansions[0].to_expansion() == expansion
    assert json.loads(sent)["expansions"] == [expansion.to_dict()] * 501


@pytest.mark.parametrize("model", sorted(MODELS, key=lambda each: each.__name__))
def test_the_examples_of_a_model_are_valid(model: type[Message]) -> None:
    schema = model.model_json_schema()
    assert schema["examples"]
    for example in schema["examples"]:
        model.model_validate(example)
    for name, field in schema["properties"].items():
        if field.get("type") == "array":
            assert model.model_validate(schema["examples"][0] | {name: field["examples"][0]})


def test_messages_are_frozen_and_can_be_keys() -> None:
    note = NoteMessage(text="PT")
    with pytest.raises(ValidationError):
        note.text = "other"  # type: ignore[misc]
    assert len({InventoryEdits(), InventoryEdits()}) == 1


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert SectionMessage.model_validate({"start": 0.0, "end": 12}).start == 0


def test_the_text_of_a_note_is_in_no_representation() -> None:
    assert SECRET not in repr(OneNote(text=SECRET)) + repr(ManyNotes(notes=(NoteMessage(text=SECRET),)))

"""Neither direction sees what it has yet to read, padding changes nothing, and every word has a vector."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from language_model.small_models import WITHOUT_ONEDNN, small_model, texts_of, without_onednn
from lmcells.language_model.model import BEGINNING, END, PADDING, mirror, softmax_losses, spell_out

KINDS = pytest.mark.parametrize("kind", ["transformer", "bilstm"])
ROW = ["chest", "pain", "and", "cough", "since", "monday"]


@KINDS
@pytest.mark.parametrize("place", range(len(ROW)))
def test_a_direction_never_sees_the_future(kind: Any, place: int) -> None:
    model = small_model(kind=kind)
    changed = [*ROW]
    changed[place] = "fever"
    before, after = model.word_states(texts_of([ROW]))[0], model.word_states(texts_of([changed]))[0]
    width = model.config.width
    forward = (before[:, :width] - after[:, :width]).abs().amax(dim=1)
    backward = (before[:, width:] - after[:, width:]).abs().amax(dim=1)
    assert (forward[:place] < 1e-6).all()
    assert (backward[place + 1 :] < 1e-6).all()
    assert (forward[place:] > 1e-4).all()
    assert (backward[: place + 1] > 1e-4).all()


@KINDS
def test_padding_never_changes_a_result(kind: Any) -> None:
    model = small_model(kind=kind)
    rows = [ROW, ROW[:2], ["fever"], ROW[1:5]]
    together = texts_of(rows, padded_to=11)
    for number, row in enumerate(rows):
        alone = texts_of([row])
        torch.testing.assert_close(model.mean_states(together)[number], model.mean_states(alone)[0])
        states = model.word_states(together)[number, : len(row)]
        torch.testing.assert_close(states, model.word_states(alone)[0])


@KINDS
def test_a_prediction_does_not_depend_on_the_predicted_word_or_those_after_it(kind: Any) -> None:
    model = small_model(kind=kind)
    ids = torch.arange(len(ROW)).unsqueeze(0)
    states, words, present = model.predictions(texts_of([ROW]), ids)
    assert present.all()
    assert words.tolist() == [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0]
    changed, *_ = model.predictions(texts_of([[*ROW[:3], "fever", *ROW[4:]]]), ids)
    torch.testing.assert_close(states[:4], changed[:4])  # forward up to the changed word
    torch.testing.assert_close(states[6:9], changed[6:9])  # backward down to it
    assert not torch.allclose(states[4], changed[4])


def test_both_directions_have_weights_of_their_own() -> None:
    model = small_model()
    states = model.word_states(texts_of([["pain", "pain", "pain"]]))[0]
    assert not torch.allclose(states[0, :16], states[2, 16:])


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=4))
@settings(max_examples=30)
def test_mirroring_reverses_the_words_of_each_row_and_twice_is_nothing(rows: list[list[int]]) -> None:
    longest = max(map(len, rows))
    values = torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    mirrored = mirror(values, lengths)
    assert [row[: len(old)] for row, old in zip(mirrored.tolist(), rows, strict=True)] == [
        row[::-1] for row in rows
    ]
    assert torch.equal(mirror(mirrored, lengths), values)


def test_a_word_is_its_bytes_between_two_marks() -> None:
    short, long, umlaut = spell_out(["ab", "x" * 40, "ü"], max_characters=6).tolist()
    assert short == [BEGINNING, ord("a") + 1, ord("b") + 1, END, PADDING, PADDING]
    assert long == [BEGINNING, *[ord("x") + 1] * 4, END]
    assert umlaut == [BEGINNING, 0xC3 + 1, 0xBC + 1, END, PADDING, PADDING]


def test_unseen_words_have_vectors_of_their_own() -> None:
    model = small_model()
    vectors = model.words(spell_out(["pt", "ptt", "inr", "☃", ""], max_characters=24))
    assert vectors.shape == (5, 16)
    distances = torch.cdist(vectors, vectors) + torch.eye(5)
    assert distances.min() > 1e-3


def test_a_words_vector_does_not_depend_on_its_neighbours_in_the_batch() -> None:
    model = small_model()
    alone = model.words(spell_out(["pt"], max_characters=24))
    among = model.words(spell_out(["laparoscopic", "pt", "a"], max_characters=24))
    torch.testing.assert_close(alone[0], among[1])


def test_filters_are_convolutions_over_the_characters() -> None:
    encoder = small_model().words
    spelt = spell_out(["pt", "laparoscopic"], max_characters=24)
    read = encoder.characters(spelt.int()).transpose(1, 2)
    found = torch.cat([filters(read).amax(dim=-1) for filters in encoder.filters], dim=-1)
    expected = encoder.projection(encoder.highways(torch.relu(found)))
    torch.testing.assert_close(encoder(spelt), expected)


@KINDS
@WITHOUT_ONEDNN
def test_bf16_changes_little_and_reaches_every_weight(kind: Any) -> None:
    model = small_model(kind=kind)
    texts, ids = texts_of([ROW, ROW[:3]]), torch.zeros(2, len(ROW), dtype=torch.int64)
    expected = model.predictions(texts, ids)[0].detach()
    with without_onednn():
        with torch.autocast("cpu", torch.bfloat16):
            states, words, present = model.predictions(texts, ids)
            losses = torch.where(present, softmax_losses(model.vocabulary, states, words), 0.0)
        losses.sum().backward()
    assert states.dtype == torch.float32
    assert float((states.detach() - expected).norm() / expected.norm()) < 0.03
    for name, weights in model.named_parameters():
        assert weights.grad is not None, name
        assert weights.grad.dtype == torch.float32
        assert weights.grad.isfinite().all(), name
        assert weights.grad.abs().sum() > 0, name

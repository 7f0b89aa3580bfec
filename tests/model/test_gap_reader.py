"""The gap reader: which words it sees, and how large it is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.model import ModelConfig, Windows, count_parameters, create_model
from lmcells.model.variational import around_span
from model.tiny import tiny_model

GAP, WIDTH = 99, 3


@settings(max_examples=60, deadline=None)
@given(
    slots=st.lists(st.sampled_from(["word", "hole"]), min_size=1, max_size=12),
    reach=st.integers(1, 6),
    data=st.data(),
)
def test_the_words_seen_are_the_nearest_present_ones_on_either_side(
    slots: list[str], reach: int, data: st.DataObject
) -> None:
    mark = data.draw(st.integers(0, len(slots) - 1))
    mask = torch.tensor([[slot == "word" or place == mark for place, slot in enumerate(slots)]])
    context = torch.arange(len(slots)).unsqueeze(0)
    context[0, mark] = GAP
    vectors = torch.arange(1.0, 1 + len(slots) * WIDTH).view(1, len(slots), WIDTH)
    windows = Windows(center=torch.tensor([0]), context=context, context_mask=mask)
    state, neighbours, marked = around_span(windows, -vectors, vectors, mask_id=GAP, reach=reach)

    before = [vectors[0, place] for place in range(mark) if mask[0, place]][-reach:]
    after = [vectors[0, place] for place in range(mark + 1, len(slots)) if mask[0, place]][:reach]
    nothing = torch.zeros(WIDTH)
    expected = [nothing] * (reach - len(before)) + before + after + [nothing] * (reach - len(after))
    assert torch.equal(neighbours[0], torch.cat(expected))
    assert torch.equal(state[0], -vectors[0, mark])
    assert marked.all()


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_a_word_within_reach_is_told_from_others_and_one_beyond_is_not_seen(reach: int) -> None:
    """The LSTM reads every word, so its state at the mark is left out of what is compared."""
    model = tiny_model(window=6, masks_span=True, masked_span_dim=6, masked_span_reach=reach)
    context = torch.arange(12).unsqueeze(0)
    context[0, 6] = model.config.mask_id
    windows = Windows(center=torch.tensor([0]), context=context, context_mask=context >= 0)
    mask_id, seen = model.config.mask_id, set()
    vectors = model.variational.context.words.weight
    states = torch.zeros(1, 12, model.config.metadata_dim, dtype=vectors.dtype)
    joint = torch.zeros(1, model.config.metadata_dim, dtype=vectors.dtype)

    def read(of_words: torch.Tensor) -> torch.Tensor:
        state, neighbours, _ = around_span(windows, states, of_words, mask_id=mask_id, reach=reach)
        added: torch.Tensor = model.variational.masked_span_reader(joint, state, neighbours)
        return added

    as_they_are = read(vectors[context])
    for place in range(12):
        changed = vectors[context].clone()
        changed[0, place] += 5.0
        if not torch.equal(read(changed), as_they_are):
            seen.add(place - 6)
    assert seen == {place for place in range(-reach, reach + 1) if place}


@pytest.mark.parametrize(
    ("masked_span_dim", "masked_span_reach", "of_the_reader"),
    [(256, 1, 149_760), (256, 2, 200_960), (512, 4, 606_720)],
)
def test_each_place_in_reach_costs_a_vector_a_unit(
    masked_span_dim: int, masked_span_reach: int, of_the_reader: int
) -> None:
    sizes = {"n_words": 30, "n_metadata": 7, "masks_span": True}
    without = create_model(ModelConfig(**sizes))
    model = create_model(
        ModelConfig(**sizes, masked_span_dim=masked_span_dim, masked_span_reach=masked_span_reach)
    )
    assert count_parameters(model) - count_parameters(without) == of_the_reader
    assert (
        of_the_reader == (2 * 128 + 2 * masked_span_reach * 100 + 1) * masked_span_dim + masked_span_dim * 128
    )


def test_a_model_reads_as_far_as_two_words_unless_it_says_otherwise() -> None:
    assert ModelConfig(n_words=30, n_metadata=7).masked_span_reach == 2
    same, other = (
        tiny_model(
            masks_span=True, masked_span_dim=6, **settings
        ).variational.masked_span_reader.hidden.in_features
        for settings in ({}, {"masked_span_reach": 3})
    )
    assert (same, other) == (2 * 6 + 4 * 4, 2 * 6 + 6 * 4)

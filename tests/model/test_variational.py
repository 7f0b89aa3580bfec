import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lmcells.model import (
    NULL_METADATA,
    CellModel,
    ModelConfig,
    Posterior,
    Windows,
    count_parameters,
    create_model,
)
from lmcells.model.networks import around_span
from model.tiny import tiny_batch, tiny_model

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
MASK_ID, WIDTH = 99, 3
LOWEST, HIGHEST = 1 / (1 + math.e**2), math.e**2 / (1 + math.e**2)


def assert_same_cells(found: Posterior, expected: Posterior) -> None:
    torch.testing.assert_close(found.cell.mean, expected.cell.mean)
    torch.testing.assert_close(found.cell.log_variance, expected.cell.log_variance)
    torch.testing.assert_close(found.gate, expected.gate)


def some_windows(model: CellModel, *, n_rows: int = 6) -> Windows:
    """The windows of a batch whose center ids are words in every kind of model."""
    batch = tiny_batch(model.config, n_rows=n_rows)
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(Windows)}
    return Windows(**{**values, "center": batch.center % 13})


@KINDS
@settings(max_examples=40)
@given(slots=st.lists(st.sampled_from(["word", "absent"]), min_size=1, max_size=9), filler=st.integers(0, 12))
def test_padding_never_changes_a_posterior(kind: str, slots: list[str], filler: int) -> None:
    """Absent positions on the left, on the right, in the middle: all as if the words were adjacent."""
    model = tiny_model(kind)
    mask = torch.tensor([[slot == "word" for slot in slots]])
    words = torch.arange(len(slots)).unsqueeze(0) % 13
    row = {"center": torch.tensor([4]), "metadata": torch.tensor([2])}
    padded = Windows(**row, context=torch.where(mask, words, filler), context_mask=mask)
    close = words[mask].unsqueeze(0)
    compact = Windows(**row, context=close, context_mask=torch.ones_like(close, dtype=torch.bool))
    padded_posterior = model.posterior(padded)
    assert_same_cells(padded_posterior, model.posterior(compact))
    torch.testing.assert_close(padded_posterior.attention[mask], model.posterior(compact).attention.flatten())
    assert not padded_posterior.attention[~mask].any()


@KINDS
def test_the_order_and_company_of_rows_never_change_a_posterior(kind: str) -> None:
    model = tiny_model(kind)
    windows = some_windows(model)
    together = model.posterior(windows)
    for order in (torch.tensor([3, 0, 5, 1, 4, 2]), torch.tensor([2]), torch.tensor([0, 5])):
        assert_same_cells(model.posterior(rows_of(windows, order)), rows_of_posterior(together, order))


def rows_of(windows: Windows, order: Tensor) -> Windows:
    values = {field.name: getattr(windows, field.name) for field in dataclasses.fields(windows)}
    return Windows(**{name: None if value is None else value[order] for name, value in values.items()})


def rows_of_posterior(posterior: Posterior, order: Tensor) -> Posterior:
    cell = dataclasses.replace(
        posterior.cell, mean=posterior.cell.mean[order], log_variance=posterior.cell.log_variance[order]
    )
    return Posterior(cell, posterior.gate[order], posterior.attention[order])


def test_attention_weighs_the_present_words_and_adds_to_one() -> None:
    model = tiny_model()
    windows = some_windows(model)
    attention = model.posterior(windows).attention
    assert not attention[~windows.context_mask].any()
    torch.testing.assert_close(attention.sum(dim=1), windows.context_mask.any(dim=1).double())


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_the_gate_stays_within_its_bounds(scale: float) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.variational.gate.weight[1] = -model.variational.gate.weight[0]  # as far apart as they can be
        model.variational.gate.weight.mul_(scale)
    gate = model.posterior(some_windows(model, n_rows=200)).gate
    assert gate.min() >= LOWEST - 1e-12
    assert gate.max() <= HIGHEST + 1e-12
    if scale > 1:  # and the bounds are reached
        torch.testing.assert_close(gate.min().item(), LOWEST)
        torch.testing.assert_close(gate.max().item(), HIGHEST)


def test_an_overridden_gate_interpolates_between_context_and_metadata() -> None:
    model = tiny_model()
    windows = some_windows(model)
    at = {gate: model.posterior(windows, gate=gate).cell.mean for gate in (0.0, 0.25, 1.0)}
    torch.testing.assert_close(at[0.25], 0.75 * at[0.0] + 0.25 * at[1.0])
    metadata_alone = model.variational.heads(model.variational.metadata(windows.metadata))
    torch.testing.assert_close(at[1.0], metadata_alone.mean)


def test_overriding_the_gate_with_what_was_learnt_changes_nothing() -> None:
    model = tiny_model()
    windows = some_windows(model)
    learnt = model.posterior(windows)
    assert_same_cells(model.posterior(windows, gate=learnt.gate.detach()), learnt)


def test_a_gate_outside_zero_to_one_is_refused() -> None:
    model = tiny_model()
    with pytest.raises(ValueError, match=r"gate is 1\.5; allowed: a weight from 0 .* to 1"):
        model.posterior(some_windows(model), gate=1.5)


@pytest.mark.parametrize("gate", [None, 0.7])
def test_null_metadata_has_no_weight_and_attends_uniformly(gate: float | None) -> None:
    model = tiny_model()
    windows = dataclasses.replace(some_windows(model), metadata=None)
    posterior = model.posterior(windows, gate=gate)
    assert not posterior.gate.any()
    present = windows.context_mask.double()
    torch.testing.assert_close(posterior.attention, present / present.sum(dim=1, keepdim=True).clamp_min(1))


def test_null_metadata_can_be_given_row_by_row() -> None:
    model = tiny_model()
    windows = some_windows(model)
    metadata = windows.metadata.clone()
    metadata[::2] = NULL_METADATA
    mixed = model.posterior(dataclasses.replace(windows, metadata=metadata))
    known, unknown = torch.tensor([1, 3, 5]), torch.tensor([0, 2, 4])
    assert_same_cells(rows_of_posterior(mixed, known), rows_of_posterior(model.posterior(windows), known))
    without = model.posterior(dataclasses.replace(windows, metadata=None))
    assert_same_cells(rows_of_posterior(mixed, unknown), rows_of_posterior(without, unknown))


def test_null_context_is_a_zero_vector_under_the_gate() -> None:
    model = tiny_model()
    windows = some_windows(model)
    windows = dataclasses.replace(windows, context_mask=torch.zeros_like(windows.context_mask))
    posterior = model.posterior(windows)
    section = model.variational.metadata(windows.metadata)
    expected = model.variational.heads(posterior.gate.unsqueeze(-1) * section)
    torch.testing.assert_close(posterior.cell.mean, expected.mean)
    assert LOWEST <= posterior.gate.min() <= posterior.gate.max() <= HIGHEST
    assert not posterior.attention.any()


def test_with_neither_metadata_nor_context_the_cell_is_still_finite() -> None:
    model = tiny_model()
    windows = some_windows(model)
    nothing = dataclasses.replace(windows, metadata=None, context_mask=torch.zeros_like(windows.context_mask))
    torch.testing.assert_close(model.posterior(nothing).cell.mean[3], model.variational.heads.mean.bias)


def test_a_masked_center_is_not_read() -> None:
    model = tiny_model()
    windows = dataclasses.replace(some_windows(model), center_mask=torch.zeros(6, dtype=torch.bool))
    other = dataclasses.replace(windows, center=(windows.center + 1) % 13)
    assert_same_cells(model.posterior(other), model.posterior(windows))
    visible = dataclasses.replace(windows, center_mask=None)
    assert not torch.allclose(model.posterior(visible).cell.mean[1], model.posterior(windows).cell.mean[1])


def test_dropout_falls_in_training_and_not_in_evaluation() -> None:
    model = tiny_model(dropout=0.5)
    windows = some_windows(model)
    first, second = (model.posterior(windows).cell.mean for _ in range(2))
    assert not torch.equal(first, second)
    model.eval()
    first, second = (model.posterior(windows).cell.mean for _ in range(2))
    assert torch.equal(first, second)


def test_windows_of_unlike_shapes_are_refused() -> None:
    windows = some_windows(tiny_model())
    with pytest.raises(ValueError, match=r"center \(6,\), context \(6, 6\) and context_mask \(6, 5\)"):
        dataclasses.replace(windows, context_mask=windows.context_mask[:, :5])
    with pytest.raises(ValueError, match=r"metadata has shape \(5,\); center has \(6,\)"):
        dataclasses.replace(windows, metadata=windows.metadata[:5])
    with pytest.raises(ValueError, match=r"center_mask has dtype torch\.int64"):
        dataclasses.replace(windows, center_mask=windows.center_mask.long())


@settings(max_examples=60)
@given(
    slots=st.lists(st.sampled_from(["word", "absent"]), min_size=1, max_size=12),
    reach=st.integers(1, 6),
    data=st.data(),
)
def test_the_words_seen_are_the_nearest_present_ones_on_either_side(
    slots: list[str], reach: int, data: st.DataObject
) -> None:
    masked = data.draw(st.integers(0, len(slots) - 1))
    mask = torch.tensor([[slot == "word" or place == masked for place, slot in enumerate(slots)]])
    context = torch.arange(len(slots)).unsqueeze(0)
    context[0, masked] = MASK_ID
    vectors = torch.arange(1.0, 1 + len(slots) * WIDTH).view(1, len(slots), WIDTH)
    windows = Windows(center=torch.tensor([0]), context=context, context_mask=mask)
    state, neighbours, has_mask = around_span(windows, -vectors, vectors, mask_id=MASK_ID, reach=reach)

    before = [vectors[0, place] for place in range(masked) if mask[0, place]][-reach:]
    after = [vectors[0, place] for place in range(masked + 1, len(slots)) if mask[0, place]][:reach]
    nothing = torch.zeros(WIDTH)
    expected = [nothing] * (reach - len(before)) + before + after + [nothing] * (reach - len(after))
    assert torch.equal(neighbours[0], torch.cat(expected))
    assert torch.equal(state[0], -vectors[0, masked])
    assert has_mask.all()


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_a_word_within_reach_is_told_from_others_and_one_beyond_is_not_seen(reach: int) -> None:
    """The LSTM reads every word, so its state at the masked span is left out of what is compared."""
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


def test_each_word_in_reach_costs_a_vector_a_unit() -> None:
    sizes = {"n_words": 30, "n_metadata": 7, "masks_span": True}
    without = count_parameters(create_model(ModelConfig(**sizes)))
    for dim, reach in ((256, 1), (256, 2), (512, 4)):
        model = create_model(ModelConfig(**sizes, masked_span_dim=dim, masked_span_reach=reach))
        assert count_parameters(model) - without == (2 * 128 + 2 * reach * 100 + 1) * dim + dim * 128

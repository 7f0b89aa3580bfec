from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lmcells.model.recurrence import (
    BidirectionalLstm,
    LstmWeights,
    aligned_lstm,
    packed_lstm,
)
from model.loop_reference import run_lstm

INPUT, CONSTANT, HIDDEN = 3, 2, 4
MASKS = st.integers(0, 7).flatmap(
    lambda steps: st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=1, max_size=5)
)
IMPLEMENTATIONS = pytest.mark.parametrize("run", [packed_lstm, aligned_lstm])
Run = Callable[..., Tensor]


def some_lstm() -> BidirectionalLstm:
    torch.manual_seed(0)
    return BidirectionalLstm(INPUT + CONSTANT, hidden_dim=HIDDEN).double()


def weights_of(lstm: BidirectionalLstm) -> LstmWeights:
    return LstmWeights(lstm.input, lstm.hidden, lstm.input_bias + lstm.hidden_bias)


def random_input(mask: Tensor) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    inputs = torch.randn(*mask.shape, INPUT, dtype=torch.float64)
    return inputs, torch.randn(mask.shape[0], CONSTANT, dtype=torch.float64)


def compacted(lstm: BidirectionalLstm, inputs: Tensor, mask: Tensor, constant: Tensor) -> Tensor:
    """torch's LSTM on the present positions of each row alone, put back where they stood."""
    states = inputs.new_zeros(*mask.shape, 2 * HIDDEN)
    for row in range(mask.shape[0]):
        present = inputs[row, mask[row]]
        if len(present):
            tiled = torch.cat([present, constant[row].expand(len(present), -1)], dim=-1)
            states = states.index_put(
                (torch.tensor(row), mask[row].nonzero().squeeze(1)), run_lstm(lstm, tiled)
            )
    return states


@IMPLEMENTATIONS
@settings(max_examples=60)
@given(rows=MASKS)
def test_absent_positions_are_as_if_cut_out(run: Run, rows: list[list[bool]]) -> None:
    mask, lstm = torch.tensor(rows, dtype=torch.bool), some_lstm()
    inputs, constant = random_input(mask)
    states = run(inputs, mask, weights_of(lstm), constant=constant)
    torch.testing.assert_close(states, compacted(lstm, inputs, mask, constant))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("error")
def test_the_library_on_a_gpu_takes_the_weights_as_they_lie() -> None:
    mask, lstm = torch.tensor([[True, False, True]]), some_lstm().cuda()
    inputs, constant = (tensor.cuda() for tensor in random_input(mask))
    with torch.no_grad():
        states = aligned_lstm(inputs, mask.cuda(), weights_of(lstm), constant=constant)
    assert states.isfinite().all()


@IMPLEMENTATIONS
def test_gradients_are_those_of_torch(run: Run) -> None:
    lstm = some_lstm()
    mask = torch.rand(8, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[0], mask[1] = False, True
    inputs, constant = (value.requires_grad_() for value in random_input(mask))
    leaves = [inputs, constant, *lstm.parameters()]
    weight = torch.randn(8, 6, 2 * HIDDEN, dtype=torch.float64)
    fast = (run(inputs, mask, weights_of(lstm), constant=constant) * weight).sum()
    slow = (compacted(lstm, inputs, mask, constant) * weight).sum()
    for a, b in zip(torch.autograd.grad(fast, leaves), torch.autograd.grad(slow, leaves), strict=True):
        torch.testing.assert_close(a, b)


def test_the_hand_written_backward_passes_gradcheck() -> None:
    mask = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])
    inputs, constant = random_input(mask)
    lstm = some_lstm()
    weights = [value.detach().requires_grad_() for value in (lstm.input, lstm.hidden, lstm.input_bias)]

    def states(inputs: Tensor, constant: Tensor, *weights: Tensor) -> Tensor:
        return packed_lstm(inputs, mask, LstmWeights(*weights), constant=constant)

    assert torch.autograd.gradcheck(states, (inputs.requires_grad_(), constant.requires_grad_(), *weights))


@IMPLEMENTATIONS
def test_what_stands_at_an_absent_position_is_not_read(run: Run) -> None:
    lstm, mask = some_lstm(), torch.tensor([[False, True, False, True]])
    inputs, constant = random_input(mask)
    states = run(inputs, mask, weights_of(lstm), constant=constant)
    changed = torch.where(mask.unsqueeze(-1), inputs, 1e6)
    assert torch.equal(states, run(changed, mask, weights_of(lstm), constant=constant))
    assert not states[~mask].any()


@IMPLEMENTATIONS
@pytest.mark.usefixtures("bf16_without_amx")
def test_in_bf16_the_states_stay_close(run: Run) -> None:
    lstm, mask = some_lstm().float(), torch.rand(16, 20, generator=torch.Generator().manual_seed(0)) < 0.7
    inputs, constant = (value.float() for value in random_input(mask))
    exact = run(inputs, mask, weights_of(lstm), constant=constant)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = run(inputs, mask, weights_of(lstm), constant=constant)
    torch.testing.assert_close(rounded.float(), exact, rtol=0, atol=0.03)


def test_weights_are_drawn_as_torch_draws_them() -> None:
    ours, theirs = BidirectionalLstm(200, hidden_dim=64), torch.nn.LSTM(200, 64, bidirectional=True)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    for drawn, reference in ((ours.input, theirs.weight_ih_l0), (ours.hidden_bias, theirs.bias_hh_l0)):
        assert drawn.abs().max() <= 1 / 8
        assert drawn.std().item() == pytest.approx(reference.std().item(), rel=0.1)

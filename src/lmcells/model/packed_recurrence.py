"""The CPU's bidirectional LSTM: work only where a word is present, and a backward written by hand.

Rows are sorted by length and their present positions packed step by step, so that step t is a block of the
rows longer than t: no masks, no padding. Measured on one core at batch 1,024, window 10 and 20 % masked,
forward and backward: 1.8 times as fast as `torch.nn.LSTM` on padded input.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lmcells.model.lstm_weights import LstmWeights
from lmcells.model.precision import full_precision


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the present positions of (B, T) rows go when the rows are cut to them and laid step by step."""

    row_order: Tensor  # (B,) rows, longest first
    forward: Tensor  # (N,) flat position b * T + t of each packed slot, read left to right
    backward: Tensor  # (N,) the same, read right to left
    sizes: tuple[int, ...]  # rows still going at each step; they add to N


def pack(mask: Tensor) -> Packing:
    """Lay out the present positions of `mask` (B, T)."""
    batch, steps = mask.shape
    lengths = mask.sum(dim=1)  # (B,)
    row_order = torch.argsort(lengths, descending=True, stable=True)
    place_of = torch.empty_like(row_order)
    place_of[row_order] = torch.arange(batch, device=mask.device)
    going = (lengths > torch.arange(steps, device=mask.device).unsqueeze(1)).sum(dim=1)  # (T,)
    offsets = going.cumsum(0) - going

    positions = mask.flatten().nonzero().squeeze(1)  # (N,)
    rows = positions // max(steps, 1)
    from_left = mask.cumsum(dim=1).flatten()[positions] - 1
    from_right = lengths[rows] - 1 - from_left
    forward, backward = torch.empty_like(positions), torch.empty_like(positions)
    forward[offsets[from_left] + place_of[rows]] = positions
    backward[offsets[from_right] + place_of[rows]] = positions
    return Packing(row_order, forward, backward, tuple(n for n in going.tolist() if n > 0))


def packed_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """`recurrence.bidirectional_lstm` in shapes that follow the mask, in the precision of the weights."""
    (batch, steps, width), hidden_dim = inputs.shape, weights.hidden.shape[-1]
    packing = pack(mask)
    with full_precision(inputs):
        flat = inputs.to(weights.hidden.dtype).flatten(0, 1)  # (B * T, I)
        constant = constant.to(weights.hidden.dtype).index_select(0, packing.row_order)
        states = []
        for direction, positions in enumerate((packing.forward, packing.backward)):
            of_inputs, of_constant = weights.input[direction, :, :width], weights.input[direction, :, width:]
            gates = functional.linear(flat.index_select(0, positions), of_inputs)  # (N, I) -> (N, 4H)
            shared = functional.linear(constant, of_constant, weights.bias[direction])  # (B, C) -> (B, 4H)
            packed = _run_steps(gates, shared, weights.hidden[direction], packing.sizes)  # (N, H)
            states.append(packed.new_zeros(batch * steps, hidden_dim).index_copy(0, positions, packed))
        return torch.cat(states, dim=-1).view(batch, steps, 2 * hidden_dim)


def _run_steps(gates: Tensor, shared: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
    states: Tensor = _PackedSteps.apply(gates, shared, weight, sizes)  # type: ignore[no-untyped-call]
    return states


class _PackedSteps(torch.autograd.Function):
    """One direction: packed gates (N, 4H), each with its row's `shared` (B, 4H) added -> states (N, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, shared: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
        dim = weight.shape[1]
        activated = torch.empty_like(gates)
        cells, squashed, states = (gates.new_empty(gates.shape[0], dim) for _ in range(3))
        start, previous = 0, 0
        with full_precision(gates):
            for step, n in enumerate(sizes):
                now, before = slice(start, start + n), slice(previous, previous + n)
                summed, cell = activated[now], cells[now]
                torch.add(gates[now], shared[:n], out=summed)
                if step > 0:
                    summed.addmm_(states[before], weight.T)
                summed[:, : 2 * dim].sigmoid_()
                summed[:, 2 * dim : 3 * dim].tanh_()
                summed[:, 3 * dim :].sigmoid_()
                enter, keep, candidate, leave = summed.chunk(4, dim=1)
                torch.mul(enter, candidate, out=cell)
                if step > 0:
                    cell.addcmul_(keep, cells[before])
                torch.tanh(cell, out=squashed[now])
                torch.mul(leave, squashed[now], out=states[now])
                start, previous = start + n, start
        ctx.save_for_backward(activated, cells, squashed, states, weight)
        ctx.sizes, ctx.n_rows = sizes, shared.shape[0]
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        activated, cells, squashed, states, weight = ctx.saved_tensors
        dim = weight.shape[1]
        grad_gates, grad_weight = torch.empty_like(activated), torch.zeros_like(weight)
        grad_shared = activated.new_zeros(ctx.n_rows, 4 * dim)
        grad_hidden, grad_cell = activated.new_zeros(ctx.n_rows, dim), activated.new_zeros(ctx.n_rows, dim)
        end = activated.shape[0]
        with full_precision(activated):
            for step in reversed(range(len(ctx.sizes))):
                n = ctx.sizes[step]
                now = slice(end - n, end)
                enter, keep, candidate, leave = activated[now].chunk(4, dim=1)
                grad = grad_gates[now]
                grad_enter, grad_keep, grad_candidate, grad_leave = grad.chunk(4, dim=1)

                to_hidden, to_cell = grad_hidden[:n], grad_cell[:n]
                to_hidden.add_(grad_states[now])
                torch.mul(to_hidden, squashed[now], out=grad_leave)
                to_cell.add_(_through_tanh(to_hidden.mul_(leave), squashed[now]))
                torch.mul(to_cell, candidate, out=grad_enter)
                torch.mul(to_cell, enter, out=grad_candidate)
                if step > 0:
                    previous = end - n - ctx.sizes[step - 1]
                    before = slice(previous, previous + n)
                    torch.mul(to_cell, cells[before], out=grad_keep)
                    to_cell.mul_(keep)
                else:
                    grad_keep.zero_()
                _through_sigmoid_(grad[:, : 2 * dim], activated[now, : 2 * dim])
                grad_candidate.copy_(_through_tanh(grad_candidate, candidate))
                _through_sigmoid_(grad_leave, leave)

                grad_shared[:n].add_(grad)
                if step > 0:
                    torch.mm(grad, weight, out=to_hidden)
                    grad_weight.addmm_(grad.T, states[before])
                end -= n
        return grad_gates, grad_shared, grad_weight, None


def _through_tanh(grad: Tensor, output: Tensor) -> Tensor:
    return torch.addcmul(grad, grad * output, output, value=-1)  # grad * (1 - output^2)


def _through_sigmoid_(grad: Tensor, output: Tensor) -> None:
    grad.mul_(torch.addcmul(output, output, output, value=-1))  # grad * output * (1 - output)

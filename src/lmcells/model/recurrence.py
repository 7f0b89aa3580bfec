"""A bidirectional LSTM over sequences with absent positions: one contract, two ways to compute it.

`BidirectionalLstm` states the contract and chooses: `packed_lstm` on the CPU, `aligned_lstm` where shapes must not
depend on the data: on a GPU, and under torch.compile.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lmcells.model.gaussian import full_precision


@dataclass(frozen=True, slots=True)
class LstmWeights:
    """Weights of both directions, forward first; gates in torch's order: input, forget, cell, output."""

    input: Tensor  # (2, 4H, I)
    hidden: Tensor  # (2, 4H, H)
    bias: Tensor  # (2, 4H)


class BidirectionalLstm(nn.Module):
    """One layer, initialised as `torch.nn.LSTM`, with both directions in one tensor.

    As in torch there are two biases although only their sum matters: Adam moves the sum twice as fast as one.
    """

    def __init__(self, input_dim: int, *, hidden_dim: int) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.empty(2, 4 * hidden_dim, input_dim))
        self.hidden = nn.Parameter(torch.empty(2, 4 * hidden_dim, hidden_dim))
        self.input_bias = nn.Parameter(torch.empty(2, 4 * hidden_dim))
        self.hidden_bias = nn.Parameter(torch.empty(2, 4 * hidden_dim))
        bound = 1 / math.sqrt(hidden_dim)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: Tensor, mask: Tensor, *, constant: Tensor) -> Tensor:
        """States of both directions at each present position: (B, T, I), (B, T), (B, C) -> (B, T, 2H).

        The contract, whatever computes it:

        - the input of row b at step t is [inputs[b, t] ; constant[b]]; what is the same at all steps is projected once;
        - the result is that of an LSTM run, from zero states, over the present positions of a row alone, as if
          the absent ones had been cut out: wherever they are, what `inputs` holds there changes nothing;
        - the state at an absent position is zero, and so is the gradient of `inputs` there.
        """
        on_cpu = inputs.device.type == "cpu" and not torch.compiler.is_compiling()
        run = packed_lstm if on_cpu else aligned_lstm
        weights = LstmWeights(self.input, self.hidden, self.input_bias + self.hidden_bias)
        return run(inputs, mask, weights, constant=constant)


def aligned_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """The states by torch's own LSTM: each direction reads the present words first, the absent last."""
    batch, steps, _ = inputs.shape
    if steps == 0:
        return inputs.new_zeros(batch, 0, 2 * weights.hidden.shape[-1])
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else inputs.dtype
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    rank = (mask.cumsum(dim=1) - 1).clamp_min(0)  # (B, T), of a present position among the present
    order = torch.argsort(~mask, dim=1, stable=True)  # (B, T) positions, the present first
    slots = torch.arange(steps, device=mask.device).expand(batch, -1)
    mirrored = (lengths - 1 - slots).clamp_min(0)  # (B, T), of a slot in the other direction
    joined = torch.cat([inputs.to(dtype), constant.to(dtype).unsqueeze(1).expand(-1, steps, -1)], dim=-1)
    start = joined.new_zeros(1, batch, weights.hidden.shape[-1])
    states = []
    for direction, read in enumerate((order, order.gather(1, mirrored))):
        sequence = _rows(joined, read).transpose(0, 1)  # (T, B, I + C)
        bias = weights.bias[direction]
        given = (weights.input[direction], weights.hidden[direction], bias, torch.zeros_like(bias))
        # cuDNN copies weights that are not contiguous in memory at every call, and warns.
        flat = torch.cat([parameter.to(dtype).flatten() for parameter in given])
        pieces = flat.split_with_sizes([parameter.numel() for parameter in given])
        parameters = [piece.view_as(parameter) for piece, parameter in zip(pieces, given, strict=True)]
        output, _, _ = torch._VF.lstm(sequence, (start, start), parameters, True, 1, 0.0, True, False, False)
        slot = rank if direction == 0 else mirrored.gather(1, rank)
        states.append(_rows(output.transpose(0, 1), slot))  # (B, T, H)
    return torch.cat(states, dim=-1).masked_fill(~mask.unsqueeze(-1), 0.0)


def _rows(values: Tensor, positions: Tensor) -> Tensor:
    """(B, T, D), (B, T) -> (B, T, D)."""
    return values.gather(1, positions.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def packed_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """The states on the CPU: work only where a word is present, in the precision of the weights.

    Rows are sorted by length and their present positions packed step by step, so that step t is a block of the
    rows longer than t: no masks, no padding. Both directions run together, and what a step needs (gathered inputs,
    gates, gradients) stays in the cache; only activations and states are kept for the hand-written backward pass.
    """
    (batch, steps, width), dtype = inputs.shape, weights.hidden.dtype
    packing = _pack(mask)
    with full_precision(inputs):
        constant = constant.to(dtype).index_select(0, packing.row_order).expand(2, -1, -1)  # (2, B, C)
        of_constant = weights.input[:, :, width:].transpose(1, 2)  # (2, C, 4H)
        shared = torch.baddbmm(weights.bias.unsqueeze(1), constant, of_constant)  # (2, B, 4H)
        states: Tensor = _PackedLstm.apply(  # type: ignore[no-untyped-call]
            inputs.to(dtype).flatten(0, 1), shared, weights.input[:, :, :width], weights.hidden, packing
        )
        return states.view(batch, steps, 2 * weights.hidden.shape[-1])


@dataclass(frozen=True, slots=True)
class _Packing:
    """Where the present positions of (B, T) rows go when rows are packed step by step.

    A step has a slot for each row that is long enough, longest first: once read from the left, once from the right.
    """

    row_order: Tensor  # (B,) rows, longest first
    positions: Tensor  # (2N,) flat position b * T + t of each slot
    slots: Tensor  # (B * T * 2,) the slot of each position and direction; 2N where it is absent
    blocks: list[tuple[slice, int]]  # each step's slots, and the number of its rows


def _pack(mask: Tensor) -> _Packing:
    batch, steps = mask.shape
    lengths = mask.sum(dim=1)  # (B,)
    row_order = torch.argsort(lengths, descending=True, stable=True)
    rank_of = torch.empty_like(row_order)
    rank_of[row_order] = torch.arange(batch, device=mask.device)
    going = (lengths > torch.arange(steps, device=mask.device).unsqueeze(1)).sum(dim=1)  # (T,)
    offsets = 2 * (going.cumsum(0) - going)

    present = mask.flatten().nonzero().squeeze(1)  # (N,)
    rows = present // max(steps, 1)
    from_left = mask.cumsum(dim=1).flatten()[present] - 1
    from_right = lengths[rows] - 1 - from_left
    left = offsets[from_left] + rank_of[rows]
    right = offsets[from_right] + going[from_right] + rank_of[rows]
    positions = torch.empty(2 * len(present), dtype=torch.int64, device=mask.device)
    positions[left], positions[right] = present, present
    slots = torch.full((batch * steps, 2), len(positions), device=mask.device)
    slots[present] = torch.stack([left, right], dim=1)
    starts = zip(offsets.tolist(), going.tolist(), strict=True)
    blocks = [(slice(start, start + 2 * n), n) for start, n in starts if n > 0]
    return _Packing(row_order, positions, slots.flatten(), blocks)


class _PackedLstm(torch.autograd.Function):
    """Inputs (B * T, I) -> states (B * T * 2, H); each row's `shared` (2, B, 4H) is added to its gates."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any, inputs: Tensor, shared: Tensor, of_input: Tensor, of_hidden: Tensor, packing: _Packing
    ) -> Tensor:
        dim, n_slots = of_hidden.shape[-1], len(packing.positions)
        activated = inputs.new_empty(n_slots, 4 * dim)
        cells, squashed = inputs.new_empty(n_slots, dim), inputs.new_empty(n_slots, dim)
        states = inputs.new_empty(n_slots + 1, dim)
        states[-1] = 0.0  # of absent positions
        of_input, of_hidden = of_input.contiguous(), of_hidden.contiguous()
        input_columns, hidden_columns = of_input.transpose(1, 2), of_hidden.transpose(1, 2)
        last_cell, last_state = cells[:0], states[:0]
        with full_precision(inputs):
            for step, (block, n) in enumerate(packing.blocks):
                summed = activated[block].view(2, n, -1)
                cell, bent, state = (values[block].view(2, n, dim) for values in (cells, squashed, states))
                words = inputs.index_select(0, packing.positions[block]).view(2, n, -1)
                torch.baddbmm(shared[:, :n], words, input_columns, out=summed)
                if step > 0:
                    summed.baddbmm_(last_state[:, :n], hidden_columns)
                summed[..., : 2 * dim].sigmoid_()
                summed[..., 2 * dim : 3 * dim].tanh_()
                summed[..., 3 * dim :].sigmoid_()
                enter, keep, candidate, leave = summed.chunk(4, dim=-1)  # (2, n, H) each
                torch.mul(enter, candidate, out=cell)
                if step > 0:
                    cell.addcmul_(keep, last_cell[:, :n])
                torch.tanh(cell, out=bent)
                torch.mul(leave, bent, out=state)
                last_cell, last_state = cell, state
        ctx.save_for_backward(inputs, of_input, of_hidden, activated, cells, squashed, states)
        ctx.packing, ctx.shape_of_shared = packing, shared.shape
        return states.index_select(0, packing.slots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        inputs, of_input, of_hidden, activated, cells, squashed, states = ctx.saved_tensors
        packing: _Packing = ctx.packing
        blocks, dim = packing.blocks, of_hidden.shape[-1]
        grad_inputs, grad_shared = torch.zeros_like(inputs), inputs.new_zeros(ctx.shape_of_shared)
        grad_of_input, grad_of_hidden = torch.zeros_like(of_input), torch.zeros_like(of_hidden)
        direction = torch.arange(2).view(2, 1)
        later = later_hidden = later_cell = None
        with full_precision(inputs):
            for step in reversed(range(len(blocks))):
                block, n = blocks[step]
                enter, keep, candidate, leave = activated[block].view(2, n, -1).chunk(4, dim=-1)
                bent, positions = squashed[block].view(2, n, dim), packing.positions[block]
                grad = inputs.new_empty(2, n, 4 * dim)
                grad_enter, grad_keep, grad_candidate, grad_leave = grad.chunk(4, dim=-1)

                slots = (2 * positions.view(2, n) + direction).flatten()
                to_hidden = grad_states.index_select(0, slots).view(2, n, dim)
                if later_hidden is not None:
                    to_hidden[:, :later].add_(later_hidden)
                torch.mul(to_hidden, bent, out=grad_leave)
                to_cell = _through_tanh(to_hidden.mul_(leave), bent)
                if later_cell is not None:
                    to_cell[:, :later].add_(later_cell)
                torch.mul(to_cell, candidate, out=grad_enter)
                torch.mul(to_cell, enter, out=grad_candidate)
                if step > 0:
                    before, n_before = blocks[step - 1]
                    torch.mul(to_cell, cells[before].view(2, n_before, dim)[:, :n], out=grad_keep)
                else:
                    grad_keep.zero_()
                _through_sigmoid_(grad[..., : 2 * dim], activated[block, : 2 * dim].view(2, n, -1))
                grad_candidate.copy_(_through_tanh(grad_candidate, candidate))
                _through_sigmoid_(grad_leave, leave)

                columns = grad.transpose(1, 2)
                grad_shared[:, :n].add_(grad)
                grad_of_input.baddbmm_(columns, inputs.index_select(0, positions).view(2, n, -1))
                grad_inputs.index_add_(0, positions, torch.bmm(grad, of_input).flatten(0, 1))
                if step > 0:
                    grad_of_hidden.baddbmm_(columns, states[before].view(2, n_before, dim)[:, :n])
                    later, later_hidden, later_cell = n, torch.bmm(grad, of_hidden), to_cell.mul_(keep)
        return grad_inputs, grad_shared, grad_of_input, grad_of_hidden, None


def _through_tanh(grad: Tensor, output: Tensor) -> Tensor:
    return torch.addcmul(grad, grad * output, output, value=-1)  # grad * (1 - output^2)


def _through_sigmoid_(grad: Tensor, output: Tensor) -> None:
    grad.mul_(torch.addcmul(output, output, output, value=-1))  # grad * output * (1 - output)

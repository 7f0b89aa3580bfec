"""A bidirectional LSTM over sequences with holes: one function, whose contract a kernel can take over."""

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.model.lstm_weights import LstmWeights
from lmcells.model.packed_recurrence import packed_lstm
from lmcells.model.precision import at_least_float32


def bidirectional_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """States of both directions at each present position: (B, T, I), (B, T) -> (B, T, 2H).

    The contract, whatever computes it:

    - the input of row b at step t is [inputs[b, t] ; constant[b]], `constant` being (B, C) and the width of
      `weights.input` I + C: what is the same at every step is projected once;
    - the result is that of an LSTM run, from zero states, over the present positions of a row alone, as if
      the absent ones had been cut out: wherever they stand, what `inputs` holds there changes nothing;
    - the state at an absent position is zero, and so is the gradient of `inputs` there.
    """
    if inputs.device.type == "cpu" and not torch.compiler.is_compiling():
        return packed_lstm(inputs, mask, weights, constant=constant)
    if inputs.device.type == "cuda" and inputs.shape[1] and not torch.compiler.is_compiling():
        return aligned_lstm(inputs, mask, weights, constant=constant)
    return carried_lstm(inputs, mask, weights, constant=constant)


def carried_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """`bidirectional_lstm` in static shapes: an absent position carries both states through unchanged."""
    (batch, steps, width), hidden_dim = inputs.shape, weights.hidden.shape[-1]
    if steps == 0:
        return inputs.new_zeros(batch, 0, 2 * hidden_dim)
    both = weights.input.flatten(0, 1)  # (2, 4H, I + C) -> (8H, I + C)
    gates = functional.linear(inputs, both[:, :width])  # (B, T, I) -> (B, T, 8H)
    gates = gates + functional.linear(constant, both[:, width:], weights.bias.flatten()).unsqueeze(1)
    gates = in_reading_order(gates.view(batch, steps, 2, -1).permute(1, 2, 0, 3))  # -> (T, 2, B, 4H)
    present = in_reading_order(torch.stack([mask.T, mask.T], dim=1)).unsqueeze(-1)  # (B, T) -> (T, 2, B, 1)

    recurrent = weights.hidden.transpose(1, 2)  # (2, H, 4H)
    hidden = gates.new_zeros(2, batch, hidden_dim)
    cell = at_least_float32(hidden)
    states = []
    for step in range(steps):
        summed = torch.baddbmm(gates[step], hidden, recurrent)  # (2, B, 4H)
        enter, keep, candidate, leave = summed.chunk(4, dim=-1)  # (2, B, H) each
        next_cell = keep.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        next_hidden = (leave.sigmoid() * next_cell.tanh()).to(gates.dtype)
        cell = torch.where(present[step], next_cell, cell)
        hidden = torch.where(present[step], next_hidden, hidden)
        states.append(hidden)
    in_place = in_reading_order(torch.stack(states))  # (T, 2, B, H)
    joined = in_place.permute(2, 0, 1, 3).flatten(2)  # -> (B, T, 2H)
    return joined.masked_fill(~mask.unsqueeze(-1), 0.0)


def aligned_lstm(inputs: Tensor, mask: Tensor, weights: LstmWeights, *, constant: Tensor) -> Tensor:
    """`bidirectional_lstm` by the library's own LSTM: each direction reads its present words first, holes last."""
    batch, steps, _ = inputs.shape
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else inputs.dtype
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    rank = (mask.cumsum(dim=1) - 1).clamp_min(0)  # (B, T), of a present position among the present
    order = torch.argsort(~mask, dim=1, stable=True)  # (B, T) positions, the present first
    slots = torch.arange(steps, device=mask.device).expand(batch, -1)
    mirrored = (lengths - 1 - slots).clamp_min(0)  # (B, T), of a slot in the other direction
    joined = torch.cat([inputs.to(dtype), constant.to(dtype).unsqueeze(1).expand(-1, steps, -1)], dim=-1)
    states = []
    for direction, read in enumerate((order, order.gather(1, mirrored))):
        sequence = _rows(joined, read).transpose(0, 1)  # (T, B, I + C)
        start = joined.new_zeros(1, batch, weights.hidden.shape[-1])
        bias = weights.bias[direction]
        given = (weights.input[direction], weights.hidden[direction], bias, torch.zeros_like(bias))
        parameters = _side_by_side([parameter.to(dtype) for parameter in given])
        output, _, _ = torch._VF.lstm(sequence, (start, start), parameters, True, 1, 0.0, True, False, False)
        place = rank if direction == 0 else mirrored.gather(1, rank)
        states.append(_rows(output.transpose(0, 1), place))  # (B, T, H)
    return torch.cat(states, dim=-1).masked_fill(~mask.unsqueeze(-1), 0.0)


def _side_by_side(parameters: list[Tensor]) -> list[Tensor]:
    """The same tensors next to each other in memory: cuDNN copies others at every call, and warns."""
    flat = torch.cat([parameter.flatten() for parameter in parameters])
    pieces = flat.split_with_sizes([parameter.numel() for parameter in parameters])
    return [piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)]


def _rows(values: Tensor, places: Tensor) -> Tensor:
    """(B, T, D), (B, T) -> (B, T, D)."""
    return values.gather(1, places.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def in_reading_order(sequence: Tensor) -> Tensor:
    """Turn the second direction round in time, (T, 2, ...) -> (T, 2, ...); it is its own inverse."""
    return torch.stack([sequence[:, 0], sequence[:, 1].flip(0)], dim=1)

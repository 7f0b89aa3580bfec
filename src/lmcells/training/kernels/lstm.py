"""The bidirectional LSTM over windows with holes: both directions in one launch, all steps in one program.

A program takes a tile of rows through time in one direction, its weights in shared memory, its states and what
the center adds to the gates in registers; of 32 rows two programs fit on a multiprocessor. Everything is
time-major, so that a step of a tile is one block of memory. Rows come longest first and without gaps: a tile
runs as long as its first row, and the states of the others stay as they are before and after their words.

Backward reads the gates that forward saved and overwrites them with their gradients, which large matrix
products then turn into the gradients of inputs and weights.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels.grouping import INTERPRETED, sigmoid, tanh

# Matrix products of bf16 operands with float32 results, and products summed over very many rows.


N_PARTS = 64  # at most, of the sum over all rows in a weight's gradient; each is a matrix product of its own


def project(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """rows weight' + bias: (N, K) bf16, (D, K), (D,) -> (N, D) float32.

    The operands are rounded, the result is not: a mean is then the same number wherever it is used, and the
    terms of a divergence cancel.
    """
    result: Tensor = _Projection.apply(rows, weight, bias)
    return result


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight, bias):
        narrow = weight.to(torch.bfloat16)
        ctx.save_for_backward(rows, narrow)
        return _product(rows, narrow.T).add_(bias)

    @staticmethod
    def backward(ctx, gradient):
        rows, narrow = ctx.saved_tensors
        narrow_gradient = gradient.to(torch.bfloat16)
        return (
            narrow_gradient @ narrow,
            product_over_rows(narrow_gradient, rows),
            gradient.sum(dim=0),
        )


def product_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """left' right in float32, the sum over all leading rows in parts, so that enough of the GPU takes part."""
    left, right = left.flatten(0, -2), right.flatten(0, -2)
    n_parts = math.gcd(N_PARTS, left.shape[0])
    left = left.unflatten(0, (n_parts, -1)).transpose(1, 2)
    return torch.bmm(left, right.unflatten(0, (n_parts, -1))).sum(dim=0, dtype=torch.float32)


def _product(left: Tensor, right: Tensor) -> Tensor:
    if left.device.type == "cuda":
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()  # where kernels are only interpreted


# The bidirectional LSTM over windows with holes: both directions in one launch, all steps in one program.
#
# A program takes a tile of rows through time in one direction, its weights in shared memory, its states and what
# the center adds to the gates in registers; of 32 rows two programs fit on a multiprocessor. Everything is
# time-major, so that a step of a tile is one block of memory. Rows come longest first and without gaps: a tile
# runs as long as its first row, and the states of the others stay as they are before and after their words.
#
# Backward reads the gates that forward saved and overwrites them with their gradients, which large matrix
# products then turn into the gradients of inputs and weights.


HIDDEN = 64
INPUT = 128  # columns of an input row, zero-padded
MAX_INPUT = 112  # columns that are read: 64 + 32 + 16, a tile's sides being powers of two
FORWARD_TILE = {"ROWS": 32, "num_warps": 4, "num_stages": 2}
BACKWARD_TILE = {"ROWS": 64, "num_warps": 4, "num_stages": 2}


def run_lstm(
    rows: Tensor, lengths: Tensor, *, weight: Tensor, center_weight: Tensor, bias: Tensor, hidden: Tensor
) -> Tensor:
    """States at each position: (T + 1, B, 128), (B,) int32 -> (T, B, 128), all bf16.

    The last of `rows` are the centers, which the gates get at every step. `weight` and `center_weight` are
    (512, 128), `bias` is (512,) and `hidden` (2, 256, 64), columns of gates being (direction, gate, unit).
    """
    states: Tensor = _Lstm.apply(rows, lengths, weight, center_weight, bias, hidden)
    return states


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, lengths, weight, center_weight, bias, hidden):
        steps, batch = rows.shape[0] - 1, rows.shape[1]
        states = rows.new_empty(steps, batch, 2 * HIDDEN)
        cells = torch.empty_like(states)
        gates = rows.new_empty(steps, batch, 8 * HIDDEN)
        constant = torch.addmm(bias, rows[steps], center_weight.T)  # (B, 512)
        grid = (triton.cdiv(batch, FORWARD_TILE["ROWS"]), 2)
        _lstm_forward[grid](
            states, cells, gates, rows, constant, lengths, weight, hidden, batch, steps,
            INTERPRETED=INTERPRETED, **FORWARD_TILE,
        )  # fmt: skip
        ctx.save_for_backward(rows, lengths, weight, center_weight, hidden, states, cells, gates)
        return states

    @staticmethod
    def backward(ctx, d_states):
        rows, lengths, weight, center_weight, hidden, states, cells, gates = ctx.saved_tensors
        steps, batch, _ = states.shape
        grid = (triton.cdiv(batch, BACKWARD_TILE["ROWS"]), 2)
        _lstm_backward[grid](
            gates, cells, d_states.contiguous(), lengths, hidden, batch,
            INTERPRETED=INTERPRETED, **BACKWARD_TILE,
        )  # fmt: skip
        d_constant = rows.new_empty(batch, 8 * HIDDEN)
        _sum_over_time[(triton.cdiv(batch, 4),)](d_constant, gates, lengths, batch, ROWS=4, num_warps=4)
        d_rows = torch.empty_like(rows)
        torch.mm(gates.view(-1, 8 * HIDDEN), weight, out=d_rows[:steps].view(-1, INPUT))
        torch.mm(d_constant, center_weight, out=d_rows[steps])
        first, second = gates[..., : 4 * HIDDEN], gates[..., 4 * HIDDEN :]
        d_hidden = torch.stack(
            [  # each gate saw the state before it in its own reading order
                product_over_rows(first[1:], states[:-1, :, :HIDDEN]),
                product_over_rows(second[:-1], states[1:, :, HIDDEN:]),
            ]
        )
        return (
            d_rows,
            None,
            product_over_rows(gates, rows[:steps]),  # (512, 128)
            product_over_rows(d_constant, rows[steps]),
            d_constant.sum(dim=0, dtype=torch.float32),
            d_hidden,
        )


@triton.jit
def _lstm_forward(
    states, cells, gates, inputs, constant, lengths, weight, hidden_weight, batch, steps,
    INTERPRETED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    unit = tl.arange(0, 64)
    of_hidden = hidden_weight + direction * 256 * 64 + unit[None, :] * 64 + unit[:, None]  # (64, 64)
    wide, narrow, rest = tl.arange(0, 64), 64 + tl.arange(0, 32), 96 + tl.arange(0, 16)  # input columns
    of_input = weight + direction * 256 * 128 + unit[None, :] * 128
    wide_i = tl.load(of_input + 0 * 128 + wide[:, None])
    narrow_i = tl.load(of_input + 0 * 128 + narrow[:, None])
    rest_i = tl.load(of_input + 0 * 128 + rest[:, None])
    wide_f = tl.load(of_input + 64 * 128 + wide[:, None])
    narrow_f = tl.load(of_input + 64 * 128 + narrow[:, None])
    rest_f = tl.load(of_input + 64 * 128 + rest[:, None])
    wide_g = tl.load(of_input + 128 * 128 + wide[:, None])
    narrow_g = tl.load(of_input + 128 * 128 + narrow[:, None])
    rest_g = tl.load(of_input + 128 * 128 + rest[:, None])
    wide_o = tl.load(of_input + 192 * 128 + wide[:, None])
    narrow_o = tl.load(of_input + 192 * 128 + narrow[:, None])
    rest_o = tl.load(of_input + 192 * 128 + rest[:, None])
    hidden_i = tl.load(of_hidden)
    hidden_f = tl.load(of_hidden + 64 * 64)
    hidden_g = tl.load(of_hidden + 128 * 64)
    hidden_o = tl.load(of_hidden + 192 * 64)
    of_constant = constant + row[:, None] * 512 + direction * 256 + unit[None, :]
    constant_i = tl.load(of_constant, mask=inside[:, None], other=0.0).to(tl.float32)
    constant_f = tl.load(of_constant + 64, mask=inside[:, None], other=0.0).to(tl.float32)
    constant_g = tl.load(of_constant + 128, mask=inside[:, None], other=0.0).to(tl.float32)
    constant_o = tl.load(of_constant + 192, mask=inside[:, None], other=0.0).to(tl.float32)

    hidden = tl.zeros((ROWS, 64), tl.bfloat16)
    cell = tl.zeros((ROWS, 64), tl.float32)
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    for step in range(longest):
        time = tl.where(direction == 0, step, longest - 1 - step)
        place = time * batch + row  # (ROWS,)
        there = time < length
        of_place = inputs + place[:, None] * 128
        x_wide = tl.load(of_place + wide[None, :], mask=inside[:, None], other=0.0)
        x_narrow = tl.load(of_place + narrow[None, :], mask=inside[:, None], other=0.0)
        x_rest = tl.load(of_place + rest[None, :], mask=inside[:, None], other=0.0)
        gate_i = tl.dot(x_wide, wide_i, constant_i)
        gate_i = tl.dot(x_narrow, narrow_i, gate_i)
        gate_i = tl.dot(x_rest, rest_i, gate_i)
        gate_i = tl.dot(hidden, hidden_i, gate_i)
        gate_f = tl.dot(x_wide, wide_f, constant_f)
        gate_f = tl.dot(x_narrow, narrow_f, gate_f)
        gate_f = tl.dot(x_rest, rest_f, gate_f)
        gate_f = tl.dot(hidden, hidden_f, gate_f)
        gate_g = tl.dot(x_wide, wide_g, constant_g)
        gate_g = tl.dot(x_narrow, narrow_g, gate_g)
        gate_g = tl.dot(x_rest, rest_g, gate_g)
        gate_g = tl.dot(hidden, hidden_g, gate_g)
        gate_o = tl.dot(x_wide, wide_o, constant_o)
        gate_o = tl.dot(x_narrow, narrow_o, gate_o)
        gate_o = tl.dot(x_rest, rest_o, gate_o)
        gate_o = tl.dot(hidden, hidden_o, gate_o)
        gate_i = sigmoid(gate_i, INTERPRETED)
        gate_f = sigmoid(gate_f, INTERPRETED)
        gate_g = tanh(gate_g, INTERPRETED)
        gate_o = sigmoid(gate_o, INTERPRETED)
        cell = tl.where(there[:, None], gate_f * cell + gate_i * gate_g, cell)
        hidden = tl.where(there[:, None], (gate_o * tanh(cell, INTERPRETED)).to(tl.bfloat16), hidden)

        to_states = place[:, None] * 128 + direction * 64 + unit[None, :]
        tl.store(states + to_states, hidden, mask=inside[:, None])
        tl.store(cells + to_states, cell.to(tl.bfloat16), mask=inside[:, None])
        to_gates = gates + place[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        tl.store(to_gates, gate_i.to(tl.bfloat16), mask=inside[:, None])
        tl.store(to_gates + 64, gate_f.to(tl.bfloat16), mask=inside[:, None])
        tl.store(to_gates + 128, gate_g.to(tl.bfloat16), mask=inside[:, None])
        tl.store(to_gates + 192, gate_o.to(tl.bfloat16), mask=inside[:, None])
    # The products over all places read what lies beyond the longest row too: it must be zero.
    nothing = tl.zeros((ROWS, 64), tl.bfloat16)
    for time in range(longest, steps):
        place = time * batch + row
        tl.store(
            states + place[:, None] * 128 + direction * 64 + unit[None, :], nothing, mask=inside[:, None]
        )
        to_gates = gates + place[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        tl.store(to_gates, nothing, mask=inside[:, None])
        tl.store(to_gates + 64, nothing, mask=inside[:, None])
        tl.store(to_gates + 128, nothing, mask=inside[:, None])
        tl.store(to_gates + 192, nothing, mask=inside[:, None])


@triton.jit
def _lstm_backward(
    gates, cells, d_states, lengths, hidden_weight, batch,
    INTERPRETED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    mask = inside[:, None]
    unit = tl.arange(0, 64)
    of_hidden = hidden_weight + direction * 256 * 64 + unit[:, None] * 64 + unit[None, :]  # (64, 64)
    hidden_i = tl.load(of_hidden)
    hidden_f = tl.load(of_hidden + 64 * 64)
    hidden_g = tl.load(of_hidden + 128 * 64)
    hidden_o = tl.load(of_hidden + 192 * 64)

    d_hidden = tl.zeros((ROWS, 64), tl.float32)
    d_cell = tl.zeros((ROWS, 64), tl.float32)
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    for back in range(longest):
        time = tl.where(direction == 0, longest - 1 - back, back)
        before = tl.where(direction == 0, time - 1, time + 1)
        place = time * batch + row
        there = (time < length)[:, None]
        began = ((before >= 0) & (before < length))[:, None]
        at = place[:, None] * 128 + direction * 64 + unit[None, :]
        at_before = (before * batch + row)[:, None] * 128 + direction * 64 + unit[None, :]
        squashed = tanh(tl.load(cells + at, mask=there, other=0.0).to(tl.float32), INTERPRETED)
        cell_before = tl.load(cells + at_before, mask=began, other=0.0).to(tl.float32)
        d_hidden += tl.load(d_states + at, mask=there, other=0.0).to(tl.float32)
        at_gates = gates + place[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        gate_i = tl.load(at_gates, mask=mask, other=0.0).to(tl.float32)
        gate_f = tl.load(at_gates + 64, mask=mask, other=0.0).to(tl.float32)
        gate_g = tl.load(at_gates + 128, mask=mask, other=0.0).to(tl.float32)
        gate_o = tl.load(at_gates + 192, mask=mask, other=0.0).to(tl.float32)

        total = d_cell + d_hidden * gate_o * (1 - squashed * squashed)
        d_i = tl.where(there, total * gate_g * gate_i * (1 - gate_i), 0.0).to(tl.bfloat16)
        d_f = tl.where(there, total * cell_before * gate_f * (1 - gate_f), 0.0).to(tl.bfloat16)
        d_g = tl.where(there, total * gate_i * (1 - gate_g * gate_g), 0.0).to(tl.bfloat16)
        d_o = tl.where(there, d_hidden * squashed * gate_o * (1 - gate_o), 0.0).to(tl.bfloat16)
        d_cell = tl.where(there, total * gate_f, d_cell)
        tl.store(at_gates, d_i, mask=mask)
        tl.store(at_gates + 64, d_f, mask=mask)
        tl.store(at_gates + 128, d_g, mask=mask)
        tl.store(at_gates + 192, d_o, mask=mask)
        d_before = tl.dot(d_i, hidden_i)
        d_before = tl.dot(d_f, hidden_f, d_before)
        d_before = tl.dot(d_g, hidden_g, d_before)
        d_before = tl.dot(d_o, hidden_o, d_before)
        d_hidden = tl.where(there, d_before, d_hidden)


@triton.jit
def _sum_over_time(total, gates, lengths, batch, ROWS: tl.constexpr):
    """What the centers get back: (T, B, 512) -> (B, 512), no further than each tile's words go."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row < batch)[:, None]
    at = row[:, None].to(tl.int64) * 512 + tl.arange(0, 512)[None, :]
    added = tl.zeros((ROWS, 512), tl.float32)
    step = gates + at
    for _ in range(tl.load(lengths + tl.program_id(0) * ROWS)):
        added += tl.load(step, mask=inside, other=0.0).to(tl.float32)
        step += batch * 512
    tl.store(total + at, added.to(tl.bfloat16), mask=inside)

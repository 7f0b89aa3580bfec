"""The bidirectional LSTM over windows: both directions in one launch, all steps in one program.

A program takes a tile of rows through time in one direction, with the weights in shared memory, the states and the
center's part of the gates in registers; with 32 rows two programs fit on a multiprocessor. Everything is time-major, so
that a step of a tile is one block of memory. Rows are sorted longest first, without their absent positions: a tile runs
as long as its first row, and the states of shorter rows stay unchanged beyond their end.

Backward overwrites the gates that forward saved with their gradients, which large matrix products turn into the
gradients of inputs and weights.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels import METADATA, WEIGHTS, beside, on_branch
from lmcells.training.kernels.operands import HIDDEN, INTERPRETED, WIDTH, exact_tanh, product_over_rows

MAX_INPUT = 112  # columns of an input that are read: 64 + 32 + 16, a tile's sides being powers of two
ROWS = 32  # per program
PREPARED_ROWS = 8


def run_lstm(
    rows: Tensor, lengths: Tensor, weight: Tensor, hidden: Tensor, biases: Sequence[Tensor]
) -> Tensor:
    """States at each position: (T + 1, B, 128) narrow, (B,) int32 -> (T, B, 128) narrow.

    The last of `rows` are the centers, which are added to the gates at every step. `weight` (2, 256, 2E) reads a word
    and then the center, `hidden` is (2, 256, 64) and each bias (2, 256); the gates' columns are ordered
    (direction, gate, unit).
    """
    weight, *biases = on_branch(WEIGHTS, weight, *biases)
    (hidden,) = on_branch(METADATA, hidden)
    states: Tensor = _Lstm.apply(rows, lengths, weight, hidden, *biases)
    return states


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, lengths, weight, hidden, input_bias, hidden_bias):
        steps, batch = rows.shape[0] - 1, rows.shape[1]
        width = weight.shape[2] // 2
        weights = rows.new_empty(2, 8 * HIDDEN, WIDTH)  # of words, of the center
        of_hidden, bias = torch.empty_like(hidden, dtype=rows.dtype), rows.new_empty(8 * HIDDEN)
        _prepare[(triton.cdiv(8 * HIDDEN, PREPARED_ROWS),)](
            weights, of_hidden, bias, weight, hidden, input_bias, hidden_bias, width=width, num_warps=4
        )
        states = rows.new_empty(steps, batch, 2 * HIDDEN)
        cells = torch.empty_like(states)
        gates = rows.new_empty(steps, batch, 8 * HIDDEN)
        constant = torch.addmm(bias, rows[steps], weights[1].T)  # (B, 512)
        _lstm_forward[(triton.cdiv(batch, ROWS), 2)](
            states, cells, gates, rows, constant, lengths, weights, of_hidden, batch, steps,
            INTERPRETED=INTERPRETED, num_warps=4, num_stages=2,
        )  # fmt: skip
        ctx.save_for_backward(rows, lengths, weights, of_hidden, states, cells, gates)
        ctx.width = width
        return states

    @staticmethod
    def backward(ctx, d_states):
        rows, lengths, weights, hidden, states, cells, gates = ctx.saved_tensors
        steps, batch, _ = states.shape
        d_constant = rows.new_empty(batch, 8 * HIDDEN)
        _lstm_backward[(triton.cdiv(batch, ROWS), 2)](
            gates, d_constant, cells, d_states.contiguous(), lengths, hidden, batch,
            INTERPRETED=INTERPRETED, num_warps=4, num_stages=2,
        )  # fmt: skip
        with beside(WEIGHTS, gates, rows, states, d_constant):
            d_weights = [product_over_rows(gates, rows[:steps]), product_over_rows(d_constant, rows[steps])]
            d_weight = torch.cat([each[:, : ctx.width] for each in d_weights], dim=1)  # (512, 2E)
            d_bias = d_constant.sum(dim=0, dtype=torch.float32).view(2, -1)
        with beside(METADATA, gates, states):
            first, second = gates[..., : 4 * HIDDEN], gates[..., 4 * HIDDEN :]
            d_hidden = [  # each gate saw the state before it in its own reading order
                product_over_rows(first[1:], states[:-1, :, :HIDDEN]),
                product_over_rows(second[:-1], states[1:, :, HIDDEN:]),
            ]
            d_hidden = torch.stack(d_hidden)
        d_rows = torch.empty_like(rows)
        torch.mm(gates.view(-1, 8 * HIDDEN), weights[0], out=d_rows[:steps].view(-1, WIDTH))
        torch.mm(d_constant, weights[1], out=d_rows[steps])
        return d_rows, None, d_weight.view(2, 4 * HIDDEN, -1), d_hidden, d_bias, d_bias


@triton.jit
def _prepare(
    weights, of_hidden, bias, weight, hidden, input_bias, hidden_bias, width: tl.constexpr,
    ROWS: tl.constexpr = PREPARED_ROWS, WIDTH: tl.constexpr = WIDTH, HIDDEN: tl.constexpr = HIDDEN,
):  # fmt: skip
    """Narrow weights of words and of centers, padded to 128 columns, of the states, and the sum of the biases."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    unit = tl.arange(0, HIDDEN)
    at = weight + row[:, None] * (2 * width) + column[None, :]
    used = (column < width)[None, :]
    to = weights + row[:, None] * WIDTH + column[None, :]
    tl.store(to, tl.load(at, mask=used, other=0.0))
    tl.store(to + 8 * HIDDEN * WIDTH, tl.load(at + width, mask=used, other=0.0))
    at = row[:, None] * HIDDEN + unit[None, :]
    tl.store(of_hidden + at, tl.load(hidden + at))
    tl.store(bias + row, tl.load(input_bias + row) + tl.load(hidden_bias + row))


@triton.jit
def _tanh(x, INTERPRETED: tl.constexpr):
    """One instruction, exact to 2^-11: better than the bf16 around it."""
    if INTERPRETED:
        result = exact_tanh(x)
    else:
        result = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@triton.jit
def _sigmoid(x, INTERPRETED: tl.constexpr):
    return 0.5 * _tanh(0.5 * x, INTERPRETED) + 0.5


@triton.jit
def _input_weight(at, wide, narrow, rest):
    """The weight of one gate, (112, 64) in three pieces."""
    return tl.load(at + wide[:, None]), tl.load(at + narrow[:, None]), tl.load(at + rest[:, None])


@triton.jit
def _hidden_weights(at):
    """The weights of the four gates, (64, 64) each."""
    return tl.load(at), tl.load(at + 64 * 64), tl.load(at + 128 * 64), tl.load(at + 192 * 64)


@triton.jit
def _load_gates(at, mask):
    """Input, forget, cell and output gates in float32, (ROWS, 64) each."""
    gate_i = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    gate_f = tl.load(at + 64, mask=mask, other=0.0).to(tl.float32)
    gate_g = tl.load(at + 128, mask=mask, other=0.0).to(tl.float32)
    gate_o = tl.load(at + 192, mask=mask, other=0.0).to(tl.float32)
    return gate_i, gate_f, gate_g, gate_o


@triton.jit
def _store_gates(at, gate_i, gate_f, gate_g, gate_o, mask):
    tl.store(at, gate_i, mask=mask)
    tl.store(at + 64, gate_f, mask=mask)
    tl.store(at + 128, gate_g, mask=mask)
    tl.store(at + 192, gate_o, mask=mask)


@triton.jit
def _gate(x_wide, x_narrow, x_rest, hidden, wide, narrow, rest, of_hidden, constant):
    gate = tl.dot(x_wide, wide, constant)
    gate = tl.dot(x_narrow, narrow, gate)
    gate = tl.dot(x_rest, rest, gate)
    return tl.dot(hidden, of_hidden, gate)


@triton.jit
def _lstm_forward(
    states, cells, gates, inputs, constant, lengths, weight, hidden_weight, batch, steps,
    INTERPRETED: tl.constexpr, ROWS: tl.constexpr = ROWS,
):  # fmt: skip
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    mask = (row < batch)[:, None]
    unit = tl.arange(0, 64)
    of_hidden = hidden_weight + direction * 256 * 64 + unit[None, :] * 64 + unit[:, None]  # (64, 64)
    wide, narrow, rest = tl.arange(0, 64), 64 + tl.arange(0, 32), 96 + tl.arange(0, 16)  # input columns
    of_input = weight + direction * 256 * 128 + unit[None, :] * 128
    wide_i, narrow_i, rest_i = _input_weight(of_input, wide, narrow, rest)
    wide_f, narrow_f, rest_f = _input_weight(of_input + 64 * 128, wide, narrow, rest)
    wide_g, narrow_g, rest_g = _input_weight(of_input + 128 * 128, wide, narrow, rest)
    wide_o, narrow_o, rest_o = _input_weight(of_input + 192 * 128, wide, narrow, rest)
    hidden_i, hidden_f, hidden_g, hidden_o = _hidden_weights(of_hidden)
    of_constant = constant + row[:, None] * 512 + direction * 256 + unit[None, :]
    constant_i, constant_f, constant_g, constant_o = _load_gates(of_constant, mask)

    hidden = tl.zeros((ROWS, 64), states.dtype.element_ty)
    cell = tl.zeros((ROWS, 64), tl.float32)
    length = tl.load(lengths + row, mask=row < batch, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    for step in range(longest):
        time = tl.where(direction == 0, step, longest - 1 - step)
        position = time * batch + row  # (ROWS,)
        there = (time < length)[:, None]
        of_position = inputs + position[:, None] * 128
        x_wide = tl.load(of_position + wide[None, :], mask=mask, other=0.0)
        x_narrow = tl.load(of_position + narrow[None, :], mask=mask, other=0.0)
        x_rest = tl.load(of_position + rest[None, :], mask=mask, other=0.0)
        gate_i = _gate(x_wide, x_narrow, x_rest, hidden, wide_i, narrow_i, rest_i, hidden_i, constant_i)
        gate_f = _gate(x_wide, x_narrow, x_rest, hidden, wide_f, narrow_f, rest_f, hidden_f, constant_f)
        gate_g = _gate(x_wide, x_narrow, x_rest, hidden, wide_g, narrow_g, rest_g, hidden_g, constant_g)
        gate_o = _gate(x_wide, x_narrow, x_rest, hidden, wide_o, narrow_o, rest_o, hidden_o, constant_o)
        gate_i = _sigmoid(gate_i, INTERPRETED)
        gate_f = _sigmoid(gate_f, INTERPRETED)
        gate_g = _tanh(gate_g, INTERPRETED)
        gate_o = _sigmoid(gate_o, INTERPRETED)
        cell = tl.where(there, gate_f * cell + gate_i * gate_g, cell)
        hidden = tl.where(there, (gate_o * _tanh(cell, INTERPRETED)).to(hidden.dtype), hidden)

        to_states = position[:, None] * 128 + direction * 64 + unit[None, :]
        tl.store(states + to_states, hidden, mask=mask)
        tl.store(cells + to_states, cell, mask=mask)
        to_gates = gates + position[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        _store_gates(to_gates, gate_i, gate_f, gate_g, gate_o, mask)
    # The matrix products also read positions beyond the longest row, which must be zero.
    nothing = tl.zeros((ROWS, 64), states.dtype.element_ty)
    for time in range(longest, steps):
        position = time * batch + row
        tl.store(states + position[:, None] * 128 + direction * 64 + unit[None, :], nothing, mask=mask)
        to_gates = gates + position[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        _store_gates(to_gates, nothing, nothing, nothing, nothing, mask)


@triton.jit
def _lstm_backward(
    gates, d_constant, cells, d_states, lengths, hidden_weight, batch,
    INTERPRETED: tl.constexpr, ROWS: tl.constexpr = ROWS,
):  # fmt: skip
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    mask = (row < batch)[:, None]
    unit = tl.arange(0, 64)
    of_hidden = hidden_weight + direction * 256 * 64 + unit[:, None] * 64 + unit[None, :]  # (64, 64)
    hidden_i, hidden_f, hidden_g, hidden_o = _hidden_weights(of_hidden)

    d_hidden = tl.zeros((ROWS, 64), tl.float32)
    d_cell = tl.zeros((ROWS, 64), tl.float32)
    sum_i = tl.zeros((ROWS, 64), tl.float32)  # over time: the gradient of the constant
    sum_f = tl.zeros((ROWS, 64), tl.float32)
    sum_g = tl.zeros((ROWS, 64), tl.float32)
    sum_o = tl.zeros((ROWS, 64), tl.float32)
    length = tl.load(lengths + row, mask=row < batch, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    for back in range(longest):
        time = tl.where(direction == 0, longest - 1 - back, back)
        before = tl.where(direction == 0, time - 1, time + 1) + tl.zeros((ROWS,), tl.int32)
        position = time * batch + row
        there = (time < length)[:, None]
        began = ((before >= 0) & (before < length))[:, None]
        at = position[:, None] * 128 + direction * 64 + unit[None, :]
        at_before = (before * batch + row)[:, None] * 128 + direction * 64 + unit[None, :]
        squashed = _tanh(tl.load(cells + at, mask=there, other=0.0).to(tl.float32), INTERPRETED)
        cell_before = tl.load(cells + at_before, mask=began, other=0.0).to(tl.float32)
        d_hidden += tl.load(d_states + at, mask=there, other=0.0).to(tl.float32)
        at_gates = gates + position[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
        gate_i, gate_f, gate_g, gate_o = _load_gates(at_gates, mask)

        total = d_cell + d_hidden * gate_o * (1 - squashed * squashed)
        d_i = tl.where(there, total * gate_g * gate_i * (1 - gate_i), 0.0).to(hidden_i.dtype)
        d_f = tl.where(there, total * cell_before * gate_f * (1 - gate_f), 0.0).to(hidden_i.dtype)
        d_g = tl.where(there, total * gate_i * (1 - gate_g * gate_g), 0.0).to(hidden_i.dtype)
        d_o = tl.where(there, d_hidden * squashed * gate_o * (1 - gate_o), 0.0).to(hidden_i.dtype)
        d_cell = tl.where(there, total * gate_f, d_cell)
        sum_i += d_i.to(tl.float32)
        sum_f += d_f.to(tl.float32)
        sum_g += d_g.to(tl.float32)
        sum_o += d_o.to(tl.float32)
        _store_gates(at_gates, d_i, d_f, d_g, d_o, mask)
        d_before = tl.dot(d_i, hidden_i)
        d_before = tl.dot(d_f, hidden_f, d_before)
        d_before = tl.dot(d_g, hidden_g, d_before)
        d_before = tl.dot(d_o, hidden_o, d_before)
        d_hidden = tl.where(there, d_before, d_hidden)
    to_constant = d_constant + row[:, None].to(tl.int64) * 512 + direction * 256 + unit[None, :]
    _store_gates(to_constant, sum_i, sum_f, sum_g, sum_o, mask)

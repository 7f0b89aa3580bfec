"""Attention over the states, queried by the metadata, and the gate that mixes both: one pass over the states each way.

The formulas are those of `lmcells.model.networks`; the rows of a tile stay in registers from the first score
to h_joint, and in backward from the gradient of h_joint to those of the states.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.training.kernels import WEIGHTS, beside, on_branch
from lmcells.training.kernels.operands import (
    NARROW,
    WIDTH,
    Dropout,
    exact_tanh,
    kept,
    seed_and_constants,
    tile_of_program,
)

ROWS = 8  # per program


def attend_and_mix(
    states: Tensor,
    section: Tensor,
    *,
    lengths: Tensor,
    has_metadata: Tensor,
    gate: tuple[Tensor, ...],
    dropout: Dropout | None,
) -> Tensor:
    """h_joint, dropped out: (T, B, 128) narrow, E_m (B, 128) float32, (B,), (B,) -> (B, 128) narrow.

    `lengths` is the number of states of each row, descending; those beyond are not read, and their gradients not
    written. `gate` is the weight (2, 256) and bias (2,) of the scores of the metadata and of the context.
    """
    gate = on_branch(WEIGHTS, *gate)
    joint: Tensor = _AttendAndMix.apply(states, section, lengths, has_metadata, *gate, dropout)
    return joint


class _AttendAndMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, section, lengths, has_metadata, gate_weight, gate_bias, dropout):
        batch = section.shape[0]
        joint = torch.empty_like(section, dtype=NARROW)
        summary = torch.empty_like(section)
        normaliser = section.new_empty(batch)
        scores = section.new_empty(2, batch)
        seed, constants = seed_and_constants(dropout, unread=lengths)
        constants["scale"] = 1 / math.sqrt(WIDTH)
        _attention_forward[(triton.cdiv(batch, ROWS),)](
            joint, summary, normaliser, scores, states, section, lengths, has_metadata, gate_weight, gate_bias,
            seed, batch, **constants, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(
            states, section, lengths, has_metadata, gate_weight, summary, normaliser, scores, seed
        )
        ctx.constants = constants
        return joint

    @staticmethod
    def backward(ctx, d_joint):
        states, section, *others = ctx.saved_tensors
        batch = section.shape[0]
        n_programs = triton.cdiv(batch, ROWS)
        d_states, d_section = torch.empty_like(states), torch.empty_like(section)
        d_weight, d_bias = section.new_empty(n_programs, 2, 2 * WIDTH), section.new_empty(n_programs, 2)
        _attention_backward[(n_programs,)](
            d_states, d_section, d_weight, d_bias, d_joint.contiguous(), states, section, *others, batch,
            **ctx.constants, num_warps=2,
        )  # fmt: skip
        with beside(WEIGHTS, d_weight, d_bias):
            d_weight, d_bias = d_weight.sum(dim=0), d_bias.sum(dim=0)
        return d_states, d_section, None, None, d_weight, d_bias, None


@triton.jit
def _attention_forward(
    joint, summary, normaliser, scores, states, section, lengths, has_metadata, gate_weight, gate_bias,
    seed_of_step, batch, scale, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr = ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    metadata = tl.load(section + tile, mask=inside[:, None], other=0.0)
    query = metadata * scale
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    highest = tl.full((ROWS,), -1e30, tl.float32)
    weight_sum = tl.zeros((ROWS,), tl.float32)
    weighted = tl.zeros((ROWS, WIDTH), tl.float32)
    for time in tl.range(longest, num_stages=3):  # loads the states of the next steps meanwhile
        there = time < length
        state = tl.load(states + time * batch * WIDTH + tile, mask=there[:, None], other=0.0).to(tl.float32)
        score = tl.where(there, tl.sum(query * state, axis=1), -1e30)
        higher = tl.maximum(highest, score)
        rescale = tl.exp(highest - higher)
        weight = tl.where(there, tl.exp(score - higher), 0.0)
        weight_sum = weight_sum * rescale + weight
        weighted = weighted * rescale[:, None] + weight[:, None] * state
        highest = higher
    anything = weight_sum > 0
    safe = tl.where(anything, weight_sum, 1.0)
    mean = weighted / safe[:, None]
    tl.store(summary + tile, mean, mask=inside[:, None])
    tl.store(normaliser + row, tl.where(anything, highest + tl.log(safe), 0.0), mask=inside)

    section_input, mean_input = metadata, mean
    if THRESHOLD > 0:
        seed = tl.load(seed_of_step)
        at = row[:, None] * (3 * WIDTH) + column[None, :]
        section_input = tl.where(kept(at, seed, THRESHOLD), metadata * SCALE, 0.0)
        mean_input = tl.where(kept(at + WIDTH, seed, THRESHOLD), mean * SCALE, 0.0)
    for_metadata = tl.sum(section_input * tl.load(gate_weight + column)[None, :], axis=1)
    for_metadata += tl.sum(mean_input * tl.load(gate_weight + WIDTH + column)[None, :], axis=1)
    for_context = tl.sum(section_input * tl.load(gate_weight + 2 * WIDTH + column)[None, :], axis=1)
    for_context += tl.sum(mean_input * tl.load(gate_weight + 3 * WIDTH + column)[None, :], axis=1)
    for_metadata = exact_tanh(for_metadata + tl.load(gate_bias))
    for_context = exact_tanh(for_context + tl.load(gate_bias + 1))
    tl.store(scores + row, for_metadata, mask=inside)
    tl.store(scores + batch + row, for_context, mask=inside)
    known = tl.load(has_metadata + row, mask=inside, other=0) != 0
    share = tl.where(known, tl.sigmoid(for_metadata - for_context), 0.0)
    mixed = mean + share[:, None] * (metadata - mean)
    if THRESHOLD > 0:
        mixed = tl.where(kept(at + 2 * WIDTH, seed, THRESHOLD), mixed * SCALE, 0.0)
    tl.store(joint + tile, mixed, mask=inside[:, None])


@triton.jit
def _attention_backward(
    d_states, d_section, d_weight, d_bias, d_joint, states, section, lengths, has_metadata, gate_weight, summary,
    normaliser, scores, seed_of_step, batch, scale, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr = ROWS, WIDTH: tl.constexpr = WIDTH,
):  # fmt: skip
    program = tl.program_id(0)
    row, inside, column, tile = tile_of_program(batch, ROWS, WIDTH)
    metadata = tl.load(section + tile, mask=inside[:, None], other=0.0)
    mean = tl.load(summary + tile, mask=inside[:, None], other=0.0)
    d_mixed = tl.load(d_joint + tile, mask=inside[:, None], other=0.0).to(tl.float32)
    section_input, mean_input = metadata, mean
    if THRESHOLD > 0:
        seed = tl.load(seed_of_step)
        at = row[:, None] * (3 * WIDTH) + column[None, :]
        section_kept = kept(at, seed, THRESHOLD)
        mean_kept = kept(at + WIDTH, seed, THRESHOLD)
        section_input = tl.where(section_kept, metadata * SCALE, 0.0)
        mean_input = tl.where(mean_kept, mean * SCALE, 0.0)
        d_mixed = tl.where(kept(at + 2 * WIDTH, seed, THRESHOLD), d_mixed * SCALE, 0.0)
    for_metadata = tl.load(scores + row, mask=inside, other=0.0)
    for_context = tl.load(scores + batch + row, mask=inside, other=0.0)
    known = (tl.load(has_metadata + row, mask=inside, other=0) != 0) & inside
    share = tl.where(known, tl.sigmoid(for_metadata - for_context), 0.0)
    d_share = tl.sum(d_mixed * (metadata - mean), axis=1) * share * (1 - share)  # zero where unknown
    d_for_metadata = d_share * (1 - for_metadata * for_metadata)
    d_for_context = -d_share * (1 - for_context * for_context)
    to_weight = d_weight + program * 4 * WIDTH + column
    tl.store(to_weight, tl.sum(d_for_metadata[:, None] * section_input, axis=0))
    tl.store(to_weight + WIDTH, tl.sum(d_for_metadata[:, None] * mean_input, axis=0))
    tl.store(to_weight + 2 * WIDTH, tl.sum(d_for_context[:, None] * section_input, axis=0))
    tl.store(to_weight + 3 * WIDTH, tl.sum(d_for_context[:, None] * mean_input, axis=0))
    tl.store(d_bias + program * 2, tl.sum(d_for_metadata, axis=0))
    tl.store(d_bias + program * 2 + 1, tl.sum(d_for_context, axis=0))
    d_section_input = d_for_metadata[:, None] * tl.load(gate_weight + column)[None, :]
    d_section_input += d_for_context[:, None] * tl.load(gate_weight + 2 * WIDTH + column)[None, :]
    d_mean_input = d_for_metadata[:, None] * tl.load(gate_weight + WIDTH + column)[None, :]
    d_mean_input += d_for_context[:, None] * tl.load(gate_weight + 3 * WIDTH + column)[None, :]
    if THRESHOLD > 0:
        d_section_input = tl.where(section_kept, d_section_input * SCALE, 0.0)
        d_mean_input = tl.where(mean_kept, d_mean_input * SCALE, 0.0)
    d_metadata = share[:, None] * d_mixed + d_section_input
    d_mean = (1 - share)[:, None] * d_mixed + d_mean_input

    query = metadata * scale
    d_mean_dot_mean = tl.sum(d_mean * mean, axis=1)
    log_sum = tl.load(normaliser + row, mask=inside, other=0.0)
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + program * ROWS)
    d_query = tl.zeros((ROWS, WIDTH), tl.float32)
    for time in tl.range(longest, num_stages=3):  # loads the states of the next steps meanwhile
        there = time < length
        at_time = time * batch * WIDTH + tile
        state = tl.load(states + at_time, mask=there[:, None], other=0.0).to(tl.float32)
        score = tl.sum(query * state, axis=1)
        weight = tl.where(there, tl.exp(score - log_sum), 0.0)
        d_score = weight * (tl.sum(d_mean * state, axis=1) - d_mean_dot_mean)
        d_query += d_score[:, None] * state
        d_state = weight[:, None] * d_mean + d_score[:, None] * query
        tl.store(d_states + at_time, d_state, mask=there[:, None])
    tl.store(d_section + tile, d_metadata + d_query * scale, mask=inside[:, None])

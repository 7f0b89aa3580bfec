"""Attention of the metadata over the states, and the gate that mixes both: one pass over the states each way.

The formulas are those of `lmcells.model.variational`; the rows of a tile stay in registers from the first score
to h_joint, and in backward from the gradient of h_joint to those of the states.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import Batch, ModelConfig, Windows
from lmcells.model.batch import or_null
from lmcells.training.kernels.grouping import Dropout, Grouping, group_places, kept

# Windows as the kernels read them: present words first, longest windows first, time-major, int32.
#
# Nothing in the loss depends on where the gaps of a window are, only on the order of the words that are there. So
# gaps are closed, and rows sorted by how many words they have: a tile of rows ends after the words of its longest.


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMajor:
    """The words of each window, the centers after the context, so that one lookup serves both."""

    words: Tensor  # (T + 1, B) int32; 0 where absent
    words_present: Tensor  # (T + 1, B) bool
    negatives: Tensor  # (T, B) int32; 0 where absent, or all where there are none
    lengths: Tensor  # (B,) int32, words of the context, descending
    metadata: Tensor  # (B,) int32, negative where there is none
    rank: Tensor  # (B,) where each row of the windows went
    words_grouping: Grouping
    center_grouping: Grouping  # of all centers, present or not: the prior sees them all
    metadata_grouping: Grouping

    @classmethod
    def of_windows(cls, windows: Windows, *, config: ModelConfig) -> Self:
        """Sort out windows, or a batch with its negatives."""
        batch, steps = windows.context.shape
        device = windows.center.device
        lengths, order = windows.context_mask.sum(dim=1, dtype=torch.int32).sort(descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(batch, device=device))
        words = torch.zeros(steps + 1, batch, dtype=torch.int32, device=device)
        negatives = torch.zeros(steps, batch, dtype=torch.int32, device=device)
        given = windows.negatives if isinstance(windows, Batch) else windows.context
        _close_gaps[(triton.cdiv(batch, 64),)](
            words, negatives, windows.context.contiguous(), given.contiguous(),
            windows.context_mask.contiguous(), order, batch, steps, ROWS=64, num_warps=2,
        )  # fmt: skip
        words[steps] = windows.center[order]
        center_present = windows.center_mask
        present = torch.empty(steps + 1, batch, dtype=torch.bool, device=device)
        torch.lt(torch.arange(steps, device=device).unsqueeze(1), lengths, out=present[:steps])
        present[steps] = True if center_present is None else center_present[order]
        metadata = or_null(windows.metadata, shape=windows.center.shape, device=device)[order].to(torch.int32)
        return cls(
            words=words,
            words_present=present,
            negatives=negatives,
            lengths=lengths,
            metadata=metadata,
            rank=rank,
            words_grouping=group_places(words, n_groups=config.n_read, present=present),
            center_grouping=group_places(words[steps], n_groups=config.n_words),
            metadata_grouping=group_places(metadata, n_groups=config.n_metadata, present=metadata >= 0),
        )

    @property
    def center(self) -> Tensor:
        return self.words[-1]

    @property
    def context(self) -> Tensor:
        return self.words[:-1]

    @property
    def context_present(self) -> Tensor:
        return self.words_present[:-1]

    @property
    def has_metadata(self) -> Tensor:
        return self.metadata >= 0

    def in_given_order(self, values: Tensor) -> Tensor:
        """Rows as the windows had them: (B, ...) -> (B, ...)."""
        return values.index_select(0, self.rank)


@triton.jit
def _close_gaps(words, negatives, context, given, present, order, batch, steps, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    source = tl.load(order + row, mask=inside, other=0) * steps
    slot = tl.zeros((ROWS,), tl.int32)
    for time in range(steps):
        there = (tl.load(present + source + time, mask=inside, other=0) != 0) & inside
        word = tl.load(context + source + time, mask=there, other=0)
        negative = tl.load(given + source + time, mask=there, other=0)
        to = slot * batch + row
        tl.store(words + to, word.to(tl.int32), mask=there)
        tl.store(negatives + to, negative.to(tl.int32), mask=there)
        slot += there.to(tl.int32)


# Attention of the metadata over the states, and the gate that mixes both: one pass over the states each way.
#
# The formulas are those of `lmcells.model.variational`; the rows of a tile stay in registers from the first score
# to h_joint, and in backward from the gradient of h_joint to those of the states.


WIDTH = 128
FORWARD_TILE = {"ROWS": 8, "num_warps": 4}
BACKWARD_TILE = {"ROWS": 8, "num_warps": 2}


def attend_and_mix(
    states: Tensor,
    section: Tensor,
    *,
    lengths: Tensor,
    has_metadata: Tensor,
    gate: tuple[Tensor, Tensor],
    dropout: Dropout | None,
) -> Tensor:
    """h_joint, dropped out: (T, B, 128) bf16, E_m (B, 128) float32, (B,), (B,) -> (B, 128) bf16.

    `lengths` says how many states each row has, descending; those after them are not read, and their gradients
    not written.

    `gate` is the weight (2, 256) and bias (2,) of the scores of the metadata and of the context.
    """
    joint: Tensor = _AttendAndMix.apply(states, section, lengths, has_metadata, *gate, dropout)
    return joint


class _AttendAndMix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, section, lengths, has_metadata, gate_weight, gate_bias, dropout):
        batch = section.shape[0]
        joint = torch.empty_like(section, dtype=torch.bfloat16)
        summary = torch.empty_like(section)
        normaliser = section.new_empty(batch)
        scores = section.new_empty(2, batch)
        constants = {
            "scale": 1 / math.sqrt(WIDTH),
            "THRESHOLD": dropout.threshold if dropout is not None else 0,
            "SCALE": dropout.scale if dropout is not None else 1.0,
            "WIDTH": WIDTH,
        }
        seed = dropout.seed if dropout is not None else lengths  # unread without dropout
        _attention_forward[(triton.cdiv(batch, FORWARD_TILE["ROWS"]),)](
            joint, summary, normaliser, scores, states, section, lengths, has_metadata, gate_weight, gate_bias,
            seed, batch, **constants, **FORWARD_TILE,
        )  # fmt: skip
        ctx.save_for_backward(
            states, section, lengths, has_metadata, gate_weight, summary, normaliser, scores, seed
        )
        ctx.constants = constants
        return joint

    @staticmethod
    def backward(ctx, d_joint):
        states, section, lengths, has_metadata, gate_weight, summary, normaliser, scores, seed = (
            ctx.saved_tensors
        )
        batch = section.shape[0]
        n_programs = triton.cdiv(batch, BACKWARD_TILE["ROWS"])
        d_states, d_section = torch.empty_like(states), torch.empty_like(section)
        d_weight = section.new_empty(n_programs, 2, 2 * WIDTH)
        d_bias = section.new_empty(n_programs, 2)
        _attention_backward[(n_programs,)](
            d_states, d_section, d_weight, d_bias, d_joint.contiguous(), states, section, lengths, has_metadata,
            gate_weight, summary, normaliser, scores, seed, batch, **ctx.constants, **BACKWARD_TILE,
        )  # fmt: skip
        return d_states, d_section, None, None, d_weight.sum(dim=0), d_bias.sum(dim=0), None


@triton.jit
def _bounded(x):
    """tanh, exact in float32."""
    return 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)


@triton.jit
def _attention_forward(
    joint, summary, normaliser, scores, states, section, lengths, has_metadata, gate_weight, gate_bias,
    seed_of_step, batch, scale, THRESHOLD: tl.constexpr, SCALE: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, WIDTH)
    tile = row[:, None] * WIDTH + column[None, :]
    metadata = tl.load(section + tile, mask=inside[:, None], other=0.0)
    asked = metadata * scale
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + tl.program_id(0) * ROWS)
    highest = tl.full((ROWS,), -1e30, tl.float32)
    weight_sum = tl.zeros((ROWS,), tl.float32)
    weighted = tl.zeros((ROWS, WIDTH), tl.float32)
    for time in range(longest):
        there = time < length
        state = tl.load(states + time * batch * WIDTH + tile, mask=there[:, None], other=0.0).to(tl.float32)
        score = tl.where(there, tl.sum(asked * state, axis=1), -1e30)
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
    for_metadata = _bounded(for_metadata + tl.load(gate_bias))
    for_context = _bounded(for_context + tl.load(gate_bias + 1))
    tl.store(scores + row, for_metadata, mask=inside)
    tl.store(scores + batch + row, for_context, mask=inside)
    known = tl.load(has_metadata + row, mask=inside, other=0) != 0
    share = tl.where(known, tl.sigmoid(for_metadata - for_context), 0.0)
    mixed = mean + share[:, None] * (metadata - mean)
    if THRESHOLD > 0:
        mixed = tl.where(kept(at + 2 * WIDTH, seed, THRESHOLD), mixed * SCALE, 0.0)
    tl.store(joint + tile, mixed.to(tl.bfloat16), mask=inside[:, None])


@triton.jit
def _attention_backward(
    d_states, d_section, d_weight, d_bias, d_joint, states, section, lengths, has_metadata, gate_weight, summary,
    normaliser, scores, seed_of_step, batch, scale, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = program * ROWS + tl.arange(0, ROWS)
    inside = row < batch
    column = tl.arange(0, WIDTH)
    tile = row[:, None] * WIDTH + column[None, :]
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

    asked = metadata * scale
    d_mean_dot_mean = tl.sum(d_mean * mean, axis=1)
    log_sum = tl.load(normaliser + row, mask=inside, other=0.0)
    length = tl.load(lengths + row, mask=inside, other=0)
    longest = tl.load(lengths + program * ROWS)
    d_asked = tl.zeros((ROWS, WIDTH), tl.float32)
    for time in range(longest):
        there = time < length
        at_time = time * batch * WIDTH + tile
        state = tl.load(states + at_time, mask=there[:, None], other=0.0).to(tl.float32)
        score = tl.sum(asked * state, axis=1)
        weight = tl.where(there, tl.exp(score - log_sum), 0.0)
        d_score = weight * (tl.sum(d_mean * state, axis=1) - d_mean_dot_mean)
        d_asked += d_score[:, None] * state
        d_state = weight[:, None] * d_mean + d_score[:, None] * asked
        tl.store(d_states + at_time, d_state.to(tl.bfloat16), mask=there[:, None])
    tl.store(d_section + tile, d_metadata + d_asked * scale, mask=inside[:, None])

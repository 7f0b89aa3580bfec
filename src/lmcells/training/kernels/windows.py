"""Windows as the kernels read them: present words first, longest windows first, time-major, int32.

The loss depends on the order of the present words, not on where the absent positions of a window are. So absent
positions are moved to the end and rows sorted by length: a tile of rows is done after its longest row.

`draw_windows` and `draw_sections` are `Sampler.batch` and `OccurrenceSections.draw` in one launch each: the same
distributions, with random numbers of their own (Philox, from a seed that the sampler's generator draws).
"""

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from lmcells.model import Batch, ModelConfig, Windows
from lmcells.training.device_corpus import Chunk, OccurrenceSections
from lmcells.training.kernels import METADATA, beside
from lmcells.training.kernels.lookup import Grouping, group_by_id, group_distinct
from lmcells.training.sampler import Sampler

ROWS = 32  # per program
DRAWN_ROWS = 16
DRAWN_WORDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMajor:
    """The words of each window, then the centers, then the negatives, so that one grouping serves all three."""

    given: Windows  # in their original order
    word_ids: Tensor  # (T + 1, B) or, with negatives, (2T + 1, B) int32; `config.n_read` where absent
    present: Tensor  # (T + 1, B) bool, of the words and the centers; a masked center is absent here alone
    lengths: Tensor  # (B,) int32, words of the context, descending
    metadata: Tensor  # (B,) int32; `config.n_metadata` where there is none
    has_metadata: Tensor  # (B,) bool
    counts: Tensor  # (B,) bool, False in rows that only pad the batch
    rank: Tensor  # (B,) the new position of each row of the windows
    words: Grouping  # of `word_ids`, by distinct word: its group is its row of the moment table
    by_metadata: Grouping
    dropout_seeds: tuple[Tensor, ...] = ()  # drawn with the windows; otherwise the loss draws its own

    @classmethod
    def of_windows(
        cls,
        windows: Windows,
        *,
        config: ModelConfig,
        counts: Tensor | None = None,
        dropout_seeds: tuple[Tensor, ...] = (),
    ) -> Self:
        """Rearrange windows, or a batch with its negatives; rows that do not count must have no context."""
        batch, steps = windows.context.shape
        device, center = windows.center.device, windows.center
        n_programs, context_mask = triton.cdiv(batch, ROWS), windows.context_mask.contiguous()
        is_length = torch.empty(steps + 1, batch, dtype=torch.int32, device=device)
        given_lengths = torch.empty_like(is_length[0])
        _mark_lengths[(n_programs,)](
            is_length,
            given_lengths,
            context_mask,
            batch,
            steps,
            COLUMNS=triton.next_power_of_2(steps + 1),
            num_warps=2,
        )
        number = is_length.flatten().cumsum(dim=0, dtype=torch.int32)  # of rows as long or longer, up to each
        negatives = windows.negatives if isinstance(windows, Batch) else None
        n_positions = steps + 1 if negatives is None else 2 * steps + 1
        word_ids = torch.empty(n_positions, batch, dtype=torch.int32, device=device)
        present = torch.empty(steps + 1, batch, dtype=torch.bool, device=device)
        lengths, metadata, rank = (torch.empty_like(word_ids[0]) for _ in range(3))
        has_metadata, counted = torch.empty_like(present[0]), torch.empty_like(present[0])
        _lay_out[(n_programs,)](
            word_ids, present, lengths, metadata, has_metadata, counted, rank, windows.context.contiguous(),
            center if negatives is None else negatives.contiguous(), context_mask,
            center, _or(windows.center_mask, center), _or(windows.metadata, center), _or(counts, center),
            given_lengths, number, batch, steps, config.n_read, config.n_metadata,
            HAS_NEGATIVES=negatives is not None, HAS_CENTER_MASK=windows.center_mask is not None,
            HAS_METADATA=windows.metadata is not None, HAS_COUNTS=counts is not None,
            COLUMNS=triton.next_power_of_2(steps), num_warps=4,
        )  # fmt: skip
        words = group_distinct(word_ids, n_ids=config.n_read)
        with beside(METADATA, metadata):
            by_metadata = group_by_id(metadata, n_ids=config.n_metadata)
        return cls(
            given=windows,
            word_ids=word_ids,
            present=present,
            lengths=lengths,
            metadata=metadata,
            has_metadata=has_metadata,
            counts=counted,
            rank=rank,
            words=words,
            by_metadata=by_metadata,
            dropout_seeds=dropout_seeds,
        )

    @property
    def n_steps(self) -> int:
        return self.present.shape[0] - 1

    @property
    def context(self) -> Tensor:
        return self.word_ids[: self.n_steps]

    def in_given_order(self, values: Tensor) -> Tensor:
        """Rows in the original order of the windows: (B, ...) -> (B, ...)."""
        return values.index_select(0, self.rank)


def _or(values: Tensor | None, unread: Tensor) -> Tensor:
    return unread if values is None else values


@triton.jit
def _mark_lengths(
    is_length, lengths, context_mask, batch, steps, COLUMNS: tl.constexpr, ROWS: tl.constexpr = ROWS
):  # fmt: skip
    """Lengths, and 1 at the length of each row, longest first: (T + 1, B), whose running sum numbers the rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row < batch)[:, None]
    at = row[:, None] * steps + column[None, :]
    there = tl.load(context_mask + at, mask=inside & (column < steps)[None, :], other=0) != 0
    length = tl.sum(there.to(tl.int32), axis=1)
    tl.store(lengths + row, length, mask=row < batch)
    marks = (steps - column[None, :] == length[:, None]).to(tl.int32)
    tl.store(
        is_length + column[None, :] * batch + row[:, None], marks, mask=inside & (column <= steps)[None, :]
    )


@triton.jit
def _lay_out(
    word_ids, present, lengths, metadata, has_metadata, counts, rank, context, negatives, context_mask, center,
    center_mask, given_metadata, given_counts, given_lengths, number, batch, steps, n_words, n_metadata,
    HAS_NEGATIVES: tl.constexpr, HAS_CENTER_MASK: tl.constexpr, HAS_METADATA: tl.constexpr,
    HAS_COUNTS: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr = ROWS,
):  # fmt: skip
    given = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = given < batch
    length = tl.load(given_lengths + given, mask=inside, other=0)
    row = tl.load(number + (steps - length) * batch + given, mask=inside, other=1) - 1
    tl.store(lengths + row, length, mask=inside)
    tl.store(rank + given, row, mask=inside)
    column = tl.arange(0, COLUMNS)[None, :]
    inside_window = inside[:, None] & (column < steps)
    source = given[:, None] * steps + column
    there = tl.load(context_mask + source, mask=inside_window, other=0) != 0
    n_before = tl.cumsum(there.to(tl.int32), axis=1)  # present ones up to here
    time = tl.where(there, n_before - 1, length[:, None] + column - n_before)
    to = time * batch + row[:, None]
    tl.store(word_ids + to, tl.load(context + source, mask=there, other=n_words), mask=inside_window)
    tl.store(present + to, there, mask=inside_window)
    if HAS_NEGATIVES:
        negative = tl.load(negatives + source, mask=there, other=n_words)
        tl.store(word_ids + (steps + 1) * batch + to, negative, mask=inside_window)
    tl.store(word_ids + steps * batch + row, tl.load(center + given, mask=inside, other=0), mask=inside)
    center_there = inside
    if HAS_CENTER_MASK:
        center_there = tl.load(center_mask + given, mask=inside, other=0) != 0
    tl.store(present + steps * batch + row, center_there, mask=inside)
    section = tl.full((ROWS,), -1, tl.int32)
    if HAS_METADATA:
        section = tl.load(given_metadata + given, mask=inside, other=-1).to(tl.int32)
    tl.store(metadata + row, tl.where(section < 0, n_metadata, section), mask=inside)
    tl.store(has_metadata + row, section >= 0, mask=inside)
    counted = inside
    if HAS_COUNTS:
        counted = tl.load(given_counts + given, mask=inside, other=0) != 0
    tl.store(counts + row, counted, mask=inside)


def draw_seeds(n: int, device: torch.device, generator: torch.Generator | None = None) -> tuple[Tensor, ...]:
    """Seeds of as many kernels, (1,) int32 each."""
    seeds = torch.randint(2**31 - 1, (n,), generator=generator, device=device, dtype=torch.int32)
    return tuple(seeds.split(1))


def draw_windows(
    sampler: Sampler, chunk: Chunk, positions: Tensor, *, present: Tensor, seed: Tensor
) -> Batch:
    """`sampler.batch` for an lmc: the batch with the centers at `positions` (B,), `present` (B,) bool."""
    config, alias = sampler.config, sampler.negatives
    assert sampler.segment_metadata is not None
    n_rows, steps = positions.shape[0], 2 * config.window
    context, negatives = (chunk.tokens.new_empty(n_rows, steps) for _ in range(2))
    context_mask = torch.empty_like(context, dtype=torch.bool)
    center, metadata = torch.empty_like(positions), torch.empty_like(positions)
    center_mask = torch.empty_like(present)
    _draw_windows[(triton.cdiv(n_rows, DRAWN_ROWS),)](
        context, context_mask, negatives, center, center_mask, metadata, chunk.tokens, chunk.segments,
        sampler.segment_metadata, alias.threshold, alias.alias, positions, present,
        seed, n_rows, len(chunk), alias.alias.shape[0], config.window,
        config.context_mask_rate, config.center_mask_rate, COLUMNS=triton.next_power_of_2(steps), num_warps=4,
    )  # fmt: skip
    return Batch(
        center=center,
        metadata=metadata,
        context=context,
        context_mask=context_mask,
        center_mask=center_mask,
        negatives=negatives,
    )


@triton.jit
def _draw_windows(
    context, context_mask, negatives, center, center_mask, metadata, tokens, segments, segment_metadata,
    threshold, alias, positions, present, seed_of_step, n_rows, n_tokens, n_words, radius,
    context_mask_rate, center_mask_rate, COLUMNS: tl.constexpr, ROWS: tl.constexpr = DRAWN_ROWS,
):  # fmt: skip
    seed = tl.load(seed_of_step)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < n_rows
    position = tl.load(positions + row, mask=inside, other=0).to(tl.int64)
    segment = tl.load(segments + position)
    tl.store(center + row, tl.load(tokens + position), mask=inside)
    tl.store(metadata + row, tl.load(segment_metadata + segment), mask=inside)
    of_center, _, _, _ = tl.randint4x(seed, (n_rows + row) * COLUMNS)
    kept_center = tl.uint_to_uniform_float(of_center) >= center_mask_rate
    tl.store(center_mask + row, kept_center, mask=inside)

    column = tl.arange(0, COLUMNS)
    offset = column - radius
    offset = tl.where(offset < 0, offset, offset + 1)
    wanted = position[:, None] + offset[None, :]
    in_text = (wanted >= 0) & (wanted < n_tokens)
    mask = inside[:, None] & (column < 2 * radius)[None, :]
    readable = mask & in_text
    word = tl.load(tokens + wanted, mask=readable, other=0)
    there = tl.load(segments + wanted, mask=readable, other=-1) == segment[:, None]
    of_mask, of_slot, of_alias, _ = tl.randint4x(seed, row[:, None] * COLUMNS + column[None, :])
    there = there & (tl.load(present + row, mask=inside, other=0) != 0)[:, None]
    there = there & (tl.uint_to_uniform_float(of_mask) >= context_mask_rate)
    bound = (tl.zeros((ROWS, COLUMNS), tl.int32) + n_words).to(tl.uint32)
    slot = tl.umulhi(of_slot.to(tl.uint32), bound).to(tl.int32)
    own = tl.uint_to_uniform_float(of_alias) < tl.load(threshold + slot)
    negative = tl.where(own, slot, tl.load(alias + slot))
    at = row[:, None] * (2 * radius) + column[None, :]
    tl.store(context + at, word, mask=mask)
    tl.store(context_mask + at, there, mask=mask)
    tl.store(negatives + at, negative, mask=mask)


def draw_sections(sections: OccurrenceSections, words: Grouping, *, n_draws: int, seed: Tensor) -> Tensor:
    """Sections of each group's word: -> (groups, n) int32, `n_metadata` in groups that do not exist."""
    assert words.of_group is not None
    drawn = words.of_group.new_empty(words.capacity, n_draws)
    rate = sections.uniform_rate
    _draw_sections[(triton.cdiv(words.capacity, DRAWN_WORDS),)](
        drawn, words.of_group, words.n_groups, sections.sections, sections.offsets, sections.sizes,
        sections.sizes if rate is None else rate, seed, words.capacity, sections.n_metadata,
        HAS_RATE=rate is not None, DRAWS=n_draws, COLUMNS=triton.next_power_of_2(n_draws), num_warps=4,
    )  # fmt: skip
    return drawn


@triton.jit
def _draw_sections(
    drawn, of_group, n_groups, sections, offsets, sizes, rates, seed_of_step, capacity, n_metadata,
    HAS_RATE: tl.constexpr, DRAWS: tl.constexpr, COLUMNS: tl.constexpr, WORDS: tl.constexpr = DRAWN_WORDS,
):  # fmt: skip
    group = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    column = tl.arange(0, COLUMNS)
    there = group < tl.load(n_groups)
    at = group[:, None] * DRAWS + column[None, :]
    mask = (group < capacity)[:, None] & (column < DRAWS)[None, :]
    section = tl.full((WORDS, COLUMNS), 0, tl.int32) + n_metadata
    if tl.program_id(0) * WORDS < tl.load(n_groups):
        word = tl.load(of_group + group, mask=there, other=0)
        of_index, of_section, of_rate, _ = tl.randint4x(
            tl.load(seed_of_step), group[:, None] * COLUMNS + column[None, :]
        )
        nothing = tl.zeros((WORDS, COLUMNS), tl.int32)
        bound = (nothing + tl.load(sizes + word)[:, None]).to(tl.uint32)
        index = tl.umulhi(of_index.to(tl.uint32), bound).to(tl.int64)
        found = tl.load(sections + tl.load(offsets + word).to(tl.int64)[:, None] + index)
        if HAS_RATE:
            uniform = tl.umulhi(of_section.to(tl.uint32), (nothing + n_metadata).to(tl.uint32)).to(tl.int32)
            is_uniform = tl.uint_to_uniform_float(of_rate) < tl.load(rates + word)[:, None]
            found = tl.where(is_uniform, uniform, found)
        section = tl.where(there[:, None], found, section)
    tl.store(drawn + at, section, mask=mask)

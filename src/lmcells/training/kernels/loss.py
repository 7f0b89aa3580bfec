"""The LMC's loss on a CUDA device, put together from the kernels: what `LatentMeaningCells.loss` gives, faster."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.errors import ConfigError
from lmcells.model import Batch, Gaussian, LatentMeaningCells, Loss, SectionDraws, Windows
from lmcells.model.gaussian import GaussianHeads
from lmcells.model.variational import MaskedSpanReader, neighbour_places
from lmcells.training.kernels.attention import TimeMajor, attend_and_mix
from lmcells.training.kernels.grouping import PADDED, Dropout, group_places, look_up
from lmcells.training.kernels.hinge import divergence_and_query, hinge
from lmcells.training.kernels.lstm import HIDDEN, MAX_INPUT, project, run_lstm
from lmcells.training.kernels.moment_table import moment_table


class FusedLoss:
    """`model.loss` in its own kernels: bf16 operands in the networks, float32 wherever divergences are made.

    The parameters are the model's own, so optimiser, checkpoints and everything else stay as they are. Dropout
    falls where the model's does. Deterministic for a seed; nothing waits for the device, so a whole step can be
    captured in a CUDA graph.
    """

    def __init__(self, model: LatentMeaningCells) -> None:
        if not self.fits(model):
            config = model.config
            raise ConfigError(
                f"hidden_dim is {config.hidden_dim}, embedding_dim {config.embedding_dim} and cell_dim "
                f"{config.cell_dim}; the fused loss needs {HIDDEN}, at most {MAX_INPUT} and at most {PADDED - 2}."
            )
        self.model = model

    @staticmethod
    def fits(model: LatentMeaningCells) -> bool:
        """Whether the model has the sizes the kernels are written for: 64 units, rows of 112 or 128 columns."""
        config = model.config
        return (
            config.hidden_dim == HIDDEN
            and config.embedding_dim <= MAX_INPUT
            and config.cell_dim <= PADDED - 2
        )

    def __call__(self, batch: Batch, draws: SectionDraws) -> Loss:
        """Both parts of the objective for each center; `draws` must be of the whole vocabulary."""
        if draws.words is not None or draws.sections is None:
            raise ValueError("FusedLoss needs draws.sections for every word of the vocabulary, and no words.")
        config = self.model.config
        with torch.autocast(batch.center.device.type, enabled=False):
            windows = TimeMajor.of_windows(batch, config=config)
            dropouts = _Dropouts.draw(self.model, device=batch.center.device)
            prior_divergence, query = divergence_and_query(
                self._posterior_rows(batch, windows, dropouts),
                self._prior(windows, dropouts),
                dim=config.cell_dim,
            )
            reconstruction = hinge(
                query,
                self._table(draws.sections),
                context=windows.context,
                negatives=windows.negatives,
                lengths=windows.lengths,
                context_grouping=windows.words_grouping,
                negative_grouping=group_places(
                    windows.negatives, n_groups=config.n_words, present=windows.context_present
                ),
                margin=config.margin,
                columns=config.cell_dim + 2,
            )
            return Loss(windows.in_given_order(reconstruction), windows.in_given_order(prior_divergence))

    def posterior(self, windows: Windows) -> Gaussian:
        """q(z | w, m, c) alone, as the agreement term needs it."""
        dim = self.model.config.cell_dim
        if self.model.config.lstm_dim != HIDDEN:
            return self.model.posterior(windows).cell
        with torch.autocast(windows.center.device.type, enabled=False):
            dropouts = _Dropouts.draw(self.model, device=windows.center.device)
            sorted_windows = TimeMajor.of_windows(windows, config=self.model.config)
            rows = sorted_windows.in_given_order(
                self._posterior(sorted_windows, dropouts, may_be_marked=True)
            )
            return Gaussian(rows[:, :dim], rows[:, dim])

    def _posterior_rows(self, given: Windows, windows: TimeMajor, dropouts: "_Dropouts") -> Tensor:
        """[mu ; log v ; zeros] of q, longest windows first: (B, 128)."""
        if self.model.config.lstm_dim == HIDDEN:
            return self._posterior(windows, dropouts, may_be_marked=False)
        with torch.autocast(given.center.device.type, torch.bfloat16):
            cell = self.model.posterior(given).cell
        rows = torch.cat([cell.mean.float(), cell.log_variance.float().unsqueeze(1)], dim=1)  # (B, d + 1)
        order = torch.argsort(windows.rank)
        return functional.pad(rows, (0, PADDED - rows.shape[1])).index_select(0, order)

    def _posterior(self, windows: TimeMajor, dropouts: "_Dropouts", *, may_be_marked: bool) -> Tensor:
        network = self.model.variational
        section = look_up(
            network.metadata.weight,
            windows.metadata,
            windows.metadata_grouping,
            present=windows.has_metadata,
            dtype=torch.float32,
        )  # E_m: (B, 128)
        states, vectors = self._states(windows, dropouts)
        joint = attend_and_mix(
            states,
            section,
            lengths=windows.lengths,
            has_metadata=windows.has_metadata,
            gate=(network.gate.weight, network.gate.bias),
            dropout=dropouts.of_gate,
        )  # (B, 128)
        if network.masked_span_reader is not None and may_be_marked:
            joint = joint + self._read_masked_span(
                network.masked_span_reader, windows, joint, states, vectors
            )
        return _gaussian_rows(network.heads, joint)

    def _read_masked_span(
        self, reader: MaskedSpanReader, windows: TimeMajor, joint: Tensor, states: Tensor, vectors: Tensor
    ) -> Tensor:
        """What the gap reader adds to h_joint: (B, 128), (T, B, 128), (T + 1, B, 128) -> (B, 128)."""
        is_mask = (windows.context == self.model.config.mask_id) & windows.context_present  # (T, B)
        marked = is_mask.any(dim=0)  # (B,)
        rank = is_mask.int().argmax(dim=0)
        column = torch.arange(rank.shape[0], device=rank.device)
        wanted = rank + neighbour_places(reader.reach, device=rank.device).unsqueeze(1)  # (2R, B)
        there = (wanted >= 0) & (wanted < windows.lengths) & marked
        neighbours = torch.where(there.unsqueeze(-1), vectors[wanted.clamp(0, len(states) - 1), column], 0.0)
        neighbours = neighbours[..., : self.model.config.embedding_dim].transpose(0, 1).flatten(1)  # (B, 2RE)
        state = self.model.variational.dropout(torch.where(marked.unsqueeze(-1), states[rank, column], 0.0))
        with torch.autocast(joint.device.type, torch.bfloat16):
            added = reader(joint, state, neighbours)
        return torch.where(marked.unsqueeze(-1), added, 0.0)

    def _states(self, windows: TimeMajor, dropouts: "_Dropouts") -> tuple[Tensor, Tensor]:
        """States of the bi-LSTM and the vectors it read: (T, B, 128), (T + 1, B, 128)."""
        encoder = self.model.variational.context
        rows = look_up(
            encoder.words.weight,
            windows.words,
            windows.words_grouping,
            present=windows.words_present,
            dropout=dropouts.of_words,
            dtype=torch.bfloat16,
        )  # (T + 1, B, 128), the centers last
        lstm = encoder.lstm
        weight, center_weight = lstm.input.flatten(0, 1).chunk(2, dim=1)  # (512, E) each
        states = run_lstm(
            rows,
            windows.lengths,
            weight=_widened(weight).to(torch.bfloat16),
            center_weight=_widened(center_weight).to(torch.bfloat16),
            bias=(lstm.input_bias + lstm.hidden_bias).flatten().to(torch.bfloat16),
            hidden=lstm.hidden.to(torch.bfloat16),
        )
        return states, rows

    def _prior(self, windows: TimeMajor, dropouts: "_Dropouts") -> Tensor:
        """[mu ; log v ; zeros] of p(z | w, m) for the centers: (B, 128)."""
        network = self.model.prior
        words = look_up(
            network.words.weight,
            windows.center,
            windows.center_grouping,
            dropout=dropouts.of_center,
            dtype=torch.bfloat16,
        )
        sections = look_up(
            network.metadata.weight,
            windows.metadata,
            windows.metadata_grouping,
            present=windows.has_metadata,
            dropout=dropouts.of_section,
            dtype=torch.bfloat16,
        )
        for_words, for_metadata = network.hidden.weight.chunk(2, dim=1)  # (H, E) each
        hidden = project(words, _widened(for_words), network.hidden.bias)
        hidden = hidden + project(sections, _widened(for_metadata), torch.zeros_like(network.hidden.bias))
        return _gaussian_rows(network.heads, hidden.relu().to(torch.bfloat16))

    def _table(self, sections: Tensor) -> Tensor:
        network, config = self.model.prior, self.model.config
        sections = sections.to(torch.int32)
        for_words, for_metadata = network.hidden.weight.chunk(2, dim=1)
        table = moment_table(
            functional.linear(network.dropout(network.words.weight), for_words, network.hidden.bias),
            functional.linear(network.dropout(network.metadata.weight), for_metadata),
            sections,
            group_places(sections, n_groups=config.n_metadata),
            mean=(network.heads.mean.weight, network.heads.mean.bias),
            log_variance=(network.heads.log_variance.weight, network.heads.log_variance.bias),
            variance_floor=config.variance_floor,
        )
        # The mark of a gap is in no window of the objective, but the groups of words count it.
        return functional.pad(table, (0, 0, 0, 1)) if config.masks_span else table


@dataclass(frozen=True, slots=True)
class _Dropouts:
    """The step's dropouts, each with a seed of its own; None outside training."""

    of_words: Dropout | None
    of_gate: Dropout | None  # and of h_joint
    of_center: Dropout | None
    of_section: Dropout | None

    @classmethod
    def draw(cls, model: LatentMeaningCells, *, device: torch.device) -> Self:
        rate = model.config.dropout
        if not model.training or rate == 0:
            return cls(None, None, None, None)
        seeds = torch.randint(-(2**31), 2**31 - 1, (4,), dtype=torch.int32, device=device)
        return cls(*(Dropout(rate, seed) for seed in seeds.split(1)))


def _gaussian_rows(heads: GaussianHeads, hidden: Tensor) -> Tensor:
    """Both heads in one product, as rows [mu ; log v ; zeros]: (B, H) bf16 -> (B, 128)."""
    weight = torch.cat([heads.mean.weight, heads.log_variance.weight])  # (d + 1, H)
    bias = torch.cat([heads.mean.bias, heads.log_variance.bias])
    missing = PADDED - weight.shape[0]
    return project(hidden, functional.pad(weight, (0, 0, 0, missing)), functional.pad(bias, (0, missing)))


def _widened(weight: Tensor) -> Tensor:
    return functional.pad(weight, (0, PADDED - weight.shape[1]))

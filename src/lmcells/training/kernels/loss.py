"""The LMC's loss on a CUDA device, assembled from the kernels; `kernels/__init__.py` says what it must equal."""

import torch
from torch import Tensor
from torch.nn import functional

from lmcells.errors import ConfigError
from lmcells.model import Gaussian, LatentMeaningCells, Loss, SectionDraws, Windows
from lmcells.model.networks import MaskedSpanReader, neighbour_offsets
from lmcells.training.device_corpus import Chunk
from lmcells.training.kernels import GROUPS, METADATA, SECTIONS, TABLE, beside, join
from lmcells.training.kernels.attention import attend_and_mix
from lmcells.training.kernels.lookup import look_up
from lmcells.training.kernels.lstm import MAX_INPUT, run_lstm
from lmcells.training.kernels.model_network import ModelDropouts, divergence_and_table, table_of
from lmcells.training.kernels.objective import gaussian_rows, hinge
from lmcells.training.kernels.operands import HIDDEN, NARROW, WIDTH, Dropout, narrow_autocast
from lmcells.training.kernels.windows import (
    TimeMajor,
    draw_sections,
    draw_seeds,
    draw_windows,
)
from lmcells.training.sampler import Sampler

N_DROPOUTS = 8


class FusedLoss:
    """`model.loss` in Triton kernels: bf16 operands in the networks, float32 wherever divergences are computed.

    It has no parameters besides the model's. Deterministic for a random seed; nothing waits for the device, so a whole
    step can be captured in a CUDA graph.
    """

    def __init__(self, model: LatentMeaningCells) -> None:
        config = model.config
        if not self.fits(model):
            raise ConfigError(
                f"hidden_dim is {config.hidden_dim}, embedding_dim {config.embedding_dim} and cell_dim "
                f"{config.cell_dim}; the fused loss needs {HIDDEN}, at most {MAX_INPUT} and at most {WIDTH - 2}."
            )
        self.model = model
        # Gradients that branches make are collected there: where autograd was to collect them elsewhere, it waits.
        if warn := getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None):
            warn(False)

    @staticmethod
    def fits(model: LatentMeaningCells) -> bool:
        """Whether the kernels support the model's sizes."""
        config = model.config
        sizes_fit = config.embedding_dim <= MAX_INPUT and config.cell_dim <= WIDTH - 2
        return sizes_fit and config.hidden_dim == HIDDEN

    def draw(
        self, sampler: Sampler, chunk: Chunk, positions: Tensor, *, present: Tensor
    ) -> tuple[TimeMajor, SectionDraws]:
        """`sampler.batch` and `sampler.section_draws` in kernels, in the layout that the loss reads.

        A row that is not `present` only pads the batch, and both its losses are zero.
        """
        config = self.model.config
        assert sampler.sections is not None
        of_windows, of_sections, *rest = draw_seeds(2 + N_DROPOUTS, positions.device, sampler.generator)
        batch = draw_windows(sampler, chunk, positions, present=present, seed=of_windows)
        windows = TimeMajor.of_windows(batch, config=config, counts=present, dropout_seeds=tuple(rest))
        with beside(TABLE, positions):
            drawn = draw_sections(
                sampler.sections, windows.words, n_draws=config.n_section_draws, seed=of_sections
            )
        return windows, SectionDraws(sections=drawn, words=windows.words.of_group)

    def __call__(self, windows: TimeMajor, draws: SectionDraws) -> Loss:
        """Both parts of the objective for each center of what `draw` returned, in its order."""
        config, sections = self.model.config, draws.sections  # (groups, n) of the windows' words
        assert sections is not None
        device = sections.device
        with torch.autocast(device.type, enabled=False):
            of_words, of_gate, *of_model = self._dropouts(device, windows.dropout_seeds)
            dropouts, floor = ModelDropouts(*of_model), config.variance_floor
            table = table_of(self.model.prior, windows, sections, variance_floor=floor, dropouts=dropouts)
            if config.lstm_dim == HIDDEN:
                posterior = self._posterior(windows, of_words, of_gate)
            else:
                posterior = self._posterior_by_torch(windows)
            prior_divergence, query, rows = divergence_and_table(
                posterior, self.model.prior, windows, table, variance_floor=floor, dropouts=dropouts
            )
            reconstruction = hinge(query, rows, windows, margin=config.margin, columns=config.cell_dim + 2)
            for branch in (SECTIONS, GROUPS, METADATA):
                join(branch, reconstruction)
            return Loss(reconstruction, prior_divergence)

    def posterior(self, windows: Windows) -> Gaussian:
        """q(z | w, m, c) alone, as the contrastive loss needs it."""
        config = self.model.config
        if config.lstm_dim != HIDDEN:
            return self.model.posterior(windows).cell
        with torch.autocast(windows.center.device.type, enabled=False):
            of_words, of_gate, *_ = self._dropouts(windows.center.device)
            time_major = TimeMajor.of_windows(windows, config=config)
            rows = self._posterior(
                time_major, of_words, of_gate, reader=self.model.variational.masked_span_reader
            )
            rows = time_major.in_given_order(rows)
            for branch in (TABLE, GROUPS, METADATA):
                join(branch, rows)
            return Gaussian(rows[:, : config.cell_dim], rows[:, config.cell_dim])

    def _dropouts(self, device: torch.device, seeds: tuple[Tensor, ...] = ()) -> list[Dropout | None]:
        """Dropouts of words, of the gate and h_joint, and of `ModelDropouts`, with a seed each."""
        rate = self.model.config.dropout
        if not self.model.training or rate == 0:
            return [None] * N_DROPOUTS
        is_hidden = (False,) * 4 + (True, False, False, True)
        return [
            Dropout(rate, seed) if self.model.config.hidden_dropout or not hidden else None
            for seed, hidden in zip(seeds or draw_seeds(N_DROPOUTS, device), is_hidden, strict=True)
        ]

    def _posterior(
        self,
        windows: TimeMajor,
        of_words: Dropout | None,
        of_gate: Dropout | None,
        *,
        reader: MaskedSpanReader | None = None,
    ) -> Tensor:
        """[mu ; log v ; zeros] of q, longest windows first: (B, 128)."""
        network = self.model.variational
        section = look_up(
            network.metadata.weight,
            windows.metadata,
            windows.by_metadata,
            present=windows.has_metadata,
            dtype=torch.float32,
            branch=METADATA,
        )  # E_m: (B, 128)
        states, vectors = self._states(windows, of_words)
        joint = attend_and_mix(
            states,
            section,
            lengths=windows.lengths,
            has_metadata=windows.has_metadata,
            gate=(network.gate.weight, network.gate.bias),
            dropout=of_gate,
        )  # (B, 128)
        if reader is not None:
            joint = joint + self._read_masked_span(reader, windows, joint, states, vectors)
        return gaussian_rows(joint, network.heads.mean, network.heads.log_variance)

    def _posterior_by_torch(self, windows: TimeMajor) -> Tensor:
        """The same for an LSTM of another size than the kernels'."""
        with narrow_autocast(windows.given.center.device):
            cell = self.model.posterior(windows.given).cell
        rows = torch.cat([cell.mean.float(), cell.log_variance.float().unsqueeze(1)], dim=1)  # (B, d + 1)
        return functional.pad(rows, (0, WIDTH - rows.shape[1])).index_select(0, torch.argsort(windows.rank))

    def _states(self, windows: TimeMajor, dropout: Dropout | None) -> tuple[Tensor, Tensor]:
        """States of the bi-LSTM and the vectors it read: (T, B, 128), (T + 1, B, 128)."""
        encoder = self.model.variational.context
        vectors = look_up(
            encoder.words.weight,
            windows.word_ids[: windows.n_steps + 1],
            windows.words,
            present=windows.present,
            dropout=dropout,
            dtype=NARROW,
        )  # the centers last
        lstm = encoder.lstm
        states = run_lstm(
            vectors, windows.lengths, lstm.input, lstm.hidden, (lstm.input_bias, lstm.hidden_bias)
        )
        return states, vectors

    def _read_masked_span(
        self, reader: MaskedSpanReader, windows: TimeMajor, joint: Tensor, states: Tensor, vectors: Tensor
    ) -> Tensor:
        """What the masked-span reader adds to h_joint: (B, 128), (T, B, 128), (T + 1, B, 128) -> (B, 128)."""
        is_mask = windows.context == self.model.config.mask_id  # (T, B)
        has_mask = is_mask.any(dim=0)  # (B,)
        position = is_mask.int().argmax(dim=0)
        row = torch.arange(position.shape[0], device=position.device)
        wanted = position + neighbour_offsets(reader.reach, device=position.device).unsqueeze(1)  # (2R, B)
        there = (wanted >= 0) & (wanted < windows.lengths) & has_mask
        neighbours = torch.where(there.unsqueeze(-1), vectors[wanted.clamp(0, len(states) - 1), row], 0.0)
        neighbours = neighbours[..., : self.model.config.embedding_dim].transpose(0, 1).flatten(1)  # (B, 2RE)
        state = self.model.variational.dropout(
            torch.where(has_mask.unsqueeze(-1), states[position, row], 0.0)
        )
        with narrow_autocast(joint.device):
            added = reader(joint, state, neighbours)
        return torch.where(has_mask.unsqueeze(-1), added, 0.0)

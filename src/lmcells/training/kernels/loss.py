"""The LMC's loss on a CUDA device, assembled from the kernels. What it must equal is said in `kernels/__init__.py`."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.errors import ConfigError
from lmcells.model import Batch, Gaussian, LatentMeaningCells, Loss, SectionDraws, Windows
from lmcells.model.networks import GaussianHeads, MaskedSpanReader, neighbour_offsets
from lmcells.training.kernels.attention import attend_and_mix
from lmcells.training.kernels.lookup import group_places, look_up
from lmcells.training.kernels.lstm import MAX_INPUT, run_lstm
from lmcells.training.kernels.moment_table import moment_table
from lmcells.training.kernels.objective import divergence_and_query, hinge
from lmcells.training.kernels.operands import HIDDEN, NARROW, WIDTH, Dropout, narrow_autocast, project
from lmcells.training.kernels.windows import TimeMajor


class FusedLoss:
    """`model.loss` in our own kernels: bf16 operands in the networks, float32 wherever divergences are computed.

    The parameters are the model's own, so optimiser and checkpoints need not know. Deterministic for a random seed;
    nothing waits for the device, so a whole step can be captured in a CUDA graph.
    """

    def __init__(self, model: LatentMeaningCells) -> None:
        config = model.config
        if not self.fits(model):
            raise ConfigError(
                f"hidden_dim is {config.hidden_dim}, embedding_dim {config.embedding_dim} and cell_dim "
                f"{config.cell_dim}; the fused loss needs {HIDDEN}, at most {MAX_INPUT} and at most {WIDTH - 2}."
            )
        self.model = model

    @staticmethod
    def fits(model: LatentMeaningCells) -> bool:
        """Whether the model has the sizes the kernels are written for."""
        config = model.config
        sizes_fit = config.embedding_dim <= MAX_INPUT and config.cell_dim <= WIDTH - 2
        return sizes_fit and config.hidden_dim == HIDDEN

    def __call__(self, batch: Batch, draws: SectionDraws) -> Loss:
        """Both parts of the objective for each center; `draws` must cover the whole vocabulary."""
        if draws.words is not None or draws.sections is None:
            raise ValueError("FusedLoss needs draws.sections for every word of the vocabulary, and no words.")
        config = self.model.config
        with torch.autocast(batch.center.device.type, enabled=False):
            windows = TimeMajor.of_windows(batch, config=config)
            of_words, of_gate, of_center, of_section = self._draw_dropouts(batch.center.device)
            if config.lstm_dim == HIDDEN:
                posterior = self._posterior(windows, of_words, of_gate)
            else:
                posterior = self._posterior_by_torch(batch, windows)
            prior = self._prior(windows, of_center, of_section)
            prior_divergence, query = divergence_and_query(posterior, prior, dim=config.cell_dim)
            table = self._table(draws.sections)
            reconstruction = hinge(query, table, windows, margin=config.margin, columns=config.cell_dim + 2)
            return Loss(windows.in_given_order(reconstruction), windows.in_given_order(prior_divergence))

    def posterior(self, windows: Windows) -> Gaussian:
        """q(z | w, m, c) alone, as the contrastive loss needs it."""
        config = self.model.config
        if config.lstm_dim != HIDDEN:
            return self.model.posterior(windows).cell
        with torch.autocast(windows.center.device.type, enabled=False):
            of_words, of_gate, _, _ = self._draw_dropouts(windows.center.device)
            time_major = TimeMajor.of_windows(windows, config=config)
            rows = self._posterior(
                time_major, of_words, of_gate, reader=self.model.variational.masked_span_reader
            )
            rows = time_major.in_given_order(rows)
            return Gaussian(rows[:, : config.cell_dim], rows[:, config.cell_dim])

    def _draw_dropouts(self, device: torch.device) -> tuple[Dropout | None, ...]:
        """Of words, of the gate and h_joint, and of the prior's centers and sections: a seed each."""
        rate = self.model.config.dropout
        if not self.model.training or rate == 0:
            return None, None, None, None
        seeds = torch.randint(-(2**31), 2**31 - 1, (4,), dtype=torch.int32, device=device)
        return tuple(Dropout(rate, seed) for seed in seeds.split(1))

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
        section = _embed_metadata(network.metadata, windows, dtype=torch.float32)  # E_m: (B, 128)
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
        return _gaussian_rows(network.heads, joint)

    def _posterior_by_torch(self, batch: Batch, windows: TimeMajor) -> Tensor:
        """The same for an LSTM of a size that the kernels do not know."""
        with narrow_autocast(batch.center.device):
            cell = self.model.posterior(batch).cell
        rows = torch.cat([cell.mean.float(), cell.log_variance.float().unsqueeze(1)], dim=1)  # (B, d + 1)
        return functional.pad(rows, (0, WIDTH - rows.shape[1])).index_select(0, torch.argsort(windows.rank))

    def _states(self, windows: TimeMajor, dropout: Dropout | None) -> tuple[Tensor, Tensor]:
        """States of the bi-LSTM and the vectors it read: (T, B, 128), (T + 1, B, 128)."""
        encoder = self.model.variational.context
        vectors = look_up(
            encoder.words.weight,
            windows.words,
            windows.words_grouping,
            present=windows.words_present,
            dropout=dropout,
            dtype=NARROW,
        )  # the centers last
        lstm = encoder.lstm
        weight, center_weight = lstm.input.flatten(0, 1).chunk(2, dim=1)  # (512, E) each
        states = run_lstm(
            vectors,
            windows.lengths,
            weight=_widened(weight).to(NARROW),
            center_weight=_widened(center_weight).to(NARROW),
            bias=(lstm.input_bias + lstm.hidden_bias).flatten().to(NARROW),
            hidden=lstm.hidden.to(NARROW),
        )
        return states, vectors

    def _read_masked_span(
        self, reader: MaskedSpanReader, windows: TimeMajor, joint: Tensor, states: Tensor, vectors: Tensor
    ) -> Tensor:
        """What the masked-span reader adds to h_joint: (B, 128), (T, B, 128), (T + 1, B, 128) -> (B, 128)."""
        is_mask = (windows.context == self.model.config.mask_id) & windows.context_present  # (T, B)
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

    def _prior(self, windows: TimeMajor, of_center: Dropout | None, of_section: Dropout | None) -> Tensor:
        """[mu ; log v ; zeros] of p(z | w, m) for the centers: (B, 128)."""
        network = self.model.prior
        words = look_up(
            network.words.weight, windows.center, windows.center_grouping, dropout=of_center, dtype=NARROW
        )
        sections = _embed_metadata(network.metadata, windows, dropout=of_section, dtype=NARROW)
        for_words, for_metadata = network.hidden.weight.chunk(2, dim=1)  # (H, E) each
        hidden = project(words, _widened(for_words), network.hidden.bias)
        hidden = hidden + project(sections, _widened(for_metadata), torch.zeros_like(network.hidden.bias))
        return _gaussian_rows(network.heads, network.hidden_dropout(hidden.relu()).to(NARROW))

    def _table(self, sections: Tensor) -> Tensor:
        """The moment table of the whole vocabulary: (V, n) -> (V, 128)."""
        network, config = self.model.prior, self.model.config
        sections = sections.to(torch.int32)
        table = moment_table(
            *network.project(network.words.weight),
            sections,
            group_places(sections, n_groups=config.n_metadata),
            mean=(network.heads.mean.weight, network.heads.mean.bias),
            log_variance=(network.heads.log_variance.weight, network.heads.log_variance.bias),
            variance_floor=config.variance_floor,
        )
        # A masked span is in no window of the objective, but the grouping of words counts its id.
        return functional.pad(table, (0, 0, 0, 1)) if config.masks_span else table


def _embed_metadata(
    table: nn.Embedding, windows: TimeMajor, *, dtype: torch.dtype, dropout: Dropout | None = None
) -> Tensor:
    return look_up(
        table.weight,
        windows.metadata,
        windows.metadata_grouping,
        present=windows.has_metadata,
        dropout=dropout,
        dtype=dtype,
    )


def _gaussian_rows(heads: GaussianHeads, hidden: Tensor) -> Tensor:
    """Both heads in one product, as rows [mu ; log v ; zeros]: (B, H) narrow -> (B, 128)."""
    weight = torch.cat([heads.mean.weight, heads.log_variance.weight])  # (d + 1, H)
    bias = torch.cat([heads.mean.bias, heads.log_variance.bias])
    missing = WIDTH - weight.shape[0]
    return project(hidden, functional.pad(weight, (0, 0, 0, missing)), functional.pad(bias, (0, missing)))


def _widened(weight: Tensor) -> Tensor:
    return functional.pad(weight, (0, WIDTH - weight.shape[1]))

"""Latent Meaning Cells: the paper's model."""

from torch import Tensor

from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.cell_model import CellModel
from lmcells.model.config import ModelConfig
from lmcells.model.objective import Loss, objective
from lmcells.model.prior import ModelNetwork
from lmcells.model.variational import Posterior, VariationalNetwork


class LatentMeaningCells(CellModel):
    """q(z | w, m, c) and p(z | w, m); a context word is a mixture over the sections it is found in."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.variational = VariationalNetwork(config)
        self.prior = ModelNetwork(config)
        self.initialise_tables()

    def word_table(self) -> Tensor:
        table: Tensor = self.variational.context.words.weight
        return table

    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        posterior: Posterior = self.variational(windows, gate=gate)
        return posterior

    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        return objective(
            self.posterior(batch).cell,
            prior=self.prior(batch.center, batch.metadata),
            moments=self.prior.moments(draws, variance_floor=self.config.variance_floor),
            batch=batch,
            draws=draws,
            config=self.config,
        )

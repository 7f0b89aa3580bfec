"""What every model of latent meaning cells can do."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.config import ModelConfig
from lmcells.model.objective import Loss
from lmcells.model.variational import Posterior


class CellModel(nn.Module, ABC):
    """A variational network and a prior, trained together. It draws nothing itself but dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def posterior(self, windows: Windows, *, gate: float | Tensor | None = None) -> Posterior:
        """The cell of each center in its window. A model without a gate ignores `gate`."""

    @abstractmethod
    def loss(self, batch: Batch, draws: SectionDraws) -> Loss:
        """Both parts of the objective for each center of the batch."""

    def forward(self, batch: Batch, draws: SectionDraws) -> Loss:
        """`loss`, under the name that wrappers such as DistributedDataParallel call."""
        return self.loss(batch, draws)

    def initialise_tables(self) -> None:
        """Draw all embeddings anew with `config.embedding_std`, where it is set."""
        if self.config.embedding_std is None:
            return
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.embedding_std)

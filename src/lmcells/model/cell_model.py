"""What every model of latent meaning cells can do."""

from abc import ABC, abstractmethod

from torch import Tensor, nn
from torch.nn import functional

from lmcells.model.batch import Batch, SectionDraws, Windows
from lmcells.model.config import ModelConfig
from lmcells.model.objective import Loss
from lmcells.model.phrases import PhraseNetwork
from lmcells.model.variational import Posterior


class CellModel(nn.Module, ABC):
    """A variational network and a prior, trained together. It draws nothing itself but dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.phrases = PhraseNetwork(config) if config.phrase_dim else None

    @abstractmethod
    def word_table(self) -> Tensor:
        """E, the vectors in which contexts are read: (n_centers, E)."""

    def phrase_means(self, words: Tensor, mask: Tensor) -> Tensor:
        """Where phrases belong among the posteriors' means, by the words they have: (n, L), (n, L) -> (n, d)."""
        if self.phrases is None:
            raise ValueError("the model has no phrase network; allowed: a config with phrase_dim above 0.")
        means: Tensor = self.phrases(functional.embedding(words, self.word_table()), mask)
        return means

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

"""One class a kind of model."""

from lmcells.model.bsg import BayesianSkipGram
from lmcells.model.cell_model import CellModel
from lmcells.model.config import ModelConfig, ModelKind
from lmcells.model.lmc import LatentMeaningCells
from lmcells.model.mbsge import MetadataSkipGramEnsemble

CLASS_OF: dict[ModelKind, type[CellModel]] = {
    "lmc": LatentMeaningCells,
    "bsg": BayesianSkipGram,
    "mbsge": MetadataSkipGramEnsemble,
}


def create_model(config: ModelConfig) -> CellModel:
    """A freshly initialised model of `config.kind`, drawn from torch's global generator."""
    return CLASS_OF[config.kind](config)

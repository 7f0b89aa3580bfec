"""Latent Meaning Cells and their relatives: the mathematics, in torch alone."""

from lmcells.model.batch import NULL_METADATA, Batch, SectionDraws, Windows
from lmcells.model.cell_model import CellModel, Loss, count_parameters
from lmcells.model.config import ModelConfig, ModelKind
from lmcells.model.gaussian import Gaussian, kl_divergence
from lmcells.model.models import BayesianSkipGram, LatentMeaningCells, MetadataSkipGramEnsemble, create_model
from lmcells.model.moments import Moments, expected_divergence
from lmcells.model.prior import ModelNetwork, WordPrior
from lmcells.model.variational import Posterior, VariationalNetwork

__all__ = [
    "NULL_METADATA",
    "Batch",
    "BayesianSkipGram",
    "CellModel",
    "Gaussian",
    "LatentMeaningCells",
    "Loss",
    "MetadataSkipGramEnsemble",
    "ModelConfig",
    "ModelKind",
    "ModelNetwork",
    "Moments",
    "Posterior",
    "SectionDraws",
    "VariationalNetwork",
    "Windows",
    "WordPrior",
    "count_parameters",
    "create_model",
    "expected_divergence",
    "kl_divergence",
]

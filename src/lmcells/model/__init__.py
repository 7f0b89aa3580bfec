"""Latent Meaning Cells and their relatives: the mathematics, in torch alone.

`lmcells.model.config` needs no torch: this package imports the rest only when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmcells.model.config import ModelConfig, ModelKind

if TYPE_CHECKING:
    from lmcells.model.batch import NULL_METADATA, Batch, SectionDraws, Windows
    from lmcells.model.cell_model import CellModel, Loss, count_parameters
    from lmcells.model.gaussian import Gaussian, kl_divergence
    from lmcells.model.models import (
        BayesianSkipGram,
        LatentMeaningCells,
        MetadataSkipGramEnsemble,
        create_model,
    )
    from lmcells.model.moments import Moments, expected_divergence
    from lmcells.model.prior import ModelNetwork, WordPrior
    from lmcells.model.variational import Posterior, VariationalNetwork

_NEED_TORCH = {
    "batch": ("NULL_METADATA", "Batch", "SectionDraws", "Windows"),
    "cell_model": ("CellModel", "Loss", "count_parameters"),
    "gaussian": ("Gaussian", "kl_divergence"),
    "models": ("BayesianSkipGram", "LatentMeaningCells", "MetadataSkipGramEnsemble", "create_model"),
    "moments": ("Moments", "expected_divergence"),
    "prior": ("ModelNetwork", "WordPrior"),
    "variational": ("Posterior", "VariationalNetwork"),
}
_MODULE_OF = {name: module for module, names in _NEED_TORCH.items() for name in names}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

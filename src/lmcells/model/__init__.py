"""Latent Meaning Cells and their baselines BSG and MBSGE: the mathematics, in torch alone.

This is the reference: it must equal the paper's formulas, written as plain loops in `tests/model/loop_reference.py`;
the kernels (`lmcells.training.kernels`) and the numpy networks (`lmcells.pretrained.network`) must equal it.
`lmcells.model.config` needs no torch: everything else is imported on demand.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmcells.model.config import ModelConfig, ModelKind

if TYPE_CHECKING:
    from lmcells.model.batch import NULL_METADATA, Batch, SectionDraws, Windows
    from lmcells.model.gaussian import Gaussian, kl_divergence
    from lmcells.model.models import (
        BayesianSkipGram,
        CellModel,
        LatentMeaningCells,
        Loss,
        MetadataSkipGramEnsemble,
        count_parameters,
        create_model,
    )
    from lmcells.model.moments import Moments, expected_divergence
    from lmcells.model.networks import ModelNetwork, Posterior, VariationalNetwork, WordPrior

__all__ = [
    "NULL_METADATA", "Batch", "BayesianSkipGram", "CellModel", "Gaussian", "LatentMeaningCells", "Loss",
    "MetadataSkipGramEnsemble", "ModelConfig", "ModelKind", "ModelNetwork", "Moments", "Posterior", "SectionDraws",
    "VariationalNetwork", "Windows", "WordPrior", "count_parameters", "create_model", "expected_divergence",
    "kl_divergence",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("batch", "gaussian", "moments", "networks", "models"):
            if hasattr(found := import_module(f"{__name__}.{module}"), name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

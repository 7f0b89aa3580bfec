"""Saving and loading a model folder, and running a trained model without torch."""

from lmcells.pretrained.layers import NumpyGaussian
from lmcells.pretrained.network import (
    NumpyModelNetwork,
    NumpyPosterior,
    NumpyVariationalNetwork,
    NumpyWordPrior,
    ReadWindows,
)
from lmcells.pretrained.pretrained_model import PretrainedModel
from lmcells.pretrained.save import save_pretrained

__all__ = [
    "NumpyGaussian", "NumpyModelNetwork", "NumpyPosterior", "NumpyVariationalNetwork", "NumpyWordPrior",
    "PretrainedModel", "ReadWindows", "save_pretrained",
]  # fmt: skip

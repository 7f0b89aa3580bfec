"""The divergence between isotropic Gaussians."""

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics.distances import Floats

Numbers = npt.NDArray[np.floating]


def isotropic_divergence(
    distance: Numbers, *, log_variance: Numbers, other_log_variance: Numbers, dim: int
) -> Floats:
    """KL(q || p) in nats, from the squared distance of the means; all broadcast. See `lmcells.model.kl_divergence`."""
    ratio = log_variance.astype(np.float64) - other_log_variance
    precision = np.exp(-other_log_variance.astype(np.float64))
    divergence: Floats = 0.5 * (dim * (np.expm1(ratio) - ratio) + distance * precision)
    return divergence

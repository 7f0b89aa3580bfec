"""Confidence intervals from resampled values of a statistic."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from lmcells.evaluation.predictions import Floats

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Interval:
    """An estimate, the interval around it, and the standard deviation of the resampled values."""

    estimate: float
    low: float
    high: float
    level: float
    standard_error: float


def percentile_interval(estimate: float, resampled: Floats, *, level: float) -> Interval:
    """From the (1 - level)/2 to the (1 + level)/2 quantile of the resampled values."""
    return _between_quantiles(estimate, resampled, (1 - level) / 2, (1 + level) / 2, level)


def bca_interval(estimate: float, resampled: Floats, jackknife: Floats, *, level: float) -> Interval:
    """Bias-corrected and accelerated interval (Efron 1987): quantiles Phi(z0 + (z0 + z) / (1 - a (z0 + z))).

    z0 = Phi^-1(share of resampled values below the estimate, equal ones half), z = Phi^-1((1 -+ level)/2), and
    with d the jackknife values subtracted from their mean, a = sum d^3 / (6 (sum d^2)^1.5).
    """
    n = len(resampled)
    share = ((resampled < estimate).sum() + 0.5 * (resampled == estimate).sum()) / n
    z0 = _NORMAL.inv_cdf(min(max(float(share), 0.5 / n), 1 - 0.5 / n))
    d = jackknife.mean() - jackknife
    spread = float((d**2).sum())
    a = float((d**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0

    def quantile(share: float) -> float:
        z = z0 + _NORMAL.inv_cdf(share)
        if a * z >= 1:  # beyond the pole of a very skewed statistic: the end of the distribution
            return float(z > 0)
        return _NORMAL.cdf(z0 + z / (1 - a * z))

    return _between_quantiles(
        estimate, resampled, quantile((1 - level) / 2), quantile((1 + level) / 2), level
    )


def _between_quantiles(
    estimate: float, resampled: Floats, lower: float, upper: float, level: float
) -> Interval:
    low, high = np.quantile(resampled, [lower, upper])
    return Interval(estimate, float(low), float(high), level, float(resampled.std(ddof=1)))

"""Mixtures on a sheet of paper: where the means of their heaviest components lie, along two principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmcells.analysis.mixtures.marginals import Marginal
from lmcells.analysis.statistics.distances import Floats
from lmcells.analysis.statistics.planar import principal_plane


@dataclass(frozen=True, eq=False)
class MixturePlane:
    """Places of the heaviest components of some marginals, in their order, and of their expected meanings."""

    components: tuple[Floats, ...]  # one (n, 2) a marginal
    expected: Floats  # (n_marginals, 2)
    share: float  # of the squared distances from the middle, how much the plane shows

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "components": [places.tolist() for places in self.components],
            "expected": self.expected.tolist(),
            "share": self.share,
        }


def mixture_plane(marginals: Sequence[Marginal], *, most: int) -> MixturePlane:
    """Lay the `most` heaviest components of each marginal out on one plane."""
    shown = [marginal.mixture.means[:most] for marginal in marginals]
    points = np.vstack([*shown, *(marginal.mixture.mean for marginal in marginals)])
    plane = principal_plane(points)
    spread = float(np.square(points - points.mean(axis=0)).sum())
    ends = np.cumsum([len(means) for means in shown])
    *components, expected = np.split(plane, ends)
    return MixturePlane(
        tuple(components), expected, float(np.square(plane).sum()) / spread if spread else 1.0
    )

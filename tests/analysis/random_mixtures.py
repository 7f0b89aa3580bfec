"""Mixtures to test with."""

import numpy as np
from hypothesis import strategies as st

from lmcells.analysis.mixtures import GaussianMixture


def random_mixture(seed: int, *, n: int, dim: int, spread: float = 2.0) -> GaussianMixture:
    random = np.random.default_rng(seed)
    return GaussianMixture(
        random.dirichlet(np.full(n, 2.0)), spread * random.normal(size=(n, dim)), random.uniform(0.3, 2.0, n)
    )


mixtures = st.builds(
    random_mixture,
    st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    dim=st.integers(1, 5),
    spread=st.floats(0, 9),
)

"""Words whose uncertainty goes with what was planted."""

import numpy as np

from lmcells.analysis.uncertainty import WordVariances


def planted_variances(n: int = 400, *, seed: int = 0) -> WordVariances:
    """Variance within grows with the number of senses alone, variance between with the sections alone."""
    random = np.random.default_rng(seed)
    n_senses, n_sections = random.integers(0, 6, n), random.uniform(1, 40, n)
    return WordVariances(
        np.arange(n),
        tuple(f"w{row}" for row in range(n)),
        random.integers(100, 10_000, n),
        0.5 + 0.05 * n_senses + 0.02 * random.normal(size=n),
        0.001 * n_sections + 0.002 * random.random(n),
        n_sections,
        n_senses,
    )

"""Senses of a short form by their prototypes, scored together."""

import numpy as np
import numpy.typing as npt
import pytest

from lmcells.errors import ConfigError

DIM = 6
Floats = npt.NDArray[np.float64]


def prototypes(n: int, seed: int) -> Floats:
    rows = np.random.default_rng(seed).normal(size=(n, DIM))
    found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def sense(*, words: bool = True, n_places: int = 0, count: int = 0, seed: int = 0) -> SensePrototypes:
    shares = np.arange(1, n_places + 1) / max(1, n_places * (n_places + 1) / 2)
    by_words = prototypes(1, seed)[0] if words else None
    return SensePrototypes(by_words, prototypes(n_places, seed + 100), shares, count)


def by_the_formula(gap: Floats, known: SensePrototypes, weights: ScoreWeights) -> float:
    of_words = None if known.by_words is None else gap @ known.by_words / weights.temperature
    of_occurrences = None
    if len(known.shares):
        of_occurrences = np.log(
            (known.shares * np.exp(known.by_occurrences @ gap / weights.temperature)).sum()
        )
    prior = weights.prior * np.log(1 + known.count)
    if of_words is None and of_occurrences is None:
        return -np.inf
    if of_words is None:
        return float(of_occurrences + prior)
    if of_occurrences is None:
        return float(of_words + prior)
    return float(weights.of_occurrences * of_occurrences + (1 - weights.of_occurrences) * of_words + prior)


ALL_KINDS = [
    sense(n_places=3, count=40, seed=1),
    sense(seed=2),
    sense(words=False, n_places=2, count=9, seed=3),
    sense(words=False),
    sense(n_places=1, count=4, seed=5),
]


@pytest.mark.parametrize(
    "senses", [ALL_KINDS, ALL_KINDS[::-1], ALL_KINDS[1:2], ALL_KINDS[3:4], ALL_KINDS[2:3]]
)
@pytest.mark.parametrize(
    "weights",
    [
        ScoreWeights(),
        ScoreWeights(temperature=0.1, of_occurrences=0.0, prior=0.0),
        ScoreWeights(of_occurrences=1.0),
    ],
)
def test_scores_are_those_of_the_formula(senses: list[SensePrototypes], weights: ScoreWeights) -> None:
    gaps = prototypes(7, seed=9)
    expected = [[by_the_formula(gap, each, weights) for each in senses] for gap in gaps]
    np.testing.assert_allclose(SensesOfShortForm(senses, weights).scores(gaps), expected, rtol=1e-12)


def test_a_sense_of_which_nothing_is_known_comes_last() -> None:
    assert [each.is_known for each in ALL_KINDS] == [True, True, True, False, True]
    assert (SensesOfShortForm(ALL_KINDS).scores(prototypes(3, seed=4)).argmin(axis=1) == 3).all()


@pytest.mark.parametrize("weights", [{"temperature": 0.0}, {"of_occurrences": 1.5}])
def test_weights_that_make_no_score_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        ScoreWeights(**weights)

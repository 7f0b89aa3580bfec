"""Words, phrases and sections as mixtures: components, weights and cells are the model's own."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from lmcells.analysis.gaussian_mixture import convex_bound, matched_bound, sampled_divergence
from lmcells.analysis.mixtures import (
    Marginal,
    compare,
    mixture_plane,
    phrase_mixture,
    section_mixture,
    word_mixture,
)
from lmcells.analysis.names import NULL_SECTION
from lmcells.errors import InputError
from lmcells.pretrained import NumpyModelNetwork, NumpyWordPrior, PretrainedModel


def without_counts(model: PretrainedModel) -> PretrainedModel:
    return replace(model, statistics=model.statistics.at_least(1_000_000))


def test_a_word_is_one_cell_a_section_that_it_was_seen_in(model: PretrainedModel) -> None:
    marginal = word_mixture(model, "pt")
    word = model.word_ids["pt"]
    assert sorted(marginal.parts) == ["LABS", "PLAN"]
    assert marginal.n_counted == marginal.n_seen == model.word_counts[word] == 80
    assert isinstance(model.prior, NumpyModelNetwork)
    mixture = marginal.mixture
    columns = (marginal.parts, mixture.weights, mixture.means, mixture.variances)
    for name, weight, mean, variance in zip(*columns, strict=True):
        section = model.section_ids[name]
        cell = model.prior(np.array([word]), np.array([section]))
        assert weight == model.statistics.metadata_given_word(word, add=0)[section] == 0.5
        np.testing.assert_allclose(mean, cell.mean[0], rtol=1e-5)
        assert variance == pytest.approx(np.exp(cell.log_variance[0]), rel=1e-5)


def test_a_section_is_one_cell_a_word_that_stands_in_it(model: PretrainedModel) -> None:
    marginal = section_mixture(model, "labs")
    assert marginal.name == "LABS"
    assert "bleeding" in marginal.parts
    assert "gait" not in marginal.parts
    assert marginal.covered == pytest.approx(1)
    shares = model.statistics.word_given_metadata(model.section_ids["LABS"], add=0)
    np.testing.assert_allclose(
        marginal.mixture.weights, [shares[model.word_ids[word]] for word in marginal.parts]
    )
    assert (np.diff(marginal.mixture.weights) <= 0).all()


def test_a_section_of_its_likeliest_words_says_what_they_cover(model: PretrainedModel) -> None:
    whole, part = section_mixture(model, "LABS"), section_mixture(model, "LABS", most=4)
    assert part.parts == whole.parts[:4]
    assert part.covered == pytest.approx(whole.mixture.weights[:4].sum())
    assert part.mixture.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(part.mixture.means, whole.mixture.means[:4], rtol=1e-5)


def test_a_phrase_is_the_mean_of_its_words(model: PretrainedModel) -> None:
    phrase = phrase_mixture(model, "Mitral stenosis")
    words = np.array([model.word_ids["mitral"], model.word_ids["stenosis"]])
    assert phrase.name == "mitral stenosis"
    assert phrase.n_seen is None
    assert isinstance(model.prior, NumpyModelNetwork)
    vector = model.prior.phrase(words)
    section = model.section_ids[phrase.parts[0]]
    cell = model.prior.of_vectors(vector[None], np.array([section]))
    np.testing.assert_allclose(phrase.mixture.means[0], cell.mean[0], rtol=1e-5)
    both = [model.statistics.metadata_given_word(word, add=0)[section] for word in words.tolist()]
    assert phrase.mixture.weights[0] == pytest.approx(np.mean(both))


def test_a_phrase_of_one_word_is_the_word(model: PretrainedModel) -> None:
    one, word = phrase_mixture(model, "PT"), word_mixture(model, "pt")
    assert one.to_dict() == word.to_dict()


def test_a_word_whose_sections_were_not_counted_has_null_metadata(model: PretrainedModel) -> None:
    marginal = word_mixture(without_counts(model), "pt")
    assert marginal.parts == (NULL_SECTION,)
    assert (marginal.n_counted, marginal.n_seen) == (0, 80)
    assert isinstance(model.prior, NumpyModelNetwork)
    cell = model.prior(np.array([model.word_ids["pt"]]), None)
    np.testing.assert_allclose(marginal.mixture.means[0], cell.mean[0], rtol=1e-6)


def test_a_section_whose_words_were_not_counted_is_refused(model: PretrainedModel) -> None:
    with pytest.raises(InputError, match="no counts of the words under 'LABS'"):
        section_mixture(without_counts(model), "LABS")


def test_a_word_of_a_model_without_sections_is_one_gaussian(small_models: dict[str, PretrainedModel]) -> None:
    model = small_models["bsg"]
    marginal = word_mixture(model, "pt")
    assert isinstance(model.prior, NumpyWordPrior)
    assert len(marginal.mixture) == 1
    np.testing.assert_allclose(
        marginal.mixture.means[0], model.prior(np.array([model.word_ids["pt"]])).mean[0], rtol=1e-6
    )
    with pytest.raises(InputError, match="kind 'bsg'"):
        section_mixture(model, "LABS")


def test_an_unknown_word_of_a_phrase_gets_the_nearest_known_one(model: PretrainedModel) -> None:
    with pytest.raises(InputError, match=r"'stenosiss'\. Nearest: stenosis"):
        phrase_mixture(model, "mitral stenosiss")


def test_a_comparison_is_plain_data_and_the_same_for_one_seed(model: PretrainedModel) -> None:
    marginals = [word_mixture(model, word) for word in ("pt", "gait", "bleeding")]
    first, again = (compare(marginals, n_samples=200, seed=3) for _ in range(2))
    assert json.loads(json.dumps(first)) == first == again
    assert [each["name"] for each in first["marginals"]] == ["pt", "gait", "bleeding"]
    assert len(first["divergences"]) == 6
    assert len(first["marginals"][0]["components"]) == 2
    assert first["marginals"][1]["information"]["value"] == 0  # one component
    other = compare(marginals, n_samples=200, seed=4)
    assert other["divergences"][0]["sampled"] != first["divergences"][0]["sampled"]
    assert other["divergences"][0]["matched"] == first["divergences"][0]["matched"]


def test_a_plane_shows_the_heaviest_components_and_how_much_it_keeps(model: PretrainedModel) -> None:
    marginals = [section_mixture(model, name) for name in ("LABS", "PLAN")]
    plane = mixture_plane(marginals, most=5)
    assert [places.shape for places in plane.components] == [(5, 2), (5, 2)]
    assert plane.expected.shape == (2, 2)
    assert 0 < plane.share <= 1
    flat = [word_mixture(model, "pt"), word_mixture(model, "pt")]  # two different means only: a line
    assert mixture_plane(flat, most=5).share == pytest.approx(1)


def test_all_divergences_go_both_ways_and_are_those_of_single_pairs(model: PretrainedModel) -> None:
    marginals = [word_mixture(model, "pt"), section_mixture(model, "LABS"), word_mixture(model, "gait")]
    by_name = {marginal.name: marginal.mixture for marginal in marginals}
    found = compare(marginals, n_samples=4_000).divergences
    assert {(each["from"], each["to"]) for each in found} == set(permutations(by_name, 2))
    for each in found:
        p, q = by_name[each["from"]], by_name[each["to"]]
        alone, drawn = sampled_divergence(p, q, n_samples=4_000, random=9), each.sampled
        error = np.hypot(alone.standard_error, drawn["standard_error"])
        assert abs(alone.value - drawn["value"]) <= 4 * error + 1e-9
        assert (each.matched, each.convex) == (matched_bound(p, q), convex_bound(p, q))


def near(one: Marginal, other: Marginal, far: Marginal) -> bool:
    to_other, to_far = (each.sampled for each in compare([one, other, far], n_samples=1_000).divergences[:2])
    return bool(to_other["value"] + 4 * to_other["standard_error"] < to_far["value"])


def test_the_shipped_model_has_like_sections_and_like_words_nearer(shipped: PretrainedModel) -> None:
    assert near(
        *(section_mixture(shipped, name) for name in ("SOCIAL HISTORY", "FAMILY HISTORY", "MEDICATIONS"))
    )
    assert near(*(word_mixture(shipped, word) for word in ("fever", "chills", "warfarin")))
    assert near(*(phrase_mixture(shipped, name) for name in ("heart failure", "cardiac", "appendicitis")))

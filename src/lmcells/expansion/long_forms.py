"""Long forms as a model's prior sees them, computed once for an inventory.

A long form is the mean of its words' vectors, the alternatives pooled into one bag of distinct words. For the LMC it is
a mixture over all sections, weighted by beta(section | long form); the mean divergence to it needs four moments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.expansion.inventory import Sense
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_prior import NumpyModelNetwork

Floats = npt.NDArray[np.float64]
SectionWeights = Callable[
    [Sense, Sequence[int]], Floats
]  # a sense and its known words -> beta over all sections


@dataclass(frozen=True, slots=True)
class LongFormMoments:
    """What a mean divergence needs to know of the candidates of one short form; see `lmcells.model.moments`."""

    a0: Floats  # (K,) mean 1/v
    a1: Floats  # (K, d) mean mu/v
    a2: Floats  # (K,) mean |mu|^2/v
    a3: Floats  # (K,) mean log v
    known: npt.NDArray[np.bool_]  # (K,) whether the model knows any word of the long form

    def divergences(self, mean: Floats, log_variance: Floats) -> Floats:
        """Return KLbar of each posterior to each candidate, infinite where it is unknown: (B, d), (B,) -> (B, K)."""
        dim = mean.shape[1]
        scale = dim * np.exp(log_variance) + (mean * mean).sum(axis=1)  # (B,)
        product = np.outer(scale, self.a0) - 2 * mean @ self.a1.T + self.a2 + dim * self.a3  # (B, K)
        divergences: Floats = 0.5 * (product - dim - dim * log_variance[:, None])
        divergences[:, ~self.known] = np.inf
        return divergences


def long_form_words(sense: Sense, model: PretrainedModel) -> list[int]:
    """Return the distinct known words of all ways to write a long form, in order.

    Stop words say little in a mean, so they are left out even where the model reads them, unless all are.
    """
    for stop_words in (False, True):
        words = (token.word for form in sense.forms for token in iterate_tokens(form, stop_words=stop_words))
        known = [model.word_ids[word] for word in dict.fromkeys(words) if word in model.word_ids]
        if known or not model.reads_stop_words:
            break
    return known


def smoothing_in_training(model: PretrainedModel) -> float:
    """What was added to each count of a word under a section, so that beta can be as it was in training."""
    return float(model.config.training.get("settings", {}).get("smoothing", 1.0))


def words_section_weights(model: PretrainedModel, *, add: float = 1.0) -> SectionWeights:
    """beta(section | long form) where there is no corpus at hand: the mean of its words'."""

    def weights(_: Sense, words: Sequence[int]) -> Floats:
        each = [model.statistics.metadata_given_word(word, add=add) for word in words]
        mean: Floats = np.mean(each, axis=0)
        return mean

    return weights


def long_form_moments(
    senses: Sequence[Sense], model: PretrainedModel, *, section_weights: SectionWeights | None
) -> LongFormMoments:
    """Compute the moments of the candidates of one short form, over all sections, with no sampling.

    Without weights a long form is seen under null metadata, which is one Gaussian.
    """
    dim = model.sizes.cell_dim
    moments = LongFormMoments(
        np.zeros(len(senses)),
        np.zeros((len(senses), dim)),
        np.zeros(len(senses)),
        np.zeros(len(senses)),
        np.zeros(len(senses), np.bool_),
    )
    for row, sense in enumerate(senses):
        words = long_form_words(sense, model)
        if not words:
            continue
        if isinstance(model.prior, NumpyModelNetwork):
            weight = np.ones(1) if section_weights is None else section_weights(sense, words)  # (M,)
            sections = None if section_weights is None else np.arange(weight.size)
            vector = model.prior.phrase(np.array(words))
            components = model.prior.of_vectors(vector[None], sections)  # (M,)
            mean, log_variance = components.mean, components.log_variance.astype(np.float64)
        else:
            weight = np.ones(1)
            component = model.prior.phrase(np.array(words))
            mean, log_variance = (
                component.mean[None],
                np.atleast_1d(component.log_variance).astype(np.float64),
            )
        mean = mean.astype(np.float64)
        precision = weight * np.exp(-log_variance)
        moments.a0[row] = precision.sum()
        moments.a1[row] = precision @ mean
        moments.a2[row] = precision @ np.einsum("md,md->m", mean, mean)
        moments.a3[row] = weight @ log_variance
        moments.known[row] = True
    return moments

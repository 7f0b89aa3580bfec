"""Whether short sections with few topics get more weight, as the paper saw: rank correlations, in three ways.

- among the examples: their weight and the words that there were to read around them, or the length of the section;
- among the sections of the examples: their mean weight and what they were like in training;
- among all sections of the model in one and the same empty context, where the texts cannot differ: their weight and
  what they were like in training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmcells.analysis.gate import GateSummary, SectionAlone, WeighedExample
from lmcells.analysis.rank_correlation import Numbers, RankCorrelation, rank_correlation

LEAST_EXAMPLES = 5  # of a section whose mean weight is to say something
EXAMPLES = "examples"
SECTIONS = f"sections with {LEAST_EXAMPLES} examples or more"
WORDS = "words read around the short form"
TOKENS = "tokens in training"
ALONE = "all sections of the model, empty context"


@dataclass(frozen=True, slots=True)
class Check:
    """How the weight goes with something else; the paper's sentence expects the sign `expected`."""

    among: str
    against: str
    expected: int
    correlation: RankCorrelation


def check_gate(
    examples: Sequence[WeighedExample], summary: GateSummary, alone: Sequence[SectionAlone]
) -> tuple[Check, ...]:
    """Compare what there is to compare; what says nothing (too few, or all alike) is left out."""
    return (*_among_examples(examples), *_among_sections(summary), *_among_alone(alone))


def _among_examples(examples: Sequence[WeighedExample]) -> list[Check]:
    weights = np.array([each.weight for each in examples])
    n_words = np.array([each.n_words for each in examples])
    long = [each for each in examples if each.n_section_tokens is not None]
    of_long = np.array([each.weight for each in long])
    lengths = np.array([each.n_section_tokens for each in long], np.float64)
    return [
        *_check(EXAMPLES, WORDS, -1, weights, n_words),
        *_check(EXAMPLES, "length of the section's text", -1, of_long, lengths),
    ]


def _among_sections(summary: GateSummary) -> list[Check]:
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES and each.topicality is not None]
    weights = np.array([each.mean for each in sections])
    n_words = np.array([each.n_words for each in sections])
    return [
        *_check(SECTIONS, WORDS, -1, weights, n_words),
        *_against_training(
            SECTIONS,
            weights,
            n_tokens=np.array([each.n_training_tokens for each in sections]),
            topicality=np.array([each.topicality for each in sections], np.float64),
            entropy=np.array([each.entropy for each in sections], np.float64),
        ),
    ]


def _among_alone(alone: Sequence[SectionAlone]) -> list[Check]:
    return _against_training(
        ALONE,
        np.array([each.weight for each in alone]),
        n_tokens=np.array([each.n_training_tokens for each in alone]),
        topicality=np.array([each.topicality for each in alone]),
        entropy=np.array([each.entropy for each in alone]),
    )


def _against_training(
    among: str, weights: Numbers, *, n_tokens: Numbers, topicality: Numbers, entropy: Numbers
) -> list[Check]:
    return [
        *_check(among, TOKENS, -1, weights, n_tokens),
        *_check(among, "entropy of its words", -1, weights, entropy),
        *_check(among, "topicality of its words", 1, weights, topicality),
        *_check(among, "topicality at equal tokens in training", 1, weights, topicality, given=n_tokens),
    ]


def _check(
    among: str, against: str, expected: int, weights: Numbers, other: Numbers, *, given: Numbers | None = None
) -> list[Check]:
    correlation = rank_correlation(weights, other, given=given)
    return [] if correlation is None else [Check(among, against, expected, correlation)]

"""Whether short sections with few topics get more weight, as the paper saw: rank correlations, in three ways.

- among the examples: their weight and the words that there were to read around them, or the length of the section;
  intervals by drawing notes, since the examples of one note are alike;
- among the sections of the examples: their mean weight and what they were like in training;
- among all sections of the model in one and the same empty context, where the texts cannot differ: their weight and
  what they were like in training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.gate.summary import GateSummary
from lmcells.analysis.gate.weights import SectionAlone, WeighedExample
from lmcells.analysis.statistics.rank_correlation import Numbers, RankCorrelations
from lmcells.evaluation.intervals import Interval

LEAST_EXAMPLES = 5  # of a section whose mean weight is to say something
EXAMPLES = "examples"
SECTIONS = f"sections with {LEAST_EXAMPLES} examples or more"
ALONE = "all sections of the model, empty context"
WORDS = "words read around the short form"
LENGTH = "length of the section's text"
TOKENS = "tokens in training"
ENTROPY = "entropy of its words"
TOPICALITY = "topicality of its words"

_WEIGHT = "weight"
_EXPECTED = {WORDS: -1, LENGTH: -1, TOKENS: -1, ENTROPY: -1, TOPICALITY: 1}  # signs, by the paper's sentence


@dataclass(frozen=True, slots=True)
class Check:
    """Spearman's correlation of the weight with something else; `given`: at equal values of that one."""

    among: str
    against: str
    given: str | None
    expected: int  # the sign, as the paper says
    n: int
    rho: Interval

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def check_gate(
    examples: Sequence[WeighedExample], summary: GateSummary, alone: Sequence[SectionAlone], *, seed: int = 0
) -> tuple[Check, ...]:
    """Compare what there is to compare; what says nothing (too few, or all alike) is left out."""
    long = [each for each in examples if each.n_section_tokens is not None]
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES and each.topicality is not None]
    return (
        *_checks(
            EXAMPLES,
            {_WEIGHT: _column(examples, "weight"), WORDS: _column(examples, "n_words")},
            clusters=_notes(examples),
            seed=seed,
        ),
        *_checks(
            EXAMPLES,
            {_WEIGHT: _column(long, "weight"), LENGTH: _column(long, "n_section_tokens")},
            clusters=_notes(long),
            seed=seed,
        ),
        *_checks(
            SECTIONS,
            {
                _WEIGHT: _column(sections, "mean"),
                WORDS: _column(sections, "n_words"),
                **_of_training(sections),
            },
            seed=seed,
        ),
        *_checks(ALONE, {_WEIGHT: _column(alone, "weight"), **_of_training(alone)}, seed=seed),
    )


def _of_training(sections: Sequence[Any]) -> dict[str, Numbers]:
    """What sections were like in training."""
    names = {TOKENS: "n_training_tokens", ENTROPY: "entropy", TOPICALITY: "topicality"}
    return {name: _column(sections, field) for name, field in names.items()}


def _checks(
    among: str,
    columns: Mapping[str, Numbers],
    *,
    seed: int,
    clusters: npt.NDArray[np.integer] | None = None,
) -> list[Check]:
    """The weight against each other column, and the topicality once more at equal size, which it goes with."""
    found = RankCorrelations.of(columns, random=np.random.default_rng(seed), clusters=clusters)
    asked: list[tuple[str, str | None]] = [(name, None) for name in columns if name != _WEIGHT]
    if TOPICALITY in columns:
        asked.append((TOPICALITY, TOKENS))
    checks = []
    for against, given in asked:
        rho = found.interval(_WEIGHT, against, given=given)
        if rho is not None:
            checks.append(Check(among, against, given, _EXPECTED[against], found.n, rho))
    return checks


def _column(rows: Sequence[Any], field: str) -> npt.NDArray[np.float64]:
    return np.array([getattr(row, field) for row in rows], np.float64)


def _notes(examples: Sequence[WeighedExample]) -> npt.NDArray[np.int64]:
    """The note of each example, numbered; one whose note is not known stands alone."""
    numbers: dict[str | int, int] = {}
    keys: list[str | int] = [
        row if each.note_id is None else each.note_id for row, each in enumerate(examples)
    ]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

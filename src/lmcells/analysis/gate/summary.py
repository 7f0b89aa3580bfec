"""The weights of a model's gate summed up: over all examples, and by section."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.gate.weights import WeighedExample
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.expansion.posterior_ranking import PosteriorRanker

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True)
class SectionGate:
    """The weights of one section, and what the section is like."""

    section: str
    n: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]  # at `QUANTILES`
    n_words: float  # read around a short form, on average
    n_section_tokens: float | None  # of its texts here, on average, where they are known
    n_training_tokens: int  # counted under it in training
    topicality: float | None  # see `SectionStatistics`
    entropy: float | None


@dataclass(frozen=True, slots=True)
class GateSummary:
    """The weights of all examples, and by section, those with the most weight first."""

    n: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]
    sections: tuple[SectionGate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, under the names of the fields."""
        return asdict(self)


def summarise_gate(ranker: PosteriorRanker, examples: Sequence[WeighedExample]) -> GateSummary:
    """Sum weights up by the section that the model read; an example under null metadata has no weight to speak of."""
    statistics = section_statistics(ranker.model)
    grouped: dict[str, list[WeighedExample]] = {}
    for each in examples:
        if each.read_as is not None:
            grouped.setdefault(each.read_as, []).append(each)
    sections = []
    for name, group in grouped.items():
        id_ = ranker.model.section_ids[name]
        weights = np.array([each.weight for each in group])
        lengths = [each.n_section_tokens for each in group if each.n_section_tokens is not None]
        n_training_tokens = int(statistics.n_tokens[id_])
        sections.append(
            SectionGate(
                section=name,
                n=len(group),
                mean=float(weights.mean()),
                deviation=float(weights.std()),
                quantiles=_quantiles(weights),
                n_words=float(np.mean([each.n_words for each in group])),
                n_section_tokens=float(np.mean(lengths)) if lengths else None,
                n_training_tokens=n_training_tokens,
                topicality=float(statistics.topicality[id_]) if n_training_tokens else None,
                entropy=float(statistics.entropy[id_]) if n_training_tokens else None,
            )
        )
    read = [each for group in grouped.values() for each in group]
    weights = np.array([each.weight for each in read])
    sections.sort(key=lambda each: -each.mean)
    return GateSummary(
        n=len(read),
        mean=float(weights.mean()) if read else 0.0,
        deviation=float(weights.std()) if read else 0.0,
        quantiles=_quantiles(weights) if read else (),
        sections=tuple(sections),
    )


def _quantiles(weights: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.quantile(weights, QUANTILES).tolist())

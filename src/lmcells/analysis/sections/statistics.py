"""How large and how topical the sections of a model were in training, from its counts of words under sections."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.pretrained import PretrainedModel

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SectionStatistics:
    """One value a section; a section without counts has no topicality and no entropy (NaN).

    Both are of the words that were counted: a model that leaves out small counts to save room (the shipped one) knows
    less of its small sections. The topicality of a small sample is overrated, so compare it at equal size.
    """

    n_tokens: npt.NDArray[np.int64]
    topicality: (
        Floats  # KL(p(word | section) || p(word)), in nats: 0 where a section has the words of all text
    )
    entropy: Floats  # of p(word | section), in nats: small where a section repeats few words


def section_statistics(model: PretrainedModel) -> SectionStatistics:
    """Sum the counts of a model up by section."""
    table = model.statistics
    words = np.repeat(np.arange(table.offsets.size - 1), np.diff(table.offsets))
    counts = table.counts.astype(np.float64)
    n_tokens = _sums(table.metadata, counts, table.n_metadata)
    of_words = _sums(words, counts, table.offsets.size - 1) / max(counts.sum(), 1)
    share = counts / n_tokens[table.metadata]
    has_counts = n_tokens > 0
    topicality = _sums(table.metadata, share * np.log(share / of_words[words]), table.n_metadata)
    entropy = _sums(table.metadata, -share * np.log(share), table.n_metadata)
    return SectionStatistics(
        n_tokens.astype(np.int64),
        np.where(has_counts, topicality, np.nan),
        np.where(has_counts, entropy, np.nan),
    )


def _sums(ids: npt.NDArray[np.integer], values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(ids, weights=values, minlength=size), np.float64)
